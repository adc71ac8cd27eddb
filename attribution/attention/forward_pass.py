"""From encoded rows to token-wise attributions: one forward pass per batch, up to the captured layer.

Builds a request per row, runs the pass in the model's layout, and collects the outcomes. A batch that runs out of
memory is halved, and a row that is not finite is retried on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch
from transformers import PreTrainedModel

from attribeam.attribution.attention.batching import RowLayout, run_halving, shared_lengths
from attribeam.attribution.attention.capture import Capture, capturing, is_observed
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, rows_end_to_end
from attribeam.attribution.attention.modernbert_pass import EncoderWeights, modernbert_pass
from attribeam.attribution.attention.reduction import PendingRows, RowRequest, to_device
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


@dataclass(frozen=True, slots=True)
class LayerCapture:
    """How one layer's attention is captured.

    Attributes:
        network: the loaded layers, with ``capture_attention`` as their attention.
        layer: 1-based L*.
        query_position: the position whose attention is row i of S.
        softmax_over: the columns over which each row of the attention is normalised.
        bidirectional: whether the layer's tokens also see to the right.
        fused_weights: the same layers for the fused pass; None if there is none. While ``observing``, or with hooks on
            the network's modules, the network's own pass runs instead.
    """

    network: PreTrainedModel
    layer: int
    query_position: QueryPosition
    softmax_over: SoftmaxOver
    bidirectional: bool = False
    fused_weights: EncoderWeights | None = None

    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:
        """Run the pass; the rows of the result are reduced, but still on the device."""
        rows = [row for row, _ in jobs]
        capture = Capture(
            layer_index=self.layer - 1,
            top_k=top_k,
            rows=self.requests(jobs),
            bidirectional=self.bidirectional,
        )
        if layout is RowLayout.PADDED:
            padded_pass(self.network, rows, capture)
        elif self.fused_weights is not None and not is_observed() and not _has_hooks(self.network):
            modernbert_pass(self.fused_weights, rows, capture)
        else:
            end_to_end_pass(self.network, rows, capture, share=not self.bidirectional)
        return capture

    def requests(self, jobs: Sequence[Job]) -> list[RowRequest]:
        """Builds per-row capture requests, in row order."""
        return row_requests(
            jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=self.network.device
        )


def _has_hooks(network: PreTrainedModel) -> bool:
    return any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


@torch.inference_mode()
def end_to_end_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture, *, share: bool) -> None:
    """Run ``rows`` as one sequence without padding, and fill ``capture``.

    With ``share`` (causal models only), a prefix that rows of the batch have in common is computed once.
    """
    places, inputs = end_to_end_inputs(rows, model.device, share=share)
    options = {} if capture.bidirectional else {"use_cache": False}
    with capturing(capture), rows_end_to_end(places):
        model(**inputs, **options)


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


@torch.inference_mode()
def padded_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` stacked and padded on the right, and fill ``capture``.

    Causality hides the padding; bidirectional models get a mask.
    """
    device = model.device
    lengths = torch.tensor([len(row.token_ids) for row in rows])
    width = int(lengths.max())
    mask = None
    if capture.bidirectional and int(lengths.min()) < width:
        mask = to_device(torch.arange(width) < lengths[:, None], device)
    with capturing(capture):
        model(input_ids=padded_token_ids(rows, device), attention_mask=mask, use_cache=False)


def padded_token_ids(rows: Sequence[EncodedRow], device: torch.device) -> torch.Tensor:
    """int64 [rows, longest]; each row is padded with its own last token, which is valid in every vocabulary."""
    width = max(len(row.token_ids) for row in rows)
    padded = np.stack([np.pad(row.token_ids, (0, width - len(row.token_ids)), mode="edge") for row in rows])
    return to_device(torch.from_numpy(padded.astype(np.int64)), device)


_PendingRow = tuple[PendingRows, int]
"""The rows of a pass, and the index of one of them."""
_Pass = Callable[[Sequence[Job]], list[_PendingRow]]


def attribute_jobs(
    capture: LayerCapture, jobs: Sequence[Job], batches: Iterable[Sequence[int]], *, layout: RowLayout, top_k: int
) -> list[TokenAttribution | RowFault]:
    """One outcome per job, in job order; ``batches`` hold the index of each job exactly once.

    All passes are launched before waiting for any result.
    """
    run = partial(_run_pass, capture, layout, top_k)
    launched: dict[int, _PendingRow | RowFault] = {}
    for batch in batches:
        found = run_halving([jobs[index] for index in batch], run)
        launched.update(zip(batch, found, strict=True))
    return [_outcome_or_retry(job, launched[index], run) for index, job in enumerate(jobs)]


def _run_pass(capture: LayerCapture, layout: RowLayout, top_k: int, jobs: Sequence[Job]) -> list[_PendingRow]:
    """Run one forward pass, and start the transfer of its rows to the host."""
    found = PendingRows(capture.take(jobs, layout=layout, top_k=top_k).captured)
    return [(found, place) for place in range(len(jobs))]


def _outcome_or_retry(job: Job, launched: _PendingRow | RowFault, run: _Pass) -> TokenAttribution | RowFault:
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
