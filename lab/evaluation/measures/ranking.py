"""How good an order of rows is: precision among the first k, and rank correlation with grades, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.lab.evaluation.measures.bootstrap import Interval, percentile_interval
from attribeam.lab.evaluation.measures.verdicts import Share

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PrecisionAt:
    """The share of marked rows among the ``first`` ones of a ranking, in percent."""

    first: int
    precision: Share


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's coefficient, -1 to 1, and its interval over resamples of rows."""

    value: float
    interval: Interval


def precision_at(
    first: int, scores: Sequence[float], marked: Sequence[bool], row_counts: npt.NDArray[np.int64]
) -> PrecisionAt | None:
    """Precision among the rows with the largest scores; None if there are fewer than ``first``.

    Rows with equal scores share the remaining places, as they would on average in a random order.
    """
    if len(scores) < first:
        return None
    places = _TiedPlaces(scores)
    marks = np.asarray(marked, dtype=np.float64)

    def precision(counts: _Numbers) -> _Numbers:
        rows, right = places.sums(counts), places.sums(counts * marks)
        taken = np.clip(first - (np.cumsum(rows, axis=1) - rows), 0, rows)
        shares = np.divide(right, rows, out=np.zeros_like(right), where=rows > 0)
        found: _Numbers = 100 * (shares * taken).sum(axis=1) / first
        return found

    value = float(precision(np.ones((1, len(scores))))[0])
    return PrecisionAt(first, Share(value, percentile_interval(precision(row_counts.astype(np.float64)))))


def rank_correlation(
    scores: Sequence[float], grades: Sequence[float], row_counts: npt.NDArray[np.int64]
) -> RankCorrelation | None:
    """The correlation of the ranks of both, equal numbers having the mean of their ranks; None if either is constant.

    Resamples in which either is constant are left out.
    """
    value = float(_spearman(scores, grades, np.ones((1, len(scores))))[0])
    if np.isnan(value):
        return None
    drawn = _spearman(scores, grades, row_counts.astype(np.float64))
    defined = drawn[~np.isnan(drawn)]
    return RankCorrelation(value, percentile_interval(defined) if len(defined) else Interval(value, value))


def _spearman(scores: Sequence[float], grades: Sequence[float], counts: _Numbers) -> _Numbers:
    """float64 [draws]: the correlation of ranks in each resample, NaN where it is undefined."""
    first, second = (_TiedPlaces(numbers).ranks(counts) for numbers in (scores, grades))
    total = counts.sum(axis=1, keepdims=True)
    first -= (counts * first).sum(axis=1, keepdims=True) / total
    second -= (counts * second).sum(axis=1, keepdims=True) / total
    spread = np.sqrt((counts * first**2).sum(axis=1) * (counts * second**2).sum(axis=1))
    found: _Numbers = np.divide(
        (counts * first * second).sum(axis=1), spread, out=np.full(len(counts), np.nan), where=spread > 1e-9
    )
    return found


class _TiedPlaces:
    """Rows from the largest number to the smallest, those with equal numbers together in one place."""

    def __init__(self, numbers: Sequence[float]) -> None:
        values = -np.asarray(numbers, dtype=np.float64)
        self._order = np.argsort(values, kind="stable")
        ordered = values[self._order]
        self._firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self._place = np.empty(len(values), dtype=np.intp)
        self._place[self._order] = np.cumsum(np.append(False, ordered[1:] != ordered[:-1]))

    def sums(self, counts: _Numbers) -> _Numbers:
        """float64 [draws, places]: sums of [draws, rows] over the rows of each place."""
        found: _Numbers = np.add.reduceat(counts[:, self._order], self._firsts, axis=1)
        return found

    def ranks(self, counts: _Numbers) -> _Numbers:
        """float64 [draws, rows]: the mean rank of each row in resamples with these counts."""
        rows = self.sums(counts)
        found: _Numbers = (np.cumsum(rows, axis=1) - rows + (rows + 1) / 2)[:, self._place]
        return found
