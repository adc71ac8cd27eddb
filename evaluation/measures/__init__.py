"""Figures with bootstrap intervals over rows, thresholds chosen on other sources, and how both are shown and written.

The spans of one answer are not independent, so rows are resampled, not spans.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.datasets.dataset_file import SkippedRow, data_files
from attribeam.report.messages import one_line
from attribeam.schemas import CharRange, QARecord, RowFault
from attribeam.schemas.files import file_sha256, new_file

CONFIDENCE = 0.95
FOLDS = 5
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
"""int64 [draws, rows]: how often each resample contains each row, from ``row_draws``."""


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure of all rows, and its interval over resamples of rows; a share is in percent."""

    value: float
    interval: Interval


def _estimate(value: float, drawn: _Numbers) -> Estimate | None:
    """None if the figure is undefined (NaN); resamples in which it is undefined are left out."""
    if np.isnan(value):
        return None
    defined = drawn[~np.isnan(drawn)]
    return Estimate(value, percentile_interval(defined) if len(defined) else Interval(value, value))


def row_draws(rows: int, *, draws: int, seed: int) -> Counts:
    """How often each resample contains each row; a resample has ``rows`` rows. Deterministic.

    Raises ``ValueError`` if there is no row or no draw.
    """
    if rows < 1 or draws < 1:
        raise ValueError(f"rows and draws should be at least 1, were: {rows} and {draws}")
    return np.random.default_rng(seed).multinomial(rows, np.full(rows, 1 / rows), size=draws)


def percentile_interval(values: _Numbers) -> Interval:
    """The interval that contains the middle 95% of ``values``, of which there is at least one."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(low), float(high))


class RowBootstrap:
    """The same seeded resamples of rows for every method, so that differences are paired."""

    def __init__(self, spans_per_row: Sequence[int], *, draws: int = 2000, seed: int = 0) -> None:
        self._counts = row_draws(len(spans_per_row), draws=draws, seed=seed)
        self._spans = self._counts @ np.asarray(spans_per_row, dtype=np.float64)

    def interval(self, sum_per_row: Sequence[float], *, scale: float = 100) -> Interval:
        """Interval of the mean per span, in percent, or times ``scale``; ``sum_per_row`` sums over a row's spans.

        For the interval of a difference between two methods, pass the differences of their sums.
        """
        return percentile_interval(scale * ((self._counts @ np.asarray(sum_per_row, dtype=np.float64)) / self._spans))


@dataclass(frozen=True, slots=True)
class F1Figures:
    """Precision, recall and F1 in percent, 0 where they are undefined; the interval is that of F1 over rows."""

    precision: float
    recall: float
    f1: float
    f1_interval: Interval


def f1_figures(items: Sequence[tuple[int, int, int]], row_counts: Counts) -> F1Figures:
    """The figures of all rows together; ``items`` are those of each row: called and marked, called, marked."""
    counts = np.array(items, dtype=np.float64)
    both, called, marked = np.vstack([counts.sum(axis=0), row_counts @ counts]).T  # of all rows, then drawn
    f1 = np.nan_to_num(_ratio(200 * both, called + marked))
    return F1Figures(
        precision=100 * float(both[0] / called[0]) if called[0] else 0.0,
        recall=100 * float(both[0] / marked[0]) if marked[0] else 0.0,
        f1=float(f1[0]),
        f1_interval=percentile_interval(f1[1:]),
    )


def _ratio(part: _Numbers, whole: _Numbers) -> _Numbers:
    """The quotient, NaN where the whole is 0."""
    shares: _Numbers = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return shares


_DRAWS_PER_BATCH = 100


def auroc(numbers: Sequence[float], right: Sequence[bool], rows: Sequence[int], row_counts: Counts) -> Estimate | None:
    """The probability that a right item has a larger number than a wrong one, ties counting half; None without both.

    Each item has a number, whether it is right, and its row. Resamples without right or wrong items are left out.
    """
    if all(right) or not any(right):
        return None
    order = np.argsort(np.asarray(numbers, dtype=np.float64), kind="stable")
    ranked = np.asarray(numbers, dtype=np.float64)[order]
    is_right, row = np.asarray(right, dtype=np.bool_)[order], np.asarray(rows, dtype=np.intp)[order]
    firsts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))

    def areas(draws: Counts) -> _Numbers:
        counts = draws[:, row]
        hits = np.add.reduceat(counts * is_right, firsts, axis=1).astype(np.float64)
        others = np.add.reduceat(counts * ~is_right, firsts, axis=1).astype(np.float64)
        below = np.cumsum(others, axis=1) - others / 2
        return _ratio((hits * below).sum(axis=1), hits.sum(axis=1) * others.sum(axis=1))

    parts = range(0, len(row_counts), _DRAWS_PER_BATCH)
    drawn = np.concatenate([areas(row_counts[part : part + _DRAWS_PER_BATCH]) for part in parts])
    return _estimate(float(areas(np.ones((1, row_counts.shape[1]), dtype=np.int64))[0]), drawn)


def source_folds(sources: Sequence[Hashable], *, seed: int) -> npt.NDArray[np.intp]:
    """intp [rows]: the fold of each row, 0 to ``FOLDS`` - 1; rows of one source share a fold. Deterministic."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    folds = np.random.default_rng(seed).permutation(len(numbers)) % FOLDS
    return np.array([folds[numbers[source]] for source in sources], dtype=np.intp)


