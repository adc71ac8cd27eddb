"""The words of passages, and how the words of an answer match them.

How the words of an answer match its passages: runs of words, neighbours, and the sentences that cover them best.

The words of one row's passages, by stem: where they stand, in which sentence, and in which field of a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.record_fields import RecordLine, Truth, open_days, record_lines
from attribeam.attribution.verdict.word_forms import WORD_OR_MARK, carries_content, stem
from attribeam.attribution.verdict.word_table import WordTable
from attribeam.schemas import Passage

_SENTENCE_ENDS = frozenset(".!?;")
_MOST_PLACES = 50


class PassageWords:
    """All words and marks of the passages, titles included, in one sequence.

    Attributes:
        stems: the stem of each word.
        sentences: the sentence that each word stands in; a line of a record is one.
        truths: what the field says in whose line each word stands.
        places: the places of each stem, ascending.
        lines: the lines of all passages.
        text_lines: those of their texts, without titles.
    """

    def __init__(self, passages: Sequence[Passage], table: WordTable) -> None:
        self.lines: list[RecordLine] = []
        self.text_lines: list[RecordLine] = []
        self.stems: list[str] = []
        self.sentences: list[int] = []
        self.truths: list[Truth] = []
        self.words: set[str] = set()
        self._lowered: list[str] = []
        self._table = table
        sentence = 0
        for passage in passages:
            title, text = ([*record_lines(part or "")] for part in (passage.title, passage.text))
            for lines in (title, text):
                for line in lines:
                    sentence = self._read(line, sentence + 1)
                sentence += 1
            self.text_lines += text
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(self.stems):
            places[one].append(place)
        self.places: dict[str, list[int]] = dict(places)

    def _read(self, line: RecordLine, sentence: int) -> int:
        self.lines.append(line)
        words = [*WORD_OR_MARK.findall(line.text), *line.joined_names]
        self._lowered += map(str.lower, words)
        self.stems += map(stem, words)
        self.truths += [line.truth] * len(words)
        for word in words:
            self.sentences.append(sentence)
            sentence += word in _SENTENCE_ENDS
        return sentence

    @cached_property
    def lowered(self) -> frozenset[str]:
        """All words in lower case."""
        return frozenset(self._lowered)

    @cached_property
    def field_share(self) -> float:
        """The share of lines that are fields of a record."""
        return sum(line.key is not None for line in self.lines) / max(len(self.lines), 1)

    @cached_property
    def open_days(self) -> frozenset[int]:
        """The weekdays with opening hours, Monday 0; empty where no record has any."""
        return open_days(self.lines)

    @cached_property
    def sentence_stems(self) -> dict[int, frozenset[str]]:
        """The stems of each sentence, marks left out."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for one, sentence in zip(self.stems, self.sentences, strict=True):
            if len(one) > 1 or one.isdigit():
                found[sentence].add(one)
        return {sentence: frozenset(stems) for sentence, stems in found.items()}

    @cached_property
    def run_places(self) -> tuple[list[str], dict[str, list[int]]]:
        """The stems that are words rather than marks, and the places of each in that sequence, for runs."""
        words = [one for one in self.stems if one == "_" or one[:1].isalnum()]
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(words):
            places[one].append(place)
        return words, dict(places)

    @cached_property
    def vector_rows(self) -> npt.NDArray[np.int64]:
        """For each word its row in the table of vectors, -1 for function words and unknown words."""
        rows = {word: self._table.row(word) if carries_content(word) else -1 for word in self.lowered}
        return np.fromiter(map(rows.__getitem__, self._lowered), dtype=np.int64, count=len(self._lowered))

    @cached_property
    def known_rows(self) -> npt.NDArray[np.int64]:
        """The different rows of the table that the passages use, ascending."""
        rows = np.unique(self.vector_rows)
        return rows[rows >= 0]

    @cached_property
    def sentence_array(self) -> npt.NDArray[np.int64]:
        """``sentences`` as an array."""
        return np.array(self.sentences, dtype=np.int64)

    def stand_near(self, first: str, second: str, distance: int) -> bool:
        """Whether the two stems stand anywhere within ``distance`` words of each other."""
        others = self.places.get(second, ())
        return any(is_near(place, others, distance) for place in self.places.get(first, ())[:_MOST_PLACES])


