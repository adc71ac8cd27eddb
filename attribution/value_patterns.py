"""Numbers and dates as they are written in running text, and what they amount to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS = {name: index for index, name in enumerate(_MONTH_NAMES, start=1)}
MONTHS |= {name[:3]: index for name, index in MONTHS.items()} | {"sept": 9}

_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9, "tn": 10**12}
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_WORDS = (
    {name: value for value, name in enumerate(_SMALL)}
    | {name: value for value, name in enumerate(_ORDINALS, start=1)}
    | {name: 10 * value for value, name in enumerate(_TENS, start=2)}
    | _SCALES
)

_CURRENCY = r"[$€£¥₹₩₽¢]"
_MONTH = r"(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_UNIT = (
    r"(?:[%‰]|°\s?[CF]\b|(?:per\s?cent|percentage points?|degrees?(?:\s(?:celsius|fahrenheit))?"
    r"|dollars?|euros?|pounds?|yen|rupees?|cents?|years?|months?|weeks?|days?|hours?|minutes?|seconds?"
    r"|km²|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|inch(?:es)?|cm|mm|kg|kilograms?|grams?|tons?|tonnes?"
    r"|hectares?|acres?|people|inhabitants)\b)"
)
_DIGITS = r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’]\d+)*"
_SCALE = r"(?:" + "|".join((*_SCALES, *_SHORT_SCALES)) + r")\b"

DATE = re.compile(
    rf"(?<!\w)(?:{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?|{_MONTH},?\s+\d{{4}}"
    r"|\d{4}-\d{2}-\d{2})(?!\w)",
    re.IGNORECASE,
)
NUMBER = re.compile(rf"(?P<digits>{_DIGITS})(?:\s?-?(?P<scale>{_SCALE}))?(?P<decade>s\b)?", re.IGNORECASE)
QUANTITY = re.compile(
    rf"(?<![\w.,]){_CURRENCY}?\s?(?:{_DIGITS})(?:[:/–-]\d+)*(?:st|nd|rd|th|s)?(?:\s?-?{_SCALE})?(?:\s?-?{_UNIT})?",
    re.IGNORECASE,
)
_ANY_NUMBER_WORD = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
WORDED_NUMBER = re.compile(
    rf"(?<!\d)(?<!\d[\s-])\b(?:{_ANY_NUMBER_WORD})(?:(?:(?<=hundred)\s+and\s+|[\s-]+)(?:{_ANY_NUMBER_WORD}))*\b",
    re.IGNORECASE,
)
ISO_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


def amounts(match: re.Match[str]) -> Iterator[Decimal]:
    """What a match of ``NUMBER`` in text with ASCII digits may amount to; "1.234" is read both ways."""
    scale = (match["scale"] or "").lower()
    for value in _read_digits(match["digits"]):
        if scale in _SCALES:
            yield value * _SCALES[scale]
        else:
            yield value
            if scale:
                yield value * _SHORT_SCALES[scale]


def _read_digits(digits: str) -> Iterator[Decimal]:
    groups = re.split(r"[^\d]", digits)
    separators = re.sub(r"\d", "", digits)
    thousands = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    if len(groups) == 1 or (thousands and len(set(separators)) == 1):
        yield Decimal("".join(groups))
    if len(groups) > 1 and separators[-1] in ".," and separators[-1] not in separators[:-1]:
        if not (separators == "," and thousands) and all(len(group) == 3 for group in groups[1:-1]):
            yield Decimal("".join(groups[:-1]) + "." + groups[-1])
    elif len(groups) > 2 and not thousands:
        yield from (Decimal(group) for group in groups)


def worded_amount(text: str) -> Decimal:
    """What a match of ``WORDED_NUMBER`` amounts to: "two hundred and five thousand" is 205,000."""
    total = current = 0
    for word in re.split(r"[\s-]+", text.lower()):
        value = _NUMBER_WORDS.get(word)
        if value is None:
            continue
        if word not in _SCALES:
            current += value
        elif value == 100:
            current = max(current, 1) * value
        else:
            total, current = total + max(current, 1) * value, 0
    return Decimal(total + current)
