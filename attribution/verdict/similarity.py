"""How close in meaning the words of an answer come to those of its passages, by the bundled word vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.word_matches import PassageWords
from attribeam.attribution.verdict.word_table import WordTable

UNKNOWN = -0.5
"""The similarity of a word without a vector; vectors that have nothing in common have 0, opposite ones -1."""


_MOST_COSINES = 2**23
"""The largest table of cosines that is kept, 32 MB; beyond it they are computed where they are asked for."""


class WordSimilarity:
    """Cosines between the content words of an answer and the words of its passages."""

    def __init__(self, answer: AnswerWords, passages: PassageWords, table: WordTable) -> None:
        self._rows = np.array(
            [table.row(word) if answer.content[place] else -1 for place, word in enumerate(answer.lowered)],
            dtype=np.int64,
        )
        self._passages = passages
        self._vectors = table.vectors
        self._known = self._rows >= 0
        self._seen = np.array([one in passages.places for one in answer.stems], dtype=bool)
        self._columns = passages.known_rows
        every = np.arange(len(self._rows))
        self._kept = self._cosines(every) if len(every) * len(self._columns) <= _MOST_COSINES else None

    def anywhere(self) -> npt.NDArray[np.float32]:
        """For each word its largest cosine with any passage word; 1 for a stem that occurs, 0 for an unknown word."""
        largest = np.zeros(len(self._known), dtype=np.float32)
        if self._columns.size:
            at_once = max(1, _MOST_COSINES // len(self._columns))
            for words in np.split(np.arange(len(largest)), range(at_once, len(largest), at_once)):
                largest[words] = self._between(words).max(axis=1)
        return np.where(self._seen, 1.0, np.where(self._known, largest, 0.0)).astype(np.float32)

    def beside(self, words: Sequence[int], pair_start: int | None) -> npt.NDArray[np.float32]:
        """The largest cosine of each of the words with those of two successive passage sentences; -1 without any."""
        if pair_start is None:
            none = np.full(len(words), -1.0, dtype=np.float32)
            none[~self._known[words]] = UNKNOWN
            return none
        sentences = self._passages.sentence_array
        rows = self._passages.vector_rows[(sentences == pair_start) | (sentences == pair_start + 1)]
        columns = np.searchsorted(self._columns, np.unique(rows[rows >= 0]))
        if not columns.size:
            return np.full(len(words), -1.0, dtype=np.float32)
        largest: npt.NDArray[np.float32] = self._between(np.asarray(words, dtype=np.intp), columns).max(axis=1)
        return largest

    def _between(
        self, words: npt.NDArray[np.intp], columns: npt.NDArray[np.intp] | slice = slice(None)
    ) -> npt.NDArray[np.float32]:
        """The cosines of some words with some of the passages' words: float32 [words, columns]."""
        if self._kept is None:
            return self._cosines(words, columns)
        return self._kept[words][:, columns]

    def _cosines(
        self, words: npt.NDArray[np.intp], columns: npt.NDArray[np.intp] | slice = slice(None)
    ) -> npt.NDArray[np.float32]:
        rows = self._rows[words]
        others = self._vectors[self._columns[columns]]
        found = np.full((len(rows), len(others)), UNKNOWN, dtype=np.float32)
        found[rows >= 0] = self._vectors[rows[rows >= 0]] @ others.T
        return found
