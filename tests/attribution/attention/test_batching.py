"""Batches: every row once, no batch above its budget, always the same batches, one outcome per row whatever fits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.attention.batching import pack_by_token_budget, pack_end_to_end, run_halving, shared_lengths
from attribeam.attribution.models.model_errors import is_out_of_memory
from attribeam.schemas import Reason, RowFault

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
    with pytest.raises(ValueError, match="at least 1, was: 0"):
        pack_end_to_end([row(1)], 0, share=True)


def row(*tokens: int) -> npt.NDArray[np.int32]:
    return np.array(tokens, dtype=np.int32)


PROMPTS = ([], [7] * 5, [7] * 12, [9, 8] * 15)
rows_with_prompts = st.lists(
    st.tuples(st.sampled_from(PROMPTS), st.lists(st.integers(0, 3), min_size=1, max_size=12)), max_size=25
).map(lambda pairs: [row(*prompt, *response) for prompt, response in pairs])


def in_common(first: npt.NDArray[np.int32], second: npt.NDArray[np.int32]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


@given(rows_with_prompts, st.integers(1, 120), st.booleans())
def test_rows_end_to_end_are_each_in_one_batch_within_the_budget(
    rows: list[npt.NDArray[np.int32]], budget: int, share: bool
) -> None:
    batches = pack_end_to_end(rows, budget, share=share)
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows)))
    for batch in batches:
        own = [rows[index] for index in batch]
        shared = shared_lengths(own) if share else [0]
        assert len(batch) == 1 or sum(map(len, own)) - sum(shared) <= budget


@given(rows_with_prompts)
def test_a_row_takes_over_what_it_begins_with_if_that_is_half_of_it(rows: list[npt.NDArray[np.int32]]) -> None:
    whole = None
    for one, shared in zip(rows, shared_lengths(rows), strict=True):
        common = 0 if whole is None else min(in_common(whole, one), len(one) - 1)
        assert shared == (common if 2 * common >= len(one) else 0)
        whole = whole if shared else one


def test_rows_of_one_prompt_come_together_and_count_it_once() -> None:
    rows = [row(*[7] * 10, 1, 2), row(*[5] * 15), row(*[7] * 10, 3, 3, 3)]
    assert pack_end_to_end(rows, 15, share=True) == [[0, 2], [1]]
    assert pack_end_to_end(rows, 15, share=False) == [[0], [2], [1]]


def test_batch_that_is_full_begins_the_next_with_the_whole_prompt() -> None:
    rows = [row(*[7] * 10, answer) for answer in range(6)]
    batches = pack_end_to_end(rows, 13, share=True)
    assert batches == [[0, 1, 2], [3, 4, 5]]
    assert [shared_lengths([rows[index] for index in batch]) for batch in batches] == [[0, 10, 10]] * 2


OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


class Machine:
    """Doubles numbers as long as their sum fits; else fails as told."""

    def __init__(self, memory: int, error: Exception) -> None:
        self.memory, self.error = memory, error
        self.sizes: list[int] = []

    def run(self, rows: Sequence[int]) -> list[int]:
        self.sizes.append(len(rows))
        if sum(rows) > self.memory:
            raise self.error
        return [2 * row for row in rows]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["python", "cuda", "cpu", "driver", "cublas"])
def test_batch_that_does_not_fit_is_halved(error: Exception) -> None:
    machine = Machine(memory=6, error=error)
    assert run_halving([3, 3, 3, 3], machine.run) == [6, 6, 6, 6]
    assert machine.sizes == [4, 2, 2]


def test_row_that_fails_alone_is_a_fault_and_its_neighbours_are_not() -> None:
    first, second, third = run_halving([1, 9, 2], Machine(memory=5, error=MemoryError()).run)
    assert (first, third) == (2, 4)
    assert isinstance(second, RowFault)
    assert second.reason is Reason.OUT_OF_MEMORY


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 20))
def test_every_row_gets_its_own_outcome(rows: list[int], memory: int) -> None:
    outcomes = run_halving(rows, Machine(memory, MemoryError()).run)
    assert [one if isinstance(one, int) else one.reason for one in outcomes] == [
        2 * row if row <= memory else Reason.OUT_OF_MEMORY for row in rows
    ]


def test_other_errors_propagate() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        run_halving([1, 2], Machine(0, RuntimeError("shapes do not match")).run)


def test_a_real_allocation_failure_of_torch_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
