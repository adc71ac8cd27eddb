"""What the sentence around a span says about the passage that the span comes from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.word_token_alignment import WordTokenAlignment
from attribution.evidence.union import PassageScores
from schemas import CharRange


class SentenceContext:
    """Sums the token-wise scores of one response's sentences on each passage column."""

    def __init__(self, *, parsed: ParsedAnswer, alignment: WordTokenAlignment, scores: PassageScores) -> None:
        """``scores`` are those of the tokens that ``alignment`` is about."""
        borders = [*parsed.sentence_starts, len(parsed.words)]
        sentences = [
            CharRange(parsed.words[first].char_start, parsed.words[end - 1].char_end)
            for first, end in pairwise(borders)
        ]
        self._firsts, self._ends = alignment.tokens_of_ranges(sentences)
        tokens = np.arange(alignment.token_count)
        inside = (tokens >= self._firsts[:, None]) & (tokens < self._ends[:, None])
        self._sums = np.zeros((len(sentences) + 1, len(scores.columns)))
        np.cumsum(scores.column_sums(inside.astype(np.int64)), axis=0, out=self._sums[1:])

    def of_spans(self, runs: Sequence[tuple[int, int]]) -> npt.NDArray[np.float64]:
        """For each run of sentences ``[first, end)``, as ``sentences_of`` gives it, its score on each column of the
        passage scores: float64 [spans, columns]."""
        firsts, ends = np.array(runs, dtype=np.intp).reshape(-1, 2).T
        sums: npt.NDArray[np.float64] = self._sums[ends] - self._sums[firsts]
        return sums

    def sentences_of(self, firsts: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
        """For each span, given by its run of tokens ``[first, end)``, the half-open run of sentences it stands in."""
        opening = np.searchsorted(self._ends, np.array(firsts, dtype=np.intp), side="right")
        closing = np.searchsorted(self._firsts, np.array(ends, dtype=np.intp), side="left")
        return list(zip(opening.tolist(), np.maximum(opening, closing).tolist(), strict=True))
