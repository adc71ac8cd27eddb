"""Which place in the list of passages the evidence comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SHOWN_RANKS = 20


@dataclass(frozen=True, slots=True)
class RankUse:
    """The passage at one place; ``rank`` counts from 1, in the order of the prompt.

    Attributes:
        offered: spans of answers that had a passage at this place.
        used: of these, spans with any score on it.
        best: of these, spans that have their largest score on it.
    """

    rank: int
    offered: int
    used: int
    best: int


class RankTally:
    """Counts batch by batch; ranks above ``SHOWN_RANKS`` are not counted."""

    columns: tuple[str, ...] = ("passage_scores", "top_passage_index")

    def __init__(self) -> None:
        self._offered = np.zeros(SHOWN_RANKS, dtype=np.int64)
        self._used = np.zeros(SHOWN_RANKS, dtype=np.int64)
        self._best = np.zeros(SHOWN_RANKS, dtype=np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        scores = batch.column("passage_scores")
        lengths = pc.list_value_length(scores).to_numpy(zero_copy_only=False)
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        ranks = np.arange(len(starts)) - starts
        self._offered += _rank_counts(ranks)
        self._used += _rank_counts(ranks[pc.list_flatten(scores).to_numpy(zero_copy_only=False) > 0])
        best = pc.drop_null(batch.column("top_passage_index")).to_numpy(zero_copy_only=False)
        self._best += _rank_counts(best.astype(np.int64))

    def result(self) -> tuple[RankUse, ...]:
        """One entry a rank that was offered at least once."""
        table = zip(self._offered.tolist(), self._used.tolist(), self._best.tolist(), strict=True)
        return tuple(RankUse(index + 1, *row) for index, row in enumerate(table) if row[0])


def _rank_counts(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.bincount(ranks[ranks < SHOWN_RANKS], minlength=SHOWN_RANKS)
