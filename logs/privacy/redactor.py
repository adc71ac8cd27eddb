"""Masks what should not be written: in a text, in texts that follow each other, and in a whole record.

A mask has as many characters as what it hides, so every offset stays valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from attribeam.logs.privacy.recognisers import secret_ranges
from attribeam.logs.privacy.settings import PrivacySettings, SlowPatternError, own_ranges
from attribeam.schemas import CharRange

MASK = "█"
_EDGE_CHARS = 80
_KEPT_CHARS = 4_000
_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Redactor:
    """Finds and masks what the settings ask for; equal settings mask the same everywhere."""

    settings: PrivacySettings

    def masked(self, text: str) -> str:
        """The text with its masks, in which nothing more is found.

        Raises:
            SlowPatternError: if one of the user's patterns takes too long.
        """
        if not self.settings.masks:
            return text
        for _ in range(_MOST_ROUNDS):
            before, text = text, with_masks(text, self._ranges(text))
            if text == before:
                return text
        return MASK * len(text)  # each mask lets a pattern find something else beside it

    def mask(self, text: str) -> str:
        """The text with its masks, or all of it masked where one of the user's patterns takes too long."""
        try:
            return self.masked(text)
        except SlowPatternError:
            return MASK * len(text)

    def masked_list(self, texts: Sequence[str]) -> list[str]:
        """The masked texts of a list, also where an item ends within what is to be masked and the next goes on.

        Raises:
            SlowPatternError: if one of the user's patterns takes too long.
        """
        masked = [self.masked(text) for text in texts]
        if not self.settings.masks or len(texts) < 2:
            return masked
        found: list[list[CharRange]] = [[] for _ in texts]
        for pieces in _neighbours(texts):
            for glue in ("", " "):
                for parts in _across(pieces, self._ranges(glue.join(text for *_, text in pieces)), glue):
                    if not any("@" in chars.of(texts[at]) and "@" not in chars.of(masked[at]) for at, chars in parts):
                        for at, chars in parts:  # and no item alone is the address, to which letters were added
                            found[at].append(chars)
        return [with_masks(text, _united(some)) for text, some in zip(masked, found, strict=True)]

    def mask_list(self, texts: Sequence[str]) -> list[str]:
        """As ``masked_list``, or all of them masked where one of the user's patterns takes too long."""
        try:
            return self.masked_list(texts)
        except SlowPatternError:
            return [MASK * len(text) for text in texts]

    def _ranges(self, text: str) -> tuple[CharRange, ...]:
        """What is to be masked in a text: ascending ranges that do not touch."""
        usual: Iterable[CharRange] = ()
        if self.settings.redact:
            usual = _usual_ranges(text) if len(text) <= _KEPT_CHARS else secret_ranges(text)
        return tuple(_united(chain(usual, own_ranges(self.settings.own_patterns, text))))

    def secrets(self, texts: Iterable[str]) -> frozenset[str]:
        """The e-mail addresses and numbers that texts hold, as they are written there."""
        if not self.settings.redact:
            return frozenset()
        return frozenset(chars.of(text) for text in texts for chars in _usual_ranges(text))


@lru_cache(maxsize=4096)
def _usual_ranges(text: str) -> tuple[CharRange, ...]:
    return tuple(secret_ranges(text))


def with_masks(text: str, ranges: Iterable[CharRange]) -> str:
    """The text with every character of the ascending ``ranges`` masked."""
    parts, last = [], 0
    for chars in ranges:
        parts += [text[last : chars.char_start], MASK * (chars.char_end - chars.char_start)]
        last = chars.char_end
    return "".join([*parts, text[last:]])


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with each of the ``secrets`` masked wherever it stands as a word of its own."""
    for secret in secrets:
        if secret in text:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", MASK * len(secret), text)
    return text


_Piece = tuple[int, int, str]
"""Which text of a list, where in it a piece starts, and the piece."""


def _neighbours(texts: Sequence[str]) -> Iterator[list[_Piece]]:
    """The pieces of a list that may hold parts of one thing: of a long text, its two ends belong to different ones."""
    pieces: list[_Piece] = []
    for index, text in enumerate(texts):
        if len(text) <= 2 * _EDGE_CHARS:
            pieces.append((index, 0, text))
            continue
        yield [*pieces, (index, 0, text[:_EDGE_CHARS])]
        pieces = [(index, len(text) - _EDGE_CHARS, text[-_EDGE_CHARS:])]
    yield pieces


def _across(pieces: Sequence[_Piece], ranges: Iterable[CharRange], glue: str) -> Iterator[list[tuple[int, CharRange]]]:
    """The parts, as (text, range in it), of those ``ranges`` of the joined pieces that more than one piece has."""
    for chars in ranges:
        parts: list[tuple[int, CharRange]] = []
        place = 0
        for index, offset, text in pieces:
            start, end = max(chars.char_start - place, 0), min(chars.char_end - place, len(text))
            if start < end:
                parts.append((index, CharRange(offset + start, offset + end)))
            place += len(text) + len(glue)
        if len(parts) > 1:
            yield parts


def _united(ranges: Iterable[CharRange]) -> Iterator[CharRange]:
    """Ranges that overlap or touch as one, ascending."""
    start = end = 0
    for chars in sorted(ranges):
        if chars.char_start > end and end > start:
            yield CharRange(start, end)
        if chars.char_start > end or end == start:
            start = chars.char_start
        end = max(end, chars.char_end)
    if end > start:
        yield CharRange(start, end)
