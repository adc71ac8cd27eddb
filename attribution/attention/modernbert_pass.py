"""The fused forward pass of a small ModernBERT encoder on the CPU.

It gives the same result as transformers' own pass in fewer steps. Weights are laid out once. Rotation is a single
complex product in place, residuals are added within matrix products, and the captured layer computes only the keys
and queries that S needs. The pass relies on private parts of transformers, so it is used only if it gives the same
attention as the model's own pass (``attention/model_setup.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch.nn.functional import layer_norm
from transformers import ModernBertConfig, ModernBertModel, PreTrainedModel

from attribeam.attribution.attention.capture import Capture
from attribeam.attribution.attention.end_to_end_attention import (
    block_padding,
    end_to_end_attention,
    padded_local_attention,
)
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows
from attribeam.attribution.attention.plain_attention import AttentionRule
from attribeam.attribution.attention.reduction import RowAttention, RowRequest, reduce_row
from attribeam.attribution.token_attribution import EncodedRow

if TYPE_CHECKING:
    from transformers.models.modernbert.modeling_modernbert import ModernBertEncoderLayer

_CPU = torch.device("cpu")


@torch.inference_mode()
def modernbert_pass(weights: EncoderWeights, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` end to end up to the captured layer, and fill ``capture``."""
    places = EndToEndRows.of_lengths([len(row.token_ids) for row in rows], _CPU)
    token_ids = torch.from_numpy(np.concatenate([row.token_ids for row in rows]).astype(np.int64))
    rotary_factors = {kind: rotation.rotary_factors(places.longest[1]) for kind, rotation in weights.rotations.items()}
    factors_of_places = {kind: some[places.positions] for kind, some in rotary_factors.items()}
    hidden = _normed(weights.token_embeddings[token_ids], weights.embedding_norm, weights)
    for layer in weights.lower_layers:
        hidden = _add_attention(hidden, layer, weights, places, factors_of_places[layer.kind])
        hidden = _add_mlp(hidden, layer, weights)
    hidden = _normed(hidden, weights.attention_norm, weights)
    capture.bidirectional = True
    for attention, request in _captured_attentions(hidden, weights, places, capture.rows, rotary_factors[weights.kind]):
        capture.captured.append(reduce_row(attention, request, top_k=capture.top_k))


def _add_attention(
    hidden: torch.Tensor, layer: LowerLayer, weights: EncoderWeights, places: EndToEndRows, rotary_factors: torch.Tensor
) -> torch.Tensor:
    """``hidden`` [tokens, hidden size] plus the layer's attention."""
    tokens, heads = len(hidden), weights.attention_heads
    before, behind = _padding(tokens, layer.reach)
    states = hidden.new_empty(before + tokens + behind, 3 * heads, hidden.shape[1] // heads)
    states[:before], states[before + tokens :] = 0, 0
    own = states[before : before + tokens]
    torch.mm(_normed(hidden, layer.attention_norm, weights), layer.query_key_value, out=own.flatten(1))
    _rotate(own[:, : 2 * heads], rotary_factors)
    query, key, value = states.transpose(0, 1).chunk(3)
    attention = _attention(query, key, value, layer.reach, places)
    return torch.addmm(hidden, attention[:tokens].reshape(hidden.shape), layer.attention_output)


def _padding(tokens: int, reach: int | None) -> tuple[int, int]:
    """The places that local attention needs before and after the tokens."""
    return (0, 0) if not reach else (reach, block_padding(tokens, reach, _CPU) + reach)


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, reach: int | None, places: EndToEndRows
) -> torch.Tensor:
    """Attention of states [heads, places, size], padded by ``_padding``: [tokens or more, heads, size]."""
    scaling = query.shape[-1] ** -0.5
    if reach:
        return padded_local_attention(query[:, reach:-reach], key, value, rows=places, window=reach, scaling=scaling)
    rule = AttentionRule(causal=False, reach=reach, scaling=scaling)
    return end_to_end_attention(query[None], key[None], value[None], rows=places, rule=rule)[0]


def _add_mlp(hidden: torch.Tensor, layer: LowerLayer, weights: EncoderWeights) -> torch.Tensor:
    normed = _normed(hidden, layer.mlp_norm, weights)
    gated = weights.activation(normed @ layer.mlp_input).mul_(normed @ layer.mlp_gate)
    return torch.addmm(hidden, gated, layer.mlp_output)


