"""Values and names of an answer as its passages write them: "23:00" is read as "11 p.m." where a passage says so.

Words are compared by their spelling, values by what they amount to. Where a passage repeats a value in other words, the
verdict reads the answer as if it had these; where none repeats it, its words are none that passages have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from attribeam.attribution.answers.answer_names import AnswerName, PassageContent, other_form
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
from attribeam.attribution.verdict.texts import WEEKDAYS, WORD_OR_MARK, carries_content, stem
from attribeam.schemas import CharRange

_CURRENCIES = {"eur": "€", "euro": "€", "gbp": "£", "pound": "£", "jpy": "¥", "cny": "¥", "rmb": "¥", "yen": "¥"}
_CURRENCIES |= {"inr": "₹", "rupee": "₹"} | dict.fromkeys(("dollar", "usd", "aud", "cad", "hkd", "nzd", "sgd"), "$")
_MONEY_BEFORE = re.compile(rf"([$€£¥₹]|\b{CURRENCY_CODE})\s?$")
_MONEY_BEHIND = re.compile(rf"\s?([$€£¥₹]|{CURRENCY_CODE}\b|(?i:dollar|euro|pound|yen|rupee)s?\b)")
_PERCENT_BEHIND = re.compile(r"\s?(?:%|per\s?cent\b)", re.IGNORECASE)
_ORDINAL_ENDING = re.compile(r"(?:st|nd|rd|th)(?:[\s-]century)?\b", re.IGNORECASE)
_PERCENT, _TIME, _DATE = "%", "time", "date"
_LONGEST_CURRENCY, _AROUND = 5, 60
_KINDS, _LENGTHS = frozenset(map(str, Kind)), {str(Kind.SECONDS), str(Kind.MONTHS)}
_TIMES_OF_DAY = (Kind.MINUTE, Kind.PERHAPS_MINUTE)
_NOWHERE = "\u2060"
"""No word of a passage begins with it."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A value as a text has it: where it stands, also with its unit, what its unit may be, and what it may say."""

    chars: CharRange
    whole: CharRange
    units: frozenset[str]
    readings: frozenset[Reading]

    def says(self, value: AnswerValue) -> bool:
        """Whether it is the value of an answer in other words."""
        if value.minutes:
            return any(kind in _TIMES_OF_DAY and size in value.minutes for kind, size in self.readings)
        return bool(value.parts) and all(
            any(kind == own and least <= size <= most for kind, least, most in part for own, size in self.readings)
            for part in value.parts
        )


def _with_unit(text: str, start: int, end: int, readings: Collection[Reading]) -> tuple[CharRange, frozenset[str]]:
    """The range of a number with the sign, code or name of its unit, and what it may count."""
    before = _MONEY_BEFORE.search(text, max(start - _LONGEST_CURRENCY, 0), start)
    behind = _MONEY_BEHIND.match(text, end)
    kinds = {str(kind) for kind, _ in readings}
    units = kinds - _KINDS  # "pounds" may be a weight
    if money := before or behind:
        name = money[1].lower()
        units.add(_CURRENCIES.get(name.removesuffix("s"), name))
        return CharRange(before.start() if before else start, behind.end() if behind else end), frozenset(units)
    percent, time, unit = _PERCENT_BEHIND.match(text, end), TIME_UNIT_BEHIND.match(text, end), unit_at(text, end)
    if percent or (not units and Kind.PERCENT in kinds):
        units.add(_PERCENT)
    if time or _LENGTHS & kinds:
        units.add(_TIME)
    end = max(end, *(match.end() for match in (percent, time) if match), unit[0] if unit else 0)
    return CharRange(start, end), frozenset(units)


