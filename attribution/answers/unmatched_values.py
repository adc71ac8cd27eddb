"""Values of a span that no evidence passage repeats: numbers, dates, times and names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from attribeam.attribution.answers.answer_names import AnswerName, answer_names
from attribeam.attribution.answers.answer_values import AnswerValue, answer_values
from attribeam.attribution.answers.markup import hide_markup
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.passage_values import PassageContent, content_of
from attribeam.schemas import CharRange, Passage

Value: TypeAlias = AnswerValue | AnswerName


class ValueMatcher:
    """Finds the unmatched values of one answer's spans; what a passage repeats is decided once."""

    def __init__(self, *, answer: str, parsed: ParsedAnswer, passages: Sequence[Passage]) -> None:
        text = hide_markup(answer, parsed.marked)
        found: list[Value] = [*answer_values(parsed, answer, text), *answer_names(parsed, text)]
        self._set(answer, sorted(found, key=lambda value: value.chars), [*map(content_of, passages)])

    def with_passage(self, passage: Passage) -> ValueMatcher:
        """The same answer, held against one passage more; neither it nor the other passages are read again."""
        matcher = ValueMatcher.__new__(ValueMatcher)
        matcher._set(self._answer, self._found, [*self._passages, content_of(passage)])
        return matcher

    def _set(self, answer: str, found: Sequence[Value], passages: Sequence[PassageContent]) -> None:
        self._answer = answer
        self._found = found
        self._passages = passages
        self._values = [value for value in found if self._counts(value)]
        self._ends = [value.chars.char_end for value in self._values]
        self._parts: dict[tuple[int, int], frozenset[int]] = {}

    def _counts(self, value: Value) -> bool:
        """False for a small number that counts what no passage counts."""
        if isinstance(value, AnswerName) or not value.counted:
            return True
        return any(value.counted in passage.counted_nouns for passage in self._passages)

    def unmatched_values(self, span: CharRange, passage_indices: Sequence[int]) -> tuple[str, ...]:
        """The numbers, dates, times and names of the span that occur in none of these passages.

        Each is given as the answer writes it, once, in its order; a name is given whole. A value belongs to the span if
        it lies in it, a name also if the span lies in the name. Without passages of its own the span is held against
        all passages of the row. Compared are amounts ("1 million" is "1,000,000" and "one million"), months by name or
        number, times of day, and words of names without case, diacritics or possessive; a date must occur with all of
        its parts in one passage, the words of a name in any of them, also in other forms ("NY" for "New York").
        """
        found = self.unmatched_ranges(span, passage_indices)
        return tuple(dict.fromkeys(chars.of(self._answer) for chars in found))

    def unmatched_ranges(self, span: CharRange, passage_indices: Sequence[int]) -> list[CharRange]:
        """Where in the answer the values of ``unmatched_values`` stand, ascending."""
        indices = tuple(passage_indices) or tuple(range(len(self._passages)))
        return [self._values[place].chars for place in self._in(span) if not self._is_repeated(place, indices)]

    def values_in(self, span: CharRange) -> list[Value]:
        """The values that belong to the span, ascending."""
        return [self._values[place] for place in self._in(span)]

    def _in(self, span: CharRange) -> list[int]:
        last = bisect_left(self._values, span.char_end, key=lambda value: value.chars.char_start)
        first = bisect_left(self._ends, span.char_start + 1)
        return [place for place in range(first, last) if _belongs(self._values[place], span)]

    def _is_repeated(self, place: int, passage_indices: Sequence[int]) -> bool:
        value = self._values[place]
        found: frozenset[int] = frozenset()
        for index in passage_indices:
            if (place, index) not in self._parts:
                self._parts[place, index] = value.parts_in(self._passages[index])
            found |= self._parts[place, index]
            if value.is_repeated_by(found):
                return True
        return False


def _belongs(value: Value, span: CharRange) -> bool:
    chars = value.chars
    if span.char_start <= chars.char_start and chars.char_end <= span.char_end:
        return True
    inside = chars.char_start <= span.char_start and span.char_end <= chars.char_end
    return inside and isinstance(value, AnswerName)
