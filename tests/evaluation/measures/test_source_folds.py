"""Thresholds that are chosen on other sources."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.measures.bootstrap import (
    FOLDS,
    best_threshold,
    source_folds,
)


def naive_f1(called, marked):
    both = sum(call and mark for call, mark in zip(called, marked, strict=True))
    return 2 * both / (sum(called) + sum(marked)) if sum(called) + sum(marked) else 0


def naive_balance(called, marked):
    found = [call for call, mark in zip(called, marked, strict=True) if mark]
    alarms = [call for call, mark in zip(called, marked, strict=True) if not mark]
    return (np.mean(found or [0]) + 1 - np.mean(alarms or [0])) / 2


@pytest.mark.parametrize(("balanced", "naive"), [(False, naive_f1), (True, naive_balance)])
@given(items=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=20))
def test_no_threshold_is_better_than_the_best_one(balanced, naive, items):
    scores, marked = [float(score) for score, _ in items], [mark for _, mark in items]
    best = best_threshold(np.array(scores), np.array(marked), balanced=balanced)
    reached = naive([score >= best for score in scores], marked)
    others = [naive([score >= other for score in scores], marked) for other in sorted(set(scores))]
    assert reached == pytest.approx(max(others))


def test_threshold_lies_half_way_between_scores():
    assert best_threshold(np.array([0.2, 0.4, 0.8]), np.array([False, False, True])) == pytest.approx(0.6)


def test_all_are_called_if_that_is_best():
    assert best_threshold(np.array([0.2, 0.4]), np.array([True, True])) == -math.inf


def test_rows_of_one_source_share_a_fold_and_folds_are_of_equal_size():
    sources = [number // 3 for number in range(60)]
    folds = source_folds(sources, seed=1)
    assert all(len({folds[row] for row in range(60) if sources[row] == source}) == 1 for source in range(20))
    assert sorted(np.bincount(folds)) == [60 // FOLDS] * FOLDS
    assert not np.array_equal(folds, source_folds(sources, seed=2))
