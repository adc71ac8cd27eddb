"""How good verdicts of yes or no are, and how good an order of rows is, with intervals over resamples of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.measures.bootstrap import Interval, percentile_interval

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Share:
    """A share in percent and its interval over resamples of rows."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class VerdictFigures:
    """How verdicts agree with what people marked; a share is None where it is undefined.

    Attributes:
        called: number of rows that are called.
        precision: called rows that are marked, among those called.
        recall: called rows that are marked, among those marked.
        f1: the harmonic mean of both.
        balanced_accuracy: the mean of recall and of the share of unmarked rows that are not called.
        false_alarms: unmarked rows that are called, among those unmarked.
    """

    called: int
    precision: Share | None
    recall: Share | None
    f1: Share | None
    balanced_accuracy: Share | None
    false_alarms: Share | None


def verdict_figures(
    called: Sequence[bool], marked: Sequence[bool], row_counts: npt.NDArray[np.int64]
) -> VerdictFigures:
    """The figures of one verdict a row; ``row_counts`` is int64 [draws, rows] from ``row_draws``."""
    sums = _Verdicts(called, marked, row_counts)
    return VerdictFigures(
        called=sum(called),
        precision=sums.share(lambda of: _ratio(of.hits, of.hits + of.alarms)),
        recall=sums.share(_recall),
        f1=sums.share(lambda of: _ratio(2 * of.hits, 2 * of.hits + of.alarms + of.missed)),
        balanced_accuracy=sums.share(lambda of: (_recall(of) + 1 - _false_alarms(of)) / 2),
        false_alarms=sums.share(_false_alarms),
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """Numbers of rows in each of some resamples, float64 [draws]: called or not, marked or not."""

    hits: _Numbers
    alarms: _Numbers
    missed: _Numbers
    quiet: _Numbers


class _Verdicts:
    """The sums of all rows, and those of each resample."""

    def __init__(self, called: Sequence[bool], marked: Sequence[bool], row_counts: npt.NDArray[np.int64]) -> None:
        call, mark = np.asarray(called, dtype=np.bool_), np.asarray(marked, dtype=np.bool_)
        kinds = np.array([call & mark, call & ~mark, ~call & mark, ~call & ~mark], dtype=np.float64)
        self._whole = _Sums(*kinds.sum(axis=1)[:, None])
        self._drawn = _Sums(*(row_counts @ kinds.T).T)

    def share(self, figure: Callable[[_Sums], _Numbers]) -> Share | None:
        """The figure in percent; resamples in which it is undefined are left out."""
        value = 100 * float(figure(self._whole)[0])
        if np.isnan(value):
            return None
        drawn = 100 * figure(self._drawn)
        defined = drawn[~np.isnan(drawn)]
        return Share(value, percentile_interval(defined) if len(defined) else Interval(value, value))


def _recall(of: _Sums) -> _Numbers:
    return _ratio(of.hits, of.hits + of.missed)


def _false_alarms(of: _Sums) -> _Numbers:
    return _ratio(of.alarms, of.alarms + of.quiet)


def _ratio(part: _Numbers, whole: _Numbers) -> _Numbers:
    """The quotient, NaN where the whole is 0."""
    shares: _Numbers = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return shares


@dataclass(frozen=True, slots=True)
class PrecisionAt:
    """The share of marked rows among the ``first`` ones of a ranking, in percent."""

    first: int
    precision: Share


def precision_at(
    first: int, scores: Sequence[float], marked: Sequence[bool], row_counts: npt.NDArray[np.int64]
) -> PrecisionAt | None:
    """Precision among the rows with the largest scores; None if there are fewer than ``first``.

    Rows with equal scores share the remaining places, as they would on average in a random order.
    """
    if len(scores) < first:
        return None
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    ranked, marks = np.asarray(scores)[order], np.asarray(marked, dtype=np.float64)[order]
    firsts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))

    def precision(counts: _Numbers) -> _Numbers:
        rows, right = (np.add.reduceat(each, firsts, axis=1) for each in (counts[:, order], counts[:, order] * marks))
        taken = np.clip(first - (np.cumsum(rows, axis=1) - rows), 0, rows)
        shares = np.divide(right, rows, out=np.zeros_like(right), where=rows > 0)
        found: _Numbers = 100 * (shares * taken).sum(axis=1) / first
        return found

    value = float(precision(np.ones((1, len(scores))))[0])
    return PrecisionAt(first, Share(value, percentile_interval(precision(row_counts.astype(np.float64)))))
