"""Bootstrap intervals, and the figures that have them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.measures.bootstrap import Interval, RankedItems, RowBootstrap, f1_figures, row_draws

SPANS = [1, 3, 2, 4, 1, 2]
CREDIT = [1.0, 1.5, 0.0, 4.0, 0.0, 2.0]


def test_interval_depends_on_the_seed_alone():
    first, second, other = (RowBootstrap(SPANS, draws=200, seed=seed).interval(CREDIT) for seed in (5, 5, 6))
    assert first == second != other


def test_interval_encloses_the_mean_and_stays_within_percent():
    interval = RowBootstrap(SPANS, draws=500).interval(CREDIT)
    assert 0 <= interval.low < 100 * sum(CREDIT) / sum(SPANS) < interval.high <= 100


def test_all_right_has_no_spread():
    assert RowBootstrap(SPANS, draws=50).interval([float(spans) for spans in SPANS]) == Interval(100.0, 100.0)


def test_constant_difference_per_span_has_no_spread_because_resamples_are_paired():
    bootstrap = RowBootstrap([1, 1, 1, 1], draws=300)
    worse, better = [0.0, 0.25, 0.5, 0.5], [0.5, 0.75, 1.0, 1.0]
    assert bootstrap.interval(worse).low < bootstrap.interval(worse).high
    difference = [mine - other for mine, other in zip(better, worse, strict=True)]
    assert bootstrap.interval(difference) == Interval(50.0, 50.0)


def test_rows_are_drawn_rather_than_spans():
    one_long_row = RowBootstrap([10, 10], draws=500).interval([10.0, 0.0])
    assert one_long_row == Interval(0.0, 100.0)


@pytest.mark.parametrize(("spans", "draws"), [([], 10), ([1], 0)])
def test_no_rows_or_no_draws_are_refused(spans, draws):
    with pytest.raises(ValueError, match="at least 1"):
        RowBootstrap(spans, draws=draws)


ALL_DRAWS = np.ones((5, 2), dtype=np.int64)


def test_counts_are_summed_before_they_are_divided():
    figures = f1_figures(common=[3, 1], called=[4, 6], marked=[3, 5], row_counts=ALL_DRAWS)
    assert figures.precision == pytest.approx(40)
    assert figures.recall == pytest.approx(50)
    assert figures.f1 == pytest.approx(100 * 2 * 4 / 18)
    assert (figures.f1_interval.low, figures.f1_interval.high) == pytest.approx((figures.f1, figures.f1))


def test_interval_is_over_resamples_of_rows():
    draws = np.array([[2, 0], [0, 2]], dtype=np.int64)
    figures = f1_figures(common=[2, 0], called=[2, 2], marked=[2, 2], row_counts=draws)
    assert figures.f1 == pytest.approx(50)
    assert figures.f1_interval.low < 5
    assert figures.f1_interval.high > 95


def test_undefined_shares_are_zero():
    figures = f1_figures(common=[0, 0], called=[0, 0], marked=[0, 0], row_counts=ALL_DRAWS)
    assert (figures.precision, figures.recall, figures.f1) == (0, 0, 0)


ITEMS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30).filter(
    lambda items: len({right for _, right in items}) == 2
)


def once(rows: int) -> np.ndarray:
    return np.ones((1, rows), dtype=np.int64)


def by_pairs(items: list[tuple[int, bool]]) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a, right in items for b, other in items if right and not other]
    return sum(pairs) / len(pairs)


@given(ITEMS)
def test_area_is_the_share_of_pairs_in_order_with_ties_counted_half(items):
    numbers, right = zip(*items, strict=True)
    ranked = RankedItems(numbers=numbers, right=right, rows=[0] * len(items))
    assert ranked.auroc(once(1)).value == pytest.approx(by_pairs(items))


@given(ITEMS)
def test_row_drawn_twice_counts_as_two_rows(items):
    numbers, right = zip(*items, strict=True)
    counts = np.array([[2] + [1] * (len(items) - 1)])
    area = RankedItems(numbers=numbers, right=right, rows=range(len(items))).auroc(counts).interval.low
    assert area == pytest.approx(by_pairs([items[0], *items]))


def test_perfect_order_has_no_spread():
    ranked = RankedItems(numbers=[0.1, 0.9, 0.2, 0.8], right=[False, True, False, True], rows=[0, 0, 1, 1])
    assert ranked.auroc(row_draws(2, draws=50, seed=0)).interval == Interval(1.0, 1.0)


def test_resamples_without_a_wrong_item_are_left_out():
    ranked = RankedItems(numbers=[0.1, 0.9], right=[False, True], rows=[0, 1])
    area = ranked.auroc(row_draws(2, draws=200, seed=0))
    assert (area.value, area.interval) == (1.0, Interval(1.0, 1.0))


def test_interval_encloses_the_area():
    rng = np.random.default_rng(3)
    right = rng.random(80) < 0.5
    numbers = rng.random(80) + 0.3 * right
    area = RankedItems(numbers=numbers.tolist(), right=right.tolist(), rows=[*range(40)] * 2).auroc(
        row_draws(40, draws=300, seed=1)
    )
    assert 0 < area.interval.low < area.value < area.interval.high < 1


@pytest.mark.parametrize("right", [[True, True], [False, False]])
def test_items_of_one_kind_alone_are_refused(right):
    with pytest.raises(ValueError, match="some should be right and some wrong"):
        RankedItems(numbers=[0.0, 1.0], right=right, rows=[0, 0])
