"""How well the words of an answer match the words of each passage, without any model."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.attribution.methods.scored_range import ScoredRange
from attribeam.schemas import CharRange, Passage
from attribeam.schemas.labelled_answer import PassageRange

_WIDE = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+")


@dataclass(frozen=True, slots=True)
class PassageWord:
    """A lower-cased word of a passage; ``chars`` are its characters in the passage's text, None in its title."""

    word: str
    chars: CharRange | None


@dataclass(frozen=True, slots=True)
class BestRuns:
    """For each word and text the longest run, common to both, that one of the word's matches is in.

    Attributes:
        lengths: int64 [words, texts], words of that run; 0 where the text lacks the word.
        places: int64 [words, texts], where in the text that match stands, the first of equally long runs; -1 without.
    """

    lengths: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The words of an answer and their best match in every passage.

    Attributes:
        words: characters of each word in the answer.
        scores: float64 [words, passages], length of the longest common run that a match of this word in this passage
            belongs to, divided by the word's frequency over all passages; 0 where the passage lacks the word.
        places: int64 [words, passages], which word of the passage that match is, title first; -1 without.
        passages: the words of each passage.
    """

    words: tuple[CharRange, ...]
    scores: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]
    passages: tuple[tuple[PassageWord, ...], ...]

    def passage_scores(self, ranges: Sequence[CharRange]) -> tuple[float, ...]:
        """For each passage the sum over the words that overlap one of ``ranges``, each word once."""
        return tuple(self.scores[self._chosen(ranges)].sum(axis=0).tolist())

    def evidence(self, ranges: Sequence[CharRange], passage_index: int) -> tuple[ScoredRange, ...]:
        """The best matches in one passage's text of the words that overlap one of ``ranges``, one a matched word.

        Matches in the passage's title are left out: they cannot be highlighted in its text.
        """
        found = []
        for index in np.flatnonzero(self._chosen(ranges)).tolist():
            place = int(self.places[index, passage_index])
            chars = self.passages[passage_index][place].chars if place >= 0 else None
            if chars is not None:
                found.append(ScoredRange(PassageRange(passage_index, chars), float(self.scores[index, passage_index])))
        return tuple(found)

    def _chosen(self, ranges: Sequence[CharRange]) -> npt.NDArray[np.bool_]:
        return np.array([any(word.overlaps(chars) for chars in ranges) for word in self.words], dtype=np.bool_)


def match_words(answer: str, passages: Sequence[Passage]) -> WordMatches:
    """Match the words of ``answer`` with those of each passage, title first.

    Words are runs of letters and digits, in lower case; each Chinese character is a word of its own. Runs are common to
    the whole answer and the passage, so they may reach beyond the span that is asked for later.
    """
    found = list(_WORD.finditer(answer))
    words = [match.group().lower() for match in found]
    of_passages = tuple(_passage_words(passage) for passage in passages)
    texts = [[one.word for one in of_passage] for of_passage in of_passages]
    frequency = Counter(word for text in texts for word in text)
    runs = best_runs(words, texts)
    frequencies = np.array([max(frequency[word], 1) for word in words], dtype=np.float64)
    return WordMatches(
        words=tuple(CharRange(*match.span()) for match in found),
        scores=runs.lengths / frequencies[:, None],
        places=runs.places,
        passages=of_passages,
    )


def best_runs(words: Sequence[str], texts: Sequence[Sequence[str]]) -> BestRuns:
    """The best runs of ``words`` in each text; a run is of neighbouring words on both sides, within one text.

    Length and place go through the search as one number, ``length * size - place``: longer is larger, and of equally
    long runs the earlier one.
    """
    places, owner, starts = _places(texts)
    size = len(owner) + 1
    before = -np.arange(size, dtype=np.int64)
    best = np.zeros((len(words), len(texts)), dtype=np.int64)
    ending: dict[int, int] = {}
    for index, word in enumerate(words):
        ending = {place: ending.get(place - 1, 0) + 1 for place in places.get(word, ())}
        for place, length in ending.items():
            run = best[index - length + 1 : index + 1, owner[place]]
            np.maximum(run, before[place - length + 1 : place + 1] + length * size, out=run)
    lengths = -(-best // size)
    return BestRuns(lengths, np.where(lengths > 0, lengths * size - best - np.array(starts, dtype=np.int64), -1))


def _places(texts: Sequence[Sequence[str]]) -> tuple[dict[str, list[int]], list[int], list[int]]:
    """Where each word stands, texts laid end to end with a gap after each; the text of every place; texts' starts."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    owner: list[int] = []
    starts: list[int] = []
    for number, text in enumerate(texts):
        starts.append(len(owner))
        for word in text:
            places[word].append(len(owner))
            owner.append(number)
        owner.append(number)
    return dict(places), owner, starts


def _passage_words(passage: Passage) -> tuple[PassageWord, ...]:
    titled = [PassageWord(match.group().lower(), None) for match in _WORD.finditer(passage.title or "")]
    return (
        *titled,
        *(PassageWord(match.group().lower(), CharRange(*match.span())) for match in _WORD.finditer(passage.text)),
    )
