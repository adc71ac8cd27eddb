"""The token-wise attributions of several layers from one forward pass: what a sweep over layers reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from attribution.attention.attention_layer import layer_types, layers_with_attention
from attribution.attention.attention_model import AttentionModel
from attribution.attention.capture_pass import observing
from attribution.attention.out_of_memory import run_halving
from attribution.attention.row_attention import CapturedRow, RowAttention, reduce_row
from attribution.attention.row_capture import RowCapture
from attribution.attention.row_requests import Job
from attribution.attention.transfers import RowsOnTheirWay
from attribution.prompts.window_merge import merge_windows
from attribution.settings import SoftmaxOver
from attribution.token_attribution import EncodedRow, TokenAttribution
from schemas import RowFault

_ByLayer = Mapping[int, TokenAttribution]


def attribute_layers(
    model: AttentionModel, row: EncodedRow, passage_count: int, *, layers: Collection[int], top_k: int
) -> Mapping[int, TokenAttribution]:
    """The attributions of each of the 1-based ``layers``, as ``AttentionModel.attribute`` gives those of its own.

    The pass ends at the last of them. The windows of a long row are batched by the model's token budget, and a batch
    that does not fit into memory is halved. What a model was trained for holds in its own layer L* alone: learned
    weights of attention heads, and a softmax over the prompt. Other layers have the mean over attention heads, and the
    softmax is over all that a token sees.

    Raises:
        RowFault: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
        ValueError: if one of the layers was not loaded or has no attention, or none is wanted.
    """
    _check(model, layers)
    wanted = _LayersPass(model, layers, top_k)
    jobs = [(window.row, passage_count) for window in row.windows] or [(row, passage_count)]
    found: dict[int, _ByLayer] = {}
    for batch in model.batches([part for part, _ in jobs]):
        outcomes = run_halving([jobs[index] for index in batch], wanted.run)
        found.update(zip(batch, map(_unless_fault, outcomes), strict=True))
    parts = [found[index] for index in range(len(jobs))]
    if not row.windows:
        return parts[0]
    return {layer: merge_windows(row, [part[layer] for part in parts], top_k=top_k) for layer in layers}


class _LayersPass:
    """Forward passes that are asked for several layers; the last of them ends the pass."""

    def __init__(self, model: AttentionModel, layers: Collection[int], top_k: int) -> None:
        self._layout, self._top_k = model.layout, top_k
        self._captures = {layer: _capture_of(model, layer) for layer in sorted(layers)}

    def run(self, jobs: Sequence[Job]) -> list[_ByLayer | RowFault]:
        """What each row's attention comes to, by layer; none of the rows has windows."""
        last = max(self._captures)
        requests = {layer: capture.requests(jobs) for layer, capture in self._captures.items()}
        taken: dict[int, list[CapturedRow]] = {layer: [] for layer in self._captures}

        def observe(index: int, attention: RowAttention) -> None:
            layer = index + 1
            if layer in taken and layer != last:
                request, weights = requests[layer][len(taken[layer])], self._captures[layer].head_weights
                taken[layer].append(reduce_row(attention, request, top_k=self._top_k, head_weights=weights))

        with observing(observe):
            taken[last] = self._captures[last].take(jobs, layout=self._layout, top_k=self._top_k).captured
        on_their_way = {layer: RowsOnTheirWay(rows) for layer, rows in taken.items()}
        return [_arrived(on_their_way, place) for place in range(len(jobs))]


def _capture_of(model: AttentionModel, layer: int) -> RowCapture:
    if layer == model.layer:
        return model.capture
    return replace(model.capture, layer=layer, head_weights=None, softmax_over=SoftmaxOver.VISIBLE, encoder=None)


def _arrived(rows: Mapping[int, RowsOnTheirWay], place: int) -> _ByLayer | RowFault:
    """A row's attributions by layer, or the fault of any."""
    found = {}
    for layer, on_their_way in rows.items():
        outcome = on_their_way.outcome(place)
        if isinstance(outcome, RowFault):
            return outcome
        found[layer] = outcome
    return found


def _unless_fault(outcome: _ByLayer | RowFault) -> _ByLayer:
    if isinstance(outcome, RowFault):
        raise outcome
    return outcome


def _check(model: AttentionModel, layers: Collection[int]) -> None:
    loaded = int(model.network.config.get_text_config().num_hidden_layers)
    if not layers or min(layers) < 1 or max(layers) > loaded:
        raise ValueError(f"layers should be one or more from 1 to the {loaded} loaded ones, were: {sorted(layers)}")
    missing = sorted(set(layers) - set(layers_with_attention(layer_types(model.network.config))))
    if missing:
        raise ValueError(f"layers should have attention, these have none: {missing}")
