"""How rows are batched and laid out for a model, and what happens when memory runs out.

Rows lie end to end in one sequence if the model supports that; otherwise they are stacked and padded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from attribeam.attribution.attention.end_to_end_attention import EndToEndRows
from attribeam.attribution.attention.reduction import Capture, PendingRows, RowRequest, to_device
from attribeam.attribution.models import is_out_of_memory
from attribeam.attribution.options import QueryPosition, SoftmaxOver
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import Reason, RowFault

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TokenIds = npt.NDArray[np.int32]
Job = tuple[EncodedRow, int]
"""A row and the number of its passages."""
_PendingRow = Callable[[], TokenAttribution | RowFault]
"""Waits for the outcome of a row of a pass."""
_Row = TypeVar("_Row")
_Outcome = TypeVar("_Outcome")

_TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}
_END_TO_END_KINDS = {"full_attention", "sliding_attention"}
_PROMPT_BUDGETS = 2
"""How many budgets the rows of one prompt may fill: two batches would both begin with it."""
_LEAST_SHARED, _LEAST_SHARED_BEFORE_CONTEXT = 1 / 2, 1 / 5
"""How much of a row a shared prefix has at least: attending to one elsewhere costs more than a short one saves."""


class RowLayout(StrEnum):
    """``END_TO_END``: one sequence without padding. ``PADDED``: rows stacked, each padded on the right."""

    END_TO_END = "end_to_end"
    PADDED = "padded"


def choose_layout(model: PreTrainedModel, kinds: Sequence[str], agree: Callable[[], bool]) -> RowLayout:
    """``END_TO_END`` if the model, with layers of these ``kinds``, supports it, else ``PADDED``.

    It has to accept position ids, to support flash attention in transformers, which works without a mask, to have only
    layers that see every token or a window, and to give the same in both layouts, which ``agree`` tries. A model that
    cannot take rows end to end may raise any of Python's common errors there. Out-of-memory errors propagate.
    """
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    if not takes_positions or not getattr(model, "_supports_flash_attn", False) or not set(kinds) <= _END_TO_END_KINDS:
        return RowLayout.PADDED
    try:
        return RowLayout.END_TO_END if agree() else RowLayout.PADDED
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        return RowLayout.PADDED


def is_exact(model: PreTrainedModel) -> bool:
    """Whether a model computes in float32 with weights as stored, so that results do not depend on the batch."""
    return model.dtype == torch.float32 and not getattr(model, "is_quantized", False)


def token_budget_on(device: torch.device, asked: int | None) -> int:
    """The tokens per batch, padding included: those asked for, else what suits the device."""
    return asked or _TOKEN_BUDGETS.get(device.type, _TOKEN_BUDGETS["cuda"])


def row_batches(
    rows: Sequence[EncodedRow],
    *,
    layout: RowLayout,
    token_budget: int,
    rope_border: int | None,
    share: bool,
    context: int = 0,
) -> Iterator[list[int]]:
    """Indices of the rows of each batch.

    Rows on opposite sides of ``rope_border`` never share a batch, since attention must not depend on neighbours. With
    ``share``, end-to-end rows with a common prefix come together, and it counts once; ``context`` as in
    ``shared_length``.
    """
    lengths = [len(row.token_ids) for row in rows]
    beyond = [rope_border is not None and length > rope_border for length in lengths]
    for side in (False, True):
        group = [index for index, is_beyond in enumerate(beyond) if is_beyond is side]
        if layout is RowLayout.PADDED:
            packed = pack_by_token_budget([lengths[index] for index in group], token_budget)
        else:
            packed = pack_end_to_end(
                [rows[index].token_ids for index in group], token_budget, share=share, context=context
            )
        yield from ([group[index] for index in batch] for batch in packed)


def pack_by_token_budget(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Batches of padded rows, as row indices: each row is in exactly one batch, shortest rows first.

    Rows are sorted by length (ties by index). A batch is closed when one more row would push ``rows * longest row``
    above ``token_budget``. A row above the budget gets a batch of its own.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: (lengths[index], index)):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= token_budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def pack_end_to_end(rows: Sequence[TokenIds], token_budget: int, *, share: bool, context: int = 0) -> list[list[int]]:
    """Batches of end-to-end rows, as row indices: each row is in exactly one batch, next to rows that share its prefix.

    ``rows`` are token ids, int32 [tokens]. Rows that share a prefix form a group; groups are sorted by their longest
    row, shortest first. Without ``share`` every row is a group. A batch is closed when one more group would make it
    longer than ``token_budget``; shared tokens count once. A group above the budget gets a batch of its own, and more
    of them only if it is above two budgets; so does a row of any length.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(rows)), key=lambda index: (rows[index].tobytes(), index) if share else index):
        if share and groups and shared_length(rows[groups[-1][0]], rows[index], context):
            groups[-1].append(index)
        else:
            groups.append([index])
    batches: list[list[int]] = []
    size = 0
    for group in sorted(groups, key=lambda group: (max(len(rows[index]) for index in group), min(group))):
        for part, tokens in _parts(rows, group, context, _PROMPT_BUDGETS * token_budget):
            if batches and size + tokens <= token_budget:
                batches[-1] += part
                size += tokens
            else:
                batches.append(part)
                size = tokens
    return batches