@remembered
def _written_in(text: str) -> tuple[_Written, ...]:
    """The values of a text; the numbers of a date or time are none of their own."""
    found, taken = list[_Written](), bytearray(len(text))
    dates = (Quantity(*match.span(), frozenset(_date_readings(match.group()))) for match in DATE.finditer(text))
    for one in (*dates, *clock_times_in(text)):
        chars = CharRange(one.start, one.end)
        found.append(_Written(chars, chars, frozenset([_DATE]), one.readings))
        taken[one.start : one.end] = b"\1" * (one.end - one.start)
    for one in chain(number_quantities(numbers_in(text), text), phrases_in(text)):
        if not any(taken[one.start : one.end]):
            end = match.end() if (match := _ORDINAL_ENDING.match(text, one.end)) else one.end
            whole, units = _with_unit(text, one.start, end, one.readings)
            readings = {
                *one.readings,
                *((Kind.AMOUNT, n) for kind, n in one.readings if kind == Kind.AMOUNT_OF_MEASURE),
            }
            found.append(_Written(CharRange(one.start, end), whole, units, frozenset(readings)))
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
        if isinstance(value, AnswerName):
            if value.chars not in unmatched:
                found.update(_name_elsewise(value, parsed, answer, matcher.passages))
        elif value.chars in unmatched:
            found.update(_nowhere(value.chars, parsed, answer, matcher.passages))
        else:
            found.update(_value_elsewise(value, parsed, answer, matcher.passages))
    return found


def _nowhere(
    chars: CharRange, parsed: ParsedAnswer, answer: str, passages: Sequence[PassageContent]
) -> Iterator[tuple[int, str]]:
    """The words of a value that no passage repeats, where passages have them all, but in other values."""
    words = {word: parsed.words[word].of(answer) for word in _words_of(chars, parsed, answer)}
    if all(any(_has(written, passage.plain) for passage in passages) for written in words.values()):
        yield from ((word, _NOWHERE + written) for word, written in words.items())


def _value_elsewise(
    value: AnswerValue, parsed: ParsedAnswer, answer: str, passages: Sequence[PassageContent]
) -> Iterator[tuple[int, str]]:
    start, end = value.chars.char_start, value.chars.char_end
    of_start = (one for one in _written_in(answer) if one.chars.char_start == start)
    own = next((one for one in of_start if one.chars.char_end >= end), None)
    if own is None or any(_has(own.whole.of(answer), passage.plain) for passage in passages):
        return
    around = _stems_around(answer, own.whole)
    best, there, most = None, "", (-1, -1)
    is_elsewhere = False
    for passage in passages:
        for one in _written_in(passage.plain):
            if one.says(value):
                if own.units and one.units and own.units.isdisjoint(one.units):
                    is_elsewhere = True
                    continue
                rank = (own.units == one.units, len(around & _stems_around(passage.plain, one.whole)))
                if rank > most:
                    best, there, most = one, passage.plain, rank
    if best is not None:
        same = bool(own.units & best.units) or own.units == best.units
        mine, other = (own.whole, best.whole) if same else (own.chars, best.chars)
        yield from _aligned(mine, other.of(there), parsed, answer)
    elif is_elsewhere:
        yield from _nowhere(own.chars, parsed, answer, passages)


def _has(words: str, text: str) -> bool:
    return words in text and re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(words)}(?!\w|[.,]\d)", text) is not None


def _stems_around(text: str, chars: CharRange) -> set[str]:
    around = text[max(chars.char_start - _AROUND, 0) : chars.char_end + _AROUND]
    return {stem(word) for word in WORD_OR_MARK.findall(around) if carries_content(word)}


def _name_elsewise(
    name: AnswerName, parsed: ParsedAnswer, answer: str, passages: Sequence[PassageContent]
) -> Iterator[tuple[int, str]]:
    """The words of a name as in its other form, "the US" for "the United States", or "" where it has no word for them.

    Days of the week that a passage has in a range, as "Monday to Friday", stay as they are.
    """
    parts = [
        part
        for part in name.parts
        if part.words[-1].removesuffix("s") not in WEEKDAYS
        and not any(passage.words.issuperset(part.words) for passage in passages)
    ]
    if not parts:
        return
    phrase = tuple(chain.from_iterable(part.words for part in parts))
    form = next(filter(None, (other_form(phrase, passage) for passage in passages)), ())
    known = {stem(word) for passage in passages for word in WORD_OR_MARK.findall(passage.plain)}
    form = form if known.issuperset(map(stem, form)) else ()
    words = [word for part in parts for word in _words_of(part.chars, parsed, answer)]
    words = [word for word in words if stem(parsed.words[word].of(answer)) not in known]
    yield from zip(words, [*form, *[""] * len(words)], strict=False)


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
    yield from zip(left, [*others, *[""] * len(left)], strict=False)
