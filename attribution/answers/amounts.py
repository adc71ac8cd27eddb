"""Amounts that are more than one plain number: times of day, measures, and numbers written in other ways.

Times of day in running text and in records: "5 PM", "17:00", "11:0-17:0", "4-7 p.m.", "noon".

Measures in running text, and pairs of them that say the same in two units: "350°F (175°C)", "10 miles (16 km)".

Amounts that are written in another way than as one plain number.

A passage may say "a dozen", "half a million", "60 cents" or "2024/25" where an answer has 12, 500,000, $0.60 or 2025.
In passages these are looked at only where a number of the answer does not occur as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from attribeam.attribution.answers.numbers_and_dates import (
    MORE_SCALES,
    NUMBER,
    NUMBER_GOES_ON,
    amounts,
    counts_time,
    fraction_of,
    worded_amount,
    worded_numbers,
)
from attribeam.attribution.answers.plain_text import plain_text

_HALF_DAY = 720
_DAY = 1440
_MERIDIEM = r"(?P<half>[ap])(?:\.\s?m\.|\.?m\b)"
_TIME = re.compile(
    rf"(?<![\w.,:$€£])(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{1,2}})|\.(?P<dotted>\d{{2}}))?\s?{_MERIDIEM}"
    r"|(?<![\w.,:$€£])(?P<plain_hour>\d{1,2}):(?P<plain_minute>\d{1,2})(?![\w:]|[.,]\d)"
    r"|(?<![\w.,:$€£])(?P<first>\d{1,2})(?::(?P<first_minute>\d{2}))?(?=\s?(?:-|–|—|to|until|till|and)\s?"
    r"\d{1,2}(?::\d{2})?\s?[ap]\.?\s?m\b)"
    r"|\b(?P<word>noon|midday|midnight)\b",
    re.IGNORECASE,
)
_DOTTED_TIME = re.compile(
    r"\b(?:at|from|until|till|by)\s(\d{1,2})\.(\d{2})"
    r"(?=\s?(?:$|[;)\n]|[.,](?!\d)|(?:on|and|to|until|till|every|daily|h)\b))",
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


def dotted_minutes_in(text: str) -> Iterator[int]:
    """Minutes after midnight of what may be a time of day with a full stop: "at 18.30", with no unit behind it.

    One before noon may also lie after it: "at 6.30".
    """
    for hour, minute in _DOTTED_TIME.findall(text):
        if int(hour) < 24 and int(minute) < 60:
            at = int(hour) * 60 + int(minute)
            yield from (at, at + _HALF_DAY) if at < _HALF_DAY else (at,)


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


_FAHRENHEIT, _CELSIUS = "fahrenheit", "celsius"
_UNITS: tuple[tuple[str, str, str], ...] = (
    (_FAHRENHEIT, "1", r"(?:°\s?|degrees?\s)(?:f|fahrenheit)|fahrenheit|(?-i:F)"),
    (_CELSIUS, "1", r"(?:°\s?|degrees?\s)(?:c|celsius|centigrade)|celsius|(?-i:C)"),
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
_DEGREES_ERROR = Decimal(1)
_OVEN_ERROR, _OVEN_STEP, _COOLEST_OVEN, _HOTTEST_OVEN = Decimal(5), 5, Decimal(100), Decimal(500)
_CURRENCY_BEFORE = re.compile(r"(?:[$€£¥₹]|\b(?-i:USD|EUR|GBP|CHF))\s?$", re.IGNORECASE)
_COUNTED_BEHIND = re.compile(
    r"\s(?:euros?|dollars?|pounds?|bucks|yen|francs?|(?-i:[A-Z]{3})|people|men|women|children"
    r"|(?!(?:across|towards|upwards|downwards|plus|versus|less)\b)[a-z]{3,}s)\b",
    re.IGNORECASE,
)

_PART_OF_UNIT = re.compile(r"\b(half|(?:a\s)?quarter\sof|three[\s-]quarters\sof)\san?(?=\s)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with the unit behind it; ``readings`` are what it may amount to, ``end`` is that of the unit.

    ``is_sure`` is false where the unit may be something else, as the letter of "$5m".
    """

    start: int
    end: int
    readings: tuple[Decimal, ...]
    dimension: str
    size: Decimal
    is_sure: bool

    def sizes(self) -> Iterator[tuple[str, Decimal]]:
        """What it may measure: dimension and size in the dimension's base unit, the same for 1.5 kg and 1,500 g."""
        for one in self.readings if self.is_sure else ():
            yield self.dimension, one * self.size


