"""From encoded rows to token-wise attributions: one forward pass per batch, up to the captured layer.

Builds a request per row, runs the pass in the model's layout, and collects the outcomes. A batch that runs out of
memory is halved, and a row that is not finite is retried on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch

from attribeam.attribution.attention.batching import run_halving, shared_lengths
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows
from attribeam.attribution.attention.reduction import Capture, PendingRows, RowRequest, to_device
from attribeam.attribution.options import QueryPosition, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Reason, RowFault

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
    rows: Sequence[EncodedRow], device: torch.device, *, share: bool
) -> tuple[EndToEndRows, dict[str, torch.Tensor]]:
    """Where ``rows`` lie in one sequence, and what the model takes of it; see ``end_to_end_pass``.

    The mask is for transformers, which without one would look in the positions for several rows: on a GPU, the host
    would wait for all earlier passes.
    """
    shared = shared_lengths([row.token_ids for row in rows]) if share else [0] * len(rows)
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
