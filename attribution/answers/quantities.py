"""What a text counts, measures and dates, in canonical form, so that two texts are compared as sets.

A reading is a kind and a size in the kind's base unit: "half a litre" and "500 ml" are ("volume", 0.5), "two weeks" and
"14 days" ("seconds", 1209600), "5 PM" and "17:00" ("minute of the day", 1020). What may be read in two ways has two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TypeAlias

from attribeam.attribution.answers.numbers_and_dates import (
    MORE_SCALES,
    NUMBER_WORDS,
    SCALES,
    SMALL_NUMBER_WORDS,
    Number,
    numbers_in,
    worded_amount,
)

Reading: TypeAlias = tuple[str, Decimal]

AMOUNT, AMOUNT_OF_TIME = "amount", "amount of time"
"""A plain number, and one that a unit of time follows."""
OTHER_AMOUNT, PERCENT = "other amount", "percent"
"""An amount that is not written as one plain number: "a dozen", "60 cents"; a percentage in other words."""
SECONDS, MONTHS_LONG = "seconds", "months"
"""Lengths of time; weeks are seconds, years are months, and the two never meet."""
MINUTE, PERHAPS_MINUTE = "minute of the day", "perhaps a minute of the day"
CENTURY, DAYS_A_WEEK, TIMES, FOLD = "century", "days a week", "times", "fold"


@dataclass(frozen=True, slots=True)
class Quantity:
    """What stands from ``start`` to ``end`` of a text, and all that it may say.

    ``within`` is half of what the last written digit is worth, 50,000 for "1.2 million" and "half a million".
    """

    start: int
    end: int
    readings: frozenset[Reading]
    within: Decimal = Decimal(0)


def quantities_in(text: str) -> Iterator[Quantity]:
    """All quantities of a text but its dates and versions; they may overlap, and numbers come first."""
    numbers = numbers_in(text)
    yield from number_quantities(numbers, text)
    yield from phrases_in(text)
    for time in clock_times_in(text):
        yield Quantity(time.start, time.end, frozenset((MINUTE, Decimal(one)) for one in time.minutes))


_UNITS_IN_SECONDS = {
    "second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "day": 86_400, "week": 604_800,
    "fortnight": 1_209_600,
}  # fmt: skip
_UNITS_IN_MONTHS = {"month": 1, "year": 12, "yr": 12, "decade": 120, "centurie": 1200, "century": 1200}
_TIME_UNIT = r"(?:" + "|".join((*_UNITS_IN_SECONDS, *_UNITS_IN_MONTHS)) + r")s?\b"
_TIME_UNIT_BEHIND = re.compile(rf"[\s-]?({_TIME_UNIT})", re.IGNORECASE)
_PART_WORDS = r"(a\s+half|a\s+quarter|three[\s-]quarters)\b"
_PART_BEHIND = re.compile(rf"\s+and\s+{_PART_WORDS}", re.IGNORECASE)
_DAY_IN_SECONDS = 86_400
_SAME_TIME = (
    *((days, months) for days, months in ((30, "1"), (60, "2"), (90, "3"), (120, "4"), (180, "6"), (365, "12"))),
    *(
        (7 * weeks, months)
        for weeks, months in ((4, "1"), (6, "1.5"), (8, "2"), (12, "3"), (13, "3"), (26, "6"), (52, "12"))
    ),
)
"""Days, and the months or years that people also give for them: 90 days are three months."""


def _duration(amount: Decimal, unit: str) -> Reading:
    name = unit.lower().removesuffix("s")
    if name in _UNITS_IN_SECONDS:
        return SECONDS, amount * _UNITS_IN_SECONDS[name]
    return MONTHS_LONG, amount * _UNITS_IN_MONTHS[name]


def in_other_units(durations: Iterable[Reading]) -> Iterator[Reading]:
    """The lengths of time, and those that people give for the same in months instead of days or weeks, or so back."""
    for duration in durations:
        yield duration
        for days, months in _SAME_TIME:
            pair = (SECONDS, Decimal(days * _DAY_IN_SECONDS)), (MONTHS_LONG, Decimal(months))
            yield from (pair[1 - place] for place in range(2) if pair[place] == duration)


_HUNDREDTHS_BEHIND = re.compile(r"\s?(?:¢|cents?\b|pence\b|(?P<percent>basis[\s-]points?\b|bps?\b))", re.IGNORECASE)
_PENCE_BEHIND = re.compile(r"\s?p\b(?!\.\s?m)")
_FEWEST_NO_PENCE = 100
_SCALE_OF_RANGE = re.compile(
    r"\s?(?:[-–—]|to|and|or)\s?[$€£]?\d+(?:[.,]\d+)*\s?-?"
    rf"(?P<scale>(?:{'|'.join(sorted(MORE_SCALES, key=len, reverse=True))})\b)",
    re.IGNORECASE,
)
_CENTURY_BEHIND = re.compile(r"(?:st|nd|rd|th)[\s-]century\b(?!,?\s(?:B\.?\s?C|before))", re.IGNORECASE)
_CENTURIES = range(10, 22)
_HUNDREDS = re.compile(r"1[0-8]00")
_THE_BEFORE = re.compile(r"\bthe\s['’]?$", re.IGNORECASE)
_OLDEST_DECADE = 20
_DAYS_A_WEEK_BEHIND = re.compile(r"[\s-]days?[\s-](?:a|per|each|every)[\s-]week", re.IGNORECASE)
_TIMES_BEHIND = re.compile(
    r"(?:\s?x\b|[\s-]times?\b(?P<often>\s(?:an?|per|each|every|daily|weekly|monthly|in)\b)?|-?fold\b)", re.IGNORECASE
)


def number_quantities(numbers: Sequence[Number], text: str) -> Iterator[Quantity]:
    """What the numbers of a text may say with what stands behind them."""
    measured = {measure.number.start: measure for group in measures_in(numbers, text) for measure in group}
    for number in numbers:
        readings = {*_plain_readings(number, text), *_worth_elsewise(number, text)}
        if number.start in measured:
            readings |= {*measured[number.start].sizes()}
        yield Quantity(number.start, number.end, frozenset(readings), _half_of_last_digit(number))


def _plain_readings(number: Number, text: str) -> Iterator[Reading]:
    """Its amounts, with a fraction behind it ("two and a half"), and the length of time that it counts."""
    part = _PART_BEHIND.match(text, number.end)
    more = _part_of(part[1]) if part else Decimal(0)
    unit = _TIME_UNIT_BEHIND.match(text, part.end() if part else number.end)
    for amount in number.amounts:
        yield AMOUNT if part or unit is None else AMOUNT_OF_TIME, amount
        if part:
            yield AMOUNT_OF_TIME, amount + more
        if unit:
            yield _duration(amount + more, unit[1])


def _worth_elsewise(number: Number, text: str) -> Iterator[Reading]:
    """What else it may stand for: "60 cents" 0.60, "the 90s" 1990, the "3" of "3 to 5 million" three million."""
    end, digits = number.end, number.digits
    hundredths = _HUNDREDTHS_BEHIND.match(text, end)
    scale = None if number.scale or not digits else _SCALE_OF_RANGE.match(text, end)
    often = _TIMES_BEHIND.match(text, end)
    is_in_days = _DAYS_A_WEEK_BEHIND.match(text, end) is not None
    for amount in number.amounts:
        if hundredths or (_PENCE_BEHIND.match(text, end) and amount < _FEWEST_NO_PENCE):
            yield OTHER_AMOUNT, amount / 100
        if hundredths and hundredths["percent"]:
            yield PERCENT, amount / 100
        if scale:
            yield OTHER_AMOUNT, amount * MORE_SCALES[scale["scale"].lower()]
        if often:
            yield TIMES if often["often"] else FOLD, amount
        if is_in_days:
            yield DAYS_A_WEEK, amount
    if number.is_decade and _HUNDREDS.fullmatch(digits):
        yield CENTURY, Decimal(int(digits) // 100 + 1)
    if len(digits) == 2 and digits.isdecimal():
        if int(digits) in _CENTURIES and _CENTURY_BEHIND.match(text, end):
            yield CENTURY, Decimal(digits)
        is_the_decade = number.is_decade and _THE_BEFORE.search(text, max(number.start - 8, 0), number.start)
        if is_the_decade and int(digits) >= _OLDEST_DECADE and int(digits) % 10 == 0:
            yield OTHER_AMOUNT, Decimal(1900 + int(digits))


def _half_of_last_digit(number: Number) -> Decimal:
    """50,000 for "1.2 million"; 0 for numbers without a scale, which are exact."""
    if not number.scale or len(number.amounts) != 1 or not re.fullmatch(r"\d+(?:,\d{3})*(?:\.\d+)?", number.digits):
        return Decimal(0)
    written = Decimal(number.digits.replace(",", ""))
    exponent = written.as_tuple().exponent
    return number.amounts[0] / written * Decimal(10) ** int(exponent) / 2 if written else Decimal(0)


_HALF_DAY = 720
_DAY = 1440
_TIME = re.compile(
    r"(?<![\w.,:$€£])(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})|\.(?P<dotted>\d{2}))?\s?(?P<half>[ap])(?:\.\s?m\.|\.?m\b)"
    r"|(?<![\w.,:$€£])(?P<plain_hour>\d{1,2}):(?P<plain_minute>\d{1,2})(?![\w:]|[.,]\d)"
    r"|(?<![\w.,:$€£])(?P<first>\d{1,2})(?::(?P<first_minute>\d{2}))?(?=\s?(?:-|–|—|to|until|till|and)\s?"
    r"\d{1,2}(?::\d{2})?\s?[ap]\.?\s?m\b)"
    r"|\b(?P<word>noon|midday|midnight)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day from ``start`` to ``end`` of a text, and the minutes after midnight that it may mean."""

    start: int
    end: int
    minutes: frozenset[int]


