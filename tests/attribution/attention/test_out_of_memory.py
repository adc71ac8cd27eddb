"""Halving: every row gets one outcome, whatever fits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attribution.attention.out_of_memory import is_out_of_memory, run_halving
from schemas import Reason, RowFault

OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
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


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["python", "cuda", "cpu"])
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