def measured_sizes(text: str) -> Iterator[tuple[str, Decimal]]:
    """What all measures of a text may be, as of ``Measure.sizes``; "half a litre" is one as well."""
    for group in measures_in(text):
        for one in group:
            yield from one.sizes()
    for match in _PART_OF_UNIT.finditer(text):
        found = _unit_at(text, match.end())
        if found is not None:
            yield found[0], fraction_of(match[1]) * found[1]


def converted_measures(groups: Sequence[Sequence[Measure]], text: str) -> Iterator[tuple[int, int]]:
    """Where the numbers of a measure start that is given in two units, each number with its conversion, ascending.

    The second measure stands in brackets, behind a slash or behind "or". Both may be ranges: "60-75°F (15-24°C)". They
    must agree as people round: lengths, weights and the like to 5% or to the last written digit, temperatures to one
    degree Celsius, and in ovens to five. ``groups`` are the ``measures_in`` the text.
    """
    for first, second in pairwise(groups):
        is_again = _AGAIN.fullmatch(text, first[-1].end, second[0].start) is not None
        if is_again and len(first) == len(second) and all(map(_agree, first, second)):
            yield from ((one.start, other.start) for one, other in zip(first, second, strict=True))


def measures_in(text: str) -> Iterator[list[Measure]]:
    """The measures of a text, ascending, those of a range together."""
    waiting: list[re.Match[str]] = []
    for match in sorted((*NUMBER.finditer(text), *worded_numbers(text)), key=lambda one: one.start()):
        if waiting and _RANGE.fullmatch(text, waiting[-1].end(), match.start()) is None:
            waiting.clear()
        waiting = [*waiting[-1:], match]
        found = _unit_behind(text, match)
        if found is not None:
            dimension, size, end = found
            is_sure = _is_sure(text, waiting[0], match)
            yield [Measure(one.start(), end, _readings(one), dimension, size, is_sure) for one in waiting]
            waiting = []


def _unit_behind(text: str, number: re.Match[str]) -> tuple[str, Decimal, int] | None:
    """Dimension and size of the unit, and where it ends; the letter of "3 m" is one, though it may mean millions."""
    digits_end = number.end("digits") if "digits" in number.re.groupindex else number.end()
    return _unit_at(text, number.end()) or (_unit_at(text, digits_end) if digits_end < number.end() else None)


def _is_sure(text: str, first: re.Match[str], last: re.Match[str]) -> bool:
    """Whether a measure's letter "m" cannot be millions: it stands apart ("5 m"), and no money or people follow."""
    if "digits" not in last.re.groupindex or not last["scale"] or last["scale"].lower() != "m":
        return True
    return (
        last.end("digits") < last.start("scale")
        and _CURRENCY_BEFORE.search(text, max(first.start() - 4, 0), first.start()) is None
        and _COUNTED_BEHIND.match(text, last.end()) is None
    )


def _unit_at(text: str, place: int) -> tuple[str, Decimal, int] | None:
    if _MAY_BE_UNIT.match(text, place) is None:
        return None
    for dimension, size, pattern in _UNIT_BEHIND:
        unit = pattern.match(text, place)
        if unit is not None:
            return dimension, size, unit.end()
    return None


def _readings(number: re.Match[str]) -> tuple[Decimal, ...]:
    if "digits" not in number.re.groupindex:
        return (worded_amount(number.group()),)
    plain = NUMBER.match(plain_text(number.group()))
    return () if plain is None else tuple(amounts(plain))


def _agree(first: Measure, second: Measure) -> bool:
    """Whether any reading of the first measure is one of the second in another unit."""
    pairs = [(one, other) for one in first.readings for other in second.readings]
    if {first.dimension, second.dimension} == {_FAHRENHEIT, _CELSIUS}:
        if first.dimension == _CELSIUS:
            pairs = [(other, one) for one, other in pairs]
        return any(_is_same_heat(*pair) for pair in pairs)
    if first.dimension != second.dimension or first.size == second.size:
        return False
    return any(_is_same_size(one * first.size / second.size, other) for one, other in pairs)


def _is_same_heat(fahrenheit: Decimal, celsius: Decimal) -> bool:
    error = abs((fahrenheit - 32) * 5 / 9 - celsius)
    if not _COOLEST_OVEN <= celsius <= _HOTTEST_OVEN or error > _OVEN_ERROR:
        return error <= _DEGREES_ERROR
    is_oven = not celsius % _OVEN_STEP and not fahrenheit % _OVEN_STEP
    return error <= (_OVEN_ERROR if is_oven else _DEGREES_ERROR)


