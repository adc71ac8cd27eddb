"""Values and names of an answer as its passages write them: "23:00" is read as "11 p.m." where a passage says so.

Words are compared by their spelling, values by what they amount to. Where a passage repeats a value in other words, the
verdict reads the answer as if it had these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, zip_longest

from attribeam.attribution.answers.answer_names import AnswerName, PassageContent
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.plain_text import (
    CURRENCY_CODE,
    DATE,
    Kind,
    Quantity,
    Reading,
    clock_times_in,
    numbers_in,
    remembered,
)
from attribeam.attribution.answers.quantities import TIME_UNIT_BEHIND, number_quantities, phrases_in, unit_at
from attribeam.attribution.answers.unmatched_values import AnswerValue, ValueMatcher, date_parts
from attribeam.attribution.verdict.texts import WORD_OR_MARK, carries_content, stem
from attribeam.schemas import CharRange

_CURRENCIES = {"usd": "$", "dollar": "$", "eur": "€", "euro": "€", "gbp": "£", "pound": "£", "jpy": "¥", "yen": "¥"}
_CURRENCIES |= {"inr": "₹", "rupee": "₹"}
_MONEY_BEFORE = re.compile(rf"([$€£¥₹]|\b{CURRENCY_CODE})\s?$")
_MONEY_BEHIND = re.compile(rf"\s?([$€£¥₹]|{CURRENCY_CODE}\b|(?i:dollar|euro|pound|yen|rupee)s?\b)")
_PERCENT_BEHIND = re.compile(r"\s?(?:%|per\s?cent\b)", re.IGNORECASE)
_MONEY, _PERCENT, _TIME, _DATE = "money", "%", "time", "date"
_ORDINAL_ENDING = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_LONGEST_CURRENCY, _AROUND = 5, 120
_KINDS, _LENGTHS = frozenset(map(str, Kind)), {str(Kind.SECONDS), str(Kind.MONTHS)}
_TIMES_OF_DAY = (Kind.MINUTE, Kind.PERHAPS_MINUTE)


@dataclass(frozen=True, slots=True)
class _Written:
    """A value as a text has it: where it stands, also with its unit, what it is one of, and what it may say."""

    chars: CharRange
    whole: CharRange
    unit: str
    readings: frozenset[Reading]

    def says(self, value: AnswerValue) -> bool:
        """Whether it is the value of an answer in other words."""
        if value.minutes:
            return any(kind in _TIMES_OF_DAY and size in value.minutes for kind, size in self.readings)
        return bool(value.parts) and all(
            any(kind == own and least <= size <= most for kind, least, most in part for own, size in self.readings)
            for part in value.parts
        )


def _with_unit(text: str, start: int, end: int, readings: frozenset[Reading]) -> tuple[CharRange, str]:
    """The range of a number with the sign, code or name of its unit, and what it counts; "" for nothing known."""
    before = _MONEY_BEFORE.search(text, max(start - _LONGEST_CURRENCY, 0), start)
    behind = _MONEY_BEHIND.match(text, end)
    if money := before or behind:
        name = money[1].lower()
        currency = _CURRENCIES.get(name.removesuffix("s"), name)
        return CharRange(before.start() if before else start, behind.end() if behind else end), _MONEY + currency
    for pattern, name in ((_PERCENT_BEHIND, _PERCENT), (TIME_UNIT_BEHIND, _TIME)):
        if match := pattern.match(text, end):
            return CharRange(start, match.end()), name
    if unit := unit_at(text, end):
        return CharRange(start, unit[0]), unit[1]
    kinds = {str(kind) for kind, _ in readings}
    dimension = next((kind for kind in kinds if kind not in _KINDS), _PERCENT if Kind.PERCENT in kinds else "")
    return CharRange(start, end), _TIME if _LENGTHS & kinds else dimension


@remembered
def _written_in(text: str) -> tuple[_Written, ...]:
    """The values of a text; the numbers of a date or time are none of their own."""
    found, taken = list[_Written](), bytearray(len(text))
    dates = (Quantity(*match.span(), frozenset(_date_readings(match.group()))) for match in DATE.finditer(text))
    for one in (*dates, *clock_times_in(text)):
        chars = CharRange(one.start, one.end)
        found.append(_Written(chars, chars, _DATE, one.readings))
        taken[one.start : one.end] = b"\1" * (one.end - one.start)
    for one in chain(number_quantities(numbers_in(text), text), phrases_in(text)):
        if not any(taken[one.start : one.end]):
            end = match.end() if (match := _ORDINAL_ENDING.match(text, one.end)) else one.end
            whole, unit = _with_unit(text, one.start, end, one.readings)
            chars, readings = CharRange(one.start, end), set(one.readings)
            if unit.startswith(_MONEY):  # "pounds" may be a weight
                readings |= {(Kind.AMOUNT, size) for kind, size in readings if kind == Kind.AMOUNT_OF_MEASURE}
            found.append(_Written(chars, whole, unit, frozenset(readings)))
    return tuple(found)


def _date_readings(date: str) -> Iterator[Reading]:
    for part in date_parts(date):
        yield from ((kind, least) for kind, least, _ in part)


def passage_spellings(parsed: ParsedAnswer, answer: str, matcher: ValueMatcher) -> dict[int, str]:
    """For words of an answer that stand in a value or name which a passage writes in other words, the word there.

    It is "" for a word that has none.
    """
    found: dict[int, str] = {}
    everything = CharRange(0, len(answer))
    unmatched = {*matcher.unmatched_ranges(everything, ())}
    for value in matcher.values_in(everything):
        if value.chars in unmatched:
            continue
        if isinstance(value, AnswerName):
            found.update(_name_elsewise(value, parsed, answer, matcher.passages))
        else:
            found.update(_value_elsewise(value, parsed, answer, matcher.passages))
    return found


def _value_elsewise(
    value: AnswerValue, parsed: ParsedAnswer, answer: str, passages: Sequence[PassageContent]
) -> Iterator[tuple[int, str]]:
    start, end = value.chars.char_start, value.chars.char_end
    of_start = (one for one in _written_in(answer) if one.chars.char_start == start)
    written = next((one for one in of_start if one.chars.char_end >= end), None)
    if written is None:
        return
    chars, whole, unit = written.chars, written.whole, written.unit
    if any(_has(whole.of(answer), passage.plain) for passage in passages):
        return
    around = _stems_around(answer, whole)
    best, there, most = None, "", (-1, -1)
    for passage in passages:
        for one in _written_in(passage.plain):
            if (not unit or not one.unit or unit == one.unit) and one.says(value):
                rank = (unit == one.unit, len(around & _stems_around(passage.plain, one.whole)))
                if rank > most:
                    best, there, most = one, passage.plain, rank
    if best is not None:
        is_same = unit == best.unit
        own, other = (whole, best.whole) if is_same else (chars, best.chars)
        yield from _aligned(own, other.of(there), parsed, answer)


def _has(words: str, text: str) -> bool:
    return words in text and re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(words)}(?!\w|[.,]\d)", text) is not None


def _stems_around(text: str, chars: CharRange) -> set[str]:
    around = text[max(chars.char_start - _AROUND, 0) : chars.char_end + _AROUND]
    return {stem(word) for word in WORD_OR_MARK.findall(around) if carries_content(word)}


def _name_elsewise(
    name: AnswerName, parsed: ParsedAnswer, answer: str, passages: Sequence[PassageContent]
) -> Iterator[tuple[int, str]]:
    known = {stem(word) for passage in passages for word in WORD_OR_MARK.findall(passage.plain)}
    for part in name.parts:
        for word in _words_of(part.chars, parsed, answer):
            if stem(parsed.words[word].of(answer)) not in known:
                yield word, ""


def _words_of(chars: CharRange, parsed: ParsedAnswer, answer: str) -> list[int]:
    return [
        index
        for index, one in enumerate(parsed.words)
        if chars.char_start <= one.char_start and one.char_end <= chars.char_end and carries_content(one.of(answer))
    ]


def _aligned(own: CharRange, there: str, parsed: ParsedAnswer, answer: str) -> Iterator[tuple[int, str]]:
    """The words of a range of the answer that are others there, each with its word, in their order."""
    mine = {index: stem(parsed.words[index].of(answer)) for index in _words_of(own, parsed, answer)}
    theirs = {stem(word): word for word in WORD_OR_MARK.findall(there) if carries_content(word)}
    same = theirs.keys() & mine.values()
    others = [word for one, word in theirs.items() if one not in same]
    left = [index for index, one in mine.items() if one not in same]
    yield from zip(left, [*others, *[""] * len(left)])