def _parts(rows: Sequence[TokenIds], group: Sequence[int], context: int, most: int) -> Iterator[tuple[list[int], int]]:
    """The group in parts of at most ``most`` tokens, but for single rows, and the tokens of each."""
    part, size = [group[0]], len(rows[group[0]])
    for index in group[1:]:
        added = len(rows[index]) - shared_length(rows[part[0]], rows[index], context)
        if size + added > most:
            yield part, size
            part, size, added = [], 0, len(rows[index])
        part.append(index)
        size += added
    yield part, size


def shared_lengths(rows: Sequence[TokenIds], context: int = 0) -> list[int]:
    """The number of leading tokens that each row of a batch reuses from the last row before it that reuses none."""
    lengths: list[int] = []
    whole = None
    for row in rows:
        lengths.append(0 if whole is None else shared_length(whole, row, context))
        whole = whole if lengths[-1] else row
    return lengths


def shared_length(whole: TokenIds, row: TokenIds, context: int = 0) -> int:
    """How many leading tokens ``row`` may reuse from ``whole``: their common prefix, but one token; 0 if few are left.

    The last ``context`` tokens of that prefix are not reused, since what comes after changes them.
    """
    length = min(len(whole), len(row) - 1)
    differs = whole[:length] != row[:length]
    common = (int(differs.argmax()) if differs.any() else length) - context
    least = _LEAST_SHARED_BEFORE_CONTEXT if context else _LEAST_SHARED
    return common if common >= least * len(row) else 0


def run_halving(rows: Sequence[_Row], run: Callable[[Sequence[_Row]], list[_Outcome]]) -> list[_Outcome | RowFault]:
    """One outcome of ``run`` per row, in order; whenever memory runs out, the rows are halved.

    A row that does not fit on its own gets ``RowFault(OUT_OF_MEMORY)``. Every other error propagates.
    """
    try:
        return [*run(rows)]
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    # by now the error and the tensors that its frames held are released
    torch.cuda.empty_cache()  # does nothing if CUDA was never used
    if len(rows) == 1:
        return [RowFault(Reason.OUT_OF_MEMORY, "the row does not fit into memory on its own; see max_tokens and dtype")]
    middle = len(rows) // 2
    return [*run_halving(rows[:middle], run), *run_halving(rows[middle:], run)]


