"""Text as it is compared: plain letters, words that say something, numbers, dates and times of day.

Compatibility forms and accents are resolved, digits and quotes are in ASCII. A number has all amounts that it may mean.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, cast

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
)
"""What no reader sees, for a set of characters: controls, soft hyphens, marks without width or of direction."""
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_FRACTION_BEHIND_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


def plain_text(text: str) -> str:
    """The text in NFKC, with ASCII digits and quotes, without diacritics and what no reader sees.

    Case is kept, and "1½" becomes "1 1⁄2".
    """
    if text.isascii():
        return visible(text)
    text = _FRACTION_BEHIND_DIGIT.sub(" ", _INVISIBLE.sub("", text))
    plain = _BEYOND_ASCII.sub(_plain_character, unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", plain)


def _plain_character(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.combining(character):
        return ""
    return "'" if character in "’‘ʼ" else str(unicodedata.decimal(character, character))


def visible(text: str) -> str:
    """The text without what no reader sees."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub("", text)


FUNCTION_WORDS = frozenset(
    """
    a an the and or but nor so yet of in on at by for to from with without within into onto over under up down out off
    upon as than then that this these those such it its he him his she her hers they them their theirs i me my we us our
    you your who whom whose which what when where why how there here is are was were be been being am do does did has
    have had having will would shall should can could may might must not no if because while although though
    also some any each other more most all only just very too own same both either neither about after before between
    during through against among per via s t re ve ll d m it's that's there's he's she's i'm i've you're you've we're
    we've they're they've n't
    """.split()  # noqa: SIM905
)
"""Lower-case, with straight apostrophes, and with what is left of contractions."""


_KNOWN_TEXTS, _LONGEST_KNOWN_TEXT = 512, 10_000
_KNOWN_LONG_TEXTS, _LONGEST_LONG_TEXT = 4, 200_000
_P = ParamSpec("_P")
_T = TypeVar("_T")


def remembered(read: Callable[Concatenate[str, _P], _T]) -> Callable[Concatenate[str, _P], _T]:
    """Keeps what was read of the last 512 texts of up to 10,000 code points, and of the last 4 of up to 200,000.

    Logs repeat their passages, and a row asks for its own more than once.
    """
    known, long = (
        cast(Callable[Concatenate[str, _P], _T], lru_cache(maxsize=size)(read))
        for size in (_KNOWN_TEXTS, _KNOWN_LONG_TEXTS)
    )

    def reading(text: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        length = len(text)
        kept = known if length <= _LONGEST_KNOWN_TEXT else long if length <= _LONGEST_LONG_TEXT else read
        return kept(text, *args, **kwargs)

    return reading


WORD = re.compile(r"[^\W_]+")
_ASCII_WORDS = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_POSSESSIVE = re.compile(r"'s\b")
FULL_STOP_AFTER_LETTER = re.compile(r"\.(?<=\b\w\.)(?=\w\b|\W|$)")


def comparable_words(text: str) -> list[str]:
    """The words of a text in lower case, without diacritics; "U.S." is "us", and a possessive 's is left out."""
    plain = FULL_STOP_AFTER_LETTER.sub("", _POSSESSIVE.sub("", plain_text(text).lower()))
    return plain.translate(_ASCII_WORDS).split() if plain.isascii() else WORD.findall(plain)


_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS = {name: index for index, name in enumerate(_MONTH_NAMES, start=1)}
MONTHS |= {name[:3]: index for name, index in MONTHS.items()} | {"sept": 9}

SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "mln": 10**6, "b": 10**9, "bn": 10**9, "bln": 10**9, "tn": 10**12}
ALL_SCALES = SCALES | _SHORT_SCALES
LONG_SCALES = {name: size for name, size in ALL_SCALES.items() if name not in ("k", "m", "b")}
"""What "million", "bn" and the like behind a number multiply it by, without the single letters."""
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
ORDINAL_WORDS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL_NUMBER_WORDS = (*_SMALL, *_TENS)
NUMBER_WORDS = (
    {name: value for value, name in enumerate(_SMALL)}
    | {name: value for value, name in enumerate(ORDINAL_WORDS, start=1)}
    | {name: 10 * value for value, name in enumerate(_TENS, start=2)}
    | {f"{name[:-1]}ieth": 10 * value for value, name in enumerate(_TENS, start=2)}
    | SCALES
)