def clock_times_in(text: str) -> Iterator[ClockTime]:
    """The times of day in a text, ascending.

    "5 PM" and "17:00" are one time each; "5:30", and the "4" of "4-7 p.m.", may lie before or after noon. A minute of
    one digit, as in "11:0", is only written by machines, which count 24 hours.
    """
    for match in _TIME.finditer(text):
        minutes = frozenset(_minutes(match))
        if minutes:
            yield ClockTime(*match.span(), minutes)


def _minutes(match: re.Match[str]) -> Iterator[int]:
    if match["word"]:
        yield 0 if match["word"].lower() == "midnight" else _HALF_DAY
        return
    hour = int(match["hour"] or match["plain_hour"] or match["first"])
    written = match["minute"] or match["dotted"] or match["plain_minute"] or match["first_minute"] or "00"
    if hour > 24 or int(written) > 59:
        return
    at = hour * 60 + int(written)
    if match["half"] and 1 <= hour <= 12:
        yield at % _HALF_DAY + (_HALF_DAY if match["half"].lower() == "p" else 0)
    else:
        yield at % _DAY
        if 1 <= hour <= 12 and len(written) > 1 and not match["half"]:
            yield (at + _HALF_DAY) % _DAY


FAHRENHEIT, CELSIUS = "fahrenheit", "celsius"
_UNITS: tuple[tuple[str, str, str], ...] = (
    (FAHRENHEIT, "1", r"(?:°\s?|degrees?\s)(?:f|fahrenheit)|fahrenheit|(?-i:F)"),
    (CELSIUS, "1", r"(?:°\s?|degrees?\s)(?:c|celsius|centigrade)|celsius|(?-i:C)"),
    ("speed", "1.609344", r"mph|miles\s(?:per|an)\shour"),
    ("speed", "1", r"km/h|kmh|kph|kilomet(?:er|re)s\s(?:per|an)\shour"),
    ("length", "1609.344", r"miles?|mi"),
    ("length", "1000", r"kilomet(?:er|re)s?|kms?"),
    ("length", "0.3048", r"feet|foot|ft"),
    ("length", "0.9144", r"yards?|yds?"),
    ("length", "0.0254", r"inch(?:es)?|in(?!\s+(?!(?:wide|long|high|tall|deep|thick|across|by|x)\b)\w)"),
    ("length", "0.001", r"millimet(?:er|re)s?|mm"),
    ("length", "0.01", r"centimet(?:er|re)s?|cm"),
    ("length", "1", r"met(?:er|re)s?|m"),
    ("mass", "453.59237", r"pounds?|lbs?"),
    ("mass", "28.349523", r"ounces?|oz"),
    ("mass", "1000", r"kilograms?|kilos?|kgs?"),
    ("mass", "1", r"grams?|g"),
    ("mass", "0.001", r"milligrams?|mg"),
    ("mass", "1000000", r"tonnes?"),
    ("volume", "3.785412", r"gallons?|gal"),
    ("volume", "0.001", r"millilit(?:er|re)s?|ml"),
    ("volume", "0.01", r"centilit(?:er|re)s?|cl"),
    ("volume", "1", r"lit(?:er|re)s?|l"),
    ("area", "0.40468564", r"acres?"),
    ("area", "1", r"hectares?|ha"),
    ("area", "0.0001", r"m[²2]|square\smet(?:er|re)s?"),
    ("area", "100", r"km[²2]|square\skilomet(?:er|re)s?"),
    ("data", "1", r"megabytes?|(?-i:MB)"),
    ("data", "1000", r"gigabytes?|(?-i:GB)"),
    ("data", "1000000", r"terabytes?|(?-i:TB)"),
    ("data rate", "1", r"(?-i:[Mm]bps|Mbit/s|Mb/s)"),
    ("data rate", "1000", r"(?-i:[Gg]bps|Gbit/s|Gb/s)"),
    ("frequency", "1", r"kHz|kilohertz"),
    ("frequency", "1000", r"MHz|megahertz"),
    ("frequency", "1000000", r"GHz|gigahertz"),
    ("power", "1", r"(?-i:W)|watts?"),
    ("power", "1000", r"kW|kilowatts?"),
    ("power", "1000000", r"(?-i:MW)|megawatts?"),
)
"""Dimension, size in the dimension's base unit, and how the unit is written behind a number."""

