"""Running out of memory: telling it from other errors, and trying again with half the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from schemas import Reason, RowFault

_Row = TypeVar("_Row")
_Outcome = TypeVar("_Outcome")

_CPU_MESSAGES = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """True for the out-of-memory errors of Python, of CUDA and of torch's CPU allocator."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _CPU_MESSAGES)


def run_halving(rows: Sequence[_Row], run: Callable[[Sequence[_Row]], list[_Outcome]]) -> list[_Outcome | RowFault]:
    """``run(rows)``, halved and tried again as often as memory runs out; one outcome a row, in the order of ``rows``.

    A row that does not fit alone gets ``RowFault(OUT_OF_MEMORY)``. Every other error propagates.
    """
    outcomes = _run_unless_out_of_memory(rows, run)
    if outcomes is not None:
        return [*outcomes]
    torch.cuda.empty_cache()  # does nothing where CUDA was never used
    if len(rows) == 1:
        return [RowFault(Reason.OUT_OF_MEMORY, "the row alone does not fit into memory; see max_tokens and dtype")]
    middle = len(rows) // 2
    return [*run_halving(rows[:middle], run), *run_halving(rows[middle:], run)]


def _run_unless_out_of_memory(
    rows: Sequence[_Row], run: Callable[[Sequence[_Row]], list[_Outcome]]
) -> list[_Outcome] | None:
    """The outcomes, or None; the error and the tensors that its frames hold are gone on return."""
    try:
        return run(rows)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None
