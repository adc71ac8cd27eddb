"""bfloat16 layers on the CPU with weights in oneDNN's own order, and gated feed-forward blocks without extra steps.

torch brings a weight into that order again in every product. Here it is done once, while a model is loaded. In a gated
block, oneDNN then also applies the activation and the gate to each tile of a product, before rounding it: that saves
three passes over the largest states, and a third of the rounding error. float32 layers stay as they are.

oneDNN keeps a kernel for every number of tokens that it has met. So that a worker's memory does not grow with every new
length of a row, products run in blocks of ``_BLOCK`` tokens, and the last block is padded: there are few numbers.

The operators are those that torch's own compiler uses; they are private to torch, so each layer is tried before it is
changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.nn.functional import pad

_GATED_BLOCK = "self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
"""What the feed-forward block of Llama, Qwen2, Mistral and many others computes, as transformers writes it."""

_MOST_COPIED_BYTES = 2 * 2**30
"""The most that packing may copy of weights that processes may share; Qwen2-1.5B has 1.3 GB up to its middle."""

_BLOCK = 512
"""The most tokens in one product; as fast as all tokens of a row at once."""

_STEP = 32
"""The number of tokens in a product is a multiple of this, so a layer meets ``_BLOCK / _STEP`` different numbers."""

_PROBE_ROWS = 3
_TOLERANCE = 2e-2
"""The largest difference between the two ways of computing a product, relative to its largest value."""


def pack_linear_layers(network: nn.Module) -> int:
    """Lay out the weights of the plain linear layers of ``network`` for oneDNN; returns how many were changed.

    The weights are replaced one by one. ``weight`` keeps shape and dtype, but only its own layer can multiply by it,
    and the network cannot be copied, saved or converted until ``unpack_linear_layers``. Layers stay as they are on a
    GPU, in another dtype than bfloat16, if quantised, with a forward pass of their own, where torch lacks the
    operators, and where the result would differ. A large model stays as it is too: all processes may read its weights
    from one copy of its file in memory, where packed weights are a copy for each.
    """
    layers = [layer for layer in network.modules() if _is_plain_linear(layer)]
    if sum(layer.weight.nbytes for layer in layers) > _MOST_COPIED_BYTES:
        return 0
    packed = sum(map(_pack, layers))
    for block in network.modules():
        if _is_gated_block(block):
            block.forward = partial(_gated, block)
    return packed


@torch.no_grad()
def unpack_linear_layers(network: nn.Module) -> None:
    """Undo ``pack_linear_layers``, for whoever changes the weights or their dtype."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and is_packed(module):
            module.weight = nn.Parameter(module.weight.to_dense(), requires_grad=False)
        own = vars(module).get("forward")
        if isinstance(own, partial) and own.func in (_forward, _gated):
            del module.forward


def is_packed(layer: nn.Module) -> bool:
    """Whether the layer's weight is in oneDNN's order."""
    weight = getattr(layer, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.is_mkldnn


def _is_plain_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    if type(layer) is not nn.Linear or "forward" in vars(layer) or layer.weight is None:
        return False
    weight = layer.weight
    return weight.device.type == "cpu" and not weight.is_mkldnn and weight.dtype == torch.bfloat16 and _has_operators()


@cache
def _has_operators() -> bool:
    """Whether oneDNN multiplies in bfloat16 on this processor, and this torch has the operators."""
    operators = torch.ops.mkldnn
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(available and hasattr(operators, "_linear_pointwise") and operators._is_mkldnn_bf16_supported())


@torch.no_grad()
def _pack(layer: nn.Linear) -> bool:
    """Change one layer, if its products stay the same; returns whether it was changed."""
    weight = layer.weight.detach()
    probe = torch.randn(_PROBE_ROWS, layer.in_features, generator=torch.Generator().manual_seed(0)).to(weight.dtype)
    try:
        reordered = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        found = _product(probe, reordered, layer.bias)
    except RuntimeError:  # a shape or a processor that the operators do not serve
        return False
    expected = layer(probe)
    if not bool((found - expected).abs().max() <= _TOLERANCE * expected.abs().max()):
        return False
    layer.weight = nn.Parameter(reordered, requires_grad=False)
    layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    return True


def _forward(layer: nn.Linear, states: torch.Tensor) -> torch.Tensor:
    return _in_blocks(lambda block: _product(block, layer.weight, layer.bias), states)


def _in_blocks(compute: Callable[[torch.Tensor], torch.Tensor], states: torch.Tensor) -> torch.Tensor:
    """``compute`` of states [..., in], which treats each token on its own: [..., out].

    It gets ``_BLOCK`` tokens at a time, and the last ones padded with zeros to a multiple of ``_STEP``.
    """
    tokens = states.reshape(-1, states.shape[-1])
    if len(tokens) <= _BLOCK and len(tokens) % _STEP == 0:
        return compute(states)
    *whole, last = torch.split(tokens, _BLOCK)
    found = [compute(block) for block in whole]
    found.append(compute(pad(last, (0, 0, 0, -len(last) % _STEP)))[: len(last)])
    return torch.cat(found).view(*states.shape[:-1], -1)


def _product(
    states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str = "none"
) -> torch.Tensor:
    """``activation`` (oneDNN's name) of states [..., in] times the packed weight [out, in]: [..., out]."""
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, activation, [], "")
    return found


def _is_gated_block(block: nn.Module) -> bool:
    """Whether the block computes ``_GATED_BLOCK`` with SiLU and packed layers."""
    layers = [getattr(block, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    if not all(isinstance(layer, nn.Linear) and is_packed(layer) for layer in layers):
        return False
    if "forward" in vars(block) or not _is_silu(getattr(block, "act_fn", None)):
        return False
    try:
        return _GATED_BLOCK in inspect.getsource(type(block).forward)
    except (OSError, TypeError):
        return False


def _is_silu(activation: Any) -> bool:
    return isinstance(activation, nn.SiLU) or type(activation).__name__ == "SiLUActivation"


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _gated(block: Any, states: torch.Tensor) -> torch.Tensor:
    """The block's output [..., hidden size]; the gate is applied within the product of ``up_proj``.

    The block's own code runs while a hook waits for one of the steps that are left out.
    """
    gate, up, down = block.gate_proj, block.up_proj, block.down_proj
    if any(map(_is_hooked, (gate, up, down, block.act_fn))):
        own: torch.Tensor = type(block).forward(block, states)
        return own
    return _in_blocks(partial(_gated_tokens, gate, up, down), states)


def _gated_tokens(gate: nn.Linear, up: nn.Linear, down: nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """The block's output for states [..., hidden size]."""
    gated = _product(states, gate.weight, gate.bias, "swish")
    gated = torch.ops.mkldnn._linear_pointwise.binary(states, gated, up.weight, up.bias, "mul")
    return _product(gated, down.weight, down.bias)
