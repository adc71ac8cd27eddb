"""How rows are batched and laid out for a model, and what happens when memory runs out.

Rows lie end to end in one sequence if the model supports that; otherwise they are stacked and padded. Batches stay
within a token budget, and rows that need different rotary frequencies never share one. A batch that runs out of
memory is halved and tried again.

One forward pass per batch leads from encoded rows to token-wise attributions. A row that is not finite is retried on
its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from attribeam.attribution.attention.end_to_end_rows import EndToEndRows
from attribeam.attribution.attention.reduction import Capture, CapturedRow, PendingRows, RowRequest, to_device
from attribeam.attribution.models.loading import is_out_of_memory
from attribeam.attribution.options import QueryPosition, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Reason, RowFault

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}
_END_TO_END_KINDS = {"full_attention", "sliding_attention"}
_EXACT_TOLERANCE = 1e-4
_ROUGH_TOLERANCE = 0.03
"""For half precision and quantised weights, whose sums depend on the shape of the batch."""


def token_budget_on(device: torch.device, asked: int | None) -> int:
    """The tokens per batch, padding included: those asked for, else what suits the device."""
    return asked or _TOKEN_BUDGETS.get(device.type, _TOKEN_BUDGETS["cuda"])


class RowLayout(StrEnum):
    """``END_TO_END``: one sequence without padding. ``PADDED``: rows stacked, each padded on the right."""

    END_TO_END = "end_to_end"
    PADDED = "padded"


def choose_layout(
    model: PreTrainedModel, kinds: Sequence[str], *, padded: Callable[[], Capture], end_to_end: Callable[[], Capture]
) -> RowLayout:
    """Choose ``END_TO_END`` if the model supports it, else ``PADDED``.

    A model supports ``END_TO_END`` if it accepts position ids, supports flash attention in transformers (which works
    without a mask, too), if all layer ``kinds`` see either every token or a window, and if both layouts give the same
    attention for a few rows.

    ``padded`` and ``end_to_end`` run the same rows and keep every column. A model that cannot take rows end to end may
    raise any of Python's common errors; it is ``PADDED`` then. Out-of-memory errors propagate.
    """
    if not lays_end_to_end(model, kinds):
        return RowLayout.PADDED
    try:
        found = end_to_end()
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        return RowLayout.PADDED
    return RowLayout.END_TO_END if captures_agree(found, padded(), model) else RowLayout.PADDED


def lays_end_to_end(model: PreTrainedModel, kinds: Sequence[str]) -> bool:
    """Whether it is worth trying to lay rows end to end: by the model's arguments and the ``kinds`` of its layers."""
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    return takes_positions and getattr(model, "_supports_flash_attn", False) and set(kinds) <= _END_TO_END_KINDS


def captures_agree(found: Capture, expected: Capture, model: PreTrainedModel) -> bool:
    """Whether two passes over the same rows, with every column kept, give the same S within the model's precision."""
    tolerance = _tolerance(model)
    pairs = zip(found.captured, expected.captured, strict=True)
    return all(bool((_full_similarity(one) - _full_similarity(other)).abs().max() <= tolerance) for one, other in pairs)


def _tolerance(model: PreTrainedModel) -> float:
    exact = model.dtype == torch.float32 and not getattr(model, "is_quantized", False)
    return _EXACT_TOLERANCE if exact else _ROUGH_TOLERANCE


def _full_similarity(row: CapturedRow) -> torch.Tensor:
    """S of a row that kept every column: float32 [responses, prompt_length]."""
    return torch.zeros_like(row.top_scores).scatter_(1, row.top_columns, row.top_scores)


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

    Rows on opposite sides of ``rope_border`` never share a batch. With ``share``, end-to-end rows with a common prefix
    are placed side by side, and the prefix counts once; for ``context`` see ``shared_length``.
    """
    lengths = [len(row.token_ids) for row in rows]
    for group in groups_by_border(lengths, rope_border):
        if layout is RowLayout.PADDED:
            packed = pack_by_token_budget([lengths[index] for index in group], token_budget)
        else:
            packed = pack_end_to_end(
                [rows[index].token_ids for index in group], token_budget, share=share, context=context
            )
        yield from ([group[place] for place in batch] for batch in packed)


TokenIds = npt.NDArray[np.int32]


def pack_by_token_budget(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Batches of padded rows, as row indices: each row is in exactly one batch, shortest rows first.

    Rows are sorted by length (ties by index). A batch is closed when one more row would push ``rows * longest row``
    above ``token_budget``. A row above the budget gets a batch of its own.

    Raises:
        ValueError: if ``token_budget`` is below 1.
    """
    _check_token_budget(token_budget)
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (lengths[index], index)):
        if batch and (len(batch) + 1) * lengths[index] > token_budget:
            batches.append(batch)
            batch = []
        batch.append(index)
    return [*batches, batch] if batch else batches


