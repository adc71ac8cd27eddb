"""Numbers and dates in running text: exact ones, rounded ones, and those that need no passage.

Numbers and dates as they are written in running text, and what they amount to.

First what is written with digits or as a number in words, then amounts given in other words: fractions, lengths of
time, times of day.

Rounded numbers: how far from "about 3,000", "more than 80" or "nearly half a million" what is meant may lie.

Numbers of an answer that no passage needs to repeat, because they say something about the answer itself.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

from attribeam.attribution.answers.citation_pointers import reference_ranges
from attribeam.schemas import CharRange

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS = {name: index for index, name in enumerate(_MONTH_NAMES, start=1)}
MONTHS |= {name[:3]: index for name, index in MONTHS.items()} | {"sept": 9}

SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "mln": 10**6, "b": 10**9, "bn": 10**9, "bln": 10**9, "tn": 10**12}
MORE_SCALES = {name: size for name, size in (SCALES | _SHORT_SCALES).items() if name not in ("k", "m", "b")}
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
WORDED_NUMBER = re.compile(
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


def worded_numbers(text: str) -> Iterator[re.Match[str]]:
    """The matches of ``WORDED_NUMBER`` in a text, tried only where a word is one of a number."""
    if _NUMBER_WORDS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        return
    end = 0
    for word in _LETTERS.finditer(text):
        if word.start() >= end and word.group().lower() in _NUMBER_WORDS:
            match = WORDED_NUMBER.match(text, word.start())
            if match:
                end = match.end()
                yield match


def amounts(match: re.Match[str]) -> Iterator[Decimal]:
    """What a match of ``NUMBER`` in text with ASCII digits may amount to; "1.234" is read both ways.

    "4.8.2" as a whole is no amount; it stands for what its first one or two parts amount to, 4 and 4.8.
    """
    scale = (match["scale"] or "").lower()
    for value in _read_digits(match["digits"]):
        if scale in SCALES:
            yield value * SCALES[scale]
        else:
            yield value
            if scale:
                yield value * _SHORT_SCALES[scale]


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
    """What a match of ``WORDED_NUMBER`` amounts to: "two hundred and five thousand" is 205,000."""
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


Duration: TypeAlias = tuple[str, Decimal]
"""("seconds", how many) or ("months", how many); weeks are seconds, years are months, and the two never meet."""

_UNITS_IN_SECONDS = {
    "second": 1,
    "sec": 1,
    "minute": 60,
    "min": 60,
    "hour": 3600,
    "hr": 3600,
    "day": 86_400,
    "week": 604_800,
}
_UNITS_IN_SECONDS |= {"fortnight": 1_209_600}
_UNITS_IN_MONTHS = {"month": 1, "year": 12, "yr": 12, "decade": 120, "centurie": 1200, "century": 1200}
_TIME_UNIT = r"(?:" + "|".join((*_UNITS_IN_SECONDS, *_UNITS_IN_MONTHS)) + r")s?\b"
_TIME_UNIT_AFTER = re.compile(rf"[\s-]?({_TIME_UNIT})", re.IGNORECASE)
_FRACTION_AFTER = re.compile(r"\s+and\s+(a\s+half|a\s+quarter|three[\s-]quarters)\b", re.IGNORECASE)
_ONE_TIME_UNIT = re.compile(
    rf"\b(?:((?<!\band\sa\s)half(?=[\s-]hour)[\s-]|half\s+(?:an?|one)\s+"
    r"|(?:(?:a\s+)?quarter|three[\s-]quarters)\s+of\s+(?:an?|one)\s+)|(?:an?|one)\s+)"
    rf"({_TIME_UNIT})"
    r"(?:\s+and\s+(a\s+half|a\s+quarter|three[\s-]quarters)\b)?",
    re.IGNORECASE,
)
_FEW = rf"(?:\d{{1,3}}|an?|{'|'.join((*_SMALL, *_TENS))})"
_TWO_TIME_UNITS = re.compile(
    rf"\b({_FEW})[\s-]?(h|{_TIME_UNIT}),?\s?(?:and\s)?({_FEW})[\s-]?(m|{_TIME_UNIT})(?!\w)", re.IGNORECASE
)
_SMALL_COUNT = r"(?:\d{1,2}|100|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|a\s+hundred)"
_SHARE = re.compile(
    r"\b(?:(half|halves)|(a|an|one|two|three|four|five|six|seven|eight|nine)[\s-]"
    r"(third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s?)\b",
    re.IGNORECASE,
)
NUMBER_GOES_ON = rf"[.,:'’]\d|\s?%|\s?-?{_SCALE}"
"""What says that the digits before it are not a whole count: "5,000", "5.2", "5 million", "5%"."""
_SOME_OF_ALL = re.compile(
    rf"\b({_SMALL_COUNT})(?:\s[a-z]+)?\s(?:in|out\sof)\s(?:every\s)?({_SMALL_COUNT})\b"
    rf"(?!{NUMBER_GOES_ON}|[\s-]?{_TIME_UNIT})",
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


CENTURY = re.compile(r"(?:st|nd|rd|th)[\s-]century\b", re.IGNORECASE)
"""What follows the number of a century."""

_DAY_IN_SECONDS = Decimal(86_400)
_DAYS_AS_MONTHS = {30: "1", 60: "2", 90: "3", 120: "4", 180: "6", 365: "12"}
_WEEKS_AS_MONTHS = {4: "1", 6: "1.5", 8: "2", 12: "3", 13: "3", 26: "6", 52: "12"}
_SAME_TIME = {
    **{("seconds", days * _DAY_IN_SECONDS): ("months", Decimal(months)) for days, months in _DAYS_AS_MONTHS.items()},
    **{("seconds", 7 * weeks * _DAY_IN_SECONDS): ("months", Decimal(one)) for weeks, one in _WEEKS_AS_MONTHS.items()},
}
"""Days and weeks that people also give in months or years: 90 days are three months."""


def in_other_units(durations: Iterable[Duration]) -> Iterator[Duration]:
    """The lengths of time, and those that people give for the same in months instead of days or weeks, or so back."""
    for duration in durations:
        yield duration
        yield from (months for days, months in _SAME_TIME.items() if days == duration)
        yield from (days for days, months in _SAME_TIME.items() if months == duration)


def worded_shares(text: str) -> Iterator[tuple[int, int, Decimal, frozenset[Decimal]]]:
    """Where fractions stand whose parts are counted, their number, and the percentage: 2, 66 and 67 for two thirds."""
    for match in _SHARE.finditer(text):
        _, count, parts = match.groups()
        if count and count.lower() not in ("a", "an"):
            parted = frozenset(_percent(100 * _count(count) / _PARTS[parts.lower()]))
            yield match.start(), match.end(), _count(count), parted


def share_of_time(text: str, start: int) -> frozenset[Duration]:
    """The length of time that a fraction in words, which starts there, is: that of "three quarters of an hour"."""
    match = _ONE_TIME_UNIT.match(text, start)
    return frozenset(unit_durations(match.group())) if match else frozenset()


def is_percentage(text: str, number_end: int) -> bool:
    """True where a percent sign or word follows a number that ends at ``number_end``."""
    return _PERCENT_AFTER.match(text, number_end) is not None


def counts_time(text: str, number_end: int) -> bool:
    """True where a unit of time follows a number that ends at ``number_end``."""
    return _TIME_UNIT_AFTER.match(text, number_end) is not None


def durations_of(text: str, number_end: int, meant: Iterable[Decimal]) -> Iterator[Duration]:
    """The lengths of time that a number ending at ``number_end`` may count; none where no unit of time follows.

    ``meant`` is what the number may amount to. A fraction behind it counts, too: "two and a half hours".
    """
    for amount in meant:
        whole, end = mixed_number(text, number_end, amount)
        unit = _TIME_UNIT_AFTER.match(text, end)
        if unit is not None:
            yield _duration(whole, unit[1])


def mixed_number(text: str, number_end: int, amount: Decimal) -> tuple[Decimal, int]:
    """The number and its end, with the fraction behind it: 2.5 for "two and a half"."""
    fraction = _FRACTION_AFTER.match(text, number_end)
    return (amount, number_end) if fraction is None else (amount + fraction_of(fraction[1]), fraction.end())


def unit_durations(text: str) -> Iterator[Duration]:
    """Lengths of time without a number: "a week", "half an hour", "a year and a half"."""
    for match in _ONE_TIME_UNIT.finditer(text):
        share, unit, more = match.groups()
        amount = (fraction_of(share) if share else Decimal(1)) + (fraction_of(more) if more else 0)
        yield _duration(amount, unit)


def joint_durations(text: str) -> Iterator[tuple[int, int, Duration]]:
    """Where lengths of time stand that are given in two units, "2 hours and 15 minutes", and their sums."""
    for match in _TWO_TIME_UNITS.finditer(text):
        first, unit, second, smaller = match.groups()
        (kind, amount), (other_kind, rest) = (
            _duration(_count_of(number), {"h": "hour", "m": "minute"}.get(name.lower(), name))
            for number, name in ((first, unit), (second, smaller))
        )
        if kind == other_kind and rest < amount:
            yield match.start(), match.end(), (kind, amount + rest)


def fractions_in_percent(text: str) -> Iterator[Decimal]:
    """Fractions in words as percent, both whole ones around where it is none: 66 and 67 for "two thirds".

    "One in five" and "3 out of 4" are fractions, too.
    """
    for match in _SHARE.finditer(text):
        half, count, parts = match.groups()
        if half:
            yield Decimal(50)
            continue
        yield from _percent(100 * _count(count) / _PARTS[parts.lower()])
    for match in _SOME_OF_ALL.finditer(text):
        some, everything = (Decimal(one) if one.isdigit() else worded_amount(one) for one in match.groups())
        if 0 < some < everything:
            yield from _percent(100 * some / everything)


def _percent(share: Decimal) -> set[Decimal]:
    """A share in percent, rounded and cut to a whole number."""
    return {share.quantize(Decimal(1)), share // 1}


def clock_times(text: str) -> Iterator[Decimal]:
    """Times of day in words, with the minutes behind the point and alone: 7.30 and 30 for "half past seven"."""
    for part, side, hour in _CLOCK.findall(text):
        at = _HOURS.get(hour.lower())
        if at is not None and (part.lower(), side.lower()) != ("half", "to"):
            minutes = 30 if part.lower() == "half" else 15 if side.lower() == "past" else 45
            at = at if side.lower() == "past" else (at - 1 or 12)
            yield from (Decimal(at), Decimal(minutes), Decimal(at) + Decimal(minutes) / 100)


def _count_of(number: str) -> Decimal:
    return Decimal(number) if number.isdigit() else _count(number)


def _count(word: str) -> Decimal:
    return Decimal(1) if word.lower() in ("a", "an") else worded_amount(word)


def fraction_of(words: str) -> Decimal:
    """What "half", "a quarter" and "three quarters" amount to, 0.5, 0.25 and 0.75."""
    return Decimal("0.5") if "half" in words.lower() else Decimal("0.75" if "three" in words.lower() else "0.25")


def _duration(amount: Decimal, unit: str) -> Duration:
    name = unit.lower().removesuffix("s")
    if name in _UNITS_IN_SECONDS:
        return "seconds", amount * _UNITS_IN_SECONDS[name]
    return "months", amount * _UNITS_IN_MONTHS[name]


_ABOUT = r"about|around|approximately|approx\.?|roughly|circa|some"
_OVER = r"(?:slightly |a little )?more than|upwards? of|in excess of"
_UNDER = r"nearly|almost|close to|not quite|(?:slightly |a little )?(?:less|fewer) than"
_NO_LIMIT = r"(?<!\bno )(?<!\bnot )(?<!\bnever )(?<!n't )(?<!n’t )"
_HEDGE = re.compile(
    rf"{_NO_LIMIT}\b(?:(?P<about>{_ABOUT})|(?P<over>{_OVER})|(?P<under>{_UNDER}))\s+(?:an?\s)?[$€£¥]?\s?$",
    re.IGNORECASE,
)
"""Words that round the number behind them; "over" and "under" are left out, for they often mean something else."""
_LONGEST_HEDGE = 32
_OR_SO = re.compile(r"\s(?:[^\W\d_]+\s)?or\sso\b")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_MOST_ABOUT, _MOST_OVER, _MOST_UNDER = Decimal("0.1"), Decimal("0.15"), Decimal("0.1")
"""The farthest that the meant number may lie, as a share of the rounded one."""


def rounding(text: str, start: int, end: int, amount: Decimal) -> tuple[Decimal, Decimal]:
    """How far below and above a number that stands in ``text`` the meant one may lie; zeros where nothing rounds it.

    "About" lets it differ by half of what the last digit but zeros is worth, "more than" and "nearly" by all of it, in
    their direction, and never by more than a share of the number. Years and limits ("no more than 80") are not rounded.
    """
    if _YEAR.fullmatch(text, start, end):
        return Decimal(0), Decimal(0)
    hedge = _HEDGE.search(text, max(start - _LONGEST_HEDGE, 0), start)
    kind = hedge.lastgroup if hedge else ("about" if _OR_SO.match(text, end) else None)
    if kind is None or amount <= 0:
        return Decimal(0), Decimal(0)
    step = _last_step(amount)
    if kind == "about":
        within = min(step / 2, amount * _MOST_ABOUT)
        return within, within
    if kind == "over":
        return Decimal(0), min(step, amount * _MOST_OVER)
    return min(step, amount * _MOST_UNDER), Decimal(0)


def _last_step(amount: Decimal) -> Decimal:
    """What the last digit but zeros is worth: 1,000 for 3,000, and 5 for 25, since people also round to fives."""
    digits = amount.normalize().as_tuple()
    exponent = digits.exponent if isinstance(digits.exponent, int) else 0
    step = Decimal(1).scaleb(exponent)
    return 5 * step if digits.digits[-1:] == (5,) and len(digits.digits) > 1 else step


_PLACES = re.compile(
    r"\b(?:steps?|methods?|options?)\s+(?:#\s?|no\.?\s)?\d{1,2}(?:\s*(?:,|and|&|[-–]|to|or|through)\s*\d{1,2})*\b"
    r"|\b(?:in|within|under|of|to|about|approximately|exactly)\s+\d+\s+words?\b"
    r"|\bout\s+of\s+(?:5|10|100)\b(?!\s*%)"
    r"|\b(?:the|these|all)\s+(?:\d|two|three|four|five|six|seven|eight|nine|ten)\s+(?:given\s|provided\s)?passages\b",
    re.IGNORECASE,
)
"""Steps by their number, the length of a summary, the top of a scale, the number of passages."""

_ITEM_LINE = re.compile(r"^[ \t]*(?:[-*+•‣▪]|\(?\w{1,2}[.)])[ \t]+\S", re.MULTILINE)
_ITEM_SEPARATOR = re.compile(r",\s+(?:and|or)\s+|\s+(?:and|or)\s+|,\s+|;\s+(?:and\s+)?")
_LIST_OPENING = re.compile(r"\s(?:are|were|include[sd]?|including|namely|such\s+as|called)\b:?\s+|:\s+")
_APPOSITION = re.compile(r"[\s-]+(?:[^\s,]+\s+){0,3}[^\s,]+(?:,|\s[-–—])\s+")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n\s*\n|$")
_COUNT = re.compile(r"(?<![\w.,$€£-])\d{1,2}(?![\w%°]|[.,:]\d)")
_MOST_COUNTED = 20
_LONGEST_SENTENCE = 500
_WORD_BEHIND = re.compile(r"[\s-]+[^\W\d]")
_COUNTED_ITEMS = re.compile(r"[\s-]+(?:\w+\s+)?(?:steps|ways|tips|methods|points|reasons|items)\b", re.IGNORECASE)


def own_number_ranges(answer: str, text: str) -> Iterator[CharRange]:
    """Where such numbers stand; ``text`` is the answer without its markup.

    These are references to passages ("passage 3", "the three passages"), numbers of steps, the length of a summary ("in
    200 words"), the top of a scale ("out of 5"), and counts of what the answer lists itself ("the two countries are A
    and B").
    """
    yield from reference_ranges(answer)
    yield from (CharRange(*match.span()) for match in _PLACES.finditer(text))
    item_lines = [match.start() for match in _ITEM_LINE.finditer(answer)]
    for match in (*_COUNT.finditer(text), *worded_numbers(text)):
        if _counts_own_list(match, text, item_lines):
            yield CharRange(*match.span())


def _counts_own_list(number: re.Match[str], text: str, item_lines: Sequence[int]) -> bool:
    """True where as many items follow in the sentence, or in the lines below a sentence that ends with a colon."""
    count = int(number.group()) if number.group().isdigit() else int(worded_amount(number.group()))
    if not 2 <= count <= _MOST_COUNTED:
        return False
    reach = min(number.end() + _LONGEST_SENTENCE, len(text))
    end = _SENTENCE_END.search(text, number.end(), reach)
    rest = text[number.end() : end.start() if end else reach]
    if _WORD_BEHIND.match(rest) is None:
        return False
    if rest.rstrip().endswith(":") and len(item_lines) - bisect_left(item_lines, number.end()) >= count:
        return True
    if _COUNTED_ITEMS.match(rest) and len(item_lines) >= count:
        return True
    openings = [match.end() for match in _LIST_OPENING.finditer(rest)]
    apposition = None if number.group().isdigit() else _APPOSITION.match(rest)
    if apposition:
        openings.append(apposition.end())
    return any(len(_ITEM_SEPARATOR.split(rest[start:].strip(" ,"))) == count for start in openings)
