"""The content words of an answer whose beginning is new: no word of its passages begins in the same way.

This is the baseline ``novelty``, which needs no model.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from attribeam.schemas import CharRange, Passage

_WORD = re.compile(r"[^\W_]+")
_STEM_LETTERS = 6
_SHORTEST = 4


def content_words(text: str) -> Iterator[CharRange]:
    """The runs of letters and digits that are longer than three."""
    for word in _WORD.finditer(text):
        if word.end() - word.start() >= _SHORTEST:
            yield CharRange(word.start(), word.end())


def word_beginnings(passages: Iterable[Passage]) -> frozenset[str]:
    """The beginnings, of up to six letters, of all words of the passages and their titles, in lower case."""
    words = {
        word[:_STEM_LETTERS]
        for passage in passages
        for text in (passage.title or "", passage.text)
        for word in _WORD.findall(text.lower())
    }
    return frozenset(word[:length] for word in words for length in range(1, len(word) + 1))


def is_unseen(word: str, beginnings: frozenset[str]) -> bool:
    """Whether the word's first six letters begin no word of the passages."""
    return word.lower()[:_STEM_LETTERS] not in beginnings


class Novelty:
    """The share of unseen words in any range of one text; ``words`` are its content words that count, ascending."""

    def __init__(self, text: str, words: Sequence[CharRange], beginnings: frozenset[str]) -> None:
        self._starts = [word.char_start for word in words]
        self._ends = [word.char_end for word in words]
        self._unseen = [0, *accumulate(is_unseen(word.of(text), beginnings) for word in words)]

    def share(self, chars: CharRange) -> float:
        """The share among the words that reach into the range, 0 to 1; 0 without words."""
        first, last = bisect_right(self._ends, chars.char_start), bisect_left(self._starts, chars.char_end)
        return (self._unseen[last] - self._unseen[first]) / (last - first) if last > first else 0.0