_PROMPT_BUDGETS = 2
"""How many budgets the rows of one prompt may fill: two batches would both begin with it."""


def pack_end_to_end(rows: Sequence[TokenIds], token_budget: int, *, share: bool, context: int = 0) -> list[list[int]]:
    """Batches of end-to-end rows, as row indices: each row is in exactly one batch, next to rows that share its prefix.

    ``rows`` are token ids, int32 [tokens]. Rows that share a prefix form a group; groups are sorted by their longest
    row, shortest first. Without ``share`` every row is a group. A batch is closed when one more group would make it
    longer than ``token_budget``; shared tokens count once. A group above the budget gets a batch of its own, and more
    of them only if it is above two budgets; so does a row of any length.

    Raises:
        ValueError: if ``token_budget`` is below 1.
    """
    _check_token_budget(token_budget)
    batches: list[list[int]] = []
    batch: list[int] = []
    size = 0
    for group in _groups_by_prefix(rows, share, context):
        for part, tokens in _parts(rows, group, context, _PROMPT_BUDGETS * token_budget):
            if batch and size + tokens > token_budget:
                batches.append(batch)
                batch, size = [], 0
            batch = [*batch, *part]
            size += tokens
    return [*batches, batch] if batch else batches


def _parts(rows: Sequence[TokenIds], group: Sequence[int], context: int, most: int) -> Iterator[tuple[list[int], int]]:
    """The group in parts of at most ``most`` tokens, but for single rows, and the tokens of each."""
    part, size = [group[0]], len(rows[group[0]])
    for index in group[1:]:
        own = len(rows[index]) - shared_length(rows[part[0]], rows[index], context)
        if size + own > most:
            yield part, size
            part, size, own = [], 0, len(rows[index])
        part.append(index)
        size += own
    yield part, size


def shared_lengths(rows: Sequence[TokenIds], context: int = 0) -> list[int]:
    """The number of leading tokens that each row of a batch reuses from the last row before it that reuses none."""
    lengths: list[int] = []
    whole = None
    for row in rows:
        lengths.append(0 if whole is None else shared_length(whole, row, context))
        whole = whole if lengths[-1] else row
    return lengths


_LEAST_SHARED, _LEAST_SHARED_BEFORE_CONTEXT = 1 / 2, 1 / 5
"""How much of a row a shared prefix has at least: attending to one elsewhere costs more than a short one saves."""


def shared_length(whole: TokenIds, row: TokenIds, context: int = 0) -> int:
    """The number of leading tokens that ``row`` may reuse from ``whole``: their common prefix, all but one at most.

    The last ``context`` tokens of that prefix are not reused, since what comes after changes them. 0 if few are left.
    """
    length = min(len(whole), len(row) - 1)
    differs = whole[:length] != row[:length]
    common = (int(differs.argmax()) if differs.any() else length) - context
    least = _LEAST_SHARED_BEFORE_CONTEXT if context else _LEAST_SHARED
    return common if common >= least * len(row) else 0


def _groups_by_prefix(rows: Sequence[TokenIds], share: bool, context: int) -> list[list[int]]:
    """All row indices, in groups that share a prefix; the shortest groups first."""
    groups: list[list[int]] = []
    for index in sorted(range(len(rows)), key=lambda index: (rows[index].tobytes(), index) if share else index):
        if share and groups and shared_length(rows[groups[-1][0]], rows[index], context):
            groups[-1].append(index)
        else:
            groups.append([index])
    return sorted(groups, key=lambda group: (max(len(rows[index]) for index in group), min(group)))


def _check_token_budget(token_budget: int) -> None:
    if token_budget < 1:
        raise ValueError(f"token_budget should be at least 1, was: {token_budget}")


_LENGTH_DEPENDENT_ROPE = "longrope"


def rope_border(config: PreTrainedConfig) -> int | None:
    """The longest row, in tokens, that is rotated with the short frequencies; None if they do not depend on length.

    Longrope (Phi-3 and others) rotates a whole batch with the long frequencies as soon as one of its rows exceeds the
    original context. A row's attention must not depend on its neighbours, so rows on opposite sides of the border run
    in separate batches. Dynamic scaling changes nothing up to the model's context, and longer rows are refused.
    """
    parameters = getattr(config.get_text_config(), "rope_parameters", None)
    chosen = [one for one in _rope_parameter_sets(parameters or {}) if one.get("rope_type") == _LENGTH_DEPENDENT_ROPE]
    return min((int(one["original_max_position_embeddings"]) for one in chosen), default=None)


