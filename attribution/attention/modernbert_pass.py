"""The forward pass of a small ModernBERT encoder on the CPU, in fewer steps than transformers takes, to equal ends.

Rotation is one complex product in place, residuals are added within the products, and of the captured layer there are
only the keys and queries that S is made of. The model's own pass is what it is measured against (``model_probe.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import layer_norm

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.capture_pass import Capture
from attribution.attention.end_to_end_attention import end_to_end_attention
from attribution.attention.end_to_end_rows import EndToEndRows
from attribution.attention.local_attention import padded_local_attention, places_behind
from attribution.attention.modernbert_weights import EncoderWeights, LowerLayer
from attribution.attention.row_attention import RowAttention, RowRequest, reduce_row
from attribution.token_attribution import EncodedRow

_CPU = torch.device("cpu")


@torch.inference_mode()
def modernbert_pass(weights: EncoderWeights, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` end to end up to the captured layer; ``capture`` is filled."""
    places = EndToEndRows.of_lengths([len(row.token_ids) for row in rows], _CPU)
    token_ids = torch.from_numpy(np.concatenate([row.token_ids for row in rows]).astype(np.int64))
    turns = {kind: rotation.turns(places.longest[1]) for kind, rotation in weights.rotations.items()}
    turns_of_places = {kind: some[places.positions()] for kind, some in turns.items()}
    hidden = _normed(weights.token_embeddings[token_ids], weights.embedding_norm, weights)
    for layer in weights.lower_layers:
        hidden = _add_attention(hidden, layer, weights, places, turns_of_places[layer.kind])
        hidden = _add_mlp(hidden, layer, weights)
    hidden = _normed(hidden, weights.attention_norm, weights)
    capture.bidirectional = True
    for attention, request in _attentions(hidden, weights, places, capture.rows, turns[weights.kind]):
        reduced = reduce_row(attention, request, top_k=capture.top_k, head_weights=capture.head_weights)
        capture.captured.append(reduced)


def _add_attention(
    hidden: torch.Tensor, layer: LowerLayer, weights: EncoderWeights, places: EndToEndRows, turns: torch.Tensor
) -> torch.Tensor:
    """``hidden`` [tokens, hidden size] and the layer's attention on top."""
    tokens, heads = len(hidden), weights.attention_heads
    before, behind = _padding(tokens, layer.reach)
    states = hidden.new_empty(before + tokens + behind, 3 * heads, hidden.shape[1] // heads)
    states[:before], states[before + tokens :] = 0, 0
    own = states[before : before + tokens]
    torch.mm(_normed(hidden, layer.attention_norm, weights), layer.query_key_value, out=own.flatten(1))
    _turn(own[:, : 2 * heads], turns)
    query, key, value = states.transpose(0, 1).chunk(3)
    attention = _attention(query, key, value, layer.reach, places)
    return torch.addmm(hidden, attention[:tokens].reshape(hidden.shape), layer.attention_output)


def _padding(tokens: int, reach: int | None) -> tuple[int, int]:
    """Places before and behind the tokens that local attention wants."""
    return (0, 0) if not reach else (reach, places_behind(tokens, reach, _CPU) + reach)


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, reach: int | None, places: EndToEndRows
) -> torch.Tensor:
    """Of [heads, places, size] each, padded as ``_padding`` says: [tokens or more, heads, size]."""
    scaling = query.shape[-1] ** -0.5
    if reach:
        return padded_local_attention(query[:, reach:-reach], key, value, rows=places, window=reach, scaling=scaling)
    rule = AttentionRule(causal=False, reach=reach, scaling=scaling)
    return end_to_end_attention(query[None], key[None], value[None], rows=places, rule=rule)[0]


def _add_mlp(hidden: torch.Tensor, layer: LowerLayer, weights: EncoderWeights) -> torch.Tensor:
    normed = _normed(hidden, layer.mlp_norm, weights)
    gated = weights.activation(normed @ layer.mlp_input).mul_(normed @ layer.mlp_gate)
    return torch.addmm(hidden, gated, layer.mlp_output)


def _attentions(
    hidden: torch.Tensor,
    weights: EncoderWeights,
    places: EndToEndRows,
    requests: Sequence[RowRequest],
    turns: torch.Tensor,
) -> Iterator[tuple[RowAttention, RowRequest]]:
    """Of each row the attention of its responses alone, numbered from 0, over the tokens that the softmax runs over."""
    for row, request in zip(places.places, requests, strict=True):
        own, positions, tokens = hidden[row.start : row.end], request.query_positions, request.token_count
        key = _heads(own[:tokens] @ weights.key, turns[:tokens], weights)
        query = _heads(own[positions] @ weights.query, turns[positions], weights)
        rule = AttentionRule(causal=False, reach=None, scaling=query.shape[-1] ** -0.5)
        numbered = replace(request, query_positions=torch.arange(len(positions)))
        yield RowAttention(query, key, None, rule), numbered


def _heads(states: torch.Tensor, turns: torch.Tensor, weights: EncoderWeights) -> torch.Tensor:
    """Queries or keys [tokens, hidden size], turned: [attention heads, tokens, size]."""
    heads = states.view(len(states), weights.attention_heads, -1)
    _turn(heads, turns)
    return heads.transpose(0, 1)


def _turn(states: torch.Tensor, turns: torch.Tensor) -> None:
    """Rotate [tokens, heads, size] in place; columns 2i and 2i + 1 turn together."""
    torch.view_as_complex(states.view(*states.shape[:2], -1, 2)).mul_(turns)


def _normed(states: torch.Tensor, norm: torch.Tensor | None, weights: EncoderWeights) -> torch.Tensor:
    return states if norm is None else layer_norm(states, norm.shape, norm, None, weights.norm_eps)
