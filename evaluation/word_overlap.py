"""How well the words of an answer match the words of each passage, without any model."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas import CharRange, Passage

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The words of an answer and their best match in every passage.

    Attributes:
        words: characters of each word in the answer.
        scores: float64 [words, passages], length of the longest common run that a match of this word in this passage
            belongs to, divided by the word's frequency over all passages; 0 where the passage lacks the word.
    """

    words: tuple[CharRange, ...]
    scores: npt.NDArray[np.float64]

    def passage_scores(self, ranges: Sequence[CharRange]) -> tuple[float, ...]:
        """For each passage the sum over the words that overlap one of ``ranges``, each word once."""
        chosen = [any(word.overlaps(chars) for chars in ranges) for word in self.words]
        return tuple(self.scores[np.array(chosen, dtype=bool)].sum(axis=0).tolist())


def match_words(answer: str, passages: Sequence[Passage]) -> WordMatches:
    """Match the words of ``answer`` with those of each passage, title first.

    Words are runs of letters and digits, in lower case. Runs are common to the whole answer and the passage, so they
    may reach beyond the span that is asked for later.
    """
    found = list(_WORD.finditer(answer))
    words = [match.group().lower() for match in found]
    texts = [_passage_words(passage) for passage in passages]
    frequency = Counter(word for text in texts for word in text)
    runs = best_runs(words, texts)
    frequencies = np.array([max(frequency[word], 1) for word in words], dtype=np.float64)
    return WordMatches(tuple(CharRange(*match.span()) for match in found), runs / frequencies[:, None])


def best_runs(words: Sequence[str], texts: Sequence[Sequence[str]]) -> npt.NDArray[np.int64]:
    """For each word and text the length of the longest run, common to both, that one of the word's matches is in.

    int64 [words, texts]; a run is of neighbouring words on both sides and lies within one text.
    """
    places, owner = _places(texts)
    best = np.zeros((len(words), len(texts)), dtype=np.int64)
    ending: dict[int, int] = {}
    for index, word in enumerate(words):
        ending = {place: ending.get(place - 1, 0) + 1 for place in places.get(word, ())}
        for place, length in ending.items():
            run = best[index - length + 1 : index + 1, owner[place]]
            np.maximum(run, length, out=run)
    return best


def _places(texts: Sequence[Sequence[str]]) -> tuple[dict[str, list[int]], list[int]]:
    """Where each word stands, texts laid end to end with a gap after each, and the text of every place."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    owner: list[int] = []
    for number, text in enumerate(texts):
        for word in text:
            places[word].append(len(owner))
            owner.append(number)
        owner.append(number)
    return dict(places), owner


def _passage_words(passage: Passage) -> list[str]:
    text = f"{passage.title} {passage.text}" if passage.title else passage.text
    return [word.lower() for word in _WORD.findall(text)]
