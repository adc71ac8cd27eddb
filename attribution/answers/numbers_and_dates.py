"""Numbers and dates of running text in canonical form, so that two texts are compared as sets.

A reading is a kind and a size in the kind's base unit: "half a litre" and "500 ml" are ("volume", 0.5), "two weeks" and
"14 days" ("seconds", 1209600), "5 PM" and "17:00" ("minute of the day", 1020). What may be read in two ways has two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS = {name: index for index, name in enumerate(_MONTH_NAMES, start=1)}
MONTHS |= {name[:3]: index for name, index in MONTHS.items()} | {"sept": 9}

SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "mln": 10**6, "b": 10**9, "bn": 10**9, "bln": 10**9, "tn": 10**12}
_LONG_SCALES = {name: size for name, size in (SCALES | _SHORT_SCALES).items() if name not in ("k", "m", "b")}
"""What "million", "bn" and the like behind a number multiply it by, without the single letters."""
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL_NUMBER_WORDS = (*_SMALL, *_TENS)
_NUMBER_WORDS = (
    {name: value for value, name in enumerate(_SMALL)}
    | {name: value for value, name in enumerate(_ORDINALS, start=1)}
    | {name: 10 * value for value, name in enumerate(_TENS, start=2)}
    | {f"{name[:-1]}ieth": 10 * value for value, name in enumerate(_TENS, start=2)}
    | SCALES
)

_CURRENCY = r"[$€£¥₹₩₽¢]"
_SHORT_MONTHS = ("sept", *(name[:3] for name in _MONTH_NAMES if name != "may"))
_MONTH = rf"(?:(?:{'|'.join(_MONTH_NAMES)})\b|(?:{'|'.join(_SHORT_MONTHS)})\b(?:\.(?=,?\s+\d))?)"
"""A full stop belongs to a short form that more of the date follows; else it ends a sentence."""
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_CURRENCY_CODE = (
    r"(?:AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KES|KRW|MXN|MYR|NGN|NOK|NZD"
    r"|PHP|PKR|PLN|RMB|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR)"
)
_UNIT_SIGN = (
    r"(?:[kMGT]?(?:Hz|W|Wh|V|J|N|Pa|B|bit|bps|eV)|[KMGT]iB|KB|KM|[kcm]?m[²³23]?|m?Ah?|hPa|[kmµ]?g|[mc]?[lL]|kcal|dB|°?[CFK]"
    r"|Nm|[Mm]ph|MPH|[AaPp]\.?[Mm]\.?)"
)
_UNIT = (
    r"(?:[%‰]|°\s?[CF]\b|(?:per\s?cent|percentage points?|degrees?(?:\s(?:celsius|fahrenheit))?"
    r"|dollars?|euros?|pounds?|yen|rupees?|cents?|years?|months?|weeks?|days?|hours?|minutes?|seconds?"
    r"|km²|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|inch(?:es)?|cm|mm|kg|kilograms?|grams?|tons?|tonnes?"
    rf"|hectares?|acres?|people|inhabitants)\b|(?-i:{_UNIT_SIGN}|{_CURRENCY_CODE})(?!\w))"
)
_DIGITS = r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’]\d+)*"
_SCALE = r"(?:" + "|".join((*SCALES, *_SHORT_SCALES)) + r")\b"

DATE = re.compile(
    rf"(?<!\w)(?:{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?|{_MONTH},?\s+\d{{4}}"
    r"|\d{4}-\d{2}-\d{2}|(?<!\d\.)(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.[12]\d{3}(?!\.?\d))(?!\w)",
    re.IGNORECASE,
)
NUMBER = re.compile(rf"(?P<digits>{_DIGITS})(?:\s?-?(?P<scale>{_SCALE}))?(?P<decade>s\b)?", re.IGNORECASE)
QUANTITY = re.compile(
    rf"(?<![^\W\u3400-\u9fff])(?<![.,]){_CURRENCY}?\s?(?:{_DIGITS})(?:[:/–-]\d+)*(?:st|nd|rd|th|s)?(?:\s?-?{_SCALE})?(?:\s?-?{_UNIT})?",
    re.IGNORECASE,
)
_ANY_NUMBER_WORD = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
_SCALE_WORD = "|".join(SCALES)
_LESS_THAN_HUNDRED = rf"(?!{_SCALE_WORD})(?:{_ANY_NUMBER_WORD})(?:[\s-]+(?!{_SCALE_WORD})(?:{_ANY_NUMBER_WORD}))?"
_AND = (
    rf"(?:(?<=hundred)\s+and\s+(?!{_LESS_THAN_HUNDRED}[\s-]+hundred\b)"
    rf"|(?:{'|'.join(f'(?<={scale})' for scale in SCALES if scale != 'hundred')})"
    rf"\s+and\s+(?!{_LESS_THAN_HUNDRED}[\s-]+(?:{_SCALE_WORD})\b))(?!{_SCALE_WORD})"
)
_WORDED_NUMBER = re.compile(
    rf"(?<!\d)(?<!\d[\s-])\b(?:{_ANY_NUMBER_WORD})(?:(?:{_AND}|[\s-]+)(?:{_ANY_NUMBER_WORD}))*\b",
    re.IGNORECASE,
)
ISO_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
DOTTED_DATE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\.?\d)")
SLASHED_DATE = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(?:19|20)\d\d(?![\d/])")
"""Day and month in either order."""
VERSION = re.compile(r"(?<![\d.,])\d+(?:\.\d+){2,}(?![\d]|[.,]\d)")
GROUPED_NUMBER = re.compile(r"\d{1,3}(?:\.\d{3})+")
UNIT_BESIDE_NUMBER = re.compile(
    rf"(?:(?:\d|\b(?:{_ANY_NUMBER_WORD}))(?:\s?(?:{_SCALE_WORD}|bn|mn))?[\s-]?|[°º]\s?)(?P<unit>{_CURRENCY_CODE}|{_UNIT_SIGN})(?!\w)"
    rf"|(?<!\w)(?P<code>{_CURRENCY_CODE})(?=\s?\d)"
)

_LETTERS = re.compile(r"[a-z]+", re.IGNORECASE | re.ASCII)
_DIGITS_IN_WORD, _LONGEST_NUMBER = re.compile(r"\d+"), 40


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a text.

    Attributes:
        start, end: where it stands, with the word of its scale.
        amounts: what it may amount to; "1.234" is read both ways, and "5m" may be 5 or 5,000,000.
        digits: as they are written, "" for a number in words.
        digits_end: where they end.
        scale: what stands behind the digits, in lower case, such as "million" or "k".
        is_decade: whether it is one, as "1990s" is.
    """

    start: int
    end: int
    amounts: tuple[Decimal, ...]
    digits: str = ""
    digits_end: int = 0
    scale: str = ""
    is_decade: bool = False


