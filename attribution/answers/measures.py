"""Measures in running text, and pairs of them that say the same in two units: "350°F (175°C)", "10 miles (16 km)"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from attribeam.attribution.answers.numbers_and_dates import NUMBER, amounts, fraction_of, worded_amount, worded_numbers
from attribeam.attribution.answers.plain_text import plain_text

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
