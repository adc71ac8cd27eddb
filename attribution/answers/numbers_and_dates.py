"""Numbers and dates as running text writes them, with digits or in words, and what they amount to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

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
SMALL_NUMBER_WORDS = (*_SMALL, *_TENS)
NUMBER_WORDS = (
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
_ANY_NUMBER_WORD = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
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


def worded_numbers(text: str) -> Iterator[re.Match[str]]:
    """The numbers in words, tried only where a word is one of a number."""
    if NUMBER_WORDS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        return
    end = 0
    for word in _LETTERS.finditer(text):
        if word.start() >= end and word.group().lower() in NUMBER_WORDS:
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
        value = NUMBER_WORDS.get(word)
        if value is None:
            continue
        if word not in SCALES:
            current += value
        elif value == 100:
            current = max(current, 1) * value
        else:
            total, current = total + max(current, 1) * value, 0
    return Decimal(total + current)
