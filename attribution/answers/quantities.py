"""What the numbers, measures and phrases of a text say, in the base unit of each kind, so that texts compare as sets.

"Half a litre" and "500 ml" are ("volume", 0.5), "two weeks" and "14 days" ("seconds", 1209600), "5 PM" and "17:00"
("minute of the day", 1020). What may be read in two ways has two readings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, pairwise
from typing import TypeAlias

from attribeam.attribution.answers.plain_text import (
    ALL_SCALES,
    ANY_SCALE,
    CURRENCY_CODE,
    HALF_DAY,
    LONG_SCALES,
    MONEY_BEFORE,
    NUMBER_WORDS,
    OLDEST_SHORT_YEAR,
    SCALE_WORD,
    SMALL_NUMBER_WORDS,
    Kind,
    Number,
    Quantity,
    Reading,
    remembered,
    worded_amount,
)

_SECONDS: dict[str, Decimal | int] = {
    "millisecond": Decimal("0.001"), "second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600,
    "h": 3600, "day": 86_400, "week": 604_800, "wk": 604_800, "fortnight": 1_209_600,
}  # fmt: skip
_MONTHS: dict[str, Decimal | int] = {
    "month": 1, "year": 12, "yr": 12, "decade": 120, "centurie": 1200, "century": 1200,
}  # fmt: skip
_TIME_UNIT = r"(?:(?-i:ms|s)|(?:" + "|".join(_SECONDS | _MONTHS) + r")s?)\b"
TIME_UNIT_BEHIND = re.compile(rf"[\s-]?({_TIME_UNIT})", re.IGNORECASE)
_TIME_UNIT_OF_RANGE = re.compile(
    rf"\s?(?:[-–—]|to|or)\s?(?:\d{{1,3}}|{'|'.join(SMALL_NUMBER_WORDS)})[\s-]?({_TIME_UNIT})", re.IGNORECASE
)
_PART_WORDS = r"(a\s+half|a\s+quarter|three[\s-]quarters)\b"
_PART_BEHIND = re.compile(rf"\s+and\s+{_PART_WORDS}", re.IGNORECASE)
_DAYS_AS_MONTHS = {30: "1", 60: "2", 90: "3", 120: "4", 180: "6", 365: "12"}
_DAYS_AS_MONTHS |= {28: "1", 42: "1.5", 56: "2", 84: "3", 91: "3", 182: "6", 364: "12"}  # whole weeks
_IN_OTHER_UNITS: list[tuple[Reading, Reading]] = [
    ((Kind.SECONDS, Decimal(days * 86_400)), (Kind.MONTHS, Decimal(months))) for days, months in _DAYS_AS_MONTHS.items()
]
"""Days and weeks that people also give in months or years: 90 days are three months."""


def _duration(amount: Decimal, unit: str) -> Reading:
    name = {"ms": "millisecond", "s": "second"}.get(unit) or unit.lower().removesuffix("s")
    return (Kind.SECONDS, amount * _SECONDS[name]) if name in _SECONDS else (Kind.MONTHS, amount * _MONTHS[name])


def in_other_units(durations: Iterable[Reading]) -> Iterator[Reading]:
    """The lengths of time, and those that people give for the same in months instead of days or weeks, or so back."""
    for duration in durations:
        yield duration
        yield from (months for days, months in _IN_OTHER_UNITS if days == duration)
        yield from (days for days, months in _IN_OTHER_UNITS if months == duration)


_MONEY_NAME = r"(?:euros?|dollars?|pounds?|bucks|yen|francs?)"
_MONEY = rf"{_MONEY_NAME}|(?-i:[A-Z]{{3}})"
_MONEY_BEHIND = re.compile(rf"\s?({_MONEY})\b", re.IGNORECASE)
_THINGS = r"people|men|women|children|(?!(?:across|towards|upwards|downwards|plus|versus|less)\b)[a-z]{3,}s"
_COUNTED_BEHIND = re.compile(rf"[\s-](?!(?:\w+[\s-]){{0,2}}{_TIME_UNIT})(?:{_THINGS})(?<!ss)\b", re.IGNORECASE)
_CENTS_BEHIND = re.compile(r"(?<!\d{3})(?<=\d)p\b(?!\.\s?m)|\s?(?:¢|cents?\b|pence\b)", re.IGNORECASE)
_HUNDREDTHS_BEHIND = re.compile(rf"{_CENTS_BEHIND.pattern}|\s?(?P<percent>basis[\s-]points?\b|bps?\b)", re.IGNORECASE)
_PENCE_BEHIND = re.compile(r"\s?p\b(?!\.\s?m)")
_FEWEST_NO_PENCE = 100
_SCALE_OF_RANGE = re.compile(
    r"\s?(?:[-–—]|to|and|or)\s?[$€£]?\d+(?:[.,]\d+)*\s?-?"
    rf"(?P<scale>(?:{'|'.join(sorted(LONG_SCALES, key=len, reverse=True))})\b)",
    re.IGNORECASE,
)
_CENTURY_BEHIND = re.compile(r"(?:st|nd|rd|th)[\s-]century\b(?!,?\s(?:B\.?\s?C|before))", re.IGNORECASE)
_CENTURIES = range(10, 22)
_HUNDREDS = re.compile(r"1[0-8]00")
_THE_BEFORE = re.compile(r"\bthe\s['’]?$", re.IGNORECASE)
_OLDEST_DECADE = 20
_TIMES_BEHIND = re.compile(r"(?:\s?x\b|[\s-]times?\b|-?fold\b)", re.IGNORECASE)


_MINUS_BEFORE = re.compile(  # the hyphen of a range is none
    r"(?:(?:^|(?<![\d%°])(?<!°[CF])\s|[(\[,;:~≈/|])[-−–]|\b(?:minus|negative)\s)$", re.IGNORECASE
)
_BELOW_ZERO_BEHIND = re.compile(
    r"\s?(?:(?:°|degrees?)\s?(?:celsius|centigrade|fahrenheit|[CF])?)?\s?below\s(?:zero|freezing)\b", re.IGNORECASE
)
_TEMPERATURES = frozenset(("celsius", "fahrenheit"))
_METRES_BEHIND = re.compile(r"\s?m\s(?:long|wide|high|tall|deep|thick|across|above|below)\b")
_BARE = frozenset((Kind.AMOUNT, Kind.COUNT))
_NOTHING_BEHIND = frozenset(["", *".,;:!?)]"])
"""What begins nothing that says more about the number before it."""


def number_quantities(numbers: Sequence[Number], text: str) -> Iterator[Quantity]:
    """What the numbers of a text may say with what stands behind them."""
    measured = {measure.number.start: measure for group in measures_in(numbers, text) for measure in group}
    tables = _tables_with_scales(text)
    for number in numbers:
        readings: set[Reading] = {(Kind.AMOUNT, amount) for amount in number.amounts}
        if number.is_decade or text[number.end : number.end + 1] not in _NOTHING_BEHIND:
            is_in_cents = number.digits and _CENTS_BEHIND.match(text, number.end)
            plain = () if is_in_cents else _plain_readings(number, text)
            readings = {*plain, *_conventional_readings(number, text)}
        if number.start in measured:
            measure = measured[number.start]
            own = {(Kind.AMOUNT_OF_MEASURE if kind in _BARE else kind, size) for kind, size in readings}
            is_open = number.scale and _METRES_BEHIND.match(text, number.digits_end) is None
            readings = own | readings if is_open else own  # "3.5m" may be millions
            readings |= {(measure.dimension, amount * measure.size) for amount in number.amounts}
        minus = _MINUS_BEFORE.search(text, max(number.start - 10, 0), number.start)
        if minus or _BELOW_ZERO_BEHIND.match(text, number.end):
            below = {(kind, -size) for kind, size in readings}
            is_sure = number.start in measured and measured[number.start].dimension in _TEMPERATURES
            readings = below if is_sure else readings | below  # "-18" alone may be the end of a range
        elif text[number.start - 1 : number.start] in _BEFORE_HOUR and len(number.digits) < _LONGEST_HOUR:
            readings = readings.union(_hour(number, text))
        if tables and not number.scale and not number.is_decade:
            scales = _scales_at(number, text, tables)
            readings = readings.union((Kind.AMOUNT, amount * scale) for amount in number.amounts for scale in scales)
        yield Quantity(number.start, number.end, frozenset(readings), _half_of_last_digit(number))


_SCALE_OF_TABLE = re.compile(
    rf"(?:(?<![\d.,])(?<!\d\s)(?:{CURRENCY_CODE}|[$€£])\s?(?P<scale>['’]?000|thousands?|millions?|billions?|mn?|mln|bn|k)"
    rf"|\bin\s(?:(?:{CURRENCY_CODE}|[$€£])\s?)?(?P<many>thousand|million|billion)s?(?:\sof\s[a-z\s]{{3,16}})?)"
    r"\s?(?=[|).,:;\]\n]|$)",
    re.IGNORECASE,
)
_CELL_BEFORE, _CELL_BEHIND = (
    re.compile(r"(?:^|[|\t\n])\s{0,16}[(+−–-]?\s?[$€£]?\s?$"),
    re.compile(r"\)?\s{0,16}(?:[|\t\n]|$)"),
)
_LONGEST_CELL_BEFORE, _LONGEST_CAPTION = 24, 200


def _is_row(line: str) -> bool:
    return "|" in line or "\t" in line


def _tables_with_scales(text: str) -> list[tuple[int, int, frozenset[int]]]:
    """Where tables stand, and what their bare numbers may have to be multiplied by: "| NOK m |", "in thousands"."""
    tables = list[tuple[int, int, frozenset[int]]]()
    if not _is_row(text):
        return tables
    before = end = 0
    for is_table, lines in groupby(text.split("\n"), _is_row):
        before, start, end = before if is_table else end, end, end + sum(len(line) + 1 for line in lines)
        found = _SCALE_OF_TABLE.finditer(text, max(start - _LONGEST_CAPTION, before), end) if is_table else ()
        names = [(match["scale"] or match["many"]).lower().strip("'’").removesuffix("s") for match in found]
        if names:
            tables.append((start, end, frozenset(ALL_SCALES.get(name, 1000) for name in names)))
    return tables


def _scales_at(number: Number, text: str, tables: Iterable[tuple[int, int, frozenset[int]]]) -> frozenset[int]:
    """What a number that is alone in the cell of a table may have to be multiplied by."""
    is_cell = _CELL_BEHIND.match(text, number.end) and _CELL_BEFORE.search(
        text, max(number.start - _LONGEST_CELL_BEFORE, 0), number.start
    )
    scales = (scales for start, end, scales in tables if start <= number.start < end)
    return next(scales, frozenset()) if is_cell else frozenset()


def _plain_readings(number: Number, text: str) -> Iterator[Reading]:
    """Its amounts, with a fraction behind it ("two and a half"), and the length of time that it counts."""
    part = _PART_BEHIND.match(text, number.end)
    more = _part_of(part[1]) if part else Decimal(0)
    unit = TIME_UNIT_BEHIND.match(text, part.end() if part else number.end)
    unit = unit or _TIME_UNIT_OF_RANGE.match(text, number.end)
    counts = not part and _COUNTED_BEHIND.match(text, number.end) is not None
    for amount in number.amounts:
        yield Kind.AMOUNT_OF_TIME if unit and not part else Kind.COUNT if counts else Kind.AMOUNT, amount
        if part:
            yield Kind.AMOUNT_OF_TIME, amount + more
        if part and _MEASURE_UNIT.match(text, part.end()):
            yield Kind.OTHER_AMOUNT, amount + more
        if unit:
            yield _duration(amount + more, unit[1])


def _conventional_readings(number: Number, text: str) -> Iterator[Reading]:
    """What else it may stand for: "60 cents" 0.60, "the 90s" 1990, the "3" of "3 to 5 million" three million."""
    end, digits = number.end, number.digits
    hundredths = _HUNDREDTHS_BEHIND.match(text, end)
    scale = None if number.scale or not digits else _SCALE_OF_RANGE.match(text, end)
    often = _TIMES_BEHIND.match(text, end)
    for amount in number.amounts:
        if hundredths or (_PENCE_BEHIND.match(text, end) and amount < _FEWEST_NO_PENCE):
            yield Kind.OTHER_AMOUNT, amount / 100
        if hundredths and hundredths["percent"]:
            yield Kind.PERCENT, amount / 100
        if scale:
            yield Kind.OTHER_AMOUNT, amount * LONG_SCALES[scale["scale"].lower()]
        if often:
            yield Kind.FOLD, amount
    if number.is_decade and _HUNDREDS.fullmatch(digits):
        yield Kind.CENTURY, Decimal(int(digits) // 100 + 1)
    if len(digits) == 2 and digits.isdecimal():
        if int(digits) in _CENTURIES and _CENTURY_BEHIND.match(text, end):
            yield Kind.CENTURY, Decimal(digits)
        is_the_decade = number.is_decade and _THE_BEFORE.search(text, max(number.start - 8, 0), number.start)
        if is_the_decade and int(digits) >= _OLDEST_DECADE and int(digits) % 10 == 0:
            yield Kind.OTHER_AMOUNT, Decimal(1900 + int(digits))


def _half_of_last_digit(number: Number) -> Decimal:
    """50,000 for "1.2 million"; 0 for numbers without a scale, which are exact."""
    if not number.scale or len(number.amounts) != 1 or not re.fullmatch(r"\d+(?:,\d{3})*(?:\.\d+)?", number.digits):
        return Decimal(0)
    written = Decimal(number.digits.replace(",", ""))
    exponent = written.as_tuple().exponent
    return number.amounts[0] / written * Decimal(10) ** int(exponent) / 2 if written else Decimal(0)


_MEASURE_UNITS = {
    "fahrenheit": r"1=(?:°\s?|degrees?\s)(?:f|fahrenheit)|fahrenheit|(?-i:F)",
    "celsius": r"1=(?:°\s?|degrees?\s)(?:c|celsius|centigrade)|celsius|(?-i:C)",
    "speed": r"""1.609344=mph|miles\s(?:per|an)\shour 3.6=m/s|met(?:er|re)s\s(?:per|a)\ssecond
        1=km/h|kmh|kph|kms?\s(?:per|an)\shour|kilomet(?:er|re)s\s(?:per|an)\shour""",
    "length": rf"""1609.344=miles?|mi 1000=kilomet(?:er|re)s?|kms? 0.3048=feet|foot|ft 0.9144=yards?|yds?
        0.0254=inch(?:es)?|in(?!\s+(?!(?:wide|long|high|tall|deep|thick|across|by|x)\b)\w) 0.001=millimet(?:er|re)s?|mm
        0.01=centimet(?:er|re)s?|cm 1=met(?:er|re)s?|m(?!\s(?:{_MONEY}|{_THINGS})\b)""",
    "mass": r"""453.59237=pounds?|lbs? 28.349523=ounces?|oz 1000=kilograms?|kilos?|kgs? 1=grams?|g
        0.001=milligrams?|mg 1000000=tonnes?""",
    "volume": r"""3.785412=gallons?|gal 0.001=millilit(?:er|re)s?|ml 0.01=centilit(?:er|re)s?|cl 1=lit(?:er|re)s?|l
        0.236588=cups? 0.004929=teaspoons?|tsp 0.014787=tablespoons?|tbsp 0.473176=pints? 0.946353=quarts?""",
    "area": r"""0.40468564=acres? 1=hectares?|ha 0.0001=m(?:\^?2|²)|sq\.?\s?m|square\smet(?:er|re)s?
        100=km(?:\^?2|²)|sq\.?\s?km|square\skilomet(?:er|re)s? 258.9988=sq\.?\s?mi|square\smiles?
        0.0000092903=ft(?:\^?2|²)|sq\.?\s?ft|square\s(?:feet|foot)""",
    "data": r"1=megabytes?|(?-i:MB) 1000=gigabytes?|(?-i:GB) 1000000=terabytes?|(?-i:TB)",
    "data-rate": r"1=(?-i:[Mm]bps|Mbit/s|Mb/s) 1000=(?-i:[Gg]bps|Gbit/s|Gb/s)",
    "frequency": r"1=kHz|kilohertz 1000=MHz|megahertz 1000000=GHz|gigahertz",
    "power": r"1=(?-i:W)|watts? 1000=kW|kilowatts? 1000000=(?-i:MW)|megawatts?",
}
"""Dimensions, and how each of their units is written behind a number, with its size in the dimension's base unit.

