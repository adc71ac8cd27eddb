"""The content words of an answer whose beginning is new: no word of its passages begins in the same way.

This is the baseline ``novelty``, which needs no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

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


def novelty(text: str, words: Sequence[CharRange], beginnings: frozenset[str]) -> float:
    """The share of these words of the text that are unseen, 0 to 1; 0 without words."""
    return sum(is_unseen(word.of(text), beginnings) for word in words) / len(words) if words else 0.0
