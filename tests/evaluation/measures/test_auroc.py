import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.measures.auroc import RankedItems
from evaluation.measures.bootstrap import Interval, row_draws

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
