"""The values of an answer that a passage should repeat: numbers, dates and capitalised names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from attribution.answer_blocks import without_marks
from attribution.label_schemes import base_label
from attribution.parsed_answer import ParsedAnswer
from attribution.passage_values import PassageContent, comparable_words, plain_text
from attribution.value_patterns import DATE, ISO_DATE, MONTHS, NUMBER, WORDED_NUMBER, amounts, worded_amount
from schemas import CharRange

_DEMONYM_ENDINGS = ("an", "ese", "ish")
_STEM_LENGTH = 4


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """One value and what a passage must hold to repeat it.

    Attributes:
        chars: where it stands in the answer.
        numbers: for each number of the value the amounts of which one must occur.
        months: months that must occur.
        words: words that must occur, in comparable form.
        slack: how far below and above the value's an occurring amount may lie: 0 and 9 for "the 1990s".
    """

    chars: CharRange
    numbers: tuple[frozenset[Decimal], ...] = ()
    months: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    slack: tuple[Decimal, Decimal] = (Decimal(0), Decimal(0))

    def occurs_in(self, passage: PassageContent) -> bool:
        """True where the passage repeats all parts of the value."""
        return (
            all(month in passage.months for month in self.months)
            and all(_occurs(one, self.slack, passage) for one in self.numbers)
            and all(_is_named(word, passage) for word in self.words)
        )


def answer_values(parsed: ParsedAnswer, answer: str) -> tuple[AnswerValue, ...]:
    """The values of an answer, ascending; dates first where a number is part of one."""
    text = without_marks(answer)
    values = [*_dates(text)]
    for found in (*_numbers(text), *_worded_numbers(parsed, text), *_names(parsed, text)):
        if not any(found.chars.overlaps(other.chars) for other in values):
            values.append(found)
    return tuple(sorted(values, key=lambda value: value.chars))


def _dates(text: str) -> Iterator[AnswerValue]:
    for match in DATE.finditer(text):
        plain = plain_text(match.group()).lower()
        iso = ISO_DATE.fullmatch(plain)
        days_and_years = [iso[1], iso[3]] if iso else re.findall(r"\d+", plain)
        months = [int(iso[2])] if iso else [MONTHS[word] for word in re.findall(r"[a-z]+", plain) if word in MONTHS]
        yield AnswerValue(
            CharRange(*match.span()),
            numbers=tuple(frozenset({Decimal(number)}) for number in days_and_years),
            months=tuple(months),
        )


def _numbers(text: str) -> Iterator[AnswerValue]:
    for match in NUMBER.finditer(text):
        plain = NUMBER.match(plain_text(match.group()))
        if plain is None:
            continue
        meant = frozenset(amounts(plain))
        slack = (Decimal(0), Decimal(9 if plain["decade"] else 0))
        if plain["scale"] and len(meant) == 1:
            slack = (_half_of_last_digit(plain["digits"], next(iter(meant))),) * 2
        if meant:
            yield AnswerValue(CharRange(*match.span()), numbers=(meant,), slack=slack)


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
    for match in WORDED_NUMBER.finditer(text):
        amount = worded_amount(match.group())
        if match.start() in counting and amount > 1:
            yield AnswerValue(CharRange(*match.span()), numbers=(frozenset({amount}),))


def _names(parsed: ParsedAnswer, text: str) -> Iterator[AnswerValue]:
    """Proper nouns with a capital letter, word by word; months as months."""
    for word, tag in enumerate(parsed.universal_tags):
        chars = parsed.words[word]
        name = chars.of(text)
        if tag == "PROPN" and any(character.isupper() for character in name):
            words = tuple(comparable_words(name))
            months = tuple(MONTHS[one] for one in words if one in MONTHS)
            if months or words:
                yield AnswerValue(chars, months=months, words=() if months else words)


def _occurs(meant: frozenset[Decimal], slack: tuple[Decimal, Decimal], passage: PassageContent) -> bool:
    if not meant.isdisjoint(passage.numbers):
        return True
    below, above = slack
    return bool(below or above) and any(
        amount - below <= number <= amount + above for amount in meant for number in passage.numbers
    )


def _is_named(word: str, passage: PassageContent) -> bool:
    """True where the word occurs, in singular or plural, as initials ("un"), or as the stem of a demonym."""
    if word in passage.words or word.rstrip("s") in passage.words or word + "s" in passage.words:
        return True
    if len(word) > 1 and any(word in initials for initials in passage.initials):
        return True
    singular = word.rstrip("s")
    if len(singular) < _STEM_LENGTH + 2 or not singular.endswith(_DEMONYM_ENDINGS):
        return False
    return any(word.startswith(singular[:_STEM_LENGTH]) for word in passage.words)