def _captured_attentions(
    hidden: torch.Tensor,
    weights: EncoderWeights,
    places: EndToEndRows,
    requests: Sequence[RowRequest],
    rotary_factors: torch.Tensor,
) -> Iterator[tuple[RowAttention, RowRequest]]:
    """Each row's attention, from its response positions only, renumbered from 0, to the tokens of the softmax."""
    for row, request in zip(places.places, requests, strict=True):
        own, positions, tokens = hidden[row.start : row.end], request.query_positions, request.token_count
        key = _heads(own[:tokens] @ weights.key, rotary_factors[:tokens], weights)
        query = _heads(own[positions] @ weights.query, rotary_factors[positions], weights)
        rule = AttentionRule(causal=False, reach=None, scaling=query.shape[-1] ** -0.5)
        numbered = replace(request, query_positions=torch.arange(len(positions)))
        yield RowAttention(query, key, None, rule), numbered


def _heads(states: torch.Tensor, rotary_factors: torch.Tensor, weights: EncoderWeights) -> torch.Tensor:
    """Queries or keys [tokens, hidden size], rotated: [attention heads, tokens, size]."""
    heads = states.view(len(states), weights.attention_heads, -1)
    _rotate(heads, rotary_factors)
    return heads.transpose(0, 1)


def _rotate(states: torch.Tensor, rotary_factors: torch.Tensor) -> None:
    """Rotate [tokens, heads, size] in place; columns 2i and 2i + 1 form a pair."""
    torch.view_as_complex(states.view(*states.shape[:2], -1, 2)).mul_(rotary_factors)


def _normed(states: torch.Tensor, norm: torch.Tensor | None, weights: EncoderWeights) -> torch.Tensor:
    return states if norm is None else layer_norm(states, norm.shape, norm, None, weights.norm_eps)


_MOST_WEIGHTS = 2**24
"""The pass keeps a second copy of the layers' weights; models with more weights than this gain little."""

_ROPE_BY_LENGTH = {"dynamic", "longrope"}
"""Rotary embeddings whose frequencies depend on the longest row of a batch."""

Activation = Callable[[torch.Tensor], torch.Tensor]


class Rotation:
    """The rotary embedding of one kind of layer; computed factors are kept."""

    def __init__(self, frequencies: torch.Tensor, scaling: float) -> None:
        """``frequencies`` float32 [size / 2]; ``scaling`` multiplies the rotated states."""
        self._frequencies, self._scaling = frequencies, scaling
        self._factors = self._new_factors(1024)

    def rotary_factors(self, count: int) -> torch.Tensor:
        """The complex factor for each pair of columns, for at least the positions [0, ``count``).

        complex64 [count or more, 1, size / 2].
        """
        if count > len(self._factors):
            self._factors = self._new_factors(max(count, 2 * len(self._factors)))
        return self._factors

    def _new_factors(self, count: int) -> torch.Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * self._frequencies
        return torch.polar(torch.full_like(angles, self._scaling), angles)[:, None]


@dataclass(frozen=True, slots=True)
class LowerLayer:
    """A layer below the captured one. Matrices are [columns in, columns out]; a norm is None if the layer has none.

    Attributes:
        query_key_value: for queries, keys and values; queries and keys have the two columns of a rotated pair adjacent.
        reach: distance, in places, of the farthest token that a token sees; None if it sees its whole row.
    """

    attention_norm: torch.Tensor | None
    query_key_value: torch.Tensor
    attention_output: torch.Tensor
    mlp_norm: torch.Tensor
    mlp_input: torch.Tensor
    mlp_gate: torch.Tensor
    mlp_output: torch.Tensor
    kind: str
    reach: int | None


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """A ModernBERT encoder up to the queries and keys of one layer, in which each token sees its whole row.

    Attributes:
        token_embeddings: float32 [vocabulary, hidden size].
        attention_heads: their number.
        lower_layers: the layers below the captured one.
        attention_norm, query, key: weights of the captured layer.
        kind: kind of the captured layer.
        rotations: rotary embeddings by kind of layer.
    """

    token_embeddings: torch.Tensor
    embedding_norm: torch.Tensor
    norm_eps: float
    activation: Activation
    attention_heads: int
    lower_layers: tuple[LowerLayer, ...]
    attention_norm: torch.Tensor | None
    query: torch.Tensor
    key: torch.Tensor
    kind: str
    rotations: dict[str, Rotation]


