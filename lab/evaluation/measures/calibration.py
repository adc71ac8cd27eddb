"""Whether scores are what they say, probabilities: reliability diagram, expected calibration error and Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.lab.evaluation.measures.bootstrap import Interval, percentile_interval

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