def _is_same_size(exact: Decimal, written: Decimal) -> bool:
    exponent = written.as_tuple().exponent
    last_digit = Decimal(10) ** exponent if isinstance(exponent, int) else Decimal(0)
    return abs(exact - written) <= max(_RELATIVE_ERROR * exact, last_digit / 2)


_DOZEN = re.compile(
    r"(?:(?<![\d.,])(?P<digits>\d{1,3})[\s-]|\b(?P<words>half[\s-](?:a[\s-])?|[a-z]+[\s-]))?\bdozen\b", re.IGNORECASE
)
_UNTOLD = {"few", "several", "many", "some", "couple"}
_SCALE = "hundred|thousand|million|billion|trillion"
_PART_OF_SCALE = re.compile(rf"(?<!\band\sa\s)\b(half|quarter)(?:\s+of)?[\s-]+(?:a[\s-]+)?({_SCALE})\b", re.IGNORECASE)
_AND_A_HALF = re.compile(rf"\b(\w+)\s+and\s+a\s+half\s+({_SCALE})\b", re.IGNORECASE)
_HALF_POINT = re.compile(
    r"\b(half|quarter|three[\s-]quarters)[\s-](?:of\s)?(?:an?\s)?(?:percentage[\s-]|per\s?cent(?:age)?\s?)?"
    r"(?:point|per\s?cent)\b",
    re.IGNORECASE,
)
_BASIS_POINTS = re.compile(r"\s?(?:basis[\s-]points?|bps?)\b", re.IGNORECASE)
_HUNDREDTHS = re.compile(r"\s?(?:¢|cents?\b|pence\b|basis[\s-]points?\b|bps?\b)", re.IGNORECASE)
"""Cents and basis points."""
_PENCE = re.compile(r"\s?p\b(?!\.\s?m)")
_FEWEST_NO_PENCE = 100
_TO_A_SCALE = re.compile(
    r"\s?(?:[-–—]|to|and|or)\s?[$€£]?\d+(?:[.,]\d+)*\s?-?"
    rf"(?P<scale>(?:{'|'.join(sorted(MORE_SCALES, key=len, reverse=True))})\b)",
    re.IGNORECASE,
)
_SEASON = re.compile(r"(?<![\d/.,$€£–-])((?:19|20)\d\d)\s?([/–-])\s?(\d\d)(?!\d|[.,]\d|\s?[/–-]\s?\d)")
_FISCAL_YEAR = re.compile(r"\bFY\s?'?(\d\d)(?!\d)")
_MEASURED = (
    r"(?=\s(?:of\s)?(?:an?\s)?(?:cups?|teaspoons?|tsp|tablespoons?|tbsp|pints?|quarts?|gallons?|ounces?|oz|pounds?|lbs?"
    r"|inch(?:es)?|feet|foot|miles?|yards?|acres?|lit(?:er|re)s?|kilo(?:gram|met(?:er|re))?s?|kg|km)\b)"
)
_FRACTION = re.compile(
    rf"(?<![\d/.,])(?:(\d{{1,2}})\s)?([1-9])\s?(?:⁄|/(?=\s?\d{_MEASURED}))\s?([2-8])(?![\d/⁄]|[.,]\d)",
    re.IGNORECASE,
)
"""A fraction; one with a plain slash needs a measure behind it, since "3/4" alone may be a date."""
_FRACTION_WORD = re.compile(
    rf"\b(half|a\s+third|two[\s-]thirds|a\s+quarter|three[\s-]quarters)\b{_MEASURED}", re.IGNORECASE
)
_WORDED_FRACTIONS = {"half": "0.5", "third": "0.33", "thirds": "0.67", "quarter": "0.25", "quarters": "0.75"}
_SIGNS = {"½": Decimal("0.5"), "¼": Decimal("0.25"), "¾": Decimal("0.75"), "⅓": Decimal("0.33"), "⅔": Decimal("0.67")}
_TIMES_BEHIND = re.compile(r"(?:\s?x\b|[\s-]times?\b|-?fold\b)", re.IGNORECASE)
_TIMES_A_DAY = re.compile(r"[\s-]times?\s(?:an?|per|each|every|daily|weekly|monthly|in)\b", re.IGNORECASE)
_HOW_OFTEN = {Decimal(2): ("twice",), Decimal(3): ("thrice",)}
_MULTIPLES = {
    Decimal(2): ("twice", "doubled", "doubling", "twofold"),
    Decimal(3): ("thrice", "tripled", "tripling", "threefold"),
    Decimal(4): ("quadrupled", "fourfold"),
    Decimal(5): ("fivefold",),
    Decimal(10): ("tenfold",),
}
_HINT = re.compile(
    r"dozen|half|third|quarter|cent|¢|pence|\dp\b|basis|bps?\b|(?:[-–—]|\b(?:to|and|or)\b)\s?[$€£]?\d|/|⁄|\bFY",
    re.IGNORECASE,
)
"""A cheap test without which a text has none of these."""