def numbers_in(text: str) -> list[Number]:
    """The numbers of a text, ascending; those of "4.8.2" are 4 and 4.8."""
    found = [Number(*match.span(), (worded_amount(match.group()),)) for match in worded_numbers(text)]
    found += map(_number, NUMBER.finditer(text))
    return sorted(found, key=lambda number: number.start)


def _number(match: re.Match[str]) -> Number:
    digits, scale = match["digits"], (match["scale"] or "").lower()
    values = _read_digits(digits)
    if scale in SCALES:
        values = tuple(value * SCALES[scale] for value in values)
    elif scale:
        values = (*values, *(value * _SHORT_SCALES[scale] for value in values))
    return Number(*match.span(), values, digits, match.end("digits"), scale, match["decade"] is not None)


def numbers_in_word(word: str) -> frozenset[int]:
    """The numbers whose digits a word has, or that it says: 9 for "B9", 40 for "forty"."""
    spelled = _NUMBER_WORDS.get(word.lower())
    if spelled is not None:
        return frozenset([spelled])
    return frozenset(int(digits) for digits in _DIGITS_IN_WORD.findall(word[:_LONGEST_NUMBER]))


def worded_numbers(text: str) -> Iterator[re.Match[str]]:
    """The numbers in words, tried only where a word is one of a number."""
    if _NUMBER_WORDS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        return
    end = 0
    for word in _LETTERS.finditer(text):
        if word.start() >= end and word.group().lower() in _NUMBER_WORDS:
            match = _WORDED_NUMBER.match(text, word.start())
            if match:
                end = match.end()
                yield match


