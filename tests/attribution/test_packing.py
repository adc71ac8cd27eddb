"""Packing: every row once, no batch above its budget, always the same batches."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.packing import pack_by_token_budget

lengths_and_budget = st.tuples(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120))


@given(lengths_and_budget)
def test_every_row_is_in_exactly_one_batch(case: tuple[list[int], int]) -> None:
    lengths, budget = case
    batches = pack_by_token_budget(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(lengths_and_budget)
def test_no_batch_of_several_rows_passes_the_budget(case: tuple[list[int], int]) -> None:
    lengths, budget = case
    for batch in pack_by_token_budget(lengths, budget):
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget


@given(lengths_and_budget)
def test_a_batch_is_closed_only_where_one_more_row_would_not_fit(case: tuple[list[int], int]) -> None:
    lengths, budget = case
    batches = pack_by_token_budget(lengths, budget)
    for batch, following in pairwise(batches):
        assert (len(batch) + 1) * lengths[following[0]] > budget


@given(lengths_and_budget)
def test_rows_come_by_length_and_then_by_index(case: tuple[list[int], int]) -> None:
    lengths, budget = case
    order = [(lengths[index], index) for batch in pack_by_token_budget(lengths, budget) for index in batch]
    assert order == sorted(order)


def test_row_above_the_budget_is_alone() -> None:
    assert pack_by_token_budget([9, 2, 2, 30], 6) == [[1, 2], [0], [3]]


def test_budget_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, was: 0"):
        pack_by_token_budget([1], 0)
