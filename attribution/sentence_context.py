"""What the sentence around a span says about the passage that the span comes from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from attribution.parsed_answer import ParsedAnswer
from attribution.word_token_alignment import WordTokenAlignment
from schemas import CharRange


class SentenceContext:
    """Sums the attention of one response's sentences on each passage; every response token is counted, top-k or not."""

    def __init__(
        self, *, parsed: ParsedAnswer, alignment: WordTokenAlignment, passage_mass: npt.NDArray[np.float32]
    ) -> None:
        """``passage_mass`` float32 [responses, passages], of the tokens that ``alignment`` is about."""
        borders = [*parsed.sentence_starts, len(parsed.words)]
        sentences = [
            CharRange(parsed.words[first].char_start, parsed.words[end - 1].char_end)
            for first, end in pairwise(borders)
        ]
        self._firsts, self._ends = alignment.tokens_of_ranges(sentences)
        self._sums = np.zeros((len(passage_mass) + 1, passage_mass.shape[1]))
        np.cumsum(passage_mass, axis=0, out=self._sums[1:])

    def of_spans(self, firsts: Sequence[int], ends: Sequence[int]) -> npt.NDArray[np.float64]:
        """For each span, given by its run of tokens ``[first, end)``, its length times its sentences' mass on each
        passage: float64 [spans, passages]."""
        starts, stops = np.array(firsts, dtype=np.intp), np.array(ends, dtype=np.intp)
        if not len(self._firsts):
            return np.zeros((len(starts), self._sums.shape[1]))
        last = len(self._firsts) - 1
        opening = np.minimum(np.searchsorted(self._ends, starts, side="right"), last)
        closing = np.maximum(np.searchsorted(self._firsts, stops, side="left") - 1, 0)
        inside = (
            self._sums[np.maximum(self._ends[closing], stops)] - self._sums[np.minimum(self._firsts[opening], starts)]
        )
        context: npt.NDArray[np.float64] = inside * (stops - starts)[:, None]
        return context
