"""Amounts that are written in another way than as one plain number.

A passage may say "a dozen", "half a million", "60 cents" or "2024/25" where an answer has 12, 500,000, $0.60 or 2025.
In passages these are looked at only where a number of the answer does not occur as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from attribeam.attribution.answers.numbers_and_dates import (
    MORE_SCALES,
    NUMBER,
    NUMBER_GOES_ON,
    amounts,
    counts_time,
    worded_amount,
    worded_numbers,
)

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
