"""Precision among the first rows, and rank correlation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.measures.bootstrap import row_draws
from attribeam.evaluation.measures.verdicts import precision_at, rank_correlation


def test_precision_counts_the_rows_with_the_largest_scores():
    found = precision_at(2, [0.1, 0.9, 0.5, 0.7], [True, True, False, False], row_draws(4, draws=50, seed=0))
    assert found.precision.value == pytest.approx(50)
    assert found.precision.interval.low < 50 <= found.precision.interval.high


def test_rows_with_equal_scores_share_the_last_places():
    found = precision_at(2, [0.9, 0.5, 0.5, 0.5], [False, True, False, False], row_draws(4, draws=5, seed=0))
    assert found.precision.value == pytest.approx(100 * (0 + 1 / 3) / 2)


def test_ranking_that_is_too_short_has_no_precision():
    assert precision_at(3, [0.1, 0.2], [True, False], row_draws(2, draws=5, seed=0)) is None


def naive_ranks(numbers):
    return [sum(other > number for other in numbers) + (numbers.count(number) + 1) / 2 for number in numbers]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=12))
def test_correlation_is_pearsons_of_the_ranks(pairs):
    scores, grades = [float(one) for one, _ in pairs], [float(one) for _, one in pairs]
    found = rank_correlation(scores, grades, row_draws(len(pairs), draws=5, seed=0))
    if len(set(scores)) == 1 or len(set(grades)) == 1:
        assert found is None
    else:
        assert found.value == pytest.approx(np.corrcoef(naive_ranks(scores), naive_ranks(grades))[0, 1])


def test_interval_of_the_correlation_is_that_of_resampled_rows():
    scores, grades = [1.0, 2.0, 2.0, 4.0, 5.0], [2.0, 1.0, 3.0, 3.0, 9.0]
    counts = row_draws(5, draws=200, seed=3)
    drawn = []
    for row_counts in counts:
        rows = np.repeat(np.arange(5), row_counts)
        first, second = [scores[row] for row in rows], [grades[row] for row in rows]
        if len(set(first)) > 1 and len(set(second)) > 1:
            drawn.append(np.corrcoef(naive_ranks(first), naive_ranks(second))[0, 1])
    interval = rank_correlation(scores, grades, counts).interval
    assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))
