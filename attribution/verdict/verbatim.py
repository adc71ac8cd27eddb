"""What of a span stands literally in a passage, in any script and without a model.

Texts are compared as sequences of units: words, or single characters in scripts that put no space between words. Case,
accents, vowel points, compatibility forms, marks and white space make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from attribeam.attribution.answers.plain_text import remembered
from attribeam.schemas import Passage

_WORDS_IN_A_RUN = 3
_CHARACTERS_IN_A_RUN = 6
_SEARCHES_WITHOUT_INDEX = 100
_SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U000323af"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, kana and Han characters."""
_BORDER = "\n"
_ASCII_UNITS = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)).decode().lower()
"""What each ASCII character is in a unit: its lower case, a blank for those that stand in none."""

Run: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopiedText:
    """How much of a span is copied: the share of its units in long runs that stand in one passage, and that passage.

    ``passage_index`` is None where the share is 0.
    """

    share: float
    passage_index: int | None


class LiteralIndex:
    """The passages of one row. The first spans are searched for in the texts; for more of them, or to find copied runs,
    the texts are indexed by their runs of units, and then every span is looked up in time of its length.

    A passage's title counts as part of it, but no run crosses from the title into the text.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._parts = [(_units_of_text(one.title or ""), _units_of_text(one.text)) for one in passages]
        self._joined = [_BORDER.join(joined for _, joined in parts) for parts in self._parts]
        self._searches = 0

    @cached_property
    def _passages_of(self) -> dict[Run, int]:
        """For each run of units, and each unit, the passages that have it, as bits."""
        found: dict[Run, int] = {}
        for index, parts in enumerate(self._parts):
            for run in {run for units, _ in parts for run in (*_runs(units), *zip(units)) if run}:
                found[run] = found.get(run, 0) | 1 << index
        return found

    def literal_passages(self, text: str) -> tuple[int, ...]:
        """The passages in which all units of a text stand one after the other, ascending; none for a text without."""
        units = comparable_units(text)
        wanted = _joined(units)
        return tuple(index for index in self._possible(units) if wanted in self._joined[index]) if units else ()

    def _possible(self, units: Sequence[str]) -> Iterable[int]:
        """The passages to search for these units: all of them for the first spans, then those with all their runs."""
        self._searches += 1
        if self._searches <= _SEARCHES_WITHOUT_INDEX:
            return range(len(self._joined))
        possible = (1 << len(self._joined)) - 1
        for run in (*filter(None, _runs(units)), *zip(units)):
            possible &= self._passages_of.get(run, 0)
        return _indices(possible)

    def copied(self, text: str, *, preferred: int | None = None) -> CopiedText:
        """The largest share of a text's units that lie in runs of three words (six characters) of one passage.

        A text that is shorter than a run is one run. Of passages with equal shares the ``preferred`` one is named, else
        the first.
        """
        units = comparable_units(text)
        runs = _runs(units)
        if not any(runs):
            found = self.literal_passages(text)
            return CopiedText(1.0, preferred if preferred in found else found[0]) if found else CopiedText(0.0, None)
        counts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for place, run in enumerate(runs):
            for index in _indices(self._passages_of.get(run, 0)):
                end = place + len(run)
                counts[index] = counts.get(index, 0) + end - max(place, ends.get(index, 0))
                ends[index] = end
        if not counts:
            return CopiedText(0.0, None)
        best = min(counts, key=lambda index: (-counts[index], index != preferred, index))
        return CopiedText(counts[best] / len(units), best)


def comparable_units(text: str) -> list[str]:
    """The words of a text, or characters where the script has no spaces, in the form in which they are compared."""
    if text.isascii():
        return text.translate(_ASCII_UNITS).split()
    found: list[str] = []
    for chunk in text.split():
        if chunk.isascii():
            found += (chunk.lower(),) if chunk.isalnum() else chunk.translate(_ASCII_UNITS).split()
        else:
            found += map(_comparable, _units().findall(chunk))
    return found


@remembered
def _units_of_text(text: str) -> tuple[list[str], str]:
    """The units of a title or text, and these joined."""
    units = comparable_units(text)
    return units, _joined(units)


def _runs(units: Sequence[str]) -> list[Run]:
    """The run that begins at each unit, empty where the text ends before it."""
    if not any(map(_is_spaceless, units)):
        rest = min(len(units), _WORDS_IN_A_RUN - 1)
        return [*zip(*(units[place:] for place in range(_WORDS_IN_A_RUN)), strict=False), *[()] * rest]
    runs: list[Run] = []
    for place, unit in enumerate(units):
        length = _CHARACTERS_IN_A_RUN if _is_spaceless(unit) else _WORDS_IN_A_RUN
        runs.append(tuple(units[place : place + length]) if place + length <= len(units) else ())
    return runs


def _joined(units: Sequence[str]) -> str:
    return f" {' '.join(units)} "


def _indices(bits: int) -> list[int]:
    """The places of the bits that are set, ascending."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


@lru_cache(maxsize=1)
def _units() -> re.Pattern[str]:
    """Words with their combining marks, which Python's own ``\\w`` leaves out, and characters of spaceless scripts."""
    marks = "".join(map(chr, (code for code in range(0x300, 0x1E000) if unicodedata.category(chr(code))[0] == "M")))
    return re.compile(rf"[{_SPACELESS}][{marks}]*|(?:(?![{_SPACELESS}])[^\W_]|[{marks}])+")


@lru_cache(maxsize=65_536)
def _comparable(unit: str) -> str:
    if unit.isascii():
        return unit.lower()
    plain = (one for one in unicodedata.normalize("NFKD", unit.casefold()) if not _is_accent(one))
    return unicodedata.normalize("NFKC", "".join(plain)) or unit


def _is_accent(character: str) -> bool:
    """True for accents and for Hebrew and Arabic vowel points, by their canonical combining class."""
    combining = unicodedata.combining(character)
    return 10 <= combining <= 35 or 200 <= combining <= 240


def _is_spaceless(unit: str) -> bool:
    return unit[0] > "\u0e00" and _spaceless().match(unit) is not None


@lru_cache(maxsize=1)
def _spaceless() -> re.Pattern[str]:
    return re.compile(f"[{_SPACELESS}]")
