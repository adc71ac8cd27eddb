"""The fused forward pass of a small ModernBERT encoder on the CPU, from its files to the attention of one layer.

It gives the same result as transformers' own pass in fewer steps, and needs neither transformers nor its modules.
Weights are laid out once. Rotation is a single complex product in place, residuals are added within matrix products,
and the captured layer computes only the keys and queries that S needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError, safe_open
from torch.nn.functional import gelu, layer_norm, silu

from attribeam.attribution.attention.batching import Job, RowLayout, end_to_end_inputs, row_requests
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, block_padding, padded_local_attention
from attribeam.attribution.attention.reduction import AttentionRule, Capture, RowAttention, RowRequest, reduce_row
from attribeam.attribution.models.model_directory import ModelDirectory, runs_own_code
from attribeam.attribution.models.weight_files import weight_paths
from attribeam.attribution.options import Quantization, QueryPosition, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class FusedCapture:
    """How the attention of an encoder's layer is captured by the fused pass; fields as of ``LayerCapture``."""

    name: ClassVar = "fused"
    bidirectional: ClassVar = True
    device: ClassVar = _CPU
    dtype: ClassVar = torch.float32
    weights: EncoderWeights
    query_position: QueryPosition
    softmax_over: SoftmaxOver

    @property
    def shares(self) -> bool:
        """Whether rows may share a prefix."""
        return self.weights.shares

    @property
    def context(self) -> int:
        """How many tokens at the end of a shared prefix each row runs for itself."""
        return 2 * self.weights.reach

    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:  # noqa: ARG002 - end to end only
        """Run the pass; the rows of the result are reduced."""
        requests = row_requests(jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=_CPU)
        capture = Capture(layer_index=len(self.weights.lower_layers), top_k=top_k, rows=requests, bidirectional=True)
        modernbert_pass(self.weights, [row for row, _ in jobs], capture)
        return capture


