"""The token-wise attributions of several layers from one forward pass: what a sweep over layers reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import torch

from attribution.attention.attention_model import AttentionModel
from attribution.attention.capture_pass import observing
from attribution.attention.out_of_memory import run_halving
from attribution.attention.row_attention import CapturedRow, RowAttention, reduce_row
from attribution.attention.transfers import RowsOnTheirWay
from attribution.prompts.window_merge import merge_windows
from attribution.token_attribution import EncodedRow, TokenAttribution
from schemas import RowFault


class _LayersTaken(Exception):  # noqa: N818 - a message to the caller, not a fault
    """Raised at the last wanted layer, caught where the pass was started."""


def attribute_layers(
    model: AttentionModel, row: EncodedRow, passage_count: int, *, layers: Collection[int], top_k: int
) -> Mapping[int, TokenAttribution]:
    """The attributions of each of the 1-based ``layers``, as ``AttentionModel.attribute`` gives those of its own.

    The pass ends at the last of them; the windows of a long row take one pass each. What a model was trained for holds
    in its own layer L* alone: learned weights of attention heads, and a softmax over the prompt. Other layers have the
    mean over attention heads, and the softmax is over all that a token sees.

    Raises:
        RowFault: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
        ValueError: if one of the layers was not loaded or has no attention, or none is wanted.
    """
    wanted = _LayerWants(model, passage_count, frozenset(layers), top_k)
    parts = [window.row for window in row.windows] or [row]
    found = [_run(wanted, part) for part in parts]
    if not row.windows:
        return found[0]
    return {layer: merge_windows(row, [one[layer] for one in found], top_k=top_k) for layer in layers}


class _LayerWants:
    """One row's pass at a time; layers are 0-based in here, as the attention interface counts them."""

    def __init__(self, model: AttentionModel, passage_count: int, layers: frozenset[int], top_k: int) -> None:
        loaded = int(model.network.config.get_text_config().num_hidden_layers)
        if not layers or min(layers) < 1 or max(layers) > loaded:
            raise ValueError(f"layers should be one or more from 1 to the {loaded} loaded ones, were: {sorted(layers)}")
        self._model, self._passage_count, self._top_k = model, passage_count, top_k
        self._indices = {layer - 1 for layer in layers}

    @torch.inference_mode()
    def take(self, part: EncodedRow) -> dict[int, CapturedRow]:
        """What the layers' attention is reduced to, by their 1-based numbers; one row without windows."""
        taken: dict[int, CapturedRow] = {}
        own = self._model.request(part, self._passage_count)
        other = replace(own, token_count=len(part.token_ids))

        def observe(index: int, attention: RowAttention) -> None:
            if index in self._indices:
                is_own = index == self._model.layer - 1
                weights = self._model.head_weights if is_own else None
                request = own if is_own else other
                taken[index + 1] = reduce_row(attention, request, top_k=self._top_k, head_weights=weights)
            if index >= max(self._indices):
                raise _LayersTaken

        token_ids = torch.from_numpy(part.token_ids.astype(np.int64))[None].to(self._model.device)
        try:
            with observing(observe):
                self._model.network(input_ids=token_ids)
        except _LayersTaken:
            pass
        if len(taken) < len(self._indices):
            missing = sorted({index + 1 for index in self._indices} - set(taken))
            raise ValueError(f"layers should have attention, these have none: {missing}")
        return taken


def _run(wanted: _LayerWants, part: EncodedRow) -> dict[int, TokenAttribution]:
    (taken,) = run_halving([part], lambda parts: [wanted.take(one) for one in parts])
    if isinstance(taken, RowFault):
        raise taken
    on_their_way = RowsOnTheirWay([*taken.values()])
    return {layer: _attribution(on_their_way, place) for place, layer in enumerate(taken)}


def _attribution(rows: RowsOnTheirWay, place: int) -> TokenAttribution:
    outcome = rows.outcome(place)
    if isinstance(outcome, RowFault):
        raise outcome
    return outcome
