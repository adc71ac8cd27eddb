"""Precision, recall and F1 of counts that are summed over rows, with intervals over resamples of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.measures.bootstrap import Interval, percentile_interval


@dataclass(frozen=True, slots=True)
class F1Figures:
    """In percent; a share of nothing is 0, and the interval is that of F1 over rows."""

    precision: float
    recall: float
    f1: float
    f1_interval: Interval


def f1_figures(
    *, common: Sequence[int], called: Sequence[int], marked: Sequence[int], row_counts: npt.NDArray[np.int64]
) -> F1Figures:
    """The figures of all rows together, one number a row in each sequence.

    ``common`` is in both, ``called`` is what was found, ``marked`` what should be; ``row_counts`` int64 [draws, rows].
    """
    counts = np.array([common, called, marked], dtype=np.float64)
    both, found, right = counts.sum(axis=1)
    drawn = row_counts @ counts.T
    return F1Figures(
        precision=100 * float(both / found) if found else 0.0,
        recall=100 * float(both / right) if right else 0.0,
        f1=float(_f1(np.array([[both, found, right]]))[0]),
        f1_interval=percentile_interval(_f1(drawn)),
    )


def _f1(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Percent [draws] of [draws, (common, called, marked)]; 0 where nothing is called and nothing marked."""
    sums = counts[:, 1] + counts[:, 2]
    shares: npt.NDArray[np.float64] = np.divide(200 * counts[:, 0], sums, out=np.zeros(len(sums)), where=sums > 0)
    return shares