def is_near(place: int, others: Sequence[int], distance: int) -> bool:
    """Whether one of the places, ascending, lies within ``distance`` of a place."""
    found = bisect_left(others, place - distance)
    return found < len(others) and others[found] <= place + distance


_MOST_PLACES_OF_A_RUN, _MOST_PLACES_AROUND = 200, 30


@dataclass(frozen=True, slots=True)
class Coverage:
    """How well one passage sentence covers some words; shares are of the words' weights.

    Attributes:
        best: share that the best sentence has.
        pair: share that the best two successive sentences have.
        lead: by how much the best sentence leads the second.
        best_stems, pair_stems: the stems of that sentence and of these two.
        pair_start: the first of the two; None where nothing matches.
    """

    best: float
    pair: float
    lead: float
    best_stems: frozenset[str] = frozenset()
    pair_stems: frozenset[str] = frozenset()
    pair_start: int | None = None


def run_lengths(answer: AnswerWords, passages: PassageWords) -> list[int]:
    """For each word the length, in words, of the longest run of stems around it that some passage repeats."""
    words = [word for word in range(len(answer)) if answer.is_word[word]]
    _, places = passages.run_places
    ending: dict[int, int] = {}
    lengths = [0] * len(answer)
    for word in words:
        ending = {
            place: ending.get(place - 1, 0) + 1 for place in places.get(answer.stems[word], ())[:_MOST_PLACES_OF_A_RUN]
        }
        lengths[word] = max(ending.values(), default=0)
    longest = lengths.copy()
    for word, following in zip(reversed(words[:-1]), reversed(words[1:]), strict=True):
        if lengths[following] == lengths[word] + 1 > 1:
            longest[word] = max(longest[word], longest[following])
    return longest


def coverage(stems: Sequence[str], passages: PassageWords, table: WordTable) -> Coverage:
    """The passage sentences that share the most with some stems; full coverage where there are none."""
    weights = [table.weight(one) for one in stems]
    total = sum(weights)
    if not stems:
        return Coverage(1.0, 1.0, 0.0)
    shared: defaultdict[int, float] = defaultdict(float)
    for one, weight in zip(stems, weights, strict=True):
        for sentence in {passages.sentences[place] for place in passages.places.get(one, ())}:
            shared[sentence] += weight
    if not shared:
        return Coverage(0.0, 0.0, 0.0)
    best = max(shared, key=lambda sentence: shared[sentence])
    pair = max(shared, key=lambda sentence: shared[sentence] + shared.get(sentence + 1, 0.0))
    empty: frozenset[str] = frozenset()
    of_pair = passages.sentence_stems.get(pair, empty) | passages.sentence_stems.get(pair + 1, empty)
    second = sorted(shared.values())[-2] if len(shared) > 1 else 0.0
    return Coverage(
        best=shared[best] / total,
        pair=sum(weight for one, weight in zip(stems, weights, strict=True) if one in of_pair) / total,
        lead=(shared[best] - second) / total,
        best_stems=passages.sentence_stems.get(best, empty),
        pair_stems=of_pair,
        pair_start=pair,
    )


def shares_around(stems: Sequence[str], distance: int, passages: PassageWords, table: WordTable) -> dict[str, float]:
    """For each stem of a group the largest weighted share of the others within ``distance`` words of a place of it.

    It is -1 for a stem that is alone, and a stem that the group has twice is one of its others.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    for one in stems:
        weights[one] += table.weight(one)
    total = sum(weights.values())
    found: dict[str, float] = {}
    for one in weights:
        own = table.weight(one)
        windows = (
            frozenset(passages.stems[max(place - distance, 0) : place + distance + 1])
            for place in passages.places.get(one, ())[:_MOST_PLACES_AROUND]
        )
        around = (sum(weight for near, weight in weights.items() if near in window) for window in windows)
        found[one] = -1.0 if len(stems) == 1 else max(max(around, default=0.0) - own, 0.0) / (total - own)
    return found
