"""Amounts that a text gives in other words than a number: fractions, lengths of time, times of day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TypeAlias

from attribution.answers.value_patterns import worded_amount

Duration: TypeAlias = tuple[str, Decimal]
"""("seconds", how many) or ("months", how many); weeks are seconds, years are months, and the two never meet."""

_SECONDS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "day": 86_400, "week": 604_800}
_SECONDS |= {"fortnight": 1_209_600}
_MONTHS = {"month": 1, "year": 12, "yr": 12, "decade": 120, "centurie": 1200, "century": 1200}
_UNIT = r"(?:" + "|".join((*_SECONDS, *_MONTHS)) + r")s?\b"
_UNIT_AFTER = re.compile(rf"[\s-]?({_UNIT})", re.IGNORECASE)
_FRACTION_AFTER = re.compile(r"\s+and\s+(a\s+half|a\s+quarter|three[\s-]quarters)\b", re.IGNORECASE)
_ONE_UNIT = re.compile(
    rf"\b(?:(half|(?:a\s+)?quarter\s+of|three[\s-]quarters\s+of)\s+)?(?:an?|one)\s+({_UNIT})(\s+and\s+a\s+half\b)?",
    re.IGNORECASE,
)
_SHARE = re.compile(
    r"\b(?:(half|halves)|(a|an|one|two|three|four|five|six|seven|eight|nine)[\s-]"
    r"(third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s?)\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(half|quarter)\s+(past|to)\s+(\w+)", re.IGNORECASE)
_PERCENT_AFTER = re.compile(r"\s?(?:%|per\s?cent\b|percentage\s+points?\b)", re.IGNORECASE)
_PART_NAMES = ("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_PARTS = {"quarter": Decimal(4)} | {name: Decimal(parts) for parts, name in enumerate(_PART_NAMES, start=3)}
_HOUR_NAMES = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_HOURS = {name: hour for hour, name in enumerate(_HOUR_NAMES, start=1)} | {str(hour): hour for hour in range(1, 25)}


def is_percentage(text: str, number_end: int) -> bool:
    """True where a percent sign or word follows a number that ends at ``number_end``."""
    return _PERCENT_AFTER.match(text, number_end) is not None


def counts_time(text: str, number_end: int) -> bool:
    """True where a unit of time follows a number that ends at ``number_end``."""
    return _UNIT_AFTER.match(text, number_end) is not None


def durations_of(text: str, number_end: int, meant: Iterable[Decimal]) -> Iterator[Duration]:
    """The lengths of time that a number ending at ``number_end`` may count; none where no unit of time follows.

    ``meant`` is what the number may amount to. A fraction behind it counts, too: "two and a half hours".
    """
    for amount in meant:
        whole, end = mixed_number(text, number_end, amount)
        unit = _UNIT_AFTER.match(text, end)
        if unit is not None:
            yield _duration(whole, unit[1])


def mixed_number(text: str, number_end: int, amount: Decimal) -> tuple[Decimal, int]:
    """The number and its end, with the fraction behind it: 2.5 for "two and a half"."""
    fraction = _FRACTION_AFTER.match(text, number_end)
    return (amount, number_end) if fraction is None else (amount + _fraction(fraction[1]), fraction.end())


def unit_durations(text: str) -> Iterator[Duration]:
    """Lengths of time without a number: "a week", "half an hour", "a year and a half"."""
    for match in _ONE_UNIT.finditer(text):
        share, unit, more = match.groups()
        amount = (_fraction(share) if share else Decimal(1)) + (Decimal("0.5") if more else 0)
        yield _duration(amount, unit)


def shares(text: str) -> Iterator[Decimal]:
    """Fractions in words as percent, both whole ones around where it is none: 66 and 67 for "two thirds"."""
    for match in _SHARE.finditer(text):
        half, count, parts = match.groups()
        if half:
            yield Decimal(50)
            continue
        share = 100 * _count(count) / _PARTS[parts.lower()]
        yield from {share.quantize(Decimal(1)), share // 1}


def clock_times(text: str) -> Iterator[Decimal]:
    """Times of day in words, with the minutes behind the point and alone: 7.30 and 30 for "half past seven"."""
    for part, side, hour in _CLOCK.findall(text):
        at = _HOURS.get(hour.lower())
        if at is not None and (part.lower(), side.lower()) != ("half", "to"):
            minutes = 30 if part.lower() == "half" else 15 if side.lower() == "past" else 45
            at = at if side.lower() == "past" else (at - 1 or 12)
            yield from (Decimal(at), Decimal(minutes), Decimal(at) + Decimal(minutes) / 100)


def _count(word: str) -> Decimal:
    return Decimal(1) if word.lower() in ("a", "an") else worded_amount(word)


def _fraction(words: str) -> Decimal:
    return Decimal("0.5") if "half" in words.lower() else Decimal("0.75" if "three" in words.lower() else "0.25")


def _duration(amount: Decimal, unit: str) -> Duration:
    name = unit.lower().removesuffix("s")
    if name in _SECONDS:
        return "seconds", amount * _SECONDS[name]
    return "months", amount * _MONTHS[name]