The letter of "5m" may be millions, and surely is where money or people follow.
"""
_SIZED_UNITS = [
    (dimension, Decimal(size), pattern)
    for dimension, units in _MEASURE_UNITS.items()
    for size, pattern in (unit.split("=") for unit in units.split())
]
_UNIT_END = (
    r"\.?(?!\w|\^|\s?/\s?(?!(?:day|week|serving|portion|person)\b)[a-z]"
    r"|\s(?:per|an?)\s(?:second|sec|minute|min|hour|h)\b)"
)
"""A unit is not that of a rate, as in "mg/dl"; a dose per day counts as the dose."""
_ANY_UNIT = rf"[\s-]?(?:{'|'.join(unit for _, _, unit in _SIZED_UNITS)}){_UNIT_END}"
_MEASURE_UNIT = re.compile(
    rf"[\s-]?(?:{'|'.join(f'(?P<_{index}>{unit})' for index, (_, _, unit) in enumerate(_SIZED_UNITS))}){_UNIT_END}",
    re.IGNORECASE,
)

_RANGE = re.compile(r"\s?(?:[-–]|to|and)\s?", re.IGNORECASE)
_AGAIN = re.compile(
    r"\s?(?:[(\[/]|,?\sor)\s?(?:(?:about|around|approximately|approx\.?|roughly|or)\s|[~≈])?", re.IGNORECASE
)
_RELATIVE_ERROR = Decimal("0.05")
_DEGREES_ERROR, _RELATIVE_DEGREES_ERROR = Decimal(1), Decimal("0.02")
_CURRENCY_BEFORE = re.compile(r"(?:[$€£¥₹]|\b(?-i:USD|EUR|GBP|CHF))\s?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with the unit behind it, whose ``size`` is that in the base unit; ``end`` is the unit's."""

    number: Number
    end: int
    dimension: str
    size: Decimal