def best_threshold(scores: _Numbers, marked: _Flags, *, balanced: bool = False) -> float:
    """The threshold with the best F1 (or balanced accuracy), half-way between two scores; items are called from it on.

    Of several equally good ones it is the largest; -inf calls all. Raises ``ValueError`` if there is no item.
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
class VerdictFigures:
    """How verdicts agree with what people marked; a share, in percent, is None where it is undefined.

    ``balanced_accuracy`` is the mean of recall and of the share of unmarked rows that are not called, and
    ``false_alarms`` the share of unmarked rows that are called.
    """

    called: int
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None
    balanced_accuracy: Estimate | None
    false_alarms: Estimate | None


def verdict_figures(called: Sequence[bool], marked: Sequence[bool], row_counts: Counts) -> VerdictFigures:
    """The figures of one verdict a row."""
    call, mark = np.asarray(called, dtype=np.bool_), np.asarray(marked, dtype=np.bool_)
    kinds = np.array([call & mark, call & ~mark, ~call & mark, ~call & ~mark], dtype=np.float64)
    hits, alarms, missed, quiet = np.vstack([kinds.sum(axis=1), row_counts @ kinds.T]).T  # of all rows, then drawn
    recall, false_alarms = _ratio(hits, hits + missed), _ratio(alarms, alarms + quiet)
    shares = (
        _ratio(hits, hits + alarms),
        recall,
        _ratio(2 * hits, 2 * hits + alarms + missed),
        (recall + 1 - false_alarms) / 2,
        false_alarms,
    )
    return VerdictFigures(sum(called), *(_estimate(100 * float(share[0]), 100 * share[1:]) for share in shares))


@dataclass(frozen=True, slots=True)
class PrecisionAt:
    """The share of marked rows among the ``first`` ones of a ranking, in percent."""

    first: int
    precision: Estimate


def precision_at(first: int, scores: Sequence[float], marked: Sequence[bool], row_counts: Counts) -> PrecisionAt | None:
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
        percent: _Numbers = 100 * (shares * taken).sum(axis=1) / first
        return percent

    value = float(precision(np.ones((1, len(scores))))[0])
    return PrecisionAt(first, Estimate(value, percentile_interval(precision(row_counts.astype(np.float64)))))


def rank_correlation(scores: Sequence[float], grades: Sequence[float], row_counts: Counts) -> Estimate | None:
    """Spearman's coefficient, -1 to 1, equal numbers having the mean of their ranks; None if either is constant."""

    def centred_ranks(numbers: Sequence[float], counts: _Numbers) -> _Numbers:
        """float64 [draws, rows]: how far the mean rank of each row lies from that of its resample."""
        levels = np.unique(np.negative(numbers), return_inverse=True)[1]
        rows = counts @ np.eye(levels.max() + 1)[levels]
        ranks: _Numbers = (np.cumsum(rows, axis=1) - rows + (rows + 1) / 2)[:, levels]
        ranks -= (counts * ranks).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return ranks

    def spearman(counts: _Numbers) -> _Numbers:
        first, second = centred_ranks(scores, counts), centred_ranks(grades, counts)
        spread = np.sqrt((counts * first**2).sum(axis=1) * (counts * second**2).sum(axis=1))
        return _ratio((counts * first * second).sum(axis=1), np.where(spread > 1e-9, spread, 0.0))

    return _estimate(float(spearman(np.ones((1, len(scores))))[0]), spearman(row_counts.astype(np.float64)))


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Items with neighbouring scores: their number, their mean score and the share of them that is marked, 0 to 1."""

    items: int
    mean_score: float
    marked_share: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Ten bins of as many items each, by ascending score, and two sums; intervals are over resamples of rows.

    ``calibration_error`` is the mean distance of a bin's mean score and its marked share, weighted by items (ECE), and
    ``brier_score`` the mean squared distance of an item's score and its mark, 1 or 0.
    """

    bins: tuple[ReliabilityBin, ...]
    calibration_error: float
    calibration_error_interval: Interval
    brier_score: float
    brier_score_interval: Interval


