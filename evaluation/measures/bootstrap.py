"""Figures with bootstrap intervals over rows, and thresholds chosen on other sources.

The spans of one answer are not independent, so rows are resampled, not spans: means, precision and recall, verdicts of
yes or no, the area under the ROC curve, precision among the first rows, rank correlation, and calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval."""

    low: float
    high: float


def row_draws(rows: int, *, draws: int, seed: int) -> npt.NDArray[np.int64]:
    """int64 [draws, rows]: how often each resample contains each row; a resample has ``rows`` rows. Deterministic.

    Raises:
        ValueError: if there is no row or no draw.
    """
    if rows < 1 or draws < 1:
        raise ValueError(f"rows and draws should be at least 1, were: {rows} and {draws}")
    return np.random.default_rng(seed).multinomial(rows, np.full(rows, 1 / rows), size=draws)


def percentile_interval(values: npt.NDArray[np.float64]) -> Interval:
    """The interval that contains the middle 95% of ``values``, of which there is at least one."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(low), float(high))


class RowBootstrap:
    """The same seeded resamples of rows for every method, so that differences are paired.

    Raises:
        ValueError: if there is no row or no draw.
    """

    def __init__(self, spans_per_row: Sequence[int], *, draws: int = 2000, seed: int = 0) -> None:
        self._counts = row_draws(len(spans_per_row), draws=draws, seed=seed)
        self._spans = self._counts @ np.asarray(spans_per_row, dtype=np.float64)

    def interval(self, credit_per_row: Sequence[float]) -> Interval:
        """Interval of the mean credit per span, in percent; ``credit_per_row`` sums the credits of a row's spans.

        For the interval of a difference between two methods, pass the differences of their credits.
        """
        return percentile_interval(100 * self._means(credit_per_row))

    def interval_of_mean(self, sum_per_row: Sequence[float]) -> Interval:
        """Interval of the mean per span of any quantity, in its own unit; ``sum_per_row`` sums it over each row."""
        return percentile_interval(self._means(sum_per_row))

    def _means(self, sum_per_row: Sequence[float]) -> npt.NDArray[np.float64]:
        """float64 [draws]: the mean per span in each resample."""
        means: npt.NDArray[np.float64] = (self._counts @ np.asarray(sum_per_row, dtype=np.float64)) / self._spans
        return means


@dataclass(frozen=True, slots=True)
class F1Figures:
    """Precision, recall and F1 in percent, 0 where they are undefined; the interval is that of F1 over rows."""

    precision: float
    recall: float
    f1: float
    f1_interval: Interval


def f1_figures(
    *, common: Sequence[int], called: Sequence[int], marked: Sequence[int], row_counts: npt.NDArray[np.int64]
) -> F1Figures:
    """The figures of all rows together; each sequence has one count per row.

    Args:
        common: items that were both found and marked.
        called: items that were found.
        marked: items that should have been found.
        row_counts: int64 [draws, rows] from ``row_draws``.
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
    """F1 in percent [draws] from counts [draws, (common, called, marked)]; 0 if nothing is called or marked."""
    sums = counts[:, 1] + counts[:, 2]
    shares: npt.NDArray[np.float64] = np.divide(200 * counts[:, 0], sums, out=np.zeros(len(sums)), where=sums > 0)
    return shares


_DRAWS_PER_BATCH = 100


@dataclass(frozen=True, slots=True)
class Auroc:
    """The probability that a right item has a larger number than a wrong one; ties count as half.

    ``interval`` is over rows.
    """

    value: float
    interval: Interval


