"""From encoded rows to token-wise attributions: one forward pass a batch, up to the captured layer.

First what is wanted of each row, then the pass in the layout that the model takes, then the outcomes: a batch
that fails on memory is halved, and a row that is not finite is tried alone.
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
from attribeam.attribution.attention.reduction import PendingRows, RowRequest, to_device
from attribeam.attribution.fast_paths.modernbert_pass import EncoderWeights, modernbert_pass
from attribeam.attribution.options import QueryPosition, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Reason, RowFault

Job = tuple[EncodedRow, int]
"""A row and the number of its passages."""


def row_requests(
    jobs: Sequence[Job], *, query_position: QueryPosition, softmax_over: SoftmaxOver, device: torch.device
) -> list[RowRequest]:
    """One request a row, in their order; what they hold goes to the device in one transfer."""
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
    """Whose attention is taken, and how.

    Attributes:
        network: the loaded layers, with ``capture_attention`` as their attention.
        layer: 1-based L*.
        query_position: whose attention row i of S is.
        softmax_over: which columns a row of the attention is normalised over.
        head_weights: float32 [attention heads] that sum to 1, None for the mean over attention heads.
        bidirectional: whether the layer's tokens see to the right as well.
        encoder: the same layers for a pass in few steps, None where there is none. Where somebody watches, by
            ``observing`` or by hooks on the network's modules, the network's own pass runs.
    """

    network: PreTrainedModel
    layer: int
    query_position: QueryPosition
    softmax_over: SoftmaxOver
    head_weights: torch.Tensor | None
    bidirectional: bool = False
    encoder: EncoderWeights | None = None

    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:
        """Run the pass; the rows in it are reduced, and still on the device."""
        rows = [row for row, _ in jobs]
        capture = Capture(
            layer_index=self.layer - 1,
            top_k=top_k,
            rows=self.requests(jobs),
            head_weights=self.head_weights,
            bidirectional=self.bidirectional,
        )
        if layout is RowLayout.PADDED:
            padded_pass(self.network, rows, capture)
        elif self.encoder is not None and not is_observed() and not _has_hooks(self.network):
            modernbert_pass(self.encoder, rows, capture)
        else:
            end_to_end_pass(self.network, rows, capture, share=not self.bidirectional)
        return capture

    def requests(self, jobs: Sequence[Job]) -> list[RowRequest]:
        """What of the layer's attention is S of each row."""
        return row_requests(
            jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=self.network.device
        )


def _has_hooks(network: PreTrainedModel) -> bool:
    return any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


@torch.inference_mode()
def end_to_end_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture, *, share: bool) -> None:
    """Run ``rows`` as one sequence without padding; ``capture`` is filled.

    With ``share`` (causal models only) the tokens that rows of a batch begin with together are computed once.
    """
    device = model.device
    shared = shared_lengths([row.token_ids for row in rows]) if share else [0] * len(rows)
    places = EndToEndRows.sharing([len(row.token_ids) for row in rows], shared, device)
    own = np.concatenate([row.token_ids[start:] for row, start in zip(rows, shared, strict=True)]).astype(np.int64)
    token_ids = to_device(torch.from_numpy(own)[None], device)
    options = {} if capture.bidirectional else {"use_cache": False}
    with capturing(capture), rows_end_to_end(places):
        model(input_ids=token_ids, position_ids=places.positions()[None], **options)


@torch.inference_mode()
def padded_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` one below the other, padded on the right; ``capture`` is filled.

    Causality hides what stands to the right; bidirectional models get a mask.
    """
    device = model.device
    lengths = torch.tensor([len(row.token_ids) for row in rows])
    width = int(lengths.max())
    mask = None
    if capture.bidirectional and int(lengths.min()) < width:
        mask = to_device(torch.arange(width) < lengths[:, None], device)
    token_ids = to_device(_pad([row.token_ids for row in rows], width), device)
    with capturing(capture):
        model(input_ids=token_ids, attention_mask=mask, use_cache=False)


def _pad(rows: Sequence[np.typing.NDArray[np.int32]], width: int) -> torch.Tensor:
    """int64 [rows, width]; each row is continued with its own last token, which is valid in every vocabulary."""
    padded = np.stack([np.pad(row, (0, width - len(row)), mode="edge") for row in rows])
    return torch.from_numpy(padded.astype(np.int64))


_PendingRow = tuple[PendingRows, int]
"""The rows of a pass, and the place of one of them."""
_Pass = Callable[[Sequence[Job]], list[_PendingRow]]


def attribute_jobs(
    capture: LayerCapture, jobs: Sequence[Job], batches: Iterable[Sequence[int]], *, layout: RowLayout, top_k: int
) -> list[TokenAttribution | RowFault]:
    """One outcome a job, in their order; ``batches`` hold the index of every job once.

    All passes are launched before anything is waited for.
    """
    run = partial(_run_pass, capture, layout, top_k)
    launched: dict[int, _PendingRow | RowFault] = {}
    for batch in batches:
        found = run_halving([jobs[index] for index in batch], run)
        launched.update(zip(batch, found, strict=True))
    return [_outcome_or_retry(job, launched[index], run) for index, job in enumerate(jobs)]


def _run_pass(capture: LayerCapture, layout: RowLayout, top_k: int, jobs: Sequence[Job]) -> list[_PendingRow]:
    """One forward pass; its rows are on their way to the host."""
    found = PendingRows(capture.take(jobs, layout=layout, top_k=top_k).captured)
    return [(found, place) for place in range(len(jobs))]


def _outcome_or_retry(job: Job, launched: _PendingRow | RowFault, run: _Pass) -> TokenAttribution | RowFault:
    """What came of a row; one that is not finite is tried alone, as a neighbour's NaN may have reached it."""
    outcome = _outcome_of(launched)
    if isinstance(outcome, RowFault) and outcome.reason is Reason.NON_FINITE_ATTENTION:
        return _outcome_of(run_halving([job], run)[0])
    return outcome


def _outcome_of(launched: _PendingRow | RowFault) -> TokenAttribution | RowFault:
    if isinstance(launched, RowFault):
        return launched
    found, place = launched
    return found.outcome(place)