@lru_cache(maxsize=4096)
def _read_digits(digits: str) -> tuple[Decimal, ...]:
    return tuple(_readings(digits))


def _readings(digits: str) -> Iterator[Decimal]:
    groups = re.split(r"[^\d]", digits)
    separators = re.sub(r"\d", "", digits)
    thousands = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    if len(groups) == 1 or (thousands and len(set(separators)) == 1):
        yield Decimal("".join(groups))
    if _is_version(groups, separators) and not thousands:
        yield from (Decimal(groups[0]), Decimal(".".join(groups[:2])))
    elif len(groups) > 1 and separators[-1] in ".," and separators[-1] not in separators[:-1]:
        if not (separators == "," and thousands) and all(len(group) == 3 for group in groups[1:-1]):
            yield Decimal("".join(groups[:-1]) + "." + groups[-1])
    elif len(groups) > 2 and not thousands:
        yield from (Decimal(group) for group in groups)


def _is_version(groups: Sequence[str], separators: str) -> bool:
    dotted = len(groups) > 2 and set(separators) == {"."}
    return dotted and DOTTED_DATE.fullmatch(".".join(groups)) is None


def worded_amount(text: str) -> Decimal:
    """What a match of ``worded_numbers`` amounts to: "two hundred and five thousand" is 205,000."""
    total = current = 0
    for word in re.split(r"[\s-]+", text.lower()):
        value = _NUMBER_WORDS.get(word)
        if value is None:
            continue
        if word not in SCALES:
            current += value
        elif value == 100:
            current = max(current, 1) * value
        else:
            total, current = total + max(current, 1) * value, 0
    return Decimal(total + current)


Reading: TypeAlias = tuple[str, Decimal]


class Kind(StrEnum):
    """What a size is one of; besides these there are a measure's dimension, and versions."""

    AMOUNT = "amount"
    AMOUNT_OF_TIME = "amount of time"
    """One that a unit of time follows."""
    OTHER_AMOUNT = "other amount"
    """One that is not written as one plain number: "a dozen", "60 cents"."""
    PERCENT = "percent"
    """A percentage in other words: "two thirds"."""
    SECONDS = "seconds"
    MONTHS = "months"
    """Lengths of time; weeks are seconds, years are months, and the two never meet."""
    MINUTE = "minute of the day"
    PERHAPS_MINUTE = "perhaps a minute of the day"
    MONTH = "month"
    CENTURY = "century"
    DAYS_A_WEEK = "days a week"
    TIMES = "times"
    FOLD = "fold"


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
    yield from clock_times_in(text)


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
_DAYS_AS_MONTHS = {30: "1", 60: "2", 90: "3", 120: "4", 180: "6", 365: "12"}
_WEEKS_AS_MONTHS = {4: "1", 6: "1.5", 8: "2", 12: "3", 13: "3", 26: "6", 52: "12"}
"""Days and weeks that people also give in months or years: 90 days are three months."""
_DAYS_AS_MONTHS |= {7 * weeks: months for weeks, months in _WEEKS_AS_MONTHS.items()}


def _duration(amount: Decimal, unit: str) -> Reading:
    name = unit.lower().removesuffix("s")
    if name in _UNITS_IN_SECONDS:
        return Kind.SECONDS, amount * _UNITS_IN_SECONDS[name]
    return Kind.MONTHS, amount * _UNITS_IN_MONTHS[name]


def in_other_units(durations: Iterable[Reading]) -> Iterator[Reading]:
    """The lengths of time, and those that people give for the same in months instead of days or weeks, or so back."""
    pairs = [(Decimal(days * _DAY_IN_SECONDS), Decimal(months)) for days, months in _DAYS_AS_MONTHS.items()]
    for kind, size in durations:
        yield kind, size
        yield from ((Kind.MONTHS, months) for seconds, months in pairs if (kind, size) == (Kind.SECONDS, seconds))
        yield from ((Kind.SECONDS, seconds) for seconds, months in pairs if (kind, size) == (Kind.MONTHS, months))