class RankedItems:
    """Items that are right or wrong, ordered by a number; ``rows`` names the row of each item.

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
        """The area under the ROC curve, and its interval over resamples, ``row_counts`` int64 [draws, rows].

        Resamples without right or without wrong items have no area and are left out.
        """
        parts = range(0, len(row_counts), _DRAWS_PER_BATCH)
        areas = np.concatenate([self._areas(row_counts[part : part + _DRAWS_PER_BATCH]) for part in parts])
        defined = areas[~np.isnan(areas)]
        value = float(self._areas(np.ones((1, row_counts.shape[1]), dtype=np.int64))[0])
        return Auroc(value, percentile_interval(defined) if len(defined) else Interval(value, value))

    def _areas(self, row_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """float64 [draws]: the area, NaN if a resample lacks right or wrong items."""
        counts = row_counts[:, self._rows]
        right = np.add.reduceat(counts * self._right, self._firsts, axis=1).astype(np.float64)
        wrong = np.add.reduceat(counts * ~self._right, self._firsts, axis=1).astype(np.float64)
        below = np.cumsum(wrong, axis=1) - wrong / 2
        pairs = right.sum(axis=1) * wrong.sum(axis=1)
        areas: npt.NDArray[np.float64] = np.divide(
            (right * below).sum(axis=1), pairs, out=np.full(len(pairs), np.nan), where=pairs > 0
        )
        return areas


FOLDS = 5

_Numbers = npt.NDArray[np.float64]


def source_folds(sources: Sequence[Hashable], *, seed: int) -> npt.NDArray[np.intp]:
    """intp [rows]: the fold of each row, 0 to ``FOLDS`` - 1; rows of one source share a fold. Deterministic."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    folds = np.random.default_rng(seed).permutation(len(numbers)) % FOLDS
    return np.array([folds[numbers[source]] for source in sources], dtype=np.intp)


def best_threshold(scores: _Numbers, marked: npt.NDArray[np.bool_], *, balanced: bool = False) -> float:
    """The threshold with the best F1, half-way between two scores, from which on items are called; -inf to call all.

    Of several equally good ones it is the largest. With ``balanced`` it is the one with the best balanced accuracy.

    Raises:
        ValueError: if there is no item.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, marks = scores[order], marked[order]
    lasts = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits, called = np.cumsum(marks)[lasts].astype(np.float64), (lasts + 1).astype(np.float64)
    right, wrong = marks.sum(), (~marks).sum()
    f1 = 2 * hits / (called + right)
    best = int(np.argmax(hits / max(right, 1) + 1 - (called - hits) / max(wrong, 1) if balanced else f1))
    return -np.inf if best == len(lasts) - 1 else float(ranked[lasts[best]] + ranked[lasts[best] + 1]) / 2


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


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's coefficient, -1 to 1, and its interval over resamples of rows."""

    value: float
    interval: Interval


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
    first, second = _centred_ranks(scores, counts), _centred_ranks(grades, counts)
    spread = np.sqrt((counts * first**2).sum(axis=1) * (counts * second**2).sum(axis=1))
    found: _Numbers = np.divide(
        (counts * first * second).sum(axis=1), spread, out=np.full(len(counts), np.nan), where=spread > 1e-9
    )
    return found


def _centred_ranks(numbers: Sequence[float], counts: _Numbers) -> _Numbers:
    """float64 [draws, rows]: how far the mean rank of each row lies from that of its resample."""
    places = np.unique(np.negative(numbers), return_inverse=True)[1]
    rows = counts @ np.eye(places.max() + 1)[places]
    ranks: _Numbers = (np.cumsum(rows, axis=1) - rows + (rows + 1) / 2)[:, places]
    ranks -= (counts * ranks).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return ranks


_BINS = 10


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
        bins: ten bins of as many items each, by ascending score; fewer if there are fewer items.
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
    parts = np.array_split(np.argsort(values, kind="stable"), min(_BINS, len(values)))
    owners, size = np.asarray(rows, dtype=np.intp), row_counts.shape[1]
    of_bins = [np.bincount(owners[part], weights=values[part] - marks[part], minlength=size) for part in parts]
    gaps = np.stack(of_bins, axis=1)
    squares = np.bincount(owners, weights=(values - marks) ** 2, minlength=size)
    drawn = np.maximum(row_counts @ np.bincount(owners, minlength=size), 1)
    return Reliability(
        bins=tuple(ReliabilityBin(len(part), float(values[part].mean()), float(marks[part].mean())) for part in parts),
        calibration_error=float(np.abs(gaps.sum(axis=0)).sum() / len(values)),
        calibration_error_interval=percentile_interval(np.abs(row_counts @ gaps).sum(axis=1) / drawn),
        brier_score=float(squares.sum() / len(values)),
        brier_score_interval=percentile_interval((row_counts @ squares) / drawn),
    )