def groups_by_border(lengths: Sequence[int], border: int | None) -> list[list[int]]:
    """Indices of the rows of at most ``border`` tokens, then of the longer rows; empty groups are left out."""
    if border is None:
        return [[*range(len(lengths))]] if lengths else []
    short = [index for index, length in enumerate(lengths) if length <= border]
    long = [index for index, length in enumerate(lengths) if length > border]
    return [group for group in (short, long) if group]


def _rope_parameter_sets(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parameters of each kind of layer if there is one set per kind, else the parameters as they are."""
    nested: list[Mapping[str, Any]] = [one for one in parameters.values() if isinstance(one, dict)]
    return nested if nested and "rope_type" not in parameters else [parameters]


_Row = TypeVar("_Row")
_Outcome = TypeVar("_Outcome")


def run_halving(rows: Sequence[_Row], run: Callable[[Sequence[_Row]], list[_Outcome]]) -> list[_Outcome | RowFault]:
    """Calls ``run(rows)``, and halves the rows whenever memory runs out; one outcome per row, in the order of ``rows``.

    A row that does not fit on its own gets ``RowFault(OUT_OF_MEMORY)``. Every other error propagates.
    """
    outcomes = _run_unless_out_of_memory(rows, run)
    if outcomes is not None:
        return [*outcomes]
    torch.cuda.empty_cache()  # does nothing if CUDA was never used
    if len(rows) == 1:
        return [RowFault(Reason.OUT_OF_MEMORY, "the row does not fit into memory on its own; see max_tokens and dtype")]
    middle = len(rows) // 2
    return [*run_halving(rows[:middle], run), *run_halving(rows[middle:], run)]


def _run_unless_out_of_memory(
    rows: Sequence[_Row], run: Callable[[Sequence[_Row]], list[_Outcome]]
) -> list[_Outcome] | None:
    """The outcomes, or None if memory ran out; by then the error and the tensors that its frames held are released."""
    try:
        return run(rows)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None


Job = tuple[EncodedRow, int]
"""A row and the number of its passages."""


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
    """Where ``rows`` lie in one sequence, and what the model takes of it; see ``end_to_end_pass``.

    The mask is for transformers, which without one would look in the positions for several rows: on a GPU, the host
    would wait for all earlier passes.
    """
    shared = shared_lengths([row.token_ids for row in rows], context) if share else [0] * len(rows)
    places = EndToEndRows.sharing([len(row.token_ids) for row in rows], shared, device)
    own = np.concatenate([row.token_ids[start:] for row, start in zip(rows, shared, strict=True)]).astype(np.int64)
    token_ids = to_device(torch.from_numpy(own)[None], device)
    return places, {
        "input_ids": token_ids,
        "attention_mask": torch.ones_like(token_ids, dtype=torch.bool),
        "position_ids": places.positions[None],
    }


def padded_token_ids(rows: Sequence[EncodedRow], device: torch.device) -> torch.Tensor:
    """int64 [rows, longest]; each row is padded with its own last token, which is valid in every vocabulary."""
    width = max(len(row.token_ids) for row in rows)
    padded = np.stack([np.pad(row.token_ids, (0, width - len(row.token_ids)), mode="edge") for row in rows])
    return to_device(torch.from_numpy(padded.astype(np.int64)), device)


_PendingRow = tuple[PendingRows, int]
"""The rows of a pass, and the index of one of them."""


def attribute_jobs(
    take: Callable[[Sequence[Job]], Capture], jobs: Sequence[Job], batches: Iterable[Sequence[int]]
) -> list[TokenAttribution | RowFault]:
    """One outcome per job, in job order; ``batches`` hold the index of each job exactly once, ``take`` runs one.

    All passes are launched before waiting for any result.
    """

    def run(batch: Sequence[Job]) -> list[_PendingRow]:
        """Run one forward pass, and start the transfer of its rows to the host."""
        found = PendingRows(take(batch).captured)
        return [(found, place) for place in range(len(batch))]

    launched: dict[int, _PendingRow | RowFault] = {}
    for batch in batches:
        found = run_halving([jobs[index] for index in batch], run)
        launched.update(zip(batch, found, strict=True))
    return [_outcome_or_retry(job, launched[index], run) for index, job in enumerate(jobs)]


def _outcome_or_retry(
    job: Job, launched: _PendingRow | RowFault, run: Callable[[Sequence[Job]], list[_PendingRow]]
) -> TokenAttribution | RowFault:
    """The outcome of a row; a row that is not finite is retried on its own, since a neighbour's NaN may have spread."""
    outcome = _outcome_of(launched)
    if isinstance(outcome, RowFault) and outcome.reason is Reason.NON_FINITE_ATTENTION:
        return _outcome_of(run_halving([job], run)[0])
    return outcome


def _outcome_of(launched: _PendingRow | RowFault) -> TokenAttribution | RowFault:
    if isinstance(launched, RowFault):
        return launched
    found, place = launched
    return found.outcome(place)
