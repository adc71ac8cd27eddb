"""How good verdicts are as decisions, as probabilities, and as an order of rows.

How good verdicts of yes or no are: precision, recall, F1, balanced accuracy and false alarms, with intervals.

Whether scores are what they say, probabilities: reliability diagram, expected calibration error and Brier score.

How good an order of rows is: precision among the first k, and rank correlation with grades, with intervals.
"""

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


BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Items with neighbouring scores: their number, their mean score and the share of them that is marked, 0 to 1."""

    items: int
    mean_score: float
    marked_share: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """A reliability diagram and its two sums; intervals are over resamples of rows, with the same bins.

    Attributes:
        bins: ``BINS`` bins of as many items each, by ascending score; fewer if there are fewer items.
        calibration_error: mean distance of a bin's mean score and its marked share, weighted by items (ECE).
        brier_score: mean squared distance of an item's score and its mark, 1 or 0.
    """

    bins: tuple[ReliabilityBin, ...]
    calibration_error: float
    calibration_error_interval: Interval
    brier_score: float
    brier_score_interval: Interval


def reliability(
    scores: Sequence[float], marked: Sequence[bool], rows: Sequence[int], row_counts: npt.NDArray[np.int64]
) -> Reliability | None:
    """The reliability of scores in [0, 1] as probabilities of a mark; None without items.

    Args:
        scores: one of each item.
        marked: whether each item is marked.
        rows: the row of each item.
        row_counts: int64 [draws, rows] from ``row_draws``.
    """
    if not scores:
        return None
    values, marks = np.asarray(scores, dtype=np.float64), np.asarray(marked, dtype=np.float64)
    parts = np.array_split(np.argsort(values, kind="stable"), min(BINS, len(values)))
    owners = np.asarray(rows, dtype=np.intp)
    gaps = np.zeros((row_counts.shape[1], len(parts)))
    for place, part in enumerate(parts):
        np.add.at(gaps[:, place], owners[part], values[part] - marks[part])
    squares, items = np.zeros(len(gaps)), np.zeros(len(gaps))
    np.add.at(squares, owners, (values - marks) ** 2)
    np.add.at(items, owners, 1)
    drawn = np.maximum(row_counts @ items, 1)
    return Reliability(
        bins=tuple(ReliabilityBin(len(part), float(values[part].mean()), float(marks[part].mean())) for part in parts),
        calibration_error=float(np.abs(gaps.sum(axis=0)).sum() / len(values)),
        calibration_error_interval=percentile_interval(np.abs(row_counts @ gaps).sum(axis=1) / drawn),
        brier_score=float(squares.sum() / len(values)),
        brier_score_interval=percentile_interval((row_counts @ squares) / drawn),
    )


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
