"""The fused forward pass of a small ModernBERT encoder on the CPU, from its files to the attention of one layer.

It gives the same result as transformers' own pass in fewer steps, and needs neither transformers nor its modules.
Weights are laid out once, what depends on a token alone is computed once for the whole vocabulary, rotation is one
product in place, and residuals are added within matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isfinite
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError, safe_open
from torch.nn.functional import gelu, layer_norm, silu

from attribeam.attribution.attention.batching import Job, RowLayout, end_to_end_inputs, row_requests
from attribeam.attribution.attention.end_to_end_attention import (
    EndToEndRows,
    block_padding,
    end_to_end_attention,
    padded_local_attention,
)
from attribeam.attribution.attention.reduction import AttentionRule, Capture, RowAttention, reduce_row
from attribeam.attribution.models.model_directory import ModelDirectory, runs_own_code
from attribeam.attribution.models.weight_files import weight_paths
from attribeam.attribution.options import Quantization, QueryPosition, SoftmaxOver

_CPU = torch.device("cpu")
FUSED_DTYPES = (torch.float32, torch.bfloat16)
"""In which the pass may compute products with weights; all else it computes in float32."""
_ROWS_OF_A_PRODUCT = 256
"""Half-precision products have a multiple of so many rows: the processor's code is made anew for each size."""
_MOST_WEIGHTS = 2**24
"""The pass keeps a second copy of the layers' weights; models with more weights than this gain little.

Queries, keys and values of the whole vocabulary are kept, too, if they are not more.
"""
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": gelu, "silu": partial(silu, inplace=True)}


@lru_cache(maxsize=8)
def _rotary_factors(size: int, theta: float, divisor: float, count: int) -> torch.Tensor:
    """The complex factor of each pair of columns of a head of ``size``: [count, 1, size / 2].

    Positions are divided by ``divisor``.
    """
    frequencies = 1 / theta ** (torch.arange(0, size, 2).float() / size) / divisor
    angles = torch.arange(count, dtype=torch.float32)[:, None] * frequencies
    return torch.polar(torch.ones_like(angles), angles)[:, None]


@dataclass(frozen=True, slots=True)
class _LowerLayer:
    """A layer below the captured one. Matrices are [columns in, columns out]; a norm is None if the layer has none.

    Attributes:
        query_key_value: for queries, keys and values; queries and keys have the two columns of a rotated pair adjacent.
        of_tokens: queries, keys and values of each token of the vocabulary, in the first layer; None if not kept.
        reach: distance, in places, of the farthest token that a token sees; None if it sees its whole row.
    """

    attention_norm: torch.Tensor | None
    query_key_value: torch.Tensor
    of_tokens: torch.Tensor | None
    attention_output: torch.Tensor
    mlp_norm: torch.Tensor
    mlp_input: torch.Tensor
    mlp_gate: torch.Tensor
    mlp_output: torch.Tensor
    kind: str
    reach: int | None