def measures_in(numbers: Iterable[Number], text: str) -> Iterator[list[Measure]]:
    """The measures of a text, ascending, those of a range together: "60-75°F"; no unit follows money."""
    waiting: list[Number] = []
    for number in numbers:
        if waiting and _RANGE.fullmatch(text, waiting[-1].end, number.start) is None:
            waiting.clear()
        waiting = [*waiting[-1:], number]
        # The letter of "3 m" is a unit, though it may mean millions.
        unit = unit_at(text, number.end) or (unit_at(text, number.digits_end) if number.scale else None)
        if unit is not None:
            if _CURRENCY_BEFORE.search(text, max(waiting[0].start - 4, 0), waiting[0].start) is None:
                yield [Measure(measured, *unit) for measured in waiting]
            waiting = []


def unit_at(text: str, position: int) -> tuple[int, str, Decimal] | None:
    """Where the unit ends that stands there, its dimension and its size."""
    unit = None if text[position : position + 1] in _NOTHING_BEHIND else _MEASURE_UNIT.match(text, position)
    if unit is None:
        return None
    dimension, size, _ = _SIZED_UNITS[int((unit.lastgroup or "_0")[1:])]
    return unit.end(), dimension, size


_BEFORE_HOUR = frozenset(" -–—")
_LONGEST_HOUR, _LONGEST_HOUR_BEFORE = 6, 32
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)s?(?:[a-z]{0,5}days?)?"
_SPOKEN_HOUR = rf"(?:\d{{1,2}}(?:[:.]\d\d)?|{'|'.join(SMALL_NUMBER_WORDS[:12])})(?:\s?[ap]\.?m\.?)?"
_TO_HOUR = r"(?:\s?[-–—]\s?|\s(?:to|until|till|and)\s)"
_HOUR_BEFORE = re.compile(
    r"\b(?:(?:at|until|till|by)\s"
    rf"|(?:from|between|opens?|{_WEEKDAY}[.,:]?)\s(?:{_SPOKEN_HOUR}{_TO_HOUR})?)$",
    re.IGNORECASE,
)
_HOUR_BEHIND = re.compile(
    rf"(?:{_TO_HOUR}{_SPOKEN_HOUR})?\s?"
    rf"(?:$|[;)\n]|[.,:](?!\d)|(?:on|every|each|daily|in\sthe|and(?!\s\d)|{_WEEKDAY}|week(?:day|end)s?)\b)",
    re.IGNORECASE,
)
_DOTTED_BEFORE = re.compile(rf"(?:^|[^$€£¥\d.,])\b\d{{1,2}}\.\d\d{_TO_HOUR}$", re.IGNORECASE)
_DOTTED_BEHIND = re.compile(rf"{_TO_HOUR}\d{{1,2}}\.\d\d(?!\d|[.,]\d)", re.IGNORECASE)
_NO_CLOCK_BEHIND = re.compile(
    rf"[%‰°$€£¥₹/×*+=]|\s?(?:(?:{_MONEY_NAME}|{CURRENCY_CODE}|per(?:\s?cent)?|times|x|points?|out|{ANY_SCALE})\b|{_TIME_UNIT})"
    rf"|{_ANY_UNIT}|\s(?!{_WEEKDAY}\b)(?:{_THINGS})(?<!ss)\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?P<hour>\d\d?)(?:(?P<minute>\d\d)\s?h(?:ou)?rs?\b|\.(?P<dotted>\d\d)|\s?h(?P<behind_h>\d\d)?)?(?!\w|[.,]\d)",
    re.IGNORECASE,
)