_CURRENCY = r"[$€£¥₹₩₽¢]"
_SHORT_MONTHS = ("sept", *(name[:3] for name in _MONTH_NAMES if name != "may"))
_MONTH = rf"(?:(?:{'|'.join(_MONTH_NAMES)})\b|(?:{'|'.join(_SHORT_MONTHS)})\b(?:\.(?=,?\s+\d))?)"
"""A full stop belongs to a short form that more of the date follows; else it ends a sentence."""
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_SHORT_YEAR = r"(?:\s+['’]\d\d|\s+\d\d(?=\s?(?:$|[;)|\n]|[.,:](?!\d))))"
"""Two digits with an apostrophe, or with nothing behind them that they may count."""
OLDEST_SHORT_YEAR = 70
CURRENCY_CODE = (
    r"(?:AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KES|KRW|MXN|MYR|NGN|NOK|NZD"
    r"|PHP|PKR|PLN|RMB|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR)"
)
UNIT_SIGN = (
    r"(?:[kMGT]?(?:Hz|W|Wh|V|J|N|Pa|B|bit|bps|eV)|[KMGT]iB|KB|KM|[kcm]?m[²³23]?|m?Ah?|hPa|[kmµ]?g|[mc]?[lL]|kcal|dB|°?[CFK]"
    r"|Nm|[Mm]ph|MPH|[AaPp]\.?[Mm]\.?)"
)
MONEY_BEFORE = re.compile(rf"({_CURRENCY}|\b{CURRENCY_CODE})\s?$")
_UNIT = (
    r"(?:[%‰]|°\s?[CF]\b|(?:per\s?cent|percentage points?|degrees?(?:\s(?:celsius|fahrenheit))?"
    r"|dollars?|euros?|pounds?|yen|rupees?|cents?|years?|months?|weeks?|days?|hours?|minutes?|seconds?"
    r"|km²|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|inch(?:es)?|cm|mm|kg|kilograms?|grams?|tons?|tonnes?"
    rf"|hectares?|acres?|people|inhabitants)\b|(?-i:{UNIT_SIGN}|{CURRENCY_CODE})(?!\w))"
)
_DIGITS = r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’]\d+)*"
ANY_SCALE = r"(?:" + "|".join(ALL_SCALES) + r")\b"

DATE = re.compile(
    rf"(?<!\w)(?:{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}}|{_SHORT_YEAR})?|{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?|{_MONTH},?\s+\d{{4}}"
    r"|\d{4}-\d{2}-\d{2}|(?<!/)\d{1,2}/\d{1,2}/(?:19|20)\d\d(?!/)|(?<!\d\.)(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.[12]\d{3}(?!\.?\d))(?!\w(?<!T(?=\d\d:\d\d)))",
    re.IGNORECASE,
)
NUMBER = re.compile(rf"(?P<digits>{_DIGITS})(?:\s?-?(?P<scale>{ANY_SCALE}))?(?P<decade>s\b)?", re.IGNORECASE)
QUANTITY = re.compile(
    rf"(?<![^\W\u3400-\u9fff])(?<![.,]){_CURRENCY}?\s?(?:{_DIGITS})(?:[:/–-]\d+)*(?:st|nd|rd|th|s)?(?:\s?-?{ANY_SCALE})?(?:\s?-?{_UNIT})?",
    re.IGNORECASE,
)
_ANY_NUMBER_WORD = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
SCALE_WORD = "|".join(SCALES)
_LESS_THAN_HUNDRED = rf"(?!{SCALE_WORD})(?:{_ANY_NUMBER_WORD})(?:[\s-]+(?!{SCALE_WORD})(?:{_ANY_NUMBER_WORD}))?"
_AND = (
    rf"(?:(?<=hundred)\s+and\s+(?!{_LESS_THAN_HUNDRED}[\s-]+hundred\b)"
    rf"|(?:{'|'.join(f'(?<={scale})' for scale in SCALES if scale != 'hundred')})"
    rf"\s+and\s+(?!{_LESS_THAN_HUNDRED}[\s-]+(?:{SCALE_WORD})\b))(?!{SCALE_WORD})"
)
_NOT_ORDINAL = r"(?<!th)(?<!st)(?<!rd)(?<!econd)"
"""An ordinal ends a number in words: "first six" are two."""
_WORDED_NUMBER = re.compile(
    rf"(?<!\d)(?<!\d[\s-])\b(?:{_ANY_NUMBER_WORD})(?:{_NOT_ORDINAL}(?:{_AND}|[\s-]+)(?:{_ANY_NUMBER_WORD}))*\b",
    re.IGNORECASE,
)
ISO_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
DOTTED_DATE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\.?\d)")
SLASHED_DATE = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(?:19|20)\d\d(?![\d/])")
"""Day and month in either order."""


