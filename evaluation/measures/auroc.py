"""How well a number tells right from wrong: the area under the ROC curve, with an interval over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.measures.bootstrap import Interval, percentile_interval

_DRAWS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Auroc:
    """The chance that a right item has the larger number, ties counted half; ``interval`` is over rows."""

    value: float
    interval: Interval


class RankedItems:
    """Items that are right or wrong, ordered by a number; ``rows`` says which row each is of.

    Raises:
        ValueError: if all items are right, or all are wrong.
    """

    def __init__(self, *, numbers: Sequence[float], right: Sequence[bool], rows: Sequence[int]) -> None:
        if all(right) or not any(right):
            raise ValueError(f"of {len(right)} items some should be right and some wrong, {sum(right)} were right")
        order = np.argsort(np.asarray(numbers, dtype=np.float64), kind="stable")
        ranked = np.asarray(numbers, dtype=np.float64)[order]
        self._right = np.asarray(right, dtype=np.bool_)[order]
        self._rows = np.asarray(rows, dtype=np.intp)[order]
        self._firsts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))

    def auroc(self, row_counts: npt.NDArray[np.int64]) -> Auroc:
        """The area, and its interval over resamples: ``row_counts`` int64 [draws, rows].

        Resamples without a right or without a wrong item have no area and are left out.
        """
        parts = range(0, len(row_counts), _DRAWS_AT_ONCE)
        areas = np.concatenate([self._areas(row_counts[part : part + _DRAWS_AT_ONCE]) for part in parts])
        defined = areas[~np.isnan(areas)]
        value = float(self._areas(np.ones((1, row_counts.shape[1]), dtype=np.int64))[0])
        return Auroc(value, percentile_interval(defined) if len(defined) else Interval(value, value))

    def _areas(self, row_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """float64 [draws], NaN where a kind of item is missing."""
        counts = row_counts[:, self._rows]
        right = np.add.reduceat(counts * self._right, self._firsts, axis=1).astype(np.float64)
        wrong = np.add.reduceat(counts * ~self._right, self._firsts, axis=1).astype(np.float64)
        below = np.cumsum(wrong, axis=1) - wrong / 2
        pairs = right.sum(axis=1) * wrong.sum(axis=1)
        areas: npt.NDArray[np.float64] = np.divide(
            (right * below).sum(axis=1), pairs, out=np.full(len(pairs), np.nan), where=pairs > 0
        )
        return areas