def _hour(number: Number, text: str) -> Iterator[Reading]:
    """The hour that it may be, by the words around it: "from 9 to 7", "at 14.00 (English)", "10.00-18.00".

    A bare one has nothing behind it that it may count; one with minutes or "h" only must be no price or measure.
    """
    start, end = max(number.start - _LONGEST_HOUR_BEFORE, 0), number.end
    clock = _CLOCK.match(text, number.start) if number.digits else None
    if number.scale or (clock is None and text[number.start : end].lower() not in SMALL_NUMBER_WORDS):
        return
    hour = int(clock["hour"]) if clock else int(number.amounts[0])
    minute = sum(int(minute) for minute in clock.groups()[1:] if minute) if clock else 0
    if clock and clock.end() > clock.end("hour"):
        may_be = not _NO_CLOCK_BEHIND.match(text, clock.end())
    else:
        may_be = _HOUR_BEHIND.match(text, end) is not None
    if may_be and 0 < hour <= _LAST_HOUR and minute < 60:
        is_range = (
            clock
            and clock["dotted"]
            and (_DOTTED_BEHIND.match(text, end) or _DOTTED_BEFORE.search(text, start, number.start))
        )
        if is_range or _HOUR_BEFORE.search(text, start, number.start):
            yield from _clock_times(hour, minute)


