"""What else a forward pass shows of a model's attention, for sweeps and comparison.

Gives the attributions of several layers from one forward pass, and the earlier response tokens that a token attends to
(the appendix's alternative to Dep).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import run_halving
from attribeam.attribution.attention.capture import LayerCapture, observing
from attribeam.attribution.attention.forward_pass import Job
from attribeam.attribution.attention.plain_attention import MAX_WEIGHTS
from attribeam.attribution.attention.reduction import (
    CapturedRow,
    PendingRows,
    RowAttention,
    reduce_row,
    top_columns,
)
from attribeam.attribution.models.layer_choice import layer_types, layers_with_attention
from attribeam.attribution.options import SoftmaxOver
from attribeam.attribution.prompts.passage_windows import merge_windows
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import RowFault

_ByLayer = Mapping[int, TokenAttribution]


def attribute_layers(
    model: AttentionModel, row: EncodedRow, passage_count: int, *, layers: Collection[int], top_k: int
) -> Mapping[int, TokenAttribution]:
    """The attributions of each of the 1-based ``layers``, as ``AttentionModel.attribute`` gives them for L*.

    The pass ends at the last of these layers. The windows of a long row are batched by the model's token budget, and a
    batch that does not fit into memory is halved. A softmax over the prompt applies only to the layer that it
    was trained for, L*; other layers take a softmax over all tokens that a token sees.

    Raises:
        RowFault: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
        ValueError: if one of the layers was not loaded or has no attention, or if ``layers`` is empty.
    """
    _check_layers(model, layers)
    wanted = _LayersPass(model, layers, top_k)
    jobs = [(window.row, passage_count) for window in row.windows] or [(row, passage_count)]
    found: dict[int, _ByLayer] = {}
    for batch in model.batches([part for part, _ in jobs]):
        outcomes = run_halving([jobs[index] for index in batch], wanted.run)
        found.update(zip(batch, map(_raise_fault, outcomes), strict=True))
    parts = [found[index] for index in range(len(jobs))]
    if not row.windows:
        return parts[0]
    return {layer: merge_windows(row, [part[layer] for part in parts], top_k=top_k) for layer in layers}


class _LayersPass:
    """Forward passes that capture several layers; the last of these layers ends the pass."""

    def __init__(self, model: AttentionModel, layers: Collection[int], top_k: int) -> None:
        self._layout, self._top_k = model.layout, top_k
        self._captures = {layer: _capture_of(model, layer) for layer in sorted(layers)}

    def run(self, jobs: Sequence[Job]) -> list[_ByLayer | RowFault]:
        """The attributions of each row by layer, one outcome per row; no row may have windows."""
        last = max(self._captures)
        requests = {layer: capture.requests(jobs) for layer, capture in self._captures.items()}
        taken: dict[int, list[CapturedRow]] = {layer: [] for layer in self._captures}

        def observe(index: int, attention: RowAttention) -> None:
            layer = index + 1
            if layer in taken and layer != last:
                request = requests[layer][len(taken[layer])]
                taken[layer].append(reduce_row(attention, request, top_k=self._top_k))

        with observing(observe):
            taken[last] = self._captures[last].take(jobs, layout=self._layout, top_k=self._top_k).captured
        pending = {layer: PendingRows(rows) for layer, rows in taken.items()}
        return [_outcome_by_layer(pending, place) for place in range(len(jobs))]


def _capture_of(model: AttentionModel, layer: int) -> LayerCapture:
    if layer == model.layer:
        return model.capture
    return replace(model.capture, layer=layer, softmax_over=SoftmaxOver.VISIBLE)


def _outcome_by_layer(rows: Mapping[int, PendingRows], place: int) -> _ByLayer | RowFault:
    """A row's attributions by layer, or the first layer's fault."""
    found = {}
    for layer, pending in rows.items():
        outcome = pending.outcome(place)
        if isinstance(outcome, RowFault):
            return outcome
        found[layer] = outcome
    return found


def _raise_fault(outcome: _ByLayer | RowFault) -> _ByLayer:
    if isinstance(outcome, RowFault):
        raise outcome
    return outcome


def _check_layers(model: AttentionModel, layers: Collection[int]) -> None:
    loaded = int(model.network.config.get_text_config().num_hidden_layers)
    if not layers or min(layers) < 1 or max(layers) > loaded:
        raise ValueError(
            f"layers should be one or more numbers from 1 to {loaded}, the loaded layers, were: {sorted(layers)}"
        )
    missing = sorted(set(layers) - set(layers_with_attention(layer_types(model.network.config))))
    if missing:
        raise ValueError(f"layers should have attention, but these have none: {missing}")


def response_similarity(attention: RowAttention, *, query_positions: torch.Tensor, prompt_length: int) -> torch.Tensor:
    """One layer's attention to earlier response tokens: float32 [responses, responses], 0 from the diagonal on.

    The softmax runs over all tokens that a token sees, in prompt and response. ``query_positions`` int64 [responses]
    are the positions whose attention is row i of S; the response begins at token ``prompt_length``. Works in slices, to
    bound memory.
    """
    heads, token_count, _ = attention.query.shape
    rows_at_once = max(1, MAX_WEIGHTS // (heads * token_count))
    slices = [
        attention.similarity(positions, token_count)[:, prompt_length:]
        for positions in torch.split(query_positions, rows_at_once)
    ]
    return torch.cat(slices).tril(-1)


def attributed_tokens(similarities: Sequence[torch.Tensor], *, top_k: int) -> npt.NDArray[np.bool_]:
    """bool [responses, responses]: whether the row's token is attributed to the column's, which comes earlier.

    Equation 1 over earlier response tokens alone: the ``top_k`` largest similarities that are above 0. If the row ran
    in several windows, each pair of tokens keeps its largest similarity.
    """
    similarity = torch.stack(list(similarities)).amax(0)
    columns, scores = top_columns(similarity, top_k)
    found = torch.zeros(similarity.shape, dtype=torch.bool, device=similarity.device)
    found.scatter_(1, columns, scores > 0)
    attributed: npt.NDArray[np.bool_] = found.cpu().numpy()
    return attributed
