"""How good verdicts are as decisions, as an order of rows, and as probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.measures.bootstrap import (
    ReliabilityBin,
    precision_at,
    rank_correlation,
    reliability,
    row_draws,
    verdict_figures,
)

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


def naive_correlation(scores, grades):
    if len(set(scores)) == 1 or len(set(grades)) == 1:
        return None
    ranks = [
        [sum(other > number for other in numbers) + (numbers.count(number) + 1) / 2 for number in numbers]
        for numbers in (list(scores), list(grades))
    ]
    return np.corrcoef(*ranks)[0, 1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=12))
def test_correlation_is_pearsons_of_the_ranks_and_its_interval_that_of_resampled_rows(pairs):
    counts = row_draws(len(pairs), draws=20, seed=0)
    found, expected = rank_correlation(*zip(*pairs, strict=True), counts), naive_correlation(*zip(*pairs, strict=True))
    if expected is None:
        assert found is None
        return
    resampled = [[pair for pair, count in zip(pairs, draw, strict=True) for _ in range(count)] for draw in counts]
    drawn = [naive_correlation(*zip(*one, strict=True)) for one in resampled]
    ends = np.percentile([one for one in drawn if one is not None] or [expected], [2.5, 97.5])
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx((expected, *ends))


def test_few_items_have_a_bin_each_by_ascending_score():
    found = reliability([0.8, 0.3], [True, True], [0, 1], row_draws(2, draws=5, seed=0))
    assert found.bins == (ReliabilityBin(1, 0.3, 1.0), ReliabilityBin(1, 0.8, 1.0))
    assert found.calibration_error == pytest.approx((0.7 + 0.2) / 2)
    assert found.brier_score == pytest.approx((0.7**2 + 0.2**2) / 2)


def test_bins_hold_as_many_items_each():
    scores = [number / 40 for number in range(40)]
    found = reliability(scores, [score > 0.5 for score in scores], range(40), row_draws(40, draws=5, seed=0))
    assert [one.items for one in found.bins] == [4] * 10
    assert found.bins[0].mean_score == pytest.approx(np.mean(scores[:4]))
    assert found.bins[-1].marked_share == 1


def test_intervals_of_reliability_draw_rows_with_all_their_items():
    rows, counts = np.array([0, 0, 1, 1, 2, 2]), row_draws(3, draws=200, seed=2)
    scores, marked = np.array([0.9, 0.1, 0.1, 0.8, 0.6, 0.2]), np.array([True, False, True, True, False, False])
    found = reliability(list(scores), list(marked), list(rows), counts)
    weights = counts[:, rows] / 6
    for interval, drawn in (
        (found.brier_score_interval, weights @ (scores - marked) ** 2),
        (found.calibration_error_interval, np.abs(weights * (scores - marked)) @ np.ones(6)),
    ):
        assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


def test_nothing_has_no_reliability():
    assert reliability([], [], [], row_draws(2, draws=5, seed=0)) is None