_HUNDREDTHS_BEHIND = re.compile(r"\s?(?:¢|cents?\b|pence\b|(?P<percent>basis[\s-]points?\b|bps?\b))", re.IGNORECASE)
_PENCE_BEHIND = re.compile(r"\s?p\b(?!\.\s?m)")
_FEWEST_NO_PENCE = 100
_SCALE_OF_RANGE = re.compile(
    r"\s?(?:[-–—]|to|and|or)\s?[$€£]?\d+(?:[.,]\d+)*\s?-?"
    rf"(?P<scale>(?:{'|'.join(sorted(_LONG_SCALES, key=len, reverse=True))})\b)",
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
    measured = {one.number.start: one for group in measures_in(numbers, text) for one in group}
    for number in numbers:
        readings = {*_plain_readings(number, text), *_worth_elsewise(number, text)}
        if number.start in measured:
            measure = measured[number.start]
            readings |= {(measure.dimension, amount * measure.size) for amount in number.amounts}
        yield Quantity(number.start, number.end, frozenset(readings), _half_of_last_digit(number))


def _plain_readings(number: Number, text: str) -> Iterator[Reading]:
    """Its amounts, with a fraction behind it ("two and a half"), and the length of time that it counts."""
    part = _PART_BEHIND.match(text, number.end)
    more = _part_of(part[1]) if part else Decimal(0)
    unit = _TIME_UNIT_BEHIND.match(text, part.end() if part else number.end)
    for amount in number.amounts:
        yield Kind.AMOUNT if part or unit is None else Kind.AMOUNT_OF_TIME, amount
        if part:
            yield Kind.AMOUNT_OF_TIME, amount + more
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
            yield Kind.OTHER_AMOUNT, amount / 100
        if hundredths and hundredths["percent"]:
            yield Kind.PERCENT, amount / 100
        if scale:
            yield Kind.OTHER_AMOUNT, amount * _LONG_SCALES[scale["scale"].lower()]
        if often:
            yield Kind.TIMES if often["often"] else Kind.FOLD, amount
        if is_in_days:
            yield Kind.DAYS_A_WEEK, amount
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


_HALF_DAY = 720
_WHOLE_DAY = 1440
_TIME = re.compile(
    r"(?<![\w.,:$€£])(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})|\.(?P<dotted>\d{2}))?\s?(?P<half>[ap])(?:\.\s?m\.|\.?m\b)"
    r"|(?<![\w.,:$€£])(?P<plain_hour>\d{1,2}):(?P<plain_minute>\d{1,2})(?![\w:]|[.,]\d)"
    r"|(?<![\w.,:$€£])(?P<first>\d{1,2})(?::(?P<first_minute>\d{2}))?(?=\s?(?:-|–|—|to|until|till|and)\s?"
    r"\d{1,2}(?::\d{2})?\s?[ap]\.?\s?m\b)"
    r"|\b(?P<word>noon|midday|midnight)\b",
    re.IGNORECASE,
)


def clock_times_in(text: str) -> Iterator[Quantity]:
    """The times of day in a text, ascending, as minutes after midnight.

    "5 PM" and "17:00" are one time each; "5:30", and the "4" of "4-7 p.m.", may lie before or after noon. A minute of
    one digit, as in "11:0", is only written by machines, which count 24 hours.
    """
    for match in _TIME.finditer(text):
        minutes = frozenset((Kind.MINUTE, Decimal(one)) for one in _minutes(match))
        if minutes:
            yield Quantity(*match.span(), minutes)


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
        yield at % _WHOLE_DAY
        if 1 <= hour <= 12 and len(written) > 1 and not match["half"]:
            yield (at + _HALF_DAY) % _WHOLE_DAY


_COUNTED_BEHIND = (
    r"(?!\s(?:euros?|dollars?|pounds?|bucks|yen|francs?|(?-i:[A-Z]{3})|people|men|women|children"
    r"|(?!(?:across|towards|upwards|downwards|plus|versus|less)\b)[a-z]{3,}s)\b)"
)
_MEASURE_UNITS = rf"""
fahrenheit 1=(?:°\s?|degrees?\s)(?:f|fahrenheit)|fahrenheit|(?-i:F)
celsius 1=(?:°\s?|degrees?\s)(?:c|celsius|centigrade)|celsius|(?-i:C)
speed 1.609344=mph|miles\s(?:per|an)\shour 1=km/h|kmh|kph|kilomet(?:er|re)s\s(?:per|an)\shour
length 1609.344=miles?|mi 1000=kilomet(?:er|re)s?|kms? 0.3048=feet|foot|ft 0.9144=yards?|yds?
    0.0254=inch(?:es)?|in(?!\s+(?!(?:wide|long|high|tall|deep|thick|across|by|x)\b)\w) 0.001=millimet(?:er|re)s?|mm
    0.01=centimet(?:er|re)s?|cm 1=met(?:er|re)s?|m{_COUNTED_BEHIND}
mass 453.59237=pounds?|lbs? 28.349523=ounces?|oz 1000=kilograms?|kilos?|kgs? 1=grams?|g 0.001=milligrams?|mg
    1000000=tonnes?
volume 3.785412=gallons?|gal 0.001=millilit(?:er|re)s?|ml 0.01=centilit(?:er|re)s?|cl 1=lit(?:er|re)s?|l
    0.236588=cups? 0.004929=teaspoons?|tsp 0.014787=tablespoons?|tbsp 0.473176=pints? 0.946353=quarts?
area 0.40468564=acres? 1=hectares?|ha 0.0001=m[²2]|square\smet(?:er|re)s? 100=km[²2]|square\skilomet(?:er|re)s?
data 1=megabytes?|(?-i:MB) 1000=gigabytes?|(?-i:GB) 1000000=terabytes?|(?-i:TB)
data-rate 1=(?-i:[Mm]bps|Mbit/s|Mb/s) 1000=(?-i:[Gg]bps|Gbit/s|Gb/s)
frequency 1=kHz|kilohertz 1000=MHz|megahertz 1000000=GHz|gigahertz
power 1=(?-i:W)|watts? 1000=kW|kilowatts? 1000000=(?-i:MW)|megawatts?
"""
"""Dimensions, and how each of their units is written behind a number, with its size in the dimension's base unit.

The letter of "5m" may be millions, and surely is where money or people follow.
"""


def _sized_units() -> Iterator[tuple[str, Decimal, str]]:
    dimension = ""
    for one in _MEASURE_UNITS.split():
        size, _, pattern = one.partition("=")
        if pattern:
            yield dimension, Decimal(size), pattern
        else:
            dimension = one


_SIZED_UNITS = [*_sized_units()]
_UNIT_END = r"\.?(?!\w|\s?/\s?(?!(?:day|week|serving|portion|person)\b)[a-z]|\sper\s(?:second|sec|minute|min|hour|h)\b)"
"""A unit is not that of a rate, as in "mg/dl"; a dose per day counts as the dose."""
_ANY_UNIT = rf"[\s-]?(?:{'|'.join(unit for _, _, unit in _SIZED_UNITS)}){_UNIT_END}"
_MEASURE_UNIT = re.compile(
    rf"[\s-]?(?:{'|'.join(f'(?P<_{place}>{unit})' for place, (_, _, unit) in enumerate(_SIZED_UNITS))}){_UNIT_END}",
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
    """A number with the unit behind it; ``end`` is that of the unit, ``size`` its size in the base unit."""

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
        found = _unit_at(text, number.end) or (_unit_at(text, number.digits_end) if number.scale else None)
        if found is not None:
            if _CURRENCY_BEFORE.search(text, max(waiting[0].start - 4, 0), waiting[0].start) is None:
                yield [Measure(one, *found) for one in waiting]
            waiting = []


def _unit_at(text: str, place: int) -> tuple[int, str, Decimal] | None:
    """Where the unit ends that stands there, its dimension and its size."""
    unit = _MEASURE_UNIT.match(text, place)
    if unit is None:
        return None
    dimension, size, _ = _SIZED_UNITS[int((unit.lastgroup or "_0")[1:])]
    return unit.end(), dimension, size


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
    if first.dimension == "celsius":
        first, second = second, first
    pairs = [(one, other) for one in first.number.amounts for other in second.number.amounts]
    if (first.dimension, second.dimension) == ("fahrenheit", "celsius"):
        exact = [((one - 32) * 5 / 9, other) for one, other in pairs]
        return any(abs(one - other) <= _DEGREES_ERROR + _RELATIVE_DEGREES_ERROR * abs(one) for one, other in exact)
    if first.dimension != second.dimension or first.size == second.size:
        return False
    return any(_is_same_size(one * first.size / second.size, other) for one, other in pairs)


def _is_same_size(exact: Decimal, written: Decimal) -> bool:
    last_digit = Decimal(10) ** int(written.as_tuple().exponent)
    return abs(exact - written) <= max(_RELATIVE_ERROR * exact, last_digit / 2)


_SMALL_COUNT = r"(?:\d{1,2}|100|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|a\s+hundred)"
_NUMBER_GOES_ON = rf"[.,:'’]\d|\s?%|\s?-?{_SCALE}"
"""What says that the digits before it are not a whole count: "5,000", "5.2", "5 million", "5%"."""
_FEW = rf"(?:\d{{1,3}}|an?|{'|'.join(_SMALL_NUMBER_WORDS)})"
_PART_NAMES = ("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_PARTS = {"half": 2, "halve": 2, "quarter": 4} | {name: parts for parts, name in enumerate(_PART_NAMES, start=3)}
_OF = r"(?:\sof)?[\s-](?:(?:an?|one)[\s-])?"
_POINT_BEHIND = re.compile(r"(?:percentage[\s-]|per\s?cent(?:age)?\s?)?(?:point|per\s?cent)\b", re.IGNORECASE)
_AND_BEFORE = re.compile(r"\band\s$", re.IGNORECASE)
_SIGNS = {"½": "0.5", "¼": "0.25", "¾": "0.75", "⅓": "0.33", "⅔": "0.67"}
_UNTOLD = {"few", "several", "many", "some", "couple"}
_LAST_MONTH, _OLDEST_FISCAL_YEAR = 12, 70
_FOLDS = {"twice": 2, "doubled": 2, "doubling": 2, "twofold": 2, "thrice": 3, "tripled": 3, "tripling": 3}
_FOLDS |= {"threefold": 3, "quadrupled": 4, "fourfold": 4, "fivefold": 5, "tenfold": 10}
_TIME_HINTS = "sec|min|hour|hr|day|week|fortnight|month|year|yr|decade|centur"

_Read: TypeAlias = Callable[[re.Match[str]], Iterator[Reading]]
_PHRASES: list[tuple[tuple[str, ...], re.Pattern[str], _Read]] = []


def _phrase(hints: str, pattern: str) -> Callable[[_Read], _Read]:
    """Marks what a match of the pattern says; its group "at", where it has one, is what says it.

    Only texts with one of the hints are searched, which saves most searches.
    """

    def register(read: _Read) -> _Read:
        _PHRASES.append((tuple(hints.split("|")), re.compile(pattern, re.IGNORECASE), read))
        return read

    return register


def phrases_in(text: str) -> Iterator[Quantity]:
    """What a text says in other ways than by one number: "a dozen", "two thirds", "half a million"."""
    lowered = text.lower()
    for hints, pattern, read in _PHRASES:
        for match in pattern.finditer(text) if any(hint in lowered for hint in hints) else ():
            readings = frozenset(read(match))
            if readings:
                scale = match.groupdict().get("scale")
                within = worded_amount(scale) / 20 if scale else Decimal(0)
                yield Quantity(*match.span("at" if "at" in pattern.groupindex else 0), readings, within)


@_phrase(
    "half|halves|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth",
    rf"(?P<at>\b(?:(?P<count>a|an|one|two|three|four|five|six|seven|eight|nine)[\s-])?\b(?P<part>{'|'.join(_PARTS)})s?\b"
    rf"(?:{_OF}(?P<scale>{_SCALE_WORD})\b)?)(?:{_OF})?",
)
def _part(match: re.Match[str]) -> Iterator[Reading]:
    """A fraction in words, and what it is one of: "two thirds", "half an hour", "half a million", "half a litre"."""
    count, name, text, end = (match["count"] or "").lower(), match["part"].lower(), match.string, match.end()
    many, parts = _count_of(count or "a"), _PARTS[name]
    is_added = _AND_BEFORE.search(text, max(match.start() - 4, 0), match.start()) is not None
    if is_added and match["scale"]:
        return
    if count or parts == 2:
        yield from _percent(100 * many / parts)
    if count not in ("", "a", "an"):
        yield Kind.AMOUNT, many
    if is_added or not (count or name in ("half", "quarter")):
        return
    share = (many / parts).quantize(Decimal("0.01"))
    time, unit = _TIME_UNIT_BEHIND.match(text, end), _unit_at(text, end)
    if match["scale"]:
        yield Kind.OTHER_AMOUNT, many * worded_amount(match["scale"]) / parts
    elif time:
        kind, size = _duration(many, time[1])
        yield kind, size / parts
    elif _POINT_BEHIND.match(text, end):
        yield from ((Kind.OTHER_AMOUNT, share), (Kind.PERCENT, share))
    elif unit:
        yield from ((Kind.OTHER_AMOUNT, share), (unit[1], many * unit[2] / parts))


@_phrase("and a half", rf"\b(\w+)\s+and\s+a\s+half\s+(?P<scale>{_SCALE_WORD})\b")
def _scale_and_a_half(match: re.Match[str]) -> Iterator[Reading]:
    if match[1].lower() in _NUMBER_WORDS or match[1].isdecimal():
        yield Kind.OTHER_AMOUNT, (_count_of(match[1]) + Decimal("0.5")) * worded_amount(match["scale"])


@_phrase(_TIME_HINTS, rf"\b(?<!half\s)(?<!of\s)(?:an?|one)\s+({_TIME_UNIT})(?:\s+and\s+{_PART_WORDS})?")
def _single_duration(match: re.Match[str]) -> Iterator[Reading]:
    yield _duration(1 + (_part_of(match[2]) if match[2] else Decimal(0)), match[1])


@_phrase(_TIME_HINTS + "|h", rf"\b({_FEW})[\s-]?(h|{_TIME_UNIT}),?\s?(?:and\s)?({_FEW})[\s-]?(m|{_TIME_UNIT})(?!\w)")
def _joint_duration(match: re.Match[str]) -> Iterator[Reading]:
    (kind, amount), (other_kind, rest) = (
        _duration(_count_of(number), {"h": "hour", "m": "minute"}.get(name.lower(), name))
        for number, name in (match.group(1, 2), match.group(3, 4))
    )
    if kind == other_kind and rest < amount:
        yield kind, amount + rest


@_phrase(
    " in | out of ",
    rf"\b({_SMALL_COUNT})(?:\s[a-z]+)?\s(?:in|out\sof)\s(?:every\s)?({_SMALL_COUNT})\b"
    rf"(?!{_NUMBER_GOES_ON}|[\s-]?{_TIME_UNIT})",
)
def _some_of_all(match: re.Match[str]) -> Iterator[Reading]:
    some, everything = map(_count_of, match.groups())
    if 0 < some < everything:
        yield from _percent(100 * some / everything)


@_phrase("dozen", r"(?:(?<![\d.,])\b(half(?:[\s-]a)?|\d{1,3}|[a-z]+)[\s-])?\bdozen\b")
def _dozen(match: re.Match[str]) -> Iterator[Reading]:
    count = (match[1] or "a").lower()
    if count not in _UNTOLD:
        yield Kind.OTHER_AMOUNT, Decimal(6) if count.startswith("half") else 12 * (_count_of(count) or Decimal(1))


@_phrase("/|-|–", r"(?<![\d/.,$€£–-])((?:19|20)\d\d)\s?([/–-])\s?(?P<at>\d\d)(?!\d|[.,]\d|\s?[/–-]\s?\d)")
def _season(match: re.Match[str]) -> Iterator[Reading]:
    """The second year of "2024/25"; "2011-12" may be a month."""
    ending, written = int(match[1]) + 1, int(match["at"])
    if ending % 100 == written and (match[2] != "-" or written > _LAST_MONTH):
        yield Kind.OTHER_AMOUNT, Decimal(ending)


@_phrase("fy", r"\bFY\s?'?(?P<at>\d\d)(?!\d)")
def _fiscal_year(match: re.Match[str]) -> Iterator[Reading]:
    year = int(match["at"])
    yield Kind.OTHER_AMOUNT, Decimal((1900 if year >= _OLDEST_FISCAL_YEAR else 2000) + year)


@_phrase(
    "/|⁄",
    rf"(?<![\d/.,])(?:(\d{{1,2}})\s)?([1-9])\s?(?:⁄|/(?=\s?\d(?:\sof)?(?:\san?)?{_ANY_UNIT}))\s?([2-8])"
    r"(?![\d/⁄]|[.,]\d)",
)
def _fraction(match: re.Match[str]) -> Iterator[Reading]:
    """A mixed number, exact if it has at most three digits behind the point, else with two."""
    whole, part, parts = (int(one or 0) for one in match.groups())
    if part < parts:
        exact = whole + Decimal(part) / parts
        short = exact.quantize(Decimal("0.001"))
        yield Kind.OTHER_AMOUNT, short if short == exact else exact.quantize(Decimal("0.01"))


@_phrase("½|¼|¾|⅓|⅔", r"(?<![\d/.,])(\d{1,2})([½¼¾⅓⅔])")
def _fraction_sign(match: re.Match[str]) -> Iterator[Reading]:
    yield Kind.OTHER_AMOUNT, int(match[1]) + Decimal(_SIGNS[match[2]])


@_phrase("half past|quarter", r"\b(half|quarter)\s+(past|to)\s+(\w+)")
def _hour_in_words(match: re.Match[str]) -> Iterator[Reading]:
    part, side = match[1].lower(), match[2].lower()
    hour = int(match[3]) if match[3].isdecimal() else int(worded_amount(match[3]))
    if 0 < hour <= 24 and (part, side) != ("half", "to"):
        minutes = 30 if part == "half" else 15 if side == "past" else 45
        hour = hour if side == "past" else (hour - 1 or 12)
        yield Kind.OTHER_AMOUNT, Decimal(hour) + Decimal(minutes) / 100
        yield from _perhaps_at(hour, minutes)


@_phrase(
    ".",
    r"\b(?:at|from|until|till|by)\s(\d{1,2})\.(\d{2})"
    r"(?=\s?(?:$|[;)\n]|[.,](?!\d)|(?:on|and|to|until|till|every|daily|h)\b))",
)
def _dotted_hour(match: re.Match[str]) -> Iterator[Reading]:
    hour, minute = map(int, match.groups())
    if hour < 24 and minute < 60:
        yield from _perhaps_at(hour, minute)


@_phrase("|".join(_FOLDS), rf"\b(?:{'|'.join(_FOLDS)})\b")
def _fold(match: re.Match[str]) -> Iterator[Reading]:
    times = Decimal(_FOLDS[match[0].lower()])
    yield Kind.FOLD, times
    if match[0].lower() in ("twice", "thrice"):
        yield Kind.TIMES, times


def _perhaps_at(hour: int, minute: int) -> Iterator[Reading]:
    """A time of day; one before noon may also lie after it."""
    at = hour * 60 + minute
    yield from ((Kind.PERHAPS_MINUTE, Decimal(one)) for one in ((at, at + _HALF_DAY) if at < _HALF_DAY else (at,)))


def _percent(share: Decimal) -> Iterator[Reading]:
    """A share in percent, rounded and cut to a whole number."""
    yield from ((Kind.PERCENT, share.quantize(Decimal(1))), (Kind.PERCENT, share // 1))


def _part_of(words: str) -> Decimal:
    """What "a half", "a quarter" and "three quarters" amount to, 0.5, 0.25 and 0.75."""
    return Decimal("0.5") if "half" in words.lower() else Decimal("0.75" if "three" in words.lower() else "0.25")


def _count_of(word: str) -> Decimal:
    if word.isdecimal():
        return Decimal(word)
    return Decimal(1) if word.lower() in ("a", "an") else worded_amount(word)