_CENTURY = 100
_OLDEST_DECADE = 20
_LAST_MONTH = 12
_THE_BEFORE = re.compile(r"\bthe\s['’]?$", re.IGNORECASE)
_OLDEST_FISCAL_YEAR = 70
_IN_ALL = re.compile(rf"\s(?:in|out\sof)\s(?:every\s)?(\d{{1,2}})\b(?!{NUMBER_GOES_ON})", re.IGNORECASE)
_BESIDE_ALL, _BEFORE_ALL = (" in ", " out"), ("in ", "of ", "every ")
_ALL_BEFORE = re.compile(r"\b(\d{1,2})\s(?:in|out\sof)\s(?:every\s)?$", re.IGNORECASE)


def other_amounts(text: str) -> Iterator[Decimal]:
    """What a plain text amounts to besides its plain numbers; the same amount may be given more than once.

    Fractions in words are not among them, see ``fractions_in_words``.
    """
    if _HINT.search(text) is None:
        return
    yield from _in_words(text)
    for match in NUMBER.finditer(text):
        yield from _by_what_follows(text, match.end(), [*amounts(match)])
        yield from _of_range(text, match)
    for match in worded_numbers(text):
        yield from _by_what_follows(text, match.end(), [worded_amount(match.group())])
    yield from (ending for _, ending in _seasons(text, 0, len(text)))
    for match in _FISCAL_YEAR.finditer(text):
        yield _fiscal_year(match[1])
    for match in _FRACTION.finditer(text):
        whole, part, parts = (int(one or 0) for one in match.groups())
        if part < parts:
            yield from _rounded(whole, part, parts)


def parts_of_scales(text: str) -> Iterator[tuple[re.Match[str], Decimal]]:
    """Where "half a million" and "two and a half thousand" stand, and what they amount to."""
    for match in _PART_OF_SCALE.finditer(text):
        yield match, worded_amount(match[2]) * Decimal("0.5" if match[1].lower() == "half" else "0.25")
    for match in _AND_A_HALF.finditer(text):
        numbers = [*worded_numbers(match[1])]
        count = worded_amount(numbers[0].group()) if numbers else None
        if count is None and match[1].isascii() and match[1].isdecimal():
            count = Decimal(match[1])
        if count is not None:
            yield match, (count + Decimal("0.5")) * worded_amount(match[2])


def fractions_in_words(text: str) -> Iterator[Decimal]:
    """The fractions of "half a cup" and "three quarters of a mile": words before a measure, never percentages."""
    yield from map(_worded_fraction, _FRACTION_WORD.finditer(text))


def other_percentages(text: str) -> Iterator[Decimal]:
    """Percentages in other words: 0.5 for "half a percentage point", 0.25 for "25 basis points"."""
    if _HINT.search(text) is None:
        return
    yield from map(_worded_fraction, _HALF_POINT.finditer(text))
    for match in NUMBER.finditer(text):
        if _BASIS_POINTS.match(text, match.end()):
            yield from (one / 100 for one in amounts(match))


def words_for_times(text: str, number_end: int, meant: Iterable[Decimal]) -> Iterator[str]:
    """Words that say what a number before "times" or "-fold" says: "twice" for "2 times", and for "2 times a day"."""
    if _TIMES_BEHIND.match(text, number_end):
        named = _HOW_OFTEN if _TIMES_A_DAY.match(text, number_end) else _MULTIPLES
        yield from (word for one in meant for word in named.get(one, ()))