def conversions_in(numbers: Iterable[Number], text: str) -> Iterator[tuple[Number, Number]]:
    """The numbers of measures that are given in two units, each with its conversion, ascending.

    The second measure stands in brackets, behind a slash or behind "or". Both may be ranges: "60-75°F (15-24°C)". They
    must agree as people round: lengths, weights and the like to 5% or to the last written digit, temperatures to one
    degree Celsius and 2%.
    """
    for first, second in pairwise(measures_in(numbers, text)):
        is_again = _AGAIN.fullmatch(text, first[-1].end, second[0].number.start) is not None
        if is_again and len(first) == len(second) and all(map(_agree, first, second)):
            yield from ((own.number, other.number) for own, other in zip(first, second, strict=True))


def _agree(first: Measure, second: Measure) -> bool:
    """Whether any reading of the first measure is one of the second in another unit."""
    if first.dimension == "celsius":
        first, second = second, first
    pairs = [(amount, other) for amount in first.number.amounts for other in second.number.amounts]
    if (first.dimension, second.dimension) == ("fahrenheit", "celsius"):
        exact = [((amount - 32) * 5 / 9, other) for amount, other in pairs]
        return any(abs(size - other) <= _DEGREES_ERROR + _RELATIVE_DEGREES_ERROR * abs(size) for size, other in exact)
    if first.dimension != second.dimension or first.size == second.size:
        return False
    sizes = [(amount * first.size / second.size, written) for amount, written in pairs]
    return any(
        abs(size - written) <= max(_RELATIVE_ERROR * size, Decimal(10) ** int(written.as_tuple().exponent) / 2)
        for size, written in sizes
    )