def date_fields(date: str) -> list[tuple[int, int, int]]:
    """The day, month and year of a match of ``DATE``, 0 for what it lacks; two of a slashed one, in either order."""
    plain = plain_text(date).lower()
    if slashed := SLASHED_DATE.fullmatch(plain):
        first, second = map(int, slashed.groups())
        return [(first, second, int(plain[-4:])), (second, first, int(plain[-4:]))]
    if figures := ISO_DATE.fullmatch(plain):
        return [(int(figures[3]), int(figures[2]), int(figures[1]))]
    if figures := DOTTED_DATE.fullmatch(plain):
        return [(int(figures[1]), int(figures[2]), int(figures[3]))]
    month = next((MONTHS[word] for word in re.findall(r"[a-z]+", plain) if word in MONTHS), 0)
    *day, last = re.findall(r"\d+", plain)
    is_year = len(last) == 4 or bool(day)
    century = 0 if len(last) == 4 else 1900 if int(last) >= OLDEST_SHORT_YEAR else 2000
    year = century + int(last) if is_year else 0
    return [(int((*day, "0" if is_year else last)[0]), month, year)]


VERSION = re.compile(r"(?<![\d.,])\d+(?:\.\d+){2,}(?![\d]|[.,]\d)")
GROUPED_NUMBER = re.compile(r"\d{1,3}(?:\.\d{3})+")
UNIT_BESIDE_NUMBER = re.compile(
    rf"(?:(?:\d|\b(?:{_ANY_NUMBER_WORD}))(?:\s?(?:{SCALE_WORD}|bn|mn))?[\s-]?|[°º]\s?)(?P<unit>{CURRENCY_CODE}|{UNIT_SIGN})(?!\w)"
    rf"|(?<!\w)(?P<code>{CURRENCY_CODE})(?=\s?\d)"
)


def _words_with(first: str) -> str:
    """A pattern for the words of numbers that begin with a letter, where no other letter stands before it."""
    rests = sorted((word[1:] for word in NUMBER_WORDS if word[0] == first), key=len, reverse=True)
    return rf"{first}(?<![a-z]{first})(?:{'|'.join(rests)})"


_NUMBER_WORD = re.compile(f"(?:{'|'.join(map(_words_with, sorted({word[0] for word in NUMBER_WORDS})))})(?![a-z])")
"""A word of a number in lower case; characters that none begins with are passed over fast."""
_DIGITS_IN_WORD, _LONGEST_NUMBER = re.compile(r"\d+"), 40


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a text, with the word of its scale ("million" or "k", in lower case); "1990s" is a decade.

    ``amounts`` is what it may amount to: "1.234" is read both ways, and "5m" may be 5 or 5,000,000. ``digits`` are as
    they are written, "" for a number in words.
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
    numbers = [Number(*match.span(), (worded_amount(match.group()),)) for match in worded_numbers(text)]
    for match in NUMBER.finditer(text):
        scale = (match["scale"] or "").lower()
        written = _read_digits(match["digits"])
        scaled = tuple(amount * ALL_SCALES[scale] for amount in written) if scale else ()
        is_sure = scale in LONG_SCALES or (
            scale and MONEY_BEFORE.search(text, max(match.start() - 4, 0), match.start())
        )
        amounts = scaled if is_sure else written + scaled
        is_decade = match["decade"] is not None and _may_be_decade(match)
        end = match.end() if is_decade else match.start("decade") if match["decade"] else match.end()
        numbers.append(Number(match.start(), end, amounts, match["digits"], match.end("digits"), scale, is_decade))
    return sorted(numbers, key=lambda number: number.start)