def other_readings(text: str, number: re.Match[str], meant: Iterable[Decimal]) -> Iterator[Decimal]:
    """What else a number of a text, a match of ``NUMBER`` that may amount to ``meant``, can stand for.

    "60 cents" is 0.60, the "3" of "3 to 5 million" three million, the "25" of "2024/25" 2025, "the 90s" 1990, and both
    numbers of "1/2" are 0.5, of "1 in 5" twenty percent.
    """
    start, end, digits = number.start(), number.end(), number["digits"]
    yield from _by_what_follows(text, end, meant)
    yield from _of_range(text, number)
    before = text[max(start - 8, 0) : start]
    if len(digits) == 2 and digits.isascii() and digits.isdigit():
        yield from (ending for at, ending in _seasons(text, max(start - 8, 0), end + 4) if at == start)
        if before.endswith(("FY", "FY ", "FY'")):
            yield _fiscal_year(digits)
        if number["decade"] and _THE_BEFORE.search(before) and int(digits) >= _OLDEST_DECADE and digits.endswith("0"):
            yield Decimal(19 * _CENTURY + int(digits))
    if text[end : end + 1] in _SIGNS:
        yield from (one + _SIGNS[text[end]] for one in meant)
    near = text[max(start - 4, 0) : end + 4]
    for match in _FRACTION.finditer(text, max(start - 4, 0), end + 24) if "/" in near or "⁄" in near else ():
        if start < match.end() and match.start() < end and int(match[2]) < int(match[3]):
            yield from _rounded(int(match[1] or 0), int(match[2]), int(match[3]))
    is_count = digits.isdigit() and len(digits) <= 2 and not number["scale"]
    if is_count and (text[end : end + 4] in _BESIDE_ALL or before.endswith(_BEFORE_ALL)):
        following, preceding = _IN_ALL.match(text, end), _ALL_BEFORE.search(text, max(start - 18, 0), start)
        part, parts = (digits, following[1]) if following else (preceding[1] if preceding else "1", digits)
        last = following.end() if following else end
        if (following or preceding) and not counts_time(text, last) and 0 < int(part) < int(parts):
            yield from (100 * one for one in _rounded(0, int(part), int(parts)))


def _in_words(text: str) -> Iterator[Decimal]:
    for match in _DOZEN.finditer(text):
        count = (match["words"] or "").strip(" -").lower()
        if match["digits"]:
            yield Decimal(12 * int(match["digits"]))
        elif count.startswith("half"):
            yield Decimal(6)
        elif count not in _UNTOLD:
            numbers = [*worded_numbers(count)]
            yield 12 * worded_amount(numbers[0].group()) if numbers else Decimal(12)
    yield from (amount for _, amount in parts_of_scales(text))
    yield from map(_worded_fraction, _HALF_POINT.finditer(text))


def _fiscal_year(digits: str) -> Decimal:
    year = int(digits)
    return Decimal((19 if year >= _OLDEST_FISCAL_YEAR else 20) * _CENTURY + year)


def _worded_fraction(match: re.Match[str]) -> Decimal:
    return Decimal(_WORDED_FRACTIONS[re.split(r"[\s-]+", match[1].lower())[-1]])


def _seasons(text: str, start: int, end: int) -> Iterator[tuple[int, Decimal]]:
    """Where the second year of "2024/25" starts, and that year; "2011-12" may be a month."""
    for match in _SEASON.finditer(text, start, end):
        ending = int(match[1]) + 1
        if ending % _CENTURY == int(match[3]) and (match[2] != "-" or int(match[3]) > _LAST_MONTH):
            yield match.start(3), Decimal(ending)


def _by_what_follows(text: str, end: int, meant: Iterable[Decimal]) -> Iterator[Decimal]:
    if _HUNDREDTHS.match(text, end):
        yield from (one / 100 for one in meant)
    if _PENCE.match(text, end):
        yield from (one / 100 for one in meant if one < _FEWEST_NO_PENCE)


def _of_range(text: str, number: re.Match[str]) -> Iterator[Decimal]:
    """The first number of "3 to 5 million" or "$1.2–1.5bn" with the scale of the second."""
    scale = None if number["scale"] else _TO_A_SCALE.match(text, number.end())
    if scale:
        yield from (one * MORE_SCALES[scale["scale"].lower()] for one in amounts(number))


def _rounded(whole: int, part: int, parts: int) -> Iterator[Decimal]:
    """A mixed number, exact if it has at most three digits behind the point, else with two."""
    exact = whole + Decimal(part) / parts
    short = exact.quantize(Decimal("0.001"))
    yield short if short == exact else exact.quantize(Decimal("0.01"))
