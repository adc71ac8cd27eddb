"""The weights of a small ModernBERT encoder, laid out for a forward pass on the CPU in few steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from transformers import ModernBertConfig, ModernBertModel, PreTrainedModel
from transformers.models.modernbert.modeling_modernbert import ModernBertEncoderLayer

_MOST_WEIGHTS = 2**24
"""Of the layers' weights a second copy is kept; models with more than so many gain little by it."""

_ROPE_BY_LENGTH = {"dynamic", "longrope"}
"""Rotary embeddings whose frequencies follow the longest row of a batch."""

Activation = Callable[[torch.Tensor], torch.Tensor]


class Rotation:
    """The rotary embedding of one kind of layer; what was worked out once is kept."""

    def __init__(self, frequencies: torch.Tensor, scaling: float) -> None:
        """``frequencies`` float32 [size / 2]; ``scaling`` is a factor on what is turned."""
        self._frequencies, self._scaling = frequencies, scaling
        self._turns = self._new_turns(1024)

    def turns(self, count: int) -> torch.Tensor:
        """By which complex number each pair of columns is multiplied, of positions 0 to ``count``, at least.

        complex64 [count or more, 1, size / 2].
        """
        if count > len(self._turns):
            self._turns = self._new_turns(max(count, 2 * len(self._turns)))
        return self._turns

    def _new_turns(self, count: int) -> torch.Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * self._frequencies
        return torch.polar(torch.full_like(angles, self._scaling), angles)[:, None]


@dataclass(frozen=True, slots=True)
class LowerLayer:
    """A layer below the captured one. Matrices are [columns in, columns out]; norms are None where there is none.

    Attributes:
        query_key_value: of queries, keys and values; the columns of queries and keys that turn together are neighbours.
        reach: how many places away the farthest token is that a token sees, None where it sees all of its row.
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
    """A ModernBERT encoder up to the queries and keys of one layer, whose tokens see all of their row.

    Attributes:
        token_embeddings: float32 [vocabulary, hidden size].
        attention_heads: their number.
        lower_layers: those below the captured one.
        attention_norm, query, key: of the captured layer.
        kind: of the captured layer.
        rotations: by kind of layer.
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

    None where it is no ModernBERT encoder in float32 on the CPU, has biases, is large, quantised, or turned by the
    length of its rows, or where the layer's tokens do not see all of their row.
    """
    if not isinstance(network, ModernBertModel) or not _is_served(network, layer):
        return None
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
        attention_norm=_norm(captured.attn_norm),
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
    turned_alike = _ROPE_BY_LENGTH.isdisjoint(network.rotary_emb.rope_type.values())
    on_cpu = network.device.type == "cpu" and network.dtype == torch.float32
    small = config.num_hidden_layers * config.hidden_size * (4 * config.hidden_size + 3 * config.intermediate_size)
    sees_all = _layers(network)[layer - 1].attn.sliding_window is None
    return plain and turned_alike and on_cpu and small <= _MOST_WEIGHTS and sees_all


def _layers(network: ModernBertModel) -> list[ModernBertEncoderLayer]:
    return cast(list[ModernBertEncoderLayer], list(network.layers))


def _lower_layer(layer: ModernBertEncoderLayer, attention_heads: int) -> LowerLayer:
    mlp_input, mlp_gate = layer.mlp.Wi.weight.detach().chunk(2)
    window = layer.attn.sliding_window
    return LowerLayer(
        attention_norm=_norm(layer.attn_norm),
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
    """Three of [hidden size, hidden size]; in each head of the first two, column i stands beside i + size / 2."""
    query, key, value = layer.attn.Wqkv.weight.detach().chunk(3)
    return _paired(query, attention_heads), _paired(key, attention_heads), value


def _paired(states: torch.Tensor, attention_heads: int) -> torch.Tensor:
    return states.view(attention_heads, 2, -1, states.shape[1]).transpose(1, 2).reshape(states.shape)


def _norm(norm: torch.nn.Module) -> torch.Tensor | None:
    return norm.weight.detach() if isinstance(norm, torch.nn.LayerNorm) else None


def _rotations(network: ModernBertModel, kinds: set[str]) -> dict[str, Rotation]:
    rotary = network.rotary_emb
    return {
        kind: Rotation(getattr(rotary, f"{kind}_inv_freq").float(), getattr(rotary, f"{kind}_attention_scaling"))
        for kind in sorted(kinds)
    }