@torch.inference_mode()
def modernbert_pass(weights: EncoderWeights, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` end to end up to the captured layer, and fill ``capture``.

    A prefix that rows share is run once, where all layers below are local: after them a token is changed by none
    farther away than their reaches together. So a row runs the last tokens of the prefix again, twice as many: the
    first half lacks what stands before, the second half is what the first row's own tokens may have changed there.
    """
    places, inputs = end_to_end_inputs(rows, _CPU, share=weights.shares, context=2 * weights.reach)
    token_ids = inputs["input_ids"][0]
    rotary_factors = {kind: rotation.rotary_factors(places.longest[1]) for kind, rotation in weights.rotations.items()}
    factors_of_places = {kind: some[places.positions] for kind, some in rotary_factors.items()}
    hidden = _normed(weights.token_embeddings[token_ids], weights.embedding_norm, weights)
    for layer in weights.lower_layers:
        hidden = _add_attention(hidden, layer, weights, places, factors_of_places[layer.kind])
        hidden = _add_mlp(hidden, layer, weights)
    hidden = _normed(hidden, weights.attention_norm, weights)
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
    from attribeam.attribution.attention.end_to_end_attention import end_to_end_attention

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
        own = row.without_context(weights.reach).states(hidden)
        positions, tokens = request.query_positions, request.token_count
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

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": gelu, "silu": silu}


class Rotation:
    """The rotary embedding of one kind of layer; computed factors are kept."""

    def __init__(self, size: int, theta: float, factor: float = 1.0) -> None:
        """``size`` is that of an attention head; positions are divided by ``factor``."""
        self._frequencies = 1 / theta ** (torch.arange(0, size, 2).float() / size) / factor
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
        return torch.polar(torch.ones_like(angles), angles)[:, None]


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
    activation: Callable[[torch.Tensor], torch.Tensor]
    attention_heads: int
    lower_layers: tuple[LowerLayer, ...]
    attention_norm: torch.Tensor | None
    query: torch.Tensor
    key: torch.Tensor
    kind: str
    rotations: dict[str, Rotation]

    @property
    def shares(self) -> bool:
        """Whether rows may share a prefix: no lower layer lets a token see its whole row."""
        return all(layer.reach is not None for layer in self.lower_layers)

    @property
    def reach(self) -> int:
        """How far the lower layers that have a reach carry a token, together."""
        return sum(layer.reach or 0 for layer in self.lower_layers)


def fused_capture(directory: ModelDirectory, layer: int) -> FusedCapture | None:
    """The capture of the 1-based ``layer`` on the CPU in float32; None if the fused pass does not serve the model.

    It serves a ModernBERT encoder without biases that is small and not quantised, whose rotary frequencies do not
    depend on the length of its rows, and whose captured layer sees whole rows. Files that lack a weight or hold one of
    another shape are left to transformers, which says what is wrong.

    Raises:
        ModelLoadError: if files are missing.
    """
    options, config = directory.options, directory.config
    quantised = (
        options.quantization is not Quantization.NONE or getattr(config, "quantization_config", None) is not None
    )
    if config.model_type != "modernbert" or quantised or runs_own_code(directory):
        return None
    try:
        weights = _read_weights(directory, layer) if _is_served(config, layer) else None
    except (AttributeError, LookupError, ValueError, SafetensorError):
        return None
    if weights is None:
        return None
    position = options.query_position or directory.defaults.model.query_position or QueryPosition.SELF
    return FusedCapture(weights, position, directory.defaults.trained.softmax_over)


def _is_served(config: Any, layer: int) -> bool:
    rotations = [config.rope_parameters[kind]["rope_type"] for kind in config.layer_types[:layer]]
    return (
        not (config.attention_bias or config.mlp_bias or config.norm_bias)
        and config.hidden_size % config.num_attention_heads == 0
        and config.hidden_activation in _ACTIVATIONS
        and set(rotations) <= {"default", "linear"}
        and layer * config.hidden_size * (4 * config.hidden_size + 3 * config.intermediate_size) <= _MOST_WEIGHTS
        and config.layer_types[layer - 1] == "full_attention"
    )


def _read_weights(directory: ModelDirectory, layer: int) -> EncoderWeights:
    """The weights in the model's safetensors files.

    Raises:
        LookupError, ValueError, SafetensorError: if one is missing, damaged, of another shape or not finite.
    """
    config: Any = directory.config
    hidden, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    with ExitStack() as opened:
        files = [opened.enter_context(safe_open(path, "pt")) for path in weight_paths(directory, layer=layer)]
        places = {name.removeprefix("model."): (file, name) for file in files for name in file.keys()}  # noqa: SIM118

        def weight(name: str, *shape: int) -> torch.Tensor:
            file, stored = places[f"{name}.weight"]
            found: torch.Tensor = file.get_tensor(stored).float()
            if found.shape != shape or not isfinite(found.sum()):
                raise ValueError(f"{stored} should be finite and of the shape {shape}")
            return found

        def attention_norm(place: int) -> torch.Tensor | None:
            return weight(f"layers.{place}.attn_norm", hidden) if place else None

        def query_key_value(place: int) -> list[torch.Tensor]:
            """[hidden, hidden] each; heads of the first two have column i beside column i + size / 2."""
            query, key, value = weight(f"layers.{place}.attn.Wqkv", 3 * hidden, hidden).chunk(3)
            return [_interleave_rotary_columns(query, heads), _interleave_rotary_columns(key, heads), value]

        def lower_layer(place: int) -> LowerLayer:
            mlp_input, mlp_gate = weight(f"layers.{place}.mlp.Wi", 2 * inner, hidden).chunk(2)
            kind = config.layer_types[place]
            return LowerLayer(
                attention_norm=attention_norm(place),
                query_key_value=torch.cat(query_key_value(place)).T.contiguous(),
                attention_output=weight(f"layers.{place}.attn.Wo", hidden, hidden).T.contiguous(),
                mlp_norm=weight(f"layers.{place}.mlp_norm", hidden),
                mlp_input=mlp_input.T.contiguous(),
                mlp_gate=mlp_gate.T.contiguous(),
                mlp_output=weight(f"layers.{place}.mlp.Wo", hidden, inner).T.contiguous(),
                kind=kind,
                reach=None if kind == "full_attention" else config.local_attention // 2,
            )

        query, key, _ = query_key_value(layer - 1)
        return EncoderWeights(
            token_embeddings=weight("embeddings.tok_embeddings", config.vocab_size, hidden),
            embedding_norm=weight("embeddings.norm", hidden),
            norm_eps=config.norm_eps,
            activation=_ACTIVATIONS[config.hidden_activation],
            attention_heads=heads,
            lower_layers=tuple(map(lower_layer, range(layer - 1))),
            attention_norm=attention_norm(layer - 1),
            query=query.T.contiguous(),
            key=key.T.contiguous(),
            kind=config.layer_types[layer - 1],
            rotations={
                kind: Rotation(
                    hidden // heads, one["rope_theta"], one["factor"] if one["rope_type"] == "linear" else 1.0
                )
                for kind, one in config.rope_parameters.items()
                if kind in config.layer_types[:layer]
            },
        )


def _interleave_rotary_columns(states: torch.Tensor, attention_heads: int) -> torch.Tensor:
    return states.view(attention_heads, 2, -1, states.shape[1]).transpose(1, 2).reshape(states.shape)
