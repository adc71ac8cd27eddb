"""Values of a span that no evidence passage repeats: numbers, dates and capitalised names.

First the matcher of one answer's spans, then how the answer's values are found and compared.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from attribeam.attribution.answers.label_schemes import base_label
from attribeam.attribution.answers.markup import hide_markup, range_overlapping
from attribeam.attribution.answers.numbers_and_dates import (
    DATE,
    DOTTED_DATE,
    GROUPED_NUMBER,
    ISO_DATE,
    MONTHS,
    NUMBER,
    UNIT_BESIDE_NUMBER,
    VERSION,
    Duration,
    amounts,
    durations_of,
    is_percentage,
    worded_amount,
    worded_numbers,
)
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_of_word
from attribeam.attribution.answers.passage_values import (
    SMALL_WORDS,
    PassageContent,
    PassageValues,
    comparable_words,
    plain_text,
)
from attribeam.schemas import CharRange, Passage


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


_DEMONYM_ENDINGS = ("an", "ese", "ish")
_ADDED_ENDINGS = ("n", "an", "ian", "ese")
_STEM_LENGTH = 4
_EXACT = (Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """One value and what a passage must hold to repeat it.

    Attributes:
        chars: where it stands in the answer.
        numbers: for each number of the value the amounts of which one must occur.
        months: months that must occur.
        words: words that must occur, in comparable form.
        version: a number such as "4.8.2" that must occur as it is written, "" for none.
        durations: lengths of time, where the number counts one, of which one must occur unless the number stands alone.
        is_in_percent: whether the number is a percentage, which a fraction in words may repeat.
        tolerance: how far below and above the value's an occurring amount may lie: 0 and 9 for "the 1990s".
    """

    chars: CharRange
    numbers: tuple[frozenset[Decimal], ...] = ()
    months: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    version: str = ""
    durations: frozenset[Duration] = frozenset()
    is_in_percent: bool = False
    tolerance: tuple[Decimal, Decimal] = _EXACT

    def occurs_in(self, passage: PassageContent) -> bool:
        """True where the passage repeats all parts of the value."""
        return (
            all(month in passage.months for month in self.months)
            and (not self.version or self.version in passage.versions)
            and self._numbers_occur(passage)
            and all(_name_occurs(word, passage) for word in self.words)
        )

    def _numbers_occur(self, passage: PassageContent) -> bool:
        if not self.numbers:
            return True
        numbers = passage.numbers_without_time if self.durations else passage.numbers
        if all(_amount_occurs(one, self.tolerance, numbers) for one in self.numbers):
            return True
        if self.durations and not self.durations.isdisjoint(passage.durations):
            return True
        return self.is_in_percent and any(not one.isdisjoint(passage.fractions_in_percent) for one in self.numbers)


def answer_values(parsed: ParsedAnswer, answer: str) -> tuple[AnswerValue, ...]:
    """The values of an answer, ascending; a number that is part of a date or version is none of its own."""
    text = hide_markup(answer)
    values: list[AnswerValue] = []
    taken = bytearray(len(text))
    for kind in (_dates(text), _versions(text), _numbers(text), _worded_numbers(parsed, text), _names(parsed, text)):
        for found in kind:
            place = slice(found.chars.char_start, found.chars.char_end)
            if not any(taken[place]):
                values.append(found)
                taken[place] = b"\1" * (place.stop - place.start)
    return tuple(sorted(values, key=lambda value: value.chars))


def _dates(text: str) -> Iterator[AnswerValue]:
    for match in DATE.finditer(text):
        plain = plain_text(match.group()).lower()
        figures = ISO_DATE.fullmatch(plain) or DOTTED_DATE.fullmatch(plain)
        days_and_years = [figures[1], figures[3]] if figures else re.findall(r"\d+", plain)
        months = (
            [int(figures[2])] if figures else [MONTHS[word] for word in re.findall(r"[a-z]+", plain) if word in MONTHS]
        )
        yield AnswerValue(
            CharRange(*match.span()),
            numbers=tuple(frozenset({Decimal(number)}) for number in days_and_years),
            months=tuple(months),
        )


def _versions(text: str) -> Iterator[AnswerValue]:
    for match in VERSION.finditer(text):
        if not GROUPED_NUMBER.fullmatch(match.group()):
            yield AnswerValue(CharRange(*match.span()), version=plain_text(match.group()))


def _numbers(text: str) -> Iterator[AnswerValue]:
    for match in NUMBER.finditer(text):
        plain = NUMBER.match(plain_text(match.group()))
        if plain is None or _is_enumerator(match, text):
            continue
        meant = frozenset(amounts(plain))
        tolerance = (Decimal(0), Decimal(9 if plain["decade"] else 0))
        if plain["scale"] and len(meant) == 1:
            tolerance = (_half_of_last_digit(plain["digits"], next(iter(meant))),) * 2
        if meant:
            yield _number(match, text, meant, tolerance)


def _number(
    match: re.Match[str], text: str, meant: frozenset[Decimal], tolerance: tuple[Decimal, Decimal] = _EXACT
) -> AnswerValue:
    return AnswerValue(
        CharRange(*match.span()),
        numbers=(meant,),
        durations=frozenset() if tolerance != _EXACT else frozenset(durations_of(text, match.end(), meant)),
        is_in_percent=is_percentage(text, match.end()),
        tolerance=tolerance,
    )


def _is_enumerator(number: re.Match[str], text: str) -> bool:
    """True for "(2)": one or two digits alone in brackets number the parts of a sentence, or cite."""
    around = text[max(number.start() - 1, 0) : number.end() + 1]
    return re.fullmatch(r"\(\d{1,2}\)", around) is not None


def _half_of_last_digit(digits: str, amount: Decimal) -> Decimal:
    """Half of what the last written digit is worth: 50,000 for "1.2 million"."""
    written = Decimal(digits.replace(",", "")) if re.fullmatch(r"\d+(?:,\d{3})*(?:\.\d+)?", digits) else Decimal(0)
    exponent = written.as_tuple().exponent
    if not written or not isinstance(exponent, int):
        return Decimal(0)
    return amount / written * Decimal(10) ** exponent / 2


def _worded_numbers(parsed: ParsedAnswer, text: str) -> Iterator[AnswerValue]:
    """Numbers in words from two on that count something; "one" and ordinals are too often no number."""
    counting = {
        parsed.words[word].char_start
        for word, label in enumerate(parsed.dependency_labels)
        if parsed.universal_tags[word] == "NUM" and base_label(label) in ("nummod", "compound", "quantmod")
    }
    for match in worded_numbers(text):
        amount = worded_amount(match.group())
        if match.start() in counting and amount > 1:
            yield _number(match, text, frozenset({amount}))


def _names(parsed: ParsedAnswer, text: str) -> Iterator[AnswerValue]:
    """Proper nouns with a capital letter, word by word; months as months, units beside a number not at all."""
    units = [CharRange(*match.span(match.lastgroup or 0)) for match in UNIT_BESIDE_NUMBER.finditer(text)]
    for word in [word for word, tag in enumerate(parsed.universal_tags) if tag == "PROPN"]:
        chars = parsed.words[word]
        name = chars.of(text)
        no_name = range_overlapping(chars, units) or _abbreviates(chars, text) or _is_request(parsed, word)
        if not no_name and any(character.isupper() for character in name):
            words = tuple(comparable_words(name))
            months = tuple(MONTHS[one] for one in words if one in MONTHS)
            if months or words:
                yield AnswerValue(chars, months=months, words=() if months else words)


def _abbreviates(chars: CharRange, text: str) -> bool:
    """True for the initials, in brackets, of the words before them: "Iron Ore Board (IOB)"."""
    name = chars.of(text)
    before = text[max(chars.char_start - 200, 0) : chars.char_start]
    if not before.endswith("(") or not text.startswith(")", chars.char_end) or len(name) < 2:
        return False
    initials = [word[0] for word in re.findall(r"\w+", before) if word.lower() not in SMALL_WORDS]
    return "".join(initials[-len(name) :]).lower() == name.lower()


def _is_request(parsed: ParsedAnswer, word: int) -> bool:
    """True for a capitalised root at a sentence's start with a determiner or pronoun after it: "Dip a cloth"."""
    starts = sentence_of_word(parsed, word)[0] == word and parsed.dependency_heads[word] == word
    return starts and parsed.universal_tags[word + 1 : word + 2] in (("DET",), ("PRON",))


def _amount_occurs(meant: frozenset[Decimal], tolerance: tuple[Decimal, Decimal], numbers: frozenset[Decimal]) -> bool:
    if not meant.isdisjoint(numbers):
        return True
    below, above = tolerance
    return bool(below or above) and any(
        amount - below <= number <= amount + above for amount in meant for number in numbers
    )


def _name_occurs(word: str, passage: PassageContent) -> bool:
    """True where the word occurs, in singular or plural, as initials ("un"), as a demonym or as the stem of one."""
    if word in passage.words or word.rstrip("s") in passage.words or word + "s" in passage.words:
        return True
    if len(word) > _STEM_LENGTH and any(word + ending in passage.words for ending in _ADDED_ENDINGS):
        return True
    if len(word) > 1 and any(word in initials for initials in passage.initials):
        return True
    singular = word.rstrip("s")
    if len(singular) < _STEM_LENGTH + 2 or not singular.endswith(_DEMONYM_ENDINGS):
        return False
    return any(word.startswith(singular[:_STEM_LENGTH]) for word in passage.words)
