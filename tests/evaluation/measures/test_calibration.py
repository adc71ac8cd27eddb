"""Reliability diagram, calibration error and Brier score."""

import numpy as np
import pytest

from attribeam.evaluation.measures.bootstrap import row_draws
from attribeam.evaluation.measures.verdicts import ReliabilityBin, reliability

SCORES = [0.9, 0.1, 0.1, 0.8, 0.6, 0.2]
MARKED = [True, False, True, True, False, False]


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


def test_scores_that_equal_the_shares_have_no_calibration_error():
    found = reliability([0.5] * 20, [True, False] * 10, range(20), row_draws(20, draws=5, seed=0))
    assert found.calibration_error == pytest.approx(0)
    assert found.brier_score == pytest.approx(0.25)


def test_interval_of_the_brier_score_draws_rows_with_all_their_items():
    rows, counts = [0, 0, 1, 1, 2, 2], row_draws(3, draws=200, seed=2)
    squares = [(score - mark) ** 2 for score, mark in zip(SCORES, MARKED, strict=True)]
    drawn = [np.average(squares, weights=[row_counts[row] for row in rows]) for row_counts in counts]
    interval = reliability(SCORES, MARKED, rows, counts).brier_score_interval
    assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


def test_nothing_has_no_reliability():
    assert reliability([], [], [], row_draws(2, draws=5, seed=0)) is None