def encoder_weights(network: PreTrainedModel, layer: int) -> EncoderWeights | None:
    """The weights of ``network`` up to the queries and keys of ``layer`` (1-based).

    None if it is not a ModernBERT encoder in float32 on the CPU, if it has biases, is large or quantised, if its rotary
    frequencies depend on the length of its rows, or if the layer's tokens do not see their whole row.
    """
    if not isinstance(network, ModernBertModel):
        return None
    try:
        return _encoder_weights(network, layer) if _is_served(network, layer) else None
    except AttributeError:  # a private part of another version of transformers
        return None


def _encoder_weights(network: ModernBertModel, layer: int) -> EncoderWeights:
    layers, heads = _layers(network), network.config.num_attention_heads
    captured = layers[layer - 1]
    query, key, _ = _query_key_value(captured, heads)
    embeddings = network.embeddings
    return EncoderWeights(
        token_embeddings=embeddings.tok_embeddings.weight.detach(),
        embedding_norm=embeddings.norm.weight.detach(),
        norm_eps=network.config.norm_eps,
        activation=captured.mlp.act,
        attention_heads=heads,
        lower_layers=tuple(_lower_layer(one, heads) for one in layers[: layer - 1]),
        attention_norm=_norm_weight(captured.attn_norm),
        query=query.T.contiguous(),
        key=key.T.contiguous(),
        kind=captured.attention_type,
        rotations=_rotations(network, {one.attention_type for one in layers[:layer]}),
    )


def _is_served(network: ModernBertModel, layer: int) -> bool:
    config: ModernBertConfig = network.config
    plain = not (
        config.attention_bias or config.mlp_bias or config.norm_bias or getattr(network, "is_quantized", False)
    )
    fixed_rotation = _ROPE_BY_LENGTH.isdisjoint(network.rotary_emb.rope_type.values())
    on_cpu = network.device.type == "cpu" and network.dtype == torch.float32
    small = config.num_hidden_layers * config.hidden_size * (4 * config.hidden_size + 3 * config.intermediate_size)
    sees_all = _layers(network)[layer - 1].attn.sliding_window is None
    return plain and fixed_rotation and on_cpu and small <= _MOST_WEIGHTS and sees_all


def _layers(network: ModernBertModel) -> list[ModernBertEncoderLayer]:
    return cast("list[ModernBertEncoderLayer]", list(network.layers))


def _lower_layer(layer: ModernBertEncoderLayer, attention_heads: int) -> LowerLayer:
    mlp_input, mlp_gate = layer.mlp.Wi.weight.detach().chunk(2)
    window = layer.attn.sliding_window
    return LowerLayer(
        attention_norm=_norm_weight(layer.attn_norm),
        query_key_value=torch.cat(_query_key_value(layer, attention_heads)).T.contiguous(),
        attention_output=layer.attn.Wo.weight.detach().T.contiguous(),
        mlp_norm=layer.mlp_norm.weight.detach(),
        mlp_input=mlp_input.T.contiguous(),
        mlp_gate=mlp_gate.T.contiguous(),
        mlp_output=layer.mlp.Wo.weight.detach().T.contiguous(),
        kind=layer.attention_type,
        reach=None if window is None else window - 1,
    )


def _query_key_value(
    layer: ModernBertEncoderLayer, attention_heads: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three matrices [hidden size, hidden size]; each head of the first two has column i beside column i + size / 2."""
    query, key, value = layer.attn.Wqkv.weight.detach().chunk(3)
    return _interleave_rotary_columns(query, attention_heads), _interleave_rotary_columns(key, attention_heads), value


def _interleave_rotary_columns(states: torch.Tensor, attention_heads: int) -> torch.Tensor:
    return states.view(attention_heads, 2, -1, states.shape[1]).transpose(1, 2).reshape(states.shape)


def _norm_weight(norm: torch.nn.Module) -> torch.Tensor | None:
    return norm.weight.detach() if isinstance(norm, torch.nn.LayerNorm) else None


def _rotations(network: ModernBertModel, kinds: set[str]) -> dict[str, Rotation]:
    rotary = network.rotary_emb
    return {
        kind: Rotation(getattr(rotary, f"{kind}_inv_freq").float(), getattr(rotary, f"{kind}_attention_scaling"))
        for kind in sorted(kinds)
    }