_BEFORE_DECADE = re.compile(
    r"(?:\b(?:the|his|her|their|its|my|our|your|early|mid|late|low|high|lower|upper|in|and|to|or)[\s-]|['’]|^|[.!?]\s)['’]?$",
    re.IGNORECASE,
)


def _may_be_decade(match: re.Match[str]) -> bool:
    """Whether the "s" behind digits makes them a decade or many, as in "1990s" and "her 30s"; else it is seconds."""
    digits = match["digits"]
    is_round = len(digits) == 2 and digits[1] == "0"
    return (len(digits) > 2 and digits.isdecimal()) or (
        is_round and _BEFORE_DECADE.search(match.string, max(match.start() - 8, 0), match.start()) is not None
    )


@lru_cache(maxsize=4096)
def numbers_in_word(word: str) -> frozenset[int]:
    """The numbers whose digits a word has, or that it says: 9 for "B9" and "9:00", 40 for "forty"."""
    if word.lower() in NUMBER_WORDS:
        return frozenset([NUMBER_WORDS[word.lower()]])
    return frozenset(int(digits) for digits in _DIGITS_IN_WORD.findall(word[:_LONGEST_NUMBER].removesuffix(":00")))


def worded_numbers(text: str) -> Iterator[re.Match[str]]:
    """The numbers in words, tried only where a word is one of a number."""
    end = 0
    for word in _NUMBER_WORD.finditer(text.replace("İ", "I").lower()):  # no other letter becomes two
        if word.start() >= end:
            match = _WORDED_NUMBER.match(text, word.start())
            if match:
                end = match.end()
                yield match


@lru_cache(maxsize=4096)
def _read_digits(digits: str) -> tuple[Decimal, ...]:
    groups = re.split(r"[^\d]", digits)
    separators = re.sub(r"\d", "", digits)
    thousands = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    amounts = []
    if len(groups) == 1 or (thousands and len(set(separators)) == 1):
        amounts.append("".join(groups))
    is_dotted = len(groups) > 2 and set(separators) == {"."}
    if is_dotted and not thousands and not DOTTED_DATE.fullmatch(".".join(groups)):
        amounts += [groups[0], ".".join(groups[:2])]
    elif len(groups) > 1 and separators[-1] in ".," and separators[-1] not in separators[:-1]:
        if not (separators == "," and thousands) and all(len(group) == 3 for group in groups[1:-1]):
            amounts.append("".join(groups[:-1]) + "." + groups[-1])
    elif len(groups) > 2 and not thousands:
        amounts += groups
    return tuple(map(Decimal, amounts))


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


Reading: TypeAlias = tuple[str, Decimal]


