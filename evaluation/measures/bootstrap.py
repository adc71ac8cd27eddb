"""Bootstrap intervals over rows: spans of one answer stand or fall together, so rows are drawn, not spans."""

from __future__ import annotations

from collections.abc import Sequence
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
    """int64 [draws, rows]: how often each row is in each resample of as many rows; equal for equal arguments.

    Raises:
        ValueError: if there is no row or no draw.
    """
    if rows < 1 or draws < 1:
        raise ValueError(f"rows and draws should be at least 1, were: {rows} and {draws}")
    return np.random.default_rng(seed).multinomial(rows, np.full(rows, 1 / rows), size=draws)


def percentile_interval(values: npt.NDArray[np.float64]) -> Interval:
    """The interval that holds the middle 95% of ``values``, at least one."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(low), float(high))


class RowBootstrap:
    """The same seeded resamples of rows for every method, so that differences are paired.

    Raises:
        ValueError: if there is no row or no draw.
    """

    def __init__(self, spans_a_row: Sequence[int], *, draws: int = 2000, seed: int = 0) -> None:
        self._counts = row_draws(len(spans_a_row), draws=draws, seed=seed)
        self._spans = self._counts @ np.asarray(spans_a_row, dtype=np.float64)

    def interval(self, credit_a_row: Sequence[float]) -> Interval:
        """Interval of the mean credit a span, in percent; ``credit_a_row`` sums the credits of a row's spans.

        The interval of a difference is that of the difference of two methods' credits.
        """
        return percentile_interval(100 * self._means(credit_a_row))

    def interval_of_mean(self, sum_a_row: Sequence[float]) -> Interval:
        """Interval of the mean a span of any quantity, in its own unit; ``sum_a_row`` sums it over a row's spans."""
        return percentile_interval(self._means(sum_a_row))

    def _means(self, sum_a_row: Sequence[float]) -> npt.NDArray[np.float64]:
        """float64 [draws]: the mean a span in each resample."""
        means: npt.NDArray[np.float64] = (self._counts @ np.asarray(sum_a_row, dtype=np.float64)) / self._spans
        return means
