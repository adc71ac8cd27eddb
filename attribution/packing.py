"""Which rows run through the model together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attribution.token_attribution import EncodedRow

_BYTES_A_TOKEN = np.dtype(np.int32).itemsize


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


def pack_end_to_end(lengths: Sequence[int], prompts: Sequence[bytes], token_budget: int) -> list[list[int]]:
    """Batches of rows that lie end to end: row indices, each row in exactly one, rows of one prompt side by side.

    ``prompts`` are the ``prompt_key`` of each row, or empty where rows share nothing. Groups of one prompt come by
    their longest row, shortest first; a batch is closed when one more row would make it longer than ``token_budget``,
    where a prompt that the row before has as well counts nothing. A row above the budget is a batch of its own.

    Raises:
        ValueError: if ``token_budget`` is below 1.
    """
    _check(token_budget)
    batches: list[list[int]] = []
    batch: list[int] = []
    size = 0
    for index in _grouped(lengths, prompts):
        shared = len(prompts[index]) // _BYTES_A_TOKEN if batch and prompts[index] == prompts[batch[-1]] else 0
        if batch and size + lengths[index] - shared > token_budget:
            batches.append(batch)
            batch, size, shared = [], 0, 0
        batch.append(index)
        size += lengths[index] - shared
    return [*batches, batch] if batch else batches


def prompt_key(row: EncodedRow) -> bytes:
    """What rows of one prompt have in common: its token ids."""
    return row.token_ids[: row.prompt_length].astype(np.int32, copy=False).tobytes()


def shared_prompt_lengths(rows: Sequence[EncodedRow]) -> list[int]:
    """For each row the length of its prompt where the row before has the same one, else 0."""
    keys = [prompt_key(row) for row in rows]
    return [
        row.prompt_length if before == key else 0
        for row, before, key in zip(rows, [None, *keys[:-1]], keys, strict=True)
    ]


def _grouped(lengths: Sequence[int], prompts: Sequence[bytes]) -> list[int]:
    """All row indices, those of one prompt after each other."""
    groups: dict[bytes | int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        groups.setdefault(prompt or index, []).append(index)
    by_length = sorted(groups.values(), key=lambda group: (max(lengths[index] for index in group), group[0]))
    return [index for group in by_length for index in group]


def _check(token_budget: int) -> None:
    if token_budget < 1:
        raise ValueError(f"token_budget should be at least 1, was: {token_budget}")