@dataclass(frozen=True, slots=True)
class FusedCapture:
    """An encoder up to the queries and keys of the captured layer, in which each token sees its whole row.

    ``dtype`` is that of products with weights below the captured layer. ``query_position`` and ``softmax_over`` are as
    of ``LayerCapture``; ``attention_norm``, ``query``, ``key`` and ``kind`` are of the captured layer; ``rotations``
    are the first arguments of ``_rotary_factors`` by kind of layer. ``token_states`` are normed embeddings.
    """

    name: ClassVar = "fused"
    device: ClassVar = _CPU
    dtype: torch.dtype
    query_position: QueryPosition
    softmax_over: SoftmaxOver
    token_states: torch.Tensor
    norm_eps: float
    activation: Callable[[torch.Tensor], torch.Tensor]
    attention_heads: int
    lower_layers: tuple[_LowerLayer, ...]
    attention_norm: torch.Tensor | None
    query: torch.Tensor
    key: torch.Tensor
    kind: str
    rotations: dict[str, tuple[int, float, float]]

    @property
    def shares(self) -> bool:
        """Whether rows may share a prefix: no lower layer lets a token see its whole row."""
        return all(layer.reach is not None for layer in self.lower_layers)

    @property
    def context(self) -> int:
        """How many tokens at the end of a shared prefix each row runs for itself.

        After the lower layers a token is changed by none farther away than their reaches together. A row runs twice as
        many again: the first half lacks what stands before, the second is what the first row's own tokens may have
        changed.
        """
        return 2 * sum(layer.reach or 0 for layer in self.lower_layers)

    @torch.inference_mode()
    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:  # noqa: ARG002 - end to end only
        """Run the pass; the rows of the result are reduced. The captured layer runs for response positions only."""
        requests = row_requests(jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=_CPU)
        capture = Capture(len(self.lower_layers), top_k, requests, bidirectional=True)
        rows = [row for row, _ in jobs]
        packed, inputs = end_to_end_inputs(rows, _CPU, share=self.shares, context=self.context)
        count = max(1024, 1 << (packed.longest[1] - 1).bit_length())  # few sizes, so that factors are kept
        factors = {kind: _rotary_factors(*rotation, count) for kind, rotation in self.rotations.items()}
        factors_of_places = {kind: some[packed.positions] for kind, some in factors.items()}
        token_ids = inputs["input_ids"][0]
        hidden = self.token_states.index_select(0, token_ids)
        for layer in self.lower_layers:
            self._add_attention(hidden, token_ids, layer, packed, factors_of_places[layer.kind])
            normed = self._normed(hidden, layer.mlp_norm)
            gated = self.activation(_product(normed, layer.mlp_input)).mul_(_product(normed, layer.mlp_gate))
            _add_product(hidden, gated, layer.mlp_output)
        hidden, of_kind = self._normed(hidden, self.attention_norm), factors[self.kind]
        for row, request in zip(packed.places, requests, strict=True):
            of_row = row.without_context(self.context // 2).states(hidden)
            positions, tokens = request.query_positions, request.token_count
            key = self._heads(of_row[:tokens] @ self.key, of_kind[:tokens])
            query = self._heads(of_row[positions] @ self.query, of_kind[positions])
            rule = AttentionRule(causal=False, reach=None, scaling=query.shape[-1] ** -0.5)
            numbered = replace(request, query_positions=torch.arange(len(positions)))
            capture.captured.append(reduce_row(RowAttention(query, key, None, rule), numbered, top_k=top_k))
        return capture

    def _add_attention(
        self,
        hidden: torch.Tensor,
        token_ids: torch.Tensor,
        layer: _LowerLayer,
        packed: EndToEndRows,
        factors: torch.Tensor,
    ) -> None:
        """Add the layer's attention to ``hidden`` [tokens, hidden size]; local attention needs places around them."""
        tokens, heads, reach = len(hidden), self.attention_heads, layer.reach or 0
        behind = block_padding(tokens, reach, _CPU) + reach if reach else 0
        states = hidden.new_empty(reach + tokens + behind, 3 * heads, hidden.shape[1] // heads)
        states[:reach], states[reach + tokens :] = 0, 0
        own = states[reach : reach + tokens]
        if layer.of_tokens is None:
            normed = self._normed(hidden, layer.attention_norm)
            _product(normed, layer.query_key_value, out=own.flatten(1))
        else:
            torch.index_select(layer.of_tokens, 0, token_ids, out=own.flatten(1))
        _rotate(own[:, : 2 * heads], factors)
        query, key, value = states.transpose(0, 1).chunk(3)
        scaling = query.shape[-1] ** -0.5
        if reach:
            attention = padded_local_attention(
                query[:, reach:-reach], key, value, rows=packed, window=reach, scaling=scaling
            )
        else:
            rule = AttentionRule(causal=False, reach=layer.reach, scaling=scaling)
            attention = end_to_end_attention(query[None], key[None], value[None], rows=packed, rule=rule)[0]
        _add_product(hidden, attention[:tokens].reshape(hidden.shape), layer.attention_output)

    def _heads(self, states: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        """Queries or keys [tokens, hidden size], rotated: [attention heads, tokens, size]."""
        heads = states.view(len(states), self.attention_heads, -1)
        _rotate(heads, factors)
        return heads.transpose(0, 1)

    def _normed(self, states: torch.Tensor, norm: torch.Tensor | None) -> torch.Tensor:
        return states if norm is None else layer_norm(states, norm.shape, norm, None, self.norm_eps)


def _product(states: torch.Tensor, weights: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """``states`` @ ``weights``, in the precision of the weights; float32 in ``out``."""
    if weights.dtype == torch.float32:
        return torch.mm(states, weights, out=out)
    count = len(states)
    padded = states.new_zeros(
        -(-count // _ROWS_OF_A_PRODUCT) * _ROWS_OF_A_PRODUCT, states.shape[1], dtype=weights.dtype
    )
    padded[:count] = states
    product = (padded @ weights)[:count]
    return product if out is None else out.copy_(product)


def _add_product(hidden: torch.Tensor, states: torch.Tensor, weights: torch.Tensor) -> None:
    """Add the product to ``hidden``, which is float32."""
    if weights.dtype == torch.float32:
        hidden.addmm_(states, weights)
    else:
        hidden.add_(_product(states, weights))


def _rotate(states: torch.Tensor, rotary_factors: torch.Tensor) -> None:
    """Rotate [tokens, heads, size] in place; columns 2i and 2i + 1 form a pair."""
    torch.view_as_complex(states.view(*states.shape[:2], -1, 2)).mul_(rotary_factors)


def fused_capture(directory: ModelDirectory, layer: int, dtype: torch.dtype) -> FusedCapture | None:
    """The capture of the 1-based ``layer`` on the CPU; None if the fused pass does not serve the model.

    ``dtype`` is one of ``FUSED_DTYPES``. The pass serves a small ModernBERT without biases and quantisation, whose
    rotary frequencies do not depend on the length of its rows, and whose captured layer sees whole rows. Files that
    lack a weight or hold one of another shape are left to transformers, which says what is wrong. Raises
    ``ModelLoadError`` if files are missing.
    """
    options = directory.options
    config: Any = directory.config
    quantised = (
        options.quantization is not Quantization.NONE or getattr(config, "quantization_config", None) is not None
    )
    if config.model_type != "modernbert" or quantised or runs_own_code(directory):
        return None
    try:
        rotations = {config.rope_parameters[kind]["rope_type"] for kind in config.layer_types[:layer]}
        is_served = (
            not (config.attention_bias or config.mlp_bias or config.norm_bias)
            and config.hidden_size % config.num_attention_heads == 0
            and config.hidden_activation in _ACTIVATIONS
            and rotations <= {"default", "linear"}
            and layer * config.hidden_size * (4 * config.hidden_size + 3 * config.intermediate_size) <= _MOST_WEIGHTS
            and config.layer_types[layer - 1] == "full_attention"
        )
        return _read_capture(directory, layer, dtype) if is_served else None
    except (AttributeError, LookupError, ValueError, SafetensorError):
        return None


def _read_capture(directory: ModelDirectory, layer: int, dtype: torch.dtype) -> FusedCapture:
    """The capture with its weights; LookupError, ValueError or SafetensorError if one is missing or damaged."""
    config: Any = directory.config
    options, defaults = directory.options, directory.defaults
    hidden, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    with ExitStack() as opened:
        files = [opened.enter_context(safe_open(path, "pt")) for path in weight_paths(directory, layer=layer)]
        entries = {name.removeprefix("model."): (file, name) for file in files for name in file.keys()}  # noqa: SIM118

        def weight(name: str, *shape: int) -> torch.Tensor:
            file, stored = entries[f"{name}.weight"]
            tensor: torch.Tensor = file.get_tensor(stored).float()
            if tensor.shape != shape or not isfinite(tensor.sum()):
                raise ValueError(f"{stored} should be finite and of the shape {shape}")
            return tensor

        def attention_norm(index: int) -> torch.Tensor | None:
            return weight(f"layers.{index}.attn_norm", hidden) if index else None

        def query_key_value(index: int) -> list[torch.Tensor]:
            """[hidden, hidden] each; heads of the first two have column i beside column i + size / 2."""
            *rotated, value = weight(f"layers.{index}.attn.Wqkv", 3 * hidden, hidden).chunk(3)
            pairs = (part.view(heads, 2, -1, hidden).transpose(1, 2).reshape(part.shape) for part in rotated)
            return [*pairs, value]

        embeddings = weight("embeddings.tok_embeddings", config.vocab_size, hidden)
        token_states = layer_norm(embeddings, (hidden,), weight("embeddings.norm", hidden), None, config.norm_eps)

        def lower_layer(index: int) -> _LowerLayer:
            states = torch.cat(query_key_value(index)).T.contiguous()
            is_kept = index == 0 and config.vocab_size * states.shape[1] <= _MOST_WEIGHTS
            mlp_input, mlp_gate = weight(f"layers.{index}.mlp.Wi", 2 * inner, hidden).chunk(2)
            kind = config.layer_types[index]
            return _LowerLayer(
                attention_norm=attention_norm(index),
                query_key_value=states.to(dtype),
                of_tokens=token_states @ states if is_kept else None,
                attention_output=weight(f"layers.{index}.attn.Wo", hidden, hidden).T.contiguous().to(dtype),
                mlp_norm=weight(f"layers.{index}.mlp_norm", hidden),
                mlp_input=mlp_input.T.contiguous().to(dtype),
                mlp_gate=mlp_gate.T.contiguous().to(dtype),
                mlp_output=weight(f"layers.{index}.mlp.Wo", hidden, inner).T.contiguous().to(dtype),
                kind=kind,
                reach=None if kind == "full_attention" else config.local_attention // 2,
            )

        query, key, _ = query_key_value(layer - 1)
        return FusedCapture(
            dtype=dtype,
            query_position=options.query_position or defaults.model.query_position or QueryPosition.SELF,
            softmax_over=defaults.trained.softmax_over,
            token_states=token_states,
            norm_eps=config.norm_eps,
            activation=_ACTIVATIONS[config.hidden_activation],
            attention_heads=heads,
            lower_layers=tuple(map(lower_layer, range(layer - 1))),
            attention_norm=attention_norm(layer - 1),
            query=query.T.contiguous(),
            key=key.T.contiguous(),
            kind=config.layer_types[layer - 1],
            rotations={
                kind: (hidden // heads, rope["rope_theta"], rope["factor"] if rope["rope_type"] == "linear" else 1.0)
                for kind, rope in config.rope_parameters.items()
                if kind in config.layer_types[:layer]
            },
        )
