"""Which rows run through the model together."""

from __future__ import annotations

from collections.abc import Sequence


def pack_by_token_budget(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Batches of row indices, each row in exactly one, shortest rows first.

    Rows are sorted by length (ties by index); a batch is closed when one more row would make ``rows * longest row``
    pass ``token_budget``. A row above the budget is a batch of its own.

    Raises:
        ValueError: if ``token_budget`` is below 1.
    """
    if token_budget < 1:
        raise ValueError(f"token_budget should be at least 1, was: {token_budget}")
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (lengths[index], index)):
        if batch and (len(batch) + 1) * lengths[index] > token_budget:
            batches.append(batch)
            batch = []
        batch.append(index)
    return [*batches, batch] if batch else batches
