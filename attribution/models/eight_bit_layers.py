"""Makes bitsandbytes' 8-bit layers fast on the CPU, and their tokens independent of each other.

On the CPU, LLM.int8 gains no time over float32, and chooses the columns that it keeps in float16 for a whole batch.
Here every token has a scale of its own and the products with the weights are exact products of integers. Outliers,
much greater than the other values of their token, get 15 bits, so that they do not cost the others their resolution.
bitsandbytes only quantises and holds the weights.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch

from attribeam.attribution.models.integer_products import LEVELS, integer_product

_HIGH_SHIFT = 7
"""An outlier v is held as 128 h + l, rounded towards 0, in two numbers of 8 bits."""

_MOST_LEVELS = LEVELS << _HIGH_SHIFT

_OUTLIER = 12.0
"""Values of more than this many times the mean magnitude of their token are outliers."""

_MOST_TOKENS = 640
"""Tokens that are multiplied at once; more make no product faster, and take fresh memory every time."""

_LEAST_STEP = 1e-30
"""Keeps a token of zeros from being divided by zero."""

_MOST_COLUMNS = (2**31 - 1) // LEVELS**2
"""The most columns for which int32 holds every sum of products."""


def compute_in_integers(network: torch.nn.Module) -> None:
    """Make every 8-bit layer on the CPU multiply quantised tokens with its weights as loaded; keeps no second copy.

    Results have the dtype of the layer's input. A token with a value that is not finite gets no finite result. Layers
    with more than 133,000 columns are left as they are.
    """
    if sys.modules.get("bitsandbytes") is None:
        return
    from bitsandbytes.nn import Linear8bitLt  # an extra

    for layer in network.modules():
        if isinstance(layer, Linear8bitLt) and _is_quantised_on_cpu(layer) and layer.in_features <= _MOST_COLUMNS:
            layer.forward = partial(_forward, layer)


def _is_quantised_on_cpu(layer: Any) -> bool:
    weight = layer.weight
    return weight.device.type == "cpu" and weight.dtype == torch.int8 and weight.SCB is not None


def _forward(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """The layer's forward pass; bitsandbytes keeps the greatest magnitude of each row's weights beside them."""
    found: torch.Tensor = _LayerProduct.apply(  # type: ignore[no-untyped-call]
        states, layer.weight.data, layer.weight.SCB / LEVELS, layer.bias
    )
    return found


class _LayerProduct(torch.autograd.Function):
    """``token_wise_product`` with gradients for the states, as if they had not been rounded."""

    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.weights, ctx.scales = weights, scales
        found = token_wise_product(states.reshape(-1, states.shape[-1]), weights, scales, bias)
        return found.view(*states.shape[:-1], len(weights))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        weights = ctx.weights.float().mul_(ctx.scales[:, None])
        return (gradient.float() @ weights).to(gradient.dtype), None, None, None


def token_wise_product(
    states: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """The product of states, quantised token by token, with quantised weights.

    Args:
        states: [tokens, columns], of any floating-point dtype.
        weights: int8 [rows, columns] without -128.
        scales: float32 [rows]; a weight is its integer times its row's scale.
        bias: [rows], or None.

    Returns:
        [tokens, rows] in the dtype of ``states``. The bits of a token's result do not depend on the other tokens.
    """
    found = states.new_empty(len(states), len(weights))
    tokens = -(-len(states) // -(-len(states) // _MOST_TOKENS)) if len(states) else 1
    for part, place in zip(torch.split(states, tokens), torch.split(found, tokens), strict=True):
        levels, steps, outliers = _quantised(part.float())
        product = _product_with_outliers if outliers else _product_without
        sums = product(levels, weights).mul_(steps)
        if bias is None:
            torch.mul(sums, scales, out=place)
        else:
            torch.add(sums.mul_(scales), bias.float(), out=place)
    return found


def _product_without(levels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The product of integers with int8 weights: float32 [tokens, rows]."""
    return _as_float32(integer_product(levels.to(torch.int8), weights))


def _product_with_outliers(levels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The same, if some integers need more than 8 bits; the second product covers only the columns that have some."""
    low, high = _parts(levels)
    sums = _as_float32(integer_product(low, weights))
    columns = ((high.amax(0) != 0) | (high.amin(0) != 0)).nonzero()[:, 0]
    if 2 * len(columns) < len(high[0]):
        high, weights = high.index_select(1, columns), weights.index_select(1, columns)
    return sums.add_(_as_float32(integer_product(high, weights)), alpha=1 << _HIGH_SHIFT)


def _quantised(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Integers as float32 [tokens, columns], the step between them [tokens, 1], and whether there are outliers."""
    levels = states.abs()
    greatest, limit = levels.amax(1, keepdim=True), levels.mean(1, keepdim=True).mul_(_OUTLIER)
    steps = torch.minimum(greatest, limit).div_(LEVELS)
    steps = torch.maximum(steps, greatest / _MOST_LEVELS).clamp_(min=_LEAST_STEP)
    torch.div(states, steps, out=levels).round_()
    return levels, steps, bool((greatest.div_(steps).round_() > LEVELS).any())


def _parts(levels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two parts of each integer, int8; the high one is zero but for outliers."""
    whole = levels.to(torch.int16)
    towards_zero = (whole >> 15).bitwise_and_((1 << _HIGH_SHIFT) - 1)
    high = towards_zero.add_(whole).bitwise_right_shift_(_HIGH_SHIFT)
    return whole.sub_(high, alpha=1 << _HIGH_SHIFT).to(torch.int8), high.to(torch.int8)


def _as_float32(sums: torch.Tensor) -> torch.Tensor:
    """The int32 sums as float32, in the same memory."""
    return sums.view(torch.float32).copy_(sums)