def reliability(
    scores: Sequence[float], marked: Sequence[bool], rows: Sequence[int], row_counts: Counts
) -> Reliability | None:
    """The reliability of scores in [0, 1] as probabilities of a mark; each item has both and a row, None without."""
    if not scores:
        return None
    values, marks = np.asarray(scores, dtype=np.float64), np.asarray(marked, dtype=np.float64)
    parts = np.array_split(np.argsort(values, kind="stable"), min(10, len(values)))
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


def visible(ranges: Iterable[CharRange], text: str) -> frozenset[int]:
    """The positions of the ranges' characters in the text, without white space."""
    return frozenset(
        position
        for chars in ranges
        for position in range(chars.char_start, chars.char_end)
        if not text[position].isspace()
    )


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a method could not attribute; all of its spans count as wrong. ``row`` is its 0-based number."""

    row: int
    reason: str
    message: str

    @classmethod
    def of(cls, record: QARecord, fault: RowFault) -> Self:
        """The row of a record."""
        return cls(record.source.source_row, str(fault.reason), str(fault))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run found: ``report`` for the JSON file, dataclasses or plain data, and the same as text."""

    report: object
    text: str


def text_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for the terminal: header, rule and lines, the first column flush left and the others flush right."""
    shown = [[one_line(cell) for cell in line] for line in (header, *lines)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    shown.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(f"{cell:{'>' if index else '<'}{widths[index]}}" for index, cell in enumerate(line)).rstrip()
        for line in shown
    )


def interval_cell(interval: Interval | None, *, digits: int = 1, sign: str = "") -> str:
    """Both ends of an interval, empty for None; set ``sign`` to "+" to show a plus sign."""
    return "" if interval is None else f"{interval.low:{sign}.{digits}f} to {interval.high:{sign}.{digits}f}"


def estimate_cells(estimate: Estimate | None, *, digits: int = 1) -> tuple[str, str]:
    if estimate is None:
        return "", ""
    return f"{estimate.value:.{digits}f}", interval_cell(estimate.interval, digits=digits)


def write_json(path: Path, value: object) -> None:
    """Write plain data; the file is replaced atomically."""
    with new_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False, default=asdict) + "\n").encode())


def row_remarks(rows: Sequence[SkippedRow | FailedRow], what: str = "skipped", *, before: str = "") -> list[str]:
    """One line per reason: the text ``before`` it, the number of rows, and what happened to them."""
    counts = Counter(row.reason for row in rows)
    return [f"{before}{count} rows {what}: {one_line(reason)}" for reason, count in sorted(counts.items())]


def data_digest(path: Path, dataset: str) -> str:
    """SHA-256 of a data set's file, in hex; of several files in a directory, that of their digests in order."""
    digests = [file_sha256(file) for file in data_files(path, dataset)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def verdict_in_use(provenance: Mapping[str, str]) -> str:
    """One line on the thresholds that decided, from the provenance of an attributor."""
    if "answer_risk_threshold" in provenance:
        risk = provenance["answer_risk_threshold"]
        return f"verdict in use: {provenance['verdict']}, an answer has an unsupported claim from risk {risk} on"
    if "supported_threshold" in provenance:
        supported, weak = provenance["supported_threshold"], provenance["weak_threshold"]
        return f"verdict in use: mass, supported from {supported} on, unsupported below {weak}"
    return "verdict in use: none, no thresholds are known for this model and method"
