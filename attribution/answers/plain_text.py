"""Text as it is compared, English words that say nothing on their own, and what of a passage values are compared with.

Compatibility forms and accents are resolved, digits and quotes are in ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Concatenate, ParamSpec, TypeVar, cast

from attribeam.attribution.answers.numbers_and_dates import (
    DOTTED_DATE,
    ISO_DATE,
    MONTHS,
    SLASHED_DATE,
    VERSION,
    Kind,
    Reading,
    numbers_in,
)
from attribeam.attribution.answers.quantities import quantities_in
from attribeam.schemas import Passage

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_FRACTION_BEHIND_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


def plain_text(text: str) -> str:
    """The text in NFKC, with ASCII digits and quotes, without diacritics; case is kept, and "1½" becomes "1 1⁄2"."""
    if text.isascii():
        return text
    text = _FRACTION_BEHIND_DIGIT.sub(" ", text)
    plain = _BEYOND_ASCII.sub(_plain_character, unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", plain)


def _plain_character(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.combining(character):
        return ""
    if character in "’‘ʼ":
        return "'"
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


FUNCTION_WORDS = frozenset(
    """
    a an the and or but nor so yet of in on at by for to from with without within into onto over under up down out off
    upon as than then that this these those such it its he him his she her hers they them their theirs i me my we us our
    you your who whom whose which what when where why how there here is are was were be been being am do does did has
    have had having will would shall should can could may might must not no if because while although though
    also some any each other more most all only just very too own same both either neither about after before between
    during through against among per via s t re ve ll d m it's that's there's he's she's i'm i've you're you've we're
    we've they're they've
    """.split()  # noqa: SIM905
)
"""Lower-case, with straight apostrophes, and with what is left of contractions."""


_KNOWN_TEXTS, _LONGEST_KNOWN_TEXT = 512, 10_000
_P = ParamSpec("_P")
_T = TypeVar("_T")


def remembered(read: Callable[Concatenate[str, _P], _T]) -> Callable[Concatenate[str, _P], _T]:
    """Keeps what was read of the last 512 texts of up to 10,000 code points: logs repeat their passages."""
    known = cast(Callable[Concatenate[str, _P], _T], lru_cache(maxsize=_KNOWN_TEXTS)(read))

    def reading(text: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return (known if len(text) <= _LONGEST_KNOWN_TEXT else read)(text, *args, **kwargs)

    return reading


_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_YEAR = re.compile(r"(?<![\d.,$€£])(?:1\d|20)\d\d(?!\d|[.,]\d|\s?%)")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORD_BEHIND = re.compile(r"[\s-]+([^\W\d_]{3,})")
_COUNTED_LETTERS = 5
_POSSESSIVE = re.compile(r"'s\b")
_FULL_STOP_AFTER_LETTER = re.compile(r"\.(?<=\b\w\.)(?=\w\b|\W|$)")
_BETWEEN_PHRASES = re.compile(r"[.,;:!?()\n]")
_CAPITALISED_PREFIX = re.compile(r"([A-Z])\w*")
SMALL_WORDS = frozenset({"of", "the", "and", "for", "de", "&"})


class PassageContent:
    """What one passage, its title included, says in comparable form; each part is read when first asked for."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @cached_property
    def _plain(self) -> str:
        return plain_text(f"{self._passage.title or ''}\n{self._passage.text}")

    @cached_property
    def words(self) -> frozenset[str]:
        """Words in lower case, without diacritics; "OutdoorSeating" counts as one word and as two."""
        words = comparable_words(self._plain)
        if _CAMEL_CASE.search(self._plain):
            words += comparable_words(_CAMEL_CASE.sub(" ", self._plain))
        return frozenset(words)

    def sizes(self, kind: str) -> frozenset[Decimal]:
        """All sizes of the readings of one kind."""
        return self._readings.get(kind, frozenset())

    def has(self, kind: str, least: Decimal, most: Decimal) -> bool:
        """Whether some reading of the kind has a size from ``least`` to ``most``."""
        sizes = self.sizes(kind)
        return least in sizes or (least < most and any(least <= size <= most for size in sizes))

    @cached_property
    def _readings(self) -> dict[str, frozenset[Decimal]]:
        found: defaultdict[str, set[Decimal]] = defaultdict(set)
        for quantity in quantities_in(self._plain):
            for kind, size in quantity.readings:
                found[kind].add(size)
        for kind, size in self._dates():
            found[kind].add(size)
        return {kind: frozenset(sizes) for kind, sizes in found.items()}

    def _dates(self) -> Iterator[Reading]:
        """Months that it names, the centuries of its years, versions, and whether it names all days of the week."""
        text, words = self._plain, self.words
        named = [month for name, month in MONTHS.items() if name in words]
        for match in (*ISO_DATE.finditer(text), *DOTTED_DATE.finditer(text)):
            named.append(int(match[2]))
        for match in SLASHED_DATE.finditer(text):
            named += map(int, match.groups())
        yield from ((Kind.MONTH, Decimal(month)) for month in named)
        yield from ((Kind.CENTURY, Decimal(int(year) // 100 + 1)) for year in _YEAR.findall(text))
        yield from (version(one) for one in VERSION.findall(text))
        if words.issuperset(_DAYS):
            yield Kind.DAYS_A_WEEK, Decimal(7)

    @cached_property
    def counted_nouns(self) -> frozenset[str]:
        """What its numbers count, as ``noun_behind`` has it."""
        return frozenset(noun_behind(self._plain, number.end) for number in numbers_in(self._plain))

    def names_before(self, name: str) -> frozenset[str]:
        """Capitalised words right before a capitalised word, all in lower case: first names before a surname."""
        pattern = re.compile(rf"\b([A-Z]\w+)\.?\s+({re.escape(name)})\b", re.IGNORECASE)
        found = (match for match in pattern.finditer(self._plain) if match[1][0].isupper() and match[2][0].isupper())
        return frozenset(match[1].lower() for match in found)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """Words all in capitals, without full stops: "US" for "U.S."."""
        undotted = _FULL_STOP_AFTER_LETTER.sub("", self._plain)
        return frozenset(word for word in _WORD.findall(undotted) if word.isupper())

    @cached_property
    def capitalised(self) -> frozenset[str]:
        """Words with a capital first letter, as they are written."""
        return frozenset(word for word in _WORD.findall(self._plain) if word[0].isupper())

    @cached_property
    def joined_words(self) -> frozenset[str]:
        """Neighbouring words written as one: "wifi" for "Wi-Fi" and "wi fi"."""
        words = comparable_words(self._plain)
        return frozenset(map("".join, pairwise(words)))

    @cached_property
    def initials(self) -> tuple[str, ...]:
        """First letters of its runs of capitalised words, one string per run: "un" for "the United Nations"."""
        runs = [""]
        for chunk in self._plain.split():
            capitalised = _CAPITALISED_PREFIX.match(chunk)
            rest = chunk
            if capitalised:
                runs[-1] += capitalised[1].lower()
                rest = chunk[capitalised.end() :]
            if rest and rest.lower() not in SMALL_WORDS:
                runs.append("")
        return tuple(run for run in runs if len(run) > 1)

    @cached_property
    def content_initials(self) -> str:
        """First letters of its words in lower or upper case, in runs without function words: "bmi" is in it for "body
        mass index". Blanks separate runs."""
        runs = _BETWEEN_PHRASES.split(self._plain.lower())
        words = (_WORD.findall(run) for run in runs)
        return " ".join("".join(" " if one in FUNCTION_WORDS else one[0] for one in run) for run in words)


def noun_behind(text: str, end: int) -> str:
    """The first five letters of the word behind a number that ends there, "moons" of "three moons"; "" for none."""
    match = _WORD_BEHIND.match(text, end)
    return match[1].lower()[:_COUNTED_LETTERS] if match else ""


def version(number: str) -> Reading:
    """The reading of a version, which must occur as it is written: "4.8.2"."""
    return f"version {number}", Decimal(0)


@remembered
def _known_content(text: str, title: str | None) -> PassageContent:
    return PassageContent(Passage(text=text, title=title))


def content_of(passage: Passage) -> PassageContent:
    """What a passage says; logs repeat their passages, so that of the last ones is remembered."""
    return _known_content(passage.text, passage.title)


def comparable_words(text: str) -> list[str]:
    """The words of a text as ``PassageContent.words`` has them; "U.S." is "us", and a possessive 's is left out."""
    plain = _POSSESSIVE.sub("", plain_text(text).lower())
    return _WORD.findall(_FULL_STOP_AFTER_LETTER.sub("", plain))
