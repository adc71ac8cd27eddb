"""Precision, recall, F1, balanced accuracy and false alarms of verdicts."""

import numpy as np
import pytest

from attribeam.evaluation.measures.bootstrap import precision_at, row_draws, verdict_figures

CALLED = [True, True, True, False, False, False, False, False]
MARKED = [True, True, False, True, False, False, False, False]
COUNTS = row_draws(8, draws=300, seed=1)


def test_worked_example():
    figures = verdict_figures(CALLED, MARKED, COUNTS)
    assert figures.called == 3
    assert figures.precision.value == pytest.approx(100 * 2 / 3)
    assert figures.recall.value == pytest.approx(100 * 2 / 3)
    assert figures.f1.value == pytest.approx(100 * 2 / 3)
    assert figures.false_alarms.value == pytest.approx(100 / 5)
    assert figures.balanced_accuracy.value == pytest.approx(100 * (2 / 3 + 4 / 5) / 2)


def test_interval_is_that_of_resampled_rows():
    drawn = []
    for counts in COUNTS:
        rows = np.repeat(np.arange(8), counts)
        clean = [row for row in rows if not MARKED[row]]
        if clean:
            drawn.append(100 * np.mean([CALLED[row] for row in clean]))
    low, high = np.percentile(drawn, [2.5, 97.5])
    interval = verdict_figures(CALLED, MARKED, COUNTS).false_alarms.interval
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_share_without_rows_to_divide_by_is_missing():
    figures = verdict_figures([False, False], [True, True], row_draws(2, draws=20, seed=0))
    assert (figures.precision, figures.false_alarms, figures.balanced_accuracy) == (None, None, None)
    assert (figures.recall.value, figures.f1.value) == (0, 0)


def test_precision_counts_the_rows_with_the_largest_scores():
    found = precision_at(2, [0.1, 0.9, 0.5, 0.7], [True, True, False, False], row_draws(4, draws=50, seed=0))
    assert found.precision.value == pytest.approx(50)
    assert found.precision.interval.low < 50 <= found.precision.interval.high


def test_rows_with_equal_scores_share_the_last_places():
    found = precision_at(2, [0.9, 0.5, 0.5, 0.5], [False, True, False, False], row_draws(4, draws=5, seed=0))
    assert found.precision.value == pytest.approx(100 * (0 + 1 / 3) / 2)


def test_ranking_that_is_too_short_has_no_precision():
    assert precision_at(3, [0.1, 0.2], [True, False], row_draws(2, draws=5, seed=0)) is None
