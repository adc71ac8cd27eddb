"""Values of a span that no evidence passage repeats."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from attribution.answers.answer_values import AnswerValue, answer_values
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.passage_values import PassageValues
from schemas import CharRange, Passage


class ValueMatcher:
    """Finds the unmatched values of one answer's spans; what a passage repeats is decided once."""

    def __init__(self, *, answer: str, parsed: ParsedAnswer, passages: Sequence[Passage]) -> None:
        self._answer = answer
        self._values = answer_values(parsed, answer)
        self._starts = [value.chars.char_start for value in self._values]
        self._passages = PassageValues(passages)
        self._occurrences: dict[tuple[int, int], bool] = {}

    def unmatched_values(self, span: CharRange, passage_indices: Sequence[int]) -> tuple[str, ...]:
        """The numbers, dates and names that lie wholly in the span and occur in none of these passages.

        Each is given as the answer writes it, once, in its order. Without passages of its own the span is held
        against all passages of the row. Compared are amounts ("1 million" is "1,000,000" and "one million"), months
        by name or number, and words without case, diacritics or possessive; a date must occur with all of its parts
        in one passage. Neighbouring unmatched names are one value.
        """
        indices = passage_indices or range(len(self._passages))
        places = range(bisect_left(self._starts, span.char_start), bisect_left(self._starts, span.char_end))
        unmatched = [
            self._values[place]
            for place in places
            if self._values[place].chars.char_end <= span.char_end
            and not any(self._occurs(place, index) for index in indices)
        ]
        return tuple(dict.fromkeys(chars.of(self._answer) for chars in self._joined_names(unmatched)))

    def _occurs(self, place: int, passage_index: int) -> bool:
        key = (place, passage_index)
        if key not in self._occurrences:
            self._occurrences[key] = self._values[place].occurs_in(self._passages.content(passage_index))
        return self._occurrences[key]

    def _joined_names(self, unmatched: Sequence[AnswerValue]) -> list[CharRange]:
        joined: list[CharRange] = []
        after_name = False
        for value in unmatched:
            chars = value.chars
            if after_name and value.words and self._answer[joined[-1].char_end : chars.char_start] in (" ", "-"):
                chars = CharRange(joined.pop().char_start, chars.char_end)
            joined.append(chars)
            after_name = bool(value.words)
        return joined