class Kind(StrEnum):
    """The kinds of sizes; a measure's dimension and versions are kinds, too."""

    AMOUNT = "amount"
    AMOUNT_OF_TIME = "amount of time"
    """One that a unit of time follows."""
    AMOUNT_OF_MEASURE = "amount of measure"
    """One that another unit follows: "20 mg"."""
    COUNT = "count"
    """One that counts what is no unit: "two chairs"."""
    OTHER_AMOUNT = "other amount"
    """One that is not written as one plain number: "a dozen", "60 cents"."""
    PERCENT = "percent"
    """A percentage in other words: "two thirds"."""
    SHARE = "share"
    """A percentage that is said to be one of something: "two thirds of the staff"."""
    SECONDS = "seconds"
    MONTHS = "months"
    """Lengths of time; weeks are seconds, years are months, and the two never meet."""
    MINUTE = "minute of the day"
    PERHAPS_MINUTE = "perhaps a minute of the day"
    MONTH = "month"
    CENTURY = "century"
    HOURS_A_DAY = "hours a day"
    TIMES_A_WEEK = "times a week"
    TIMES_A_YEAR = "times a year"
    """How often; what is counted by days or weeks and by months or years never meets."""
    OFTEN = "how often"
    """How many times a year, as it is said of what happens, and not of a price."""
    QUARTER = "quarter of a year"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in a text, ``[start, end)``, with all its readings: pairs of a kind and a size.

    ``within`` is half of what the last written digit is worth, 50,000 for "1.2 million" and "half a million".
    """

    start: int
    end: int
    readings: frozenset[Reading]
    within: Decimal = Decimal(0)


HALF_DAY = 720
_WHOLE_DAY = 1440
_TIME = re.compile(
    r"(?<![\w.,:$€£])(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})|\.(?P<dotted>\d{2}))?\s?(?P<half>[ap])(?:\.\s?m\.|\.?m\b)"
    r"|(?<![\w.,:$€£])(?P<plain_hour>\d{1,2}):(?P<plain_minute>\d{1,2})(?![\w:]|[.,]\d)"
    r"(?=\sin\sthe\s(?P<part>morning|afternoon|evening)\b)?"
    r"|(?<![\w.,:$€£])(?P<first>\d{1,2})(?::(?P<first_minute>\d{2}))?(?=\s?(?:-|–|—|to|until|till|and)\s?"
    r"\d{1,2}(?::\d{2})?\s?[ap]\.?\s?m\b)"
    r"|(?<=\d-\d\dT)(?P<iso_hour>\d{2}):(?P<iso_minute>\d{2})"
    r"|\b(?P<word>noon|midday|midnight)\b",
    re.IGNORECASE,
)


_AFTER_NOON = re.compile(r"(?<![\w.,:$€£/-])(?:1[3-9]|2[0-3]):[0-5]\d(?![\w:]|[.,]\d)")
_MAY_BE_TIME = re.compile(r"\d(?:\s?[ap]\.?\s?m|:\d)|noon|mid(?:day|night)")


def clock_times_in(text: str) -> Iterator[Quantity]:
    """The times of day in a text, ascending, as minutes after midnight.

    "5 PM" and "17:00" are one time each; "5:30", and the "4" of "4-7 p.m.", may lie before or after noon, but "5:30"
    not in a text that also has "17:00". A minute of one digit, as in "11:0", is only written by machines, which count
    24 hours.
    """
    has_later: bool | None = None
    for match in _TIME.finditer(text) if _MAY_BE_TIME.search(text.lower()) else ():
        if match["word"]:
            minutes = [0 if match["word"].lower() == "midnight" else HALF_DAY]
        else:
            hour = int(match["hour"] or match["plain_hour"] or match["first"] or match["iso_hour"])
            minute = match["minute"] or match["dotted"] or match["plain_minute"] or match["first_minute"]
            written = minute or match["iso_minute"] or "00"
            if hour > 24 or int(written) > 59:
                continue
            at, in_half = hour * 60 + int(written), 1 <= hour <= 12
            half = (match["half"] or match["part"] or "").lower()
            if half and in_half:
                minutes = [at % HALF_DAY + (0 if half in ("a", "morning") else HALF_DAY)]
            else:
                is_open = in_half and len(written) > 1 and not match["half"] and not match["iso_hour"]
                if is_open and match["plain_hour"]:
                    has_later = _AFTER_NOON.search(text) is not None if has_later is None else has_later
                    is_open = not has_later
                minutes = [minute % _WHOLE_DAY for minute in (at, at + HALF_DAY)[: 1 + is_open]]
        yield Quantity(*match.span(), frozenset((Kind.MINUTE, Decimal(minute)) for minute in minutes))
