"""Where words begin and end in any script, by Unicode's default rules (UAX #29), and which words carry no content.

Scripts without spaces between words, such as Chinese, Japanese or Thai, have a border at every grapheme.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import regex

from attribeam.attribution.answers.function_words import FUNCTION_WORDS

_BORDER = regex.compile(r"\b", regex.WORD | regex.VERSION1)
_KNOWN_BORDERS = 4096
"""How many places are remembered: the spans of an answer share their evidence."""
_FARTHEST = 64
"""A border is looked for among so many characters on either side, or up to white space; longer words are cut."""


def on_word_borders(text: str, start: int, end: int) -> tuple[int, int]:
    """The smallest range that holds ``text[start:end]`` and begins and ends between words of ``text``."""
    return _border_before(text, start), _border_after(text, end)


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a short text that have a letter or digit, lower-case, in their order."""
    borders = _borders(text)
    parts = (text[start:end] for start, end in pairwise(borders))
    return tuple(part.lower().replace("’", "'") for part in parts if any(map(str.isalnum, part)))


def has_content(text: str) -> bool:
    """Whether a text has a word that is no function word."""
    return any(word not in FUNCTION_WORDS for chunk in text.split() for word in words_of(chunk))


@lru_cache(maxsize=_KNOWN_BORDERS)
def _border_before(text: str, place: int) -> int:
    if _is_beside_space(text, place):
        return place
    start = _chunk_start(text, place)
    chunk = text[start : _chunk_end(text, place)]
    return start + max(border for border in _borders(chunk) if border <= place - start)


@lru_cache(maxsize=_KNOWN_BORDERS)
def _border_after(text: str, place: int) -> int:
    if _is_beside_space(text, place):
        return place
    start = _chunk_start(text, place)
    chunk = text[start : _chunk_end(text, place)]
    return start + min(border for border in _borders(chunk) if border >= place - start)


def _is_beside_space(text: str, place: int) -> bool:
    return place <= 0 or place >= len(text) or text[place - 1].isspace() or text[place].isspace()


def _chunk_start(text: str, place: int) -> int:
    """The end of the white space before ``place``, or some characters back."""
    start = place
    while start > max(place - _FARTHEST, 0) and not text[start - 1].isspace():
        start -= 1
    return start


def _chunk_end(text: str, place: int) -> int:
    """The white space after ``place``, or some characters on."""
    end = place
    while end < min(place + _FARTHEST, len(text)) and not text[end].isspace():
        end += 1
    return end


@lru_cache(maxsize=4096)
def _borders(chunk: str) -> tuple[int, ...]:
    """The word borders of a text, ascending, both of its ends included."""
    return tuple(sorted({0, len(chunk), *(match.start() for match in _BORDER.finditer(chunk))}))
