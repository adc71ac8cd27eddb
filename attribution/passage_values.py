"""The words, numbers and months of passages, in the form in which values are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from attribution.value_patterns import ISO_DATE, MONTHS, NUMBER, WORDED_NUMBER, amounts, worded_amount
from schemas import Passage

_WORD = re.compile(r"\w+")
_CAPITALISED = re.compile(r"\b([A-Z])\w*|\S+")
_SMALL_WORDS = frozenset({"of", "the", "and", "for", "de", "&"})


@dataclass(frozen=True, slots=True)
class PassageContent:
    """What one passage, its title included, says in comparable form.

    Attributes:
        words: words in lower case, without diacritics.
        numbers: every amount that may be meant by its numbers.
        months: 1 to 12.
        initials: first letters of its runs of capitalised words, one string a run: "un" for "the United Nations".
    """

    words: frozenset[str]
    numbers: frozenset[Decimal]
    months: frozenset[int]
    initials: tuple[str, ...]


class PassageValues:
    """The content of a row's passages, each read when first asked for."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        self._contents: dict[int, PassageContent] = {}

    def __len__(self) -> int:
        return len(self._passages)

    def content(self, passage_index: int) -> PassageContent:
        """The content of one passage."""
        if passage_index not in self._contents:
            passage = self._passages[passage_index]
            self._contents[passage_index] = _read(f"{passage.title or ''}\n{passage.text}")
        return self._contents[passage_index]


def plain_text(text: str) -> str:
    """The text in NFKC, with ASCII digits and quotes, without diacritics; case is kept."""
    if text.isascii():
        return text
    text = "".join(_plain_character(one) for one in unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", text)


def comparable_words(text: str) -> list[str]:
    """The words of a text as ``PassageContent.words`` has them; "U.S." is "us", and a possessive 's is left out."""
    plain = re.sub(r"'s\b", "", plain_text(text).lower())
    return _WORD.findall(re.sub(r"\b(\w)\.(?=\w\b|\W|$)", r"\1", plain))


def _plain_character(character: str) -> str:
    if unicodedata.combining(character):
        return ""
    if character in "’‘ʼ":
        return "'"
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def _read(text: str) -> PassageContent:
    plain = plain_text(text)
    words = frozenset(comparable_words(plain))
    numbers = {amount for match in NUMBER.finditer(plain) for amount in amounts(match)}
    numbers |= {worded_amount(match.group()) for match in WORDED_NUMBER.finditer(plain)}
    months = {MONTHS[word] for word in words if word in MONTHS}
    for match in ISO_DATE.finditer(plain):
        numbers |= {Decimal(part) for part in match.groups()}
        months.add(int(match.group(2)))
    return PassageContent(words, frozenset(numbers), frozenset(months), _initials(plain))


def _initials(plain: str) -> tuple[str, ...]:
    runs = [""]
    for match in _CAPITALISED.finditer(plain):
        if match.group(1):
            runs[-1] += match.group(1).lower()
        elif match.group().lower() not in _SMALL_WORDS:
            runs.append("")
    return tuple(run for run in runs if len(run) > 1)