_UNIT_END = r"\.?(?!\w|\s?/\s?(?!(?:day|week|serving|portion|person)\b)[a-z]|\sper\s(?:second|sec|minute|min|hour|h)\b)"
"""A unit is not that of a rate, as in "mg/dl"; a dose per day counts as the dose."""
_UNIT_BEHIND = [
    (dimension, Decimal(size), re.compile(rf"[\s-]?(?:{written}){_UNIT_END}", re.IGNORECASE))
    for dimension, size, written in _UNITS
]
_MAY_BE_UNIT = re.compile(rf"[\s-]?(?:{'|'.join(written for _, _, written in _UNITS)}){_UNIT_END}", re.IGNORECASE)
_RANGE = re.compile(r"\s?(?:[-–]|to|and)\s?", re.IGNORECASE)
_AGAIN = re.compile(
    r"\s?(?:[(\[/]|,?\sor)\s?(?:(?:about|around|approximately|approx\.?|roughly|or)\s|[~≈])?", re.IGNORECASE
)
_RELATIVE_ERROR = Decimal("0.05")
_DEGREES_ERROR, _RELATIVE_DEGREES_ERROR = Decimal(1), Decimal("0.02")
_CURRENCY_BEFORE = re.compile(r"(?:[$€£¥₹]|\b(?-i:USD|EUR|GBP|CHF))\s?$", re.IGNORECASE)
_COUNTED_BEHIND = re.compile(
    r"\s(?:euros?|dollars?|pounds?|bucks|yen|francs?|(?-i:[A-Z]{3})|people|men|women|children"
    r"|(?!(?:across|towards|upwards|downwards|plus|versus|less)\b)[a-z]{3,}s)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with the unit behind it; ``end`` is that of the unit.

    ``is_sure`` is false where the unit may be something else, as the letter of "$5m".
    """

    number: Number
    end: int
    dimension: str
    size: Decimal
    is_sure: bool

    def sizes(self) -> Iterator[Reading]:
        """What it may measure: the dimension and the size in its base unit, the same for 1.5 kg and 1,500 g."""
        for amount in self.number.amounts if self.is_sure else ():
            yield self.dimension, amount * self.size


def measures_in(numbers: Iterable[Number], text: str) -> Iterator[list[Measure]]:
    """The measures of a text, ascending, those of a range together: "60-75°F"."""
    waiting: list[Number] = []
    for number in numbers:
        if waiting and _RANGE.fullmatch(text, waiting[-1].end, number.start) is None:
            waiting.clear()
        waiting = [*waiting[-1:], number]
        # The letter of "3 m" is a unit, though it may mean millions.
        found = _unit_at(text, number.end) or (_unit_at(text, number.digits_end) if number.scale else None)
        if found is not None:
            dimension, size, end = found
            is_sure = _is_sure(text, waiting[0], number)
            yield [Measure(one, end, dimension, size, is_sure) for one in waiting]
            waiting = []


def _unit_at(text: str, place: int) -> tuple[str, Decimal, int] | None:
    if _MAY_BE_UNIT.match(text, place) is not None:
        for dimension, size, pattern in _UNIT_BEHIND:
            unit = pattern.match(text, place)
            if unit is not None:
                return dimension, size, unit.end()
    return None


def _is_sure(text: str, first: Number, last: Number) -> bool:
    """Whether a measure's letter "m" cannot be millions: it stands apart ("5 m"), and no money or people follow."""
    if last.scale != "m":
        return True
    return (
        last.digits_end < last.end - len(last.scale)
        and _CURRENCY_BEFORE.search(text, max(first.start - 4, 0), first.start) is None
        and _COUNTED_BEHIND.match(text, last.end) is None
    )


def conversions_in(numbers: Iterable[Number], text: str) -> Iterator[tuple[Number, Number]]:
    """The numbers of measures that are given in two units, each with its conversion, ascending.

    The second measure stands in brackets, behind a slash or behind "or". Both may be ranges: "60-75°F (15-24°C)". They
    must agree as people round: lengths, weights and the like to 5% or to the last written digit, temperatures to one
    degree Celsius and 2%.
    """
    for first, second in pairwise(measures_in(numbers, text)):
        is_again = _AGAIN.fullmatch(text, first[-1].end, second[0].number.start) is not None
        if is_again and len(first) == len(second) and all(map(_agree, first, second)):
            yield from ((one.number, other.number) for one, other in zip(first, second, strict=True))


def _agree(first: Measure, second: Measure) -> bool:
    """Whether any reading of the first measure is one of the second in another unit."""
    if (first.dimension, second.dimension) == (CELSIUS, FAHRENHEIT):
        first, second = second, first
    pairs = [(one, other) for one in first.number.amounts for other in second.number.amounts]
    if (first.dimension, second.dimension) == (FAHRENHEIT, CELSIUS):
        exact = [((one - 32) * 5 / 9, other) for one, other in pairs]
        return any(abs(one - other) <= _DEGREES_ERROR + _RELATIVE_DEGREES_ERROR * abs(one) for one, other in exact)
    if first.dimension != second.dimension or first.size == second.size:
        return False
    return any(_is_same_size(one * first.size / second.size, other) for one, other in pairs)


def _is_same_size(exact: Decimal, written: Decimal) -> bool:
    last_digit = Decimal(10) ** int(written.as_tuple().exponent)
    return abs(exact - written) <= max(_RELATIVE_ERROR * exact, last_digit / 2)


_SCALE = "|".join(SCALES)
_SMALL_COUNT = r"(?:\d{1,2}|100|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|a\s+hundred)"
_NUMBER_GOES_ON = rf"[.,:'’]\d|\s?%|\s?-?(?:{'|'.join(sorted({*MORE_SCALES, 'k', 'm', 'b'}, key=len, reverse=True))})\b"
"""What says that the digits before it are not a whole count: "5,000", "5.2", "5 million", "5%"."""
_FEW = rf"(?:\d{{1,3}}|an?|{'|'.join(SMALL_NUMBER_WORDS)})"
_MEASURED = (
    r"(?=\s(?:of\s)?(?:an?\s)?(?:cups?|teaspoons?|tsp|tablespoons?|tbsp|pints?|quarts?|gallons?|ounces?|oz|pounds?|lbs?"
    r"|inch(?:es)?|feet|foot|miles?|yards?|acres?|lit(?:er|re)s?|kilo(?:gram|met(?:er|re))?s?|kg|km)\b)"
)
_WORDED_PARTS = {"half": "0.5", "third": "0.33", "thirds": "0.67", "quarter": "0.25", "quarters": "0.75"}
_SIGNS = {"½": Decimal("0.5"), "¼": Decimal("0.25"), "¾": Decimal("0.75"), "⅓": Decimal("0.33"), "⅔": Decimal("0.67")}
_PARTS = {
    name: Decimal(parts)
    for parts, name in enumerate(("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), start=3)
} | {"quarter": Decimal(4)}
_UNTOLD = {"few", "several", "many", "some", "couple"}
_LAST_MONTH, _OLDEST_FISCAL_YEAR = 12, 70
_FOLDS = {
    "twice": 2,
    "doubled": 2,
    "doubling": 2,
    "twofold": 2,
    "thrice": 3,
    "tripled": 3,
    "tripling": 3,
    "threefold": 3,
}
_FOLDS |= {"quadrupled": 4, "fourfold": 4, "fivefold": 5, "tenfold": 10}
_HOUR_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOURS = {name: hour for hour, name in enumerate(_HOUR_WORDS, start=1)} | {str(hour): hour for hour in range(1, 25)}


def _part_of(words: str) -> Decimal:
    """What "half", "a quarter" and "three quarters" amount to, 0.5, 0.25 and 0.75."""
    return Decimal("0.5") if "half" in words.lower() else Decimal("0.75" if "three" in words.lower() else "0.25")


def _count_of(word: str) -> Decimal:
    if word.isdecimal():
        return Decimal(word)
    return Decimal(1) if word.lower() in ("a", "an") else worded_amount(word)


def _joint_duration(match: re.Match[str]) -> Iterator[Reading]:
    first, unit, second, smaller = match.groups()
    (kind, amount), (other_kind, rest) = (
        _duration(_count_of(number), {"h": "hour", "m": "minute"}.get(name.lower(), name))
        for number, name in ((first, unit), (second, smaller))
    )
    if kind == other_kind and rest < amount:
        yield kind, amount + rest


def _single_duration(match: re.Match[str]) -> Iterator[Reading]:
    share, unit, more = match.groups()
    yield _duration((_part_of(share) if share else Decimal(1)) + (_part_of(more) if more else 0), unit)


def _percent(share: Decimal) -> Iterator[Reading]:
    """A share in percent, rounded and cut to a whole number."""
    yield from ((PERCENT, share.quantize(Decimal(1))), (PERCENT, share // 1))


def _share(match: re.Match[str]) -> Iterator[Reading]:
    half, count, parts = match.groups()
    if half:
        yield PERCENT, Decimal(50)
        return
    yield from _percent(100 * _count_of(count) / _PARTS[parts.lower()])
    if count.lower() not in ("a", "an"):
        yield AMOUNT, _count_of(count)


def _some_of_all(match: re.Match[str]) -> Iterator[Reading]:
    some, everything = map(_count_of, match.groups())
    if 0 < some < everything:
        yield from _percent(100 * some / everything)


def _dozen(match: re.Match[str]) -> Iterator[Reading]:
    count = (match["words"] or "").strip(" -").lower()
    if match["digits"]:
        yield OTHER_AMOUNT, Decimal(12 * int(match["digits"]))
    elif count.startswith("half"):
        yield OTHER_AMOUNT, Decimal(6)
    elif count not in _UNTOLD:
        yield OTHER_AMOUNT, 12 * (worded_amount(count) if count in NUMBER_WORDS else Decimal(1))


def _part_of_scale(match: re.Match[str]) -> Iterator[Reading]:
    yield OTHER_AMOUNT, worded_amount(match[2]) * _part_of(match[1])


def _scale_and_a_half(match: re.Match[str]) -> Iterator[Reading]:
    if match[1].lower() in NUMBER_WORDS or match[1].isdecimal():
        yield OTHER_AMOUNT, (_count_of(match[1]) + Decimal("0.5")) * worded_amount(match[2])


def _worded_part(match: re.Match[str]) -> Iterator[Reading]:
    yield OTHER_AMOUNT, Decimal(_WORDED_PARTS[re.split(r"[\s-]+", match[1].lower())[-1]])


def _points(match: re.Match[str]) -> Iterator[Reading]:
    yield from ((kind, _part_of(match[1])) for kind in (OTHER_AMOUNT, PERCENT))


def _season(match: re.Match[str]) -> Iterator[Reading]:
    """The second year of "2024/25"; "2011-12" may be a month."""
    ending, written = int(match[1]) + 1, int(match["at"])
    if ending % 100 == written and (match[2] != "-" or written > _LAST_MONTH):
        yield OTHER_AMOUNT, Decimal(ending)


def _fiscal_year(match: re.Match[str]) -> Iterator[Reading]:
    year = int(match["at"])
    yield OTHER_AMOUNT, Decimal((1900 if year >= _OLDEST_FISCAL_YEAR else 2000) + year)


def _fraction(match: re.Match[str]) -> Iterator[Reading]:
    """A mixed number, exact if it has at most three digits behind the point, else with two."""
    whole, part, parts, before_sign, sign = match.groups()
    if sign:
        yield OTHER_AMOUNT, int(before_sign) + _SIGNS[sign]
    elif int(part) < int(parts):
        exact = int(whole or 0) + Decimal(part) / int(parts)
        short = exact.quantize(Decimal("0.001"))
        yield OTHER_AMOUNT, short if short == exact else exact.quantize(Decimal("0.01"))


def _part_of_unit(match: re.Match[str]) -> Iterator[Reading]:
    found = _unit_at(match.string, match.end())
    if found is not None:
        yield found[0], _part_of(match[1]) * found[1]


def _hour_in_words(match: re.Match[str]) -> Iterator[Reading]:
    part, side, hour = match[1].lower(), match[2].lower(), _HOURS.get(match[3].lower())
    if hour is not None and (part, side) != ("half", "to"):
        minutes = 30 if part == "half" else 15 if side == "past" else 45
        hour = hour if side == "past" else (hour - 1 or 12)
        yield OTHER_AMOUNT, Decimal(hour) + Decimal(minutes) / 100
        yield from ((PERHAPS_MINUTE, Decimal(at)) for at in _in_either_half(hour, minutes))


def _dotted_hour(match: re.Match[str]) -> Iterator[Reading]:
    hour, minute = int(match[1]), int(match[2])
    if hour < 24 and minute < 60:
        yield from ((PERHAPS_MINUTE, Decimal(at)) for at in _in_either_half(hour, minute))


def _in_either_half(hour: int, minute: int) -> tuple[int, ...]:
    """Minutes after midnight; a time before noon may also lie after it."""
    at = hour * 60 + minute
    return (at, at + _HALF_DAY) if at < _HALF_DAY else (at,)


def _fold(match: re.Match[str]) -> Iterator[Reading]:
    times = Decimal(_FOLDS[match[0].lower()])
    yield from ((kind, times) for kind in ((TIMES, FOLD) if match[0].lower() in ("twice", "thrice") else (FOLD,)))


@dataclass(frozen=True, slots=True)
class Phrase:
    """A way to write quantities: strings of which one stands in each, a pattern, and what a match of it says.

    The group "at" of a pattern, where it has one, is the number that says it.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], Iterator[Reading]]


def _phrase(hints: str, pattern: str, read: Callable[[re.Match[str]], Iterator[Reading]]) -> Phrase:
    return Phrase(tuple(hints.split()), re.compile(pattern, re.IGNORECASE), read)


_TIME_HINTS = "sec min hour hr day week fortnight month year yr decade centur"
SHARES = _phrase(
    "hal third quarter fourth fifth sixth seventh eighth ninth tenth",
    r"\b(?:(half|halves)|(a|an|one|two|three|four|five|six|seven|eight|nine)[\s-]"
    r"(third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s?)\b",
    _share,
)
"""Fractions in words: "half", "two thirds"."""
PARTS_OF_SCALES = (
    _phrase(
        "half quarter",
        rf"(?<!\band\sa\s)\b(half|quarter)(?:\s+of)?[\s-]+(?:a[\s-]+)?({_SCALE})\b",
        _part_of_scale,
    ),
    _phrase("half", rf"\b(\w+)\s+and\s+a\s+half\s+({_SCALE})\b", _scale_and_a_half),
)
""""Half a million" and "two and a half thousand", which stand for what lies near them."""
SINGLE_DURATIONS = _phrase(
    _TIME_HINTS,
    rf"\b(?:((?<!\band\sa\s)half(?=[\s-]hour)[\s-]|half\s+(?:an?|one)\s+"
    r"|(?:(?:a\s+)?quarter|three[\s-]quarters)\s+of\s+(?:an?|one)\s+)|(?:an?|one)\s+)"
    rf"({_TIME_UNIT})(?:\s+and\s+{_PART_WORDS})?",
    _single_duration,
)
"""Lengths of time without a number: "a week", "half an hour", "a year and a half"."""
_PHRASES = (
    SHARES,
    *PARTS_OF_SCALES,
    SINGLE_DURATIONS,
    _phrase(
        _TIME_HINTS + " h",
        rf"\b({_FEW})[\s-]?(h|{_TIME_UNIT}),?\s?(?:and\s)?({_FEW})[\s-]?(m|{_TIME_UNIT})(?!\w)",
        _joint_duration,
    ),
    _phrase(
        "in of",
        rf"\b({_SMALL_COUNT})(?:\s[a-z]+)?\s(?:in|out\sof)\s(?:every\s)?({_SMALL_COUNT})\b"
        rf"(?!{_NUMBER_GOES_ON}|[\s-]?{_TIME_UNIT})",
        _some_of_all,
    ),
    _phrase(
        "dozen",
        r"(?:(?<![\d.,])(?P<digits>\d{1,3})[\s-]|\b(?P<words>half[\s-](?:a[\s-])?|[a-z]+[\s-]))?\bdozen\b",
        _dozen,
    ),
    _phrase(
        "half quarter",
        r"\b(half|quarter|three[\s-]quarters)[\s-](?:of\s)?(?:an?\s)?(?:percentage[\s-]|per\s?cent(?:age)?\s?)?"
        r"(?:point|per\s?cent)\b",
        _points,
    ),
    _phrase(
        "/ - –",
        r"(?<![\d/.,$€£–-])((?:19|20)\d\d)\s?([/–-])\s?(?P<at>\d\d)(?!\d|[.,]\d|\s?[/–-]\s?\d)",
        _season,
    ),
    _phrase("fy", r"\bFY\s?'?(?P<at>\d\d)(?!\d)", _fiscal_year),
    _phrase(
        "/ ⁄ ½ ¼ ¾ ⅓ ⅔",
        rf"(?<![\d/.,])(?:(?:(\d{{1,2}})\s)?([1-9])\s?(?:⁄|/(?=\s?\d{_MEASURED}))\s?([2-8])(?![\d/⁄]|[.,]\d)"
        r"|(\d{1,2})([½¼¾⅓⅔]))",
        _fraction,
    ),
    _phrase(
        "half third quarter",
        rf"\b(half|a\s+third|two[\s-]thirds|a\s+quarter|three[\s-]quarters)\b{_MEASURED}",
        _worded_part,
    ),
    _phrase("half quarter", r"\b(half|(?:a\s)?quarter\sof|three[\s-]quarters\sof)\san?(?=\s)", _part_of_unit),
    _phrase("past quarter", r"\b(half|quarter)\s+(past|to)\s+(\w+)", _hour_in_words),
    _phrase(
        ".",
        r"\b(?:at|from|until|till|by)\s(\d{1,2})\.(\d{2})"
        r"(?=\s?(?:$|[;)\n]|[.,](?!\d)|(?:on|and|to|until|till|every|daily|h)\b))",
        _dotted_hour,
    ),
    _phrase(" ".join(_FOLDS), rf"\b(?:{'|'.join(_FOLDS)})\b", _fold),
)


def phrases_in(text: str, phrases: Iterable[Phrase] = _PHRASES) -> Iterator[Quantity]:
    """What a text says in other ways than by one number, as a dozen or half past seven."""
    lowered = text.lower()
    for phrase in phrases:
        if any(hint in lowered for hint in phrase.hints):
            for match in phrase.pattern.finditer(text):
                readings = frozenset(phrase.read(match))
                if readings:
                    yield Quantity(
                        *match.span("at" if "at" in match.re.groupindex else 0), readings, _near(phrase, match)
                    )


def _near(phrase: Phrase, match: re.Match[str]) -> Decimal:
    return worded_amount(match[2]) / 20 if phrase in PARTS_OF_SCALES else Decimal(0)
