"""The words, numbers and months of passages, in the form in which values are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property

from attribeam.attribution.answers.numbers_and_dates import (
    DOTTED_DATE,
    ISO_DATE,
    MONTHS,
    NUMBER,
    VERSION,
    Duration,
    amounts,
    clock_times,
    counts_time,
    durations_of,
    fractions_in_percent,
    mixed_number,
    unit_durations,
    worded_amount,
    worded_numbers,
)
from attribeam.schemas import Passage

_WORD = re.compile(r"[^\W_]+")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_FRACTION_WORD = re.compile(r"half|quarter", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_POSSESSIVE = re.compile(r"'s\b")
_FULL_STOP_AFTER_LETTER = re.compile(r"\.(?<=\b\w\.)(?=\w\b|\W|$)")
_CAPITALISED_PREFIX = re.compile(r"([A-Z])\w*")
SMALL_WORDS = frozenset({"of", "the", "and", "for", "de", "&"})


class PassageContent:
    """What one passage, its title included, says in comparable form; each part is read when first asked for."""

    def __init__(self, passage: Passage) -> None:
        self._plain = plain_text(f"{passage.title or ''}\n{passage.text}")

    @cached_property
    def words(self) -> frozenset[str]:
        """Words in lower case, without diacritics."""
        return frozenset(comparable_words(self._plain))

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        """Every amount that may be meant by its numbers, fractions ("two and a half") and times of day included."""
        numbers = {amount for meant, _ in self._found for amount in meant} | self._date_numbers
        if self._has_fractions:
            mixed = (mixed_number(self._plain, end, one)[0] for meant, end in self._found for one in meant)
            numbers |= {*mixed, *clock_times(self._plain)}
        return frozenset(numbers)

    @cached_property
    def numbers_without_time(self) -> frozenset[Decimal]:
        """Its numbers apart from those that count units of time."""
        found = ((meant, end) for meant, end in self._found if not counts_time(self._plain, end))
        return frozenset({amount for meant, _ in found for amount in meant} | self._date_numbers)

    @cached_property
    def durations(self) -> frozenset[Duration]:
        """Every length of time that may be meant, "a week" and "half an hour" included."""
        counted = (one for meant, end in self._found for one in durations_of(self._plain, end, meant))
        return frozenset((*counted, *unit_durations(self._plain)))

    @cached_property
    def fractions_in_percent(self) -> frozenset[Decimal]:
        """Its fractions in words, as percent."""
        return frozenset(fractions_in_percent(self._plain))

    @cached_property
    def months(self) -> frozenset[int]:
        """Months that it names, 1 to 12."""
        named = {month for name, month in MONTHS.items() if name in self.words}
        if self._has_digits:
            dates = (*ISO_DATE.finditer(self._plain), *DOTTED_DATE.finditer(self._plain))
            named |= {int(match.group(2)) for match in dates}
        return frozenset(named)

    @cached_property
    def versions(self) -> frozenset[str]:
        """Numbers of three or more parts with full stops between them, as they are written: "4.8.2"."""
        return frozenset(match.group() for match in VERSION.finditer(self._plain))

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
    def _found(self) -> tuple[tuple[frozenset[Decimal], int], ...]:
        """What each number may amount to, and where it ends."""
        found = [(frozenset({worded_amount(match.group())}), match.end()) for match in worded_numbers(self._plain)]
        if self._has_digits:
            found += [(frozenset(amounts(match)), match.end()) for match in NUMBER.finditer(self._plain)]
        return tuple(found)

    @cached_property
    def _date_numbers(self) -> frozenset[Decimal]:
        dates = ISO_DATE.finditer(self._plain) if self._has_digits else ()
        return frozenset(Decimal(part) for match in dates for part in match.groups())

    @cached_property
    def _has_fractions(self) -> bool:
        return _FRACTION_WORD.search(self._plain) is not None

    @cached_property
    def _has_digits(self) -> bool:
        return _DIGIT.search(self._plain) is not None


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
            self._contents[passage_index] = PassageContent(self._passages[passage_index])
        return self._contents[passage_index]


def plain_text(text: str) -> str:
    """The text in NFKC, with ASCII digits and quotes, without diacritics; case is kept."""
    if text.isascii():
        return text
    plain = _BEYOND_ASCII.sub(_plain_character, unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", plain)


def comparable_words(text: str) -> list[str]:
    """The words of a text as ``PassageContent.words`` has them; "U.S." is "us", and a possessive 's is left out."""
    plain = _POSSESSIVE.sub("", plain_text(text).lower())
    return _WORD.findall(_FULL_STOP_AFTER_LETTER.sub("", plain))


def _plain_character(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.combining(character):
        return ""
    if character in "’‘ʼ":
        return "'"
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)