_LARGE_COUNT = r"(?:\d{1,3}(?:,\d{3})+|1000+|\d{3}|an?\s(?:thousand|million))"
_SMALL_COUNT = r"(?:\d{1,2}|100|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|a\s+hundred)"
_NUMBER_GOES_ON = rf"[.,:'’]\d|\s?%|\s?-?{ANY_SCALE}"
"""What says that the digits before it are not a whole count: "5,000", "5.2", "5 million", "5%"."""
_DETERMINER = r"(?:the|its|their|his|her|our|these|those|all)\s"
_AMONG = rf"(?:(?:in|out\sof)\s(?:every\s)?|of\s{_DETERMINER})"
_FEW = rf"(?:\d{{1,3}}|an?|{'|'.join(SMALL_NUMBER_WORDS)})"
_PART_NAMES = ("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
PARTS = {"half": 2, "halve": 2, "quarter": 4} | {name: parts for parts, name in enumerate(_PART_NAMES, start=3)}
_OF = r"(?:\sof)?[\s-](?:(?:an?|one)[\s-])?"
OF_ONE = re.compile(r"(?:\sof)?\s(?:an?|one)(?=\s)", re.IGNORECASE)
_POINT_BEHIND = re.compile(r"(?:percentage[\s-]|per\s?cent(?:age)?\s?)?(?:point|per\s?cent)\b", re.IGNORECASE)
PERCENT_BEHIND = re.compile(r"\s?(?:%|per\s?cent\b|percentage\s+points?\b)", re.IGNORECASE)
_SHARED_BEHIND = re.compile(rf"\sof\s(?:{_DETERMINER}(?!{_TIME_UNIT}|time\b|way\b)(?-i:[a-z])|them\b)", re.IGNORECASE)
_INEXACT_BEFORE = re.compile(
    r"\b(?:than|over|under|above|below|least|most|to|second|last|other|another|latter|later|final|former|remaining"
    r"|early|upper|lower|(?:the|this|that|each)\s\w+)\s(?:an?\s)?$",
    re.IGNORECASE,
)
_LONGEST_BEFORE = 24
_AND_BEFORE = re.compile(r"\band\s$", re.IGNORECASE)
_SIGNS = {"½": "0.5", "¼": "0.25", "¾": "0.75", "⅓": "0.33", "⅔": "0.67"}
_UNTOLD = {"few", "several", "many", "some", "couple"}
_LAST_HOUR, _LAST_MONTH = 24, 12
_FOLDS = {"halved": 0.5, "halving": 0.5, "twice": 2, "doubled": 2, "doubling": 2, "doubles": 2, "twofold": 2}
_FOLDS |= {"thrice": 3, "tripled": 3, "tripling": 3, "triples": 3, "threefold": 3, "quadrupled": 4, "fourfold": 4}
_FOLDS |= {"fivefold": 5, "tenfold": 10}
_LONG_UNIT = (
    r"(?:(?:tea|table)spoon|cup|kilo(?:gram|met(?:er|re))?|gram|pound|ounce|tonne|lit(?:er|re)|gallon|pint|quart|mile"
    r"|met(?:er|re)|yard|foot|inch|acre|hectare|(?:mega|giga|tera)byte)(?!\w|\s(?:per|an?)\s)"
)
_TIME_HINTS = "sec|min|hour|hr|day|week|fortnight|month|year|yr|decade|centur"

_Read: TypeAlias = Callable[[re.Match[str]], Iterator[Reading]]
_PHRASES: list[tuple[tuple[str, ...], re.Pattern[str], re.Pattern[str], _Read]] = []


def _phrase(hints: str, pattern: str, *, core: str = "") -> Callable[[_Read], _Read]:
    """Marks what a match of the pattern says; its group "at", where it has one, is what says it.

    Only texts with one of the hints, and in lower case a match of the ``core``, are searched, which saves most
    searches.
    """

    def register(read: _Read) -> _Read:
        _PHRASES.append((tuple(hints.split("|")), re.compile(core), re.compile(pattern, re.IGNORECASE), read))
        return read

    return register


def comparable(quantity: Quantity, text: str) -> Iterator[Reading]:
    """What may be set off against another of its kind: lengths of time, measures, money and percentages."""
    before = MONEY_BEFORE.search(text, max(quantity.start - 4, 0), quantity.start)
    money = before or _MONEY_BEHIND.match(text, quantity.end)
    sign = "%" if PERCENT_BEHIND.match(text, quantity.end) else money[1].lower()[:4] if money else ""
    for kind, size in quantity.readings:
        if kind in _BARE and sign:
            yield sign, size
        elif kind in (Kind.SECONDS, Kind.MONTHS) or not isinstance(kind, Kind):
            yield kind, size


def is_inexact(text: str, start: int) -> bool:
    """Whether the words before a phrase say that more, less or another part is meant: "more than half", "the other"."""
    return _INEXACT_BEFORE.search(text, max(start - _LONGEST_BEFORE, 0), start) is not None


@remembered
def phrases_in(text: str) -> tuple[Quantity, ...]:
    """What a text says in other ways than by one number: "a dozen", "two thirds", "half a million"."""
    lowered, phrases = text.lower(), list[Quantity]()
    for hints, core, pattern, read in _PHRASES:
        if not any(map(lowered.__contains__, hints)) or not core.search(lowered):
            continue
        for match in pattern.finditer(text):
            readings = frozenset(read(match))
            if readings:
                scale = match.groupdict().get("scale")
                within = worded_amount(scale) / 20 if scale else Decimal(0)
                phrases.append(Quantity(*match.span("at" if "at" in pattern.groupindex else 0), readings, within))
    return tuple(phrases)


@_phrase(
    "half|halves|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth",
    rf"(?P<at>\b(?:(?P<count>a|an|one|two|three|four|five|six|seven|eight|nine)[\s-])?\b(?P<part>{'|'.join(PARTS)})s?\b"
    rf"(?:{_OF}(?P<scale>{SCALE_WORD})\b)?)(?:{_OF})?",
)
def _part(match: re.Match[str]) -> Iterator[Reading]:
    """A fraction in words, and what it is one of: "two thirds", "half an hour", "half a million", "half a litre"."""
    count, name, text, end = (match["count"] or "").lower(), match["part"].lower(), match.string, match.end()
    many, parts = _count_of(count or "a"), PARTS[name]
    is_whole = text[match.end("at") : end].strip()  # "and half an hour"
    is_added = not is_whole and _AND_BEFORE.search(text, max(match.start() - 4, 0), match.start()) is not None
    if is_added and match["scale"]:
        return
    if count or parts == 2:
        yield from _percent(100 * many / parts)
        is_share = parts > 2 and _SHARED_BEHIND.match(text, match.end("at"))  # a half may be a median or one side
        if is_share and not is_inexact(text, match.start()):
            yield Kind.SHARE, 100 * many / parts
    if count not in ("", "a", "an"):
        yield Kind.AMOUNT, many
    if is_added or not (count or name in ("half", "quarter")):
        return
    share = (many / parts).quantize(Decimal("0.01"))
    time, unit = TIME_UNIT_BEHIND.match(text, end), unit_at(text, end)
    if match["scale"]:
        yield Kind.OTHER_AMOUNT, many * worded_amount(match["scale"]) / parts
    elif time:
        kind, size = _duration(many, time[1])
        yield kind, size / parts
    elif _POINT_BEHIND.match(text, end):
        yield from ((Kind.OTHER_AMOUNT, share), (Kind.PERCENT, share))
    elif unit:
        yield from ((Kind.OTHER_AMOUNT, share), (unit[1], many * unit[2] / parts))


@_phrase("and a half", rf"\b(\w+)\s+and\s+a\s+half\s+(?P<scale>{SCALE_WORD})\b")
def _scale_and_a_half(match: re.Match[str]) -> Iterator[Reading]:
    if match[1].lower() in NUMBER_WORDS or match[1].isdecimal():
        yield Kind.OTHER_AMOUNT, (_count_of(match[1]) + Decimal("0.5")) * worded_amount(match["scale"])


@_phrase(
    f"{_TIME_HINTS}|spoon|cup|kilo|gram|pound|ounce|tonne|lit|gallon|pint|quart|mile|met|yard|foot|inch|acre|hect|byte",
    rf"\b(?<!half\s)(?<!of\s)(?:an?|one)(?P<unit>\s+(?:{_TIME_UNIT}|{_LONG_UNIT}))(?:\s+and\s+{_PART_WORDS})?",
    core=rf"(?:a|an|one)\s+(?:{_TIME_UNIT}|{_LONG_UNIT})",
)
def _one(match: re.Match[str]) -> Iterator[Reading]:
    """One of a unit: "an hour and a half", "a kilogram"."""
    yield from _sized(1 + (_part_of(match[2]) if match[2] else Decimal(0)), match.string, match.start("unit"))


@_phrase(
    _TIME_HINTS + "|h",
    rf"\b({_FEW})[\s-]?(h|{_TIME_UNIT}),?\s?(?:and\s)?({_FEW})[\s-]?(m|{_TIME_UNIT})(?!\w)",
    core=rf"(?:h|{_TIME_UNIT}),?\s?(?:and\s)?{_FEW}[\s-]?(?:m|{_TIME_UNIT})(?!\w)",
)
def _joint_duration(match: re.Match[str]) -> Iterator[Reading]:
    (kind, amount), (other_kind, rest) = (
        _duration(_count_of(number), {"h": "hour", "m": "minute"}.get(name.lower(), name))
        for number, name in (match.group(1, 2), match.group(3, 4))
    )
    if kind == other_kind and rest < amount:
        yield kind, amount + rest


@_phrase(
    " in | of ",
    rf"\b({_SMALL_COUNT})(?:\s[a-z]+)?\s{_AMONG}({_LARGE_COUNT}|{_SMALL_COUNT})\b"
    rf"(?!{_NUMBER_GOES_ON}|[\s-]?{_TIME_UNIT})",
    core=rf"\s{_AMONG}(?:{_LARGE_COUNT}|{_SMALL_COUNT})\b",
)
def _share_of_count(match: re.Match[str]) -> Iterator[Reading]:
    some, everything = map(_count_of, match.groups())
    if 0 < some < everything:
        yield from _percent(100 * some / everything)
        yield Kind.SHARE, 100 * some / everything


@_phrase("dozen", r"(?:(?<![\d.,])\b(half(?:[\s-]a)?|\d{1,3}|[a-z]+)[\s-])?\bdozen\b")
def _dozen(match: re.Match[str]) -> Iterator[Reading]:
    count = (match[1] or "a").lower()
    if count not in _UNTOLD:
        yield Kind.OTHER_AMOUNT, Decimal(6) if count.startswith("half") else 12 * (_count_of(count) or Decimal(1))


@_phrase("19|20", r"((?:19|20)\d\d)(?<![\d/.,$€£–-]\d{4})\s?([/–-])\s?(?P<at>\d\d)(?!\d|[.,]\d|\s?[/–-]\s?\d)")
def _season(match: re.Match[str]) -> Iterator[Reading]:
    """The second year of "2024/25"; "2011-12" may be a month."""
    ending, written = int(match[1]) + 1, int(match["at"])
    if ending % 100 == written and (match[2] != "-" or written > _LAST_MONTH):
        yield Kind.OTHER_AMOUNT, Decimal(ending)


@_phrase("ties", r"\bthe\s(?:early\s|mid-|late\s)?(?P<at>(twen|thir|for|fif|six|seven|eigh|nine)ties)\b")
def _decade_in_words(match: re.Match[str]) -> Iterator[Reading]:
    yield Kind.OTHER_AMOUNT, 1900 + worded_amount(f"{match[2]}ty")


@_phrase("fy", r"\bFY\s?'?(?P<at>\d\d)(?!\d)")
def _fiscal_year(match: re.Match[str]) -> Iterator[Reading]:
    year = int(match["at"])
    yield Kind.OTHER_AMOUNT, Decimal((1900 if year >= OLDEST_SHORT_YEAR else 2000) + year)


@_phrase(
    "/|⁄",
    r"(?<![\d/.,])(?:(\d{1,2})\s)?([1-9])\s?"
    rf"(?:⁄|/(?:(?<=\d\s\d/)|(?=\s?\d(?:\sof)?(?:\san?)?(?:{_ANY_UNIT}|[\s-]?{_TIME_UNIT}))))\s?([2-8])(?![\d/⁄]|[.,]\d)",
)
def _fraction(match: re.Match[str]) -> Iterator[Reading]:
    """A mixed number, exact if it has at most three digits behind the point, else with two."""
    whole, part, parts = (int(group or 0) for group in match.groups())
    if part < parts:
        exact = whole + Decimal(part) / parts
        short = exact.quantize(Decimal("0.001"))
        amount = short if short == exact else exact.quantize(Decimal("0.01"))
        is_in_percent = PERCENT_BEHIND.match(match.string, match.end())
        yield Kind.PERCENT if is_in_percent else Kind.OTHER_AMOUNT, amount
        yield from _sized(exact, match.string, match.end())


@_phrase("½|¼|¾|⅓|⅔", r"(?<![\d/.,])(?:(\d{1,2})\s?)?([½¼¾⅓⅔])")
def _fraction_sign(match: re.Match[str]) -> Iterator[Reading]:
    amount = int(match[1] or 0) + Decimal(_SIGNS[match[2]])
    yield Kind.OTHER_AMOUNT, amount
    yield from _sized(amount, match.string, match.end())


def _sized(amount: Decimal, text: str, end: int) -> Iterator[Reading]:
    """What an amount is in the unit that stands there, if one does: "½ tsp", "1/2 of an hour"."""
    part = OF_ONE.match(text, end)
    end = part.end() if part else end
    time, unit = TIME_UNIT_BEHIND.match(text, end), unit_at(text, end)
    if time:
        yield _duration(amount, time[1])
    elif unit:
        yield unit[1], amount * unit[2]


@_phrase("half past|quarter", r"\b(half|quarter)\s+(past|to)\s+(\w+)")
def _hour_in_words(match: re.Match[str]) -> Iterator[Reading]:
    part, side = match[1].lower(), match[2].lower()
    hour = int(match[3]) if match[3].isdecimal() else int(worded_amount(match[3]))
    if 0 < hour <= 24 and (part, side) != ("half", "to"):
        minutes = 30 if part == "half" else 15 if side == "past" else 45
        hour = hour if side == "past" else (hour - 1 or 12)
        yield Kind.OTHER_AMOUNT, Decimal(hour) + Decimal(minutes) / 100
        yield from _clock_times(hour, minutes)


@_phrase("|".join(_FOLDS), rf"\b(?:{'|'.join(_FOLDS)})\b")
def _fold(match: re.Match[str]) -> Iterator[Reading]:
    yield Kind.FOLD, Decimal(_FOLDS[match[0].lower()])


@_phrase(
    "%|percent|per cent",
    r"(?:\b(?:(?P<up>ris\w+|rose|gr[eo]w\w*|increas\w+|climb\w*|up)|f[ae]ll\w*|drop\w*|declin\w+|decreas\w+|reduc\w+"
    r"|cut\w*|shr[aiu]nk\w*|down)\s(?:by\s)?|(?<![\w.,%°)+–-])(?:(?P<plus>\+)|[-−–]))"
    r"(?P<share>\d+(?:\.\d+)?)\s?(?:%|per\s?cent\b)(?!\spoint)",
    core=r"\d\s?(?:%|per)",
)
def _changed_by(match: re.Match[str]) -> Iterator[Reading]:
    """What grows by 100% is twice as much; a table has the sign of a change."""
    share = Decimal(match["share"]) / 100
    sign = 1 if match["up"] or match["plus"] else -1
    yield Kind.FOLD, 1 + sign * share
    yield f"{CHANGE}{share.normalize():f}", Decimal(sign)


@_phrase(
    "full",
    r"\b(?:full(?=\s(?:pay|salary|wages?|prices?|refunds?|amounts?|costs?|fees?|fares?|deposits?|coverage|value)\b)"
    r"|fully(?=\s(?:paid|refund|reimburs|cover|funded))|in\sfull\b)",
)
def _in_full(_: re.Match[str]) -> Iterator[Reading]:
    yield Kind.PERCENT, Decimal(100)


@_phrase("clock|24", r"\b(?:(?:a)?round[\s-]the[\s-]clock|24/7|24-hour|24\shours\s(?:a|per|each|every)\sday)(?!\w|/)")
def _all_day(_: re.Match[str]) -> Iterator[Reading]:
    yield Kind.HOURS_A_DAY, Decimal(24)


CHANGE, RATE = "change by ", "rate of "
"""What the kinds of a change and of a rate begin with; the amount follows."""
_QUARTERS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_A_WEEK: dict[str, float] = {"hour": 168, "day": 7, "dai": 7, "night": 7, "week": 1, "wk": 1, "fortnight": 0.5}
_A_YEAR: dict[str, float] = {"month": 12, "mo": 12, "quarter": 4, "semi-annual": 2, "year": 1, "yr": 1, "annual": 1}
_A_YEAR |= {"annum": 1}
_PERIODS = "|".join(_A_WEEK | _A_YEAR)
_EACH = rf"(?:(?P<each>every|each|per|an?)\s(?:(?P<step>other|second|{_FEW})[\s-])?|(?<=\w)(?<!day)/\s?)"
_RATE_BEFORE = re.compile(
    rf"(?P<amount>\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join(SMALL_NUMBER_WORDS)}))(?:[\s-]?[^\W\d]{{1,12}})?\s?$",
    re.IGNORECASE,
)
_LONGEST_RATE = 24
_WEEKS_A_YEAR = 52


@_phrase(
    "ly|annual|every |each |per |once|twice|thrice|times|days| a |/",
    rf"\b(?:(?P<count>once|twice|thrice|{_FEW}(?=\s?x\b|[\s-](?:times|days?)\b))(?:\s?x|[\s-](?:times|days?))?\s(?:in\s)?)?"
    rf"(?:{_EACH}(?=(?:{_PERIODS})s?\b))?(?P<period>{_PERIODS})(?:(?P<ly>ly|(?<=annual))|s)?\b(?!\sof\san\b)",
    core=rf"(?:{_PERIODS})(?:ly|(?<=annual))\b|(?:every|each|per|an?|/)\s?(?:\w+[\s-])?(?:{_PERIODS})",
)
def _frequency(match: re.Match[str]) -> Iterator[Reading]:
    """So many times in so many periods: "every three months", "twice a week"; "a week" alone says how long.

    Behind an amount, as in "$40 a month" and "$40/mo", it says of which amount it is the rate.
    """
    count, each, step, period = ((match[name] or "").lower() for name in ("count", "each", "step", "period"))
    is_slash = match["each"] is None and "/" in match[0]
    at = max(match.start() - _LONGEST_RATE, 0)
    rate = None if count or step or not (each or is_slash) else _RATE_BEFORE.search(match.string, at, match.start())
    if match["ly"] is None and not is_slash and not (each and (count or rate or not each.startswith("a"))):
        return
    times = Decimal(_FOLDS[count]) if count in _FOLDS else _count_of(count) or Decimal(1)
    periods = Decimal(2) if step == "other" else _count_of(step) or Decimal(1)
    is_weekly = period in _A_WEEK
    size = times * Decimal(_A_WEEK[period] if is_weekly else _A_YEAR[period]) / periods
    yield Kind.TIMES_A_WEEK if is_weekly else Kind.TIMES_A_YEAR, size
    a_year = size * _WEEKS_A_YEAR if is_weekly else size
    if rate and each != "every":
        written = rate["amount"].replace(",", "")
        amount = worded_amount(written) if written.isalpha() else Decimal(written)
        yield f"{RATE}{amount.normalize():f}", a_year
    elif (count or each == "every" or match["ly"]) and period != "hour":
        yield Kind.OFTEN, a_year


@_phrase(
    "quarter|q1|q2|q3|q4|1q|2q|3q|4q", rf"\b(?:Q([1-4])\b|([1-4])Q(?![a-z])|({'|'.join(_QUARTERS)})[\s-]quarter\b)"
)
def _quarter(match: re.Match[str]) -> Iterator[Reading]:
    written = match[1] or match[2]
    yield Kind.QUARTER, Decimal(written or _QUARTERS[match[3].lower()])


def _clock_times(hour: int, minute: int) -> Iterator[Reading]:
    """A time of day; one before noon may also lie after it."""
    at = hour * 60 + minute
    yield from ((Kind.PERHAPS_MINUTE, Decimal(minute)) for minute in ((at, at + HALF_DAY) if at < HALF_DAY else (at,)))


def _percent(share: Decimal) -> Iterator[Reading]:
    """A share in percent, cut to a whole number and rounded to up to three digits behind the point."""
    sizes = {share // 1, *(share.quantize(Decimal(1).scaleb(-places)) for places in range(4))}
    yield from ((Kind.PERCENT, size) for size in sizes if size)


def _part_of(words: str) -> Decimal:
    """What "a half", "a quarter" and "three quarters" amount to, 0.5, 0.25 and 0.75."""
    return Decimal("0.5") if "half" in words.lower() else Decimal("0.75" if "three" in words.lower() else "0.25")


def _count_of(word: str) -> Decimal:
    if word.replace(",", "").isdecimal():
        return Decimal(word.replace(",", ""))
    return Decimal(1) if word.lower() in ("a", "an") else worded_amount(word)
