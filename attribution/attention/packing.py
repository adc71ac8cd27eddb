"""Which rows run through the model together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.int32]


def pack_by_token_budget(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Batches of rows that are padded: row indices, each row in exactly one, shortest rows first.

    Rows are sorted by length (ties by index); a batch is closed when one more row would make ``rows * longest row``
    pass ``token_budget``. A row above the budget is a batch of its own.

    Raises:
        ValueError: if ``token_budget`` is below 1.
    """
    _check(token_budget)
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (lengths[index], index)):
        if batch and (len(batch) + 1) * lengths[index] > token_budget:
            batches.append(batch)
            batch = []
        batch.append(index)
    return [*batches, batch] if batch else batches


def pack_end_to_end(rows: Sequence[TokenIds], token_budget: int, *, share: bool) -> list[list[int]]:
    """Batches of rows that lie end to end: row indices, each row in exactly one, rows with a prefix in common together.

    ``rows`` are token ids, int32 [tokens]. Groups of rows that share a prefix come by their longest row, shortest
    first; without ``share`` every row is a group. A batch is closed when one more row would make it longer than
    ``token_budget``; what is shared counts once. A row above the budget is a batch of its own.

    Raises:
        ValueError: if ``token_budget`` is below 1.
    """
    _check(token_budget)
    batches: list[list[int]] = []
    batch: list[int] = []
    size, whole = 0, -1
    for index in _grouped(rows, share):
        shared = shared_length(rows[whole], rows[index]) if share and batch else 0
        if batch and size + len(rows[index]) - shared > token_budget:
            batches.append(batch)
            batch, size, shared = [], 0, 0
        whole = whole if shared else index
        batch.append(index)
        size += len(rows[index]) - shared
    return [*batches, batch] if batch else batches


def shared_lengths(rows: Sequence[TokenIds]) -> list[int]:
    """How many first tokens each row of a batch takes over from the last row before it that takes over none."""
    lengths: list[int] = []
    whole = None
    for row in rows:
        lengths.append(0 if whole is None else shared_length(whole, row))
        whole = whole if lengths[-1] else row
    return lengths


def shared_length(whole: TokenIds, row: TokenIds) -> int:
    """How many first tokens ``row`` may take over from ``whole``: what both begin with, at most all but one of ``row``.

    0 where that is less than half of ``row``: attending to a prefix elsewhere costs more than a short one saves.
    """
    length = min(len(whole), len(row) - 1)
    differs = whole[:length] != row[:length]
    common = int(differs.argmax()) if differs.any() else length
    return common if 2 * common >= len(row) else 0


def _grouped(rows: Sequence[TokenIds], share: bool) -> list[int]:
    """All row indices, those of rows that share a prefix after each other."""
    groups: list[list[int]] = []
    for index in sorted(range(len(rows)), key=lambda index: (rows[index].tobytes(), index) if share else index):
        if share and groups and shared_length(rows[groups[-1][0]], rows[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    by_length = sorted(groups, key=lambda group: (max(len(rows[index]) for index in group), min(group)))
    return [index for group in by_length for index in group]


def _check(token_budget: int) -> None:
    if token_budget < 1:
        raise ValueError(f"token_budget should be at least 1, was: {token_budget}")