def run_batches(
    rows: Sequence[_Row], batches: Iterable[Sequence[int]], run: Callable[[Sequence[_Row]], list[_Outcome]]
) -> list[_Outcome | RowFault]:
    """One outcome per row, in order; ``batches`` hold the index of each row exactly once, see ``run_halving``."""
    outcomes: dict[int, _Outcome | RowFault] = {}
    for batch in batches:
        of_batch = run_halving([rows[index] for index in batch], run)
        outcomes.update(zip(batch, of_batch, strict=True))
    return [outcomes[index] for index in range(len(rows))]


def row_requests(
    jobs: Sequence[Job], *, query_position: QueryPosition, softmax_over: SoftmaxOver, device: torch.device
) -> list[RowRequest]:
    """Builds per-row capture requests, in row order; their data goes to the device in one transfer."""
    passages = np.concatenate([row.column_passage for row, _ in jobs]).astype(np.int64)
    on_device = to_device(torch.from_numpy(passages), device)
    borders = accumulate((len(row.column_passage) for row, _ in jobs), initial=0)
    columns = (on_device[start:end] for start, end in pairwise(borders))
    shift = 1 if query_position is QueryPosition.PREDICTING else 0
    return [
        RowRequest(
            query_positions=torch.arange(row.prompt_length - shift, len(row.token_ids) - shift, device=device),
            token_count=row.prompt_length if softmax_over is SoftmaxOver.PROMPT else len(row.token_ids),
            column_passage=column_passage,
            passage_count=passage_count,
        )
        for (row, passage_count), column_passage in zip(jobs, columns, strict=True)
    ]


def end_to_end_inputs(
    rows: Sequence[EncodedRow], device: torch.device, *, share: bool, context: int = 0
) -> tuple[EndToEndRows, dict[str, torch.Tensor]]:
    """Where ``rows`` lie in one sequence, and what the model takes of it; see ``shared_length`` for ``context``.

    Without the mask transformers would look in the positions for several rows, for which a GPU has to be waited for.
    """
    shared = shared_lengths([row.token_ids for row in rows], context) if share else [0] * len(rows)
    packed = EndToEndRows([len(row.token_ids) for row in rows], device, shared=shared)
    ids = np.concatenate([row.token_ids[start:] for row, start in zip(rows, shared, strict=True)]).astype(np.int64)
    token_ids = to_device(torch.from_numpy(ids)[None], device)
    return packed, {
        "input_ids": token_ids,
        "attention_mask": torch.ones_like(token_ids, dtype=torch.bool),
        "position_ids": packed.positions[None],
    }


def padded_token_ids(rows: Sequence[EncodedRow], device: torch.device) -> torch.Tensor:
    """int64 [rows, longest]; each row is padded with its own last token, which is valid in every vocabulary."""
    width = max(len(row.token_ids) for row in rows)
    padded = np.stack([np.pad(row.token_ids, (0, width - len(row.token_ids)), mode="edge") for row in rows])
    return to_device(torch.from_numpy(padded.astype(np.int64)), device)


def attribute_jobs(
    take: Callable[[Sequence[Job]], Capture], jobs: Sequence[Job], batches: Iterable[Sequence[int]]
) -> list[TokenAttribution | RowFault]:
    """One outcome per job, in job order; ``batches`` hold the index of each job exactly once, ``take`` runs one.

    All passes are launched before waiting for any result.
    """

    def run(batch: Sequence[Job]) -> list[_PendingRow]:
        """Run one forward pass, and start the transfer of its rows to the host."""
        pending = PendingRows(take(batch).captured)
        return [partial(pending.outcome, index) for index in range(len(batch))]

    all_launched = run_batches(jobs, batches, run)
    outcomes = []
    for job, launched in zip(jobs, all_launched, strict=True):
        outcome = launched if isinstance(launched, RowFault) else launched()
        if isinstance(outcome, RowFault) and outcome.reason is Reason.NON_FINITE_ATTENTION:
            (alone,) = run_halving([job], run)  # a neighbour's NaN may have spread
            outcome = alone if isinstance(alone, RowFault) else alone()
        outcomes.append(outcome)
    return outcomes
