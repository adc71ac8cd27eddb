"""Makes bitsandbytes' 8-bit layers fast on the CPU, and their tokens independent of each other.

On the CPU, LLM.int8 gains no time over float32, and chooses the columns that it keeps in float16 for a whole batch.
Here every token has a scale of its own and the products with the weights are exact products of integers. Outliers,
much greater than the other values of their token, get 15 bits, so that they do not cost the others their resolution.
bitsandbytes only quantises and holds the weights.

``torch._int_mm`` uses the processor's instructions for int8 (AVX512-VNNI, AMX). Where it is slow or not exact, products
in float32 that are kept exact take its place, with the same bits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

_LEVELS = 127
"""The greatest integer of a weight, and of a state that is no outlier."""

_HIGH_SHIFT = 7
"""An outlier v is held as 128 h + l, rounded towards 0, in two numbers of 8 bits."""

_MOST_LEVELS = _LEVELS << _HIGH_SHIFT

_OUTLIER = 12.0
"""Values of more than this many times the mean magnitude of their token are outliers."""

_MOST_TOKENS = 640
"""Tokens that are multiplied at once; more make no product faster, and take fresh memory every time."""

_LEAST_STEP = 1e-30
"""Keeps a token of zeros from being divided by zero."""

_EXACT_COLUMNS = 1024
"""float32 holds every integer up to 2**24, and so every sum of 1,024 products of 127 by 127."""

_MOST_COLUMNS = (2**31 - 1) // _LEVELS**2
"""The most columns for which int32 holds every sum of products."""

_TRIAL_TOKENS, _TRIAL_COLUMNS, _TRIAL_ROWS = 64, 1536, 512
_TRIAL_ROUNDS = 3


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
        states, layer.weight.data, layer.weight.SCB / _LEVELS, layer.bias
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
    steps = torch.minimum(greatest, limit).div_(_LEVELS)
    steps = torch.maximum(steps, greatest / _MOST_LEVELS).clamp_(min=_LEAST_STEP)
    torch.div(states, steps, out=levels).round_()
    return levels, steps, bool((greatest.div_(steps).round_() > _LEVELS).any())


def _parts(levels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two parts of each integer, int8; the high one is zero but for outliers."""
    whole = levels.to(torch.int16)
    towards_zero = (whole >> 15).bitwise_and_((1 << _HIGH_SHIFT) - 1)
    high = towards_zero.add_(whole).bitwise_right_shift_(_HIGH_SHIFT)
    return whole.sub_(high, alpha=1 << _HIGH_SHIFT).to(torch.int8), high.to(torch.int8)


def _as_float32(sums: torch.Tensor) -> torch.Tensor:
    """The int32 sums as float32, in the same memory."""
    return sums.view(torch.float32).copy_(sums)


def integer_product(tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The exact product of int8 [tokens, columns] and int8 [rows, columns], both without -128: int32 [tokens, rows].

    ``torch._int_mm`` takes strides of dimensions of one element at their word, and is wrong for a single column
    (https://github.com/pytorch/pytorch/issues/195066).
    """
    if tokens.shape[1] == 1 or not has_fast_product():
        return exact_product(tokens, weights)
    return torch._int_mm(_with_own_strides(tokens), _with_own_strides(weights).t())


def _with_own_strides(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.contiguous().as_strided(matrix.shape, (matrix.shape[1], 1))


def exact_product(tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """``integer_product`` in float32, block by block of columns, on any processor."""
    sums = torch.zeros(len(tokens), len(weights), dtype=torch.int32)
    blocks = (torch.split(one, _EXACT_COLUMNS, 1) for one in (tokens, weights))
    for left, right in zip(*blocks, strict=True):
        sums.add_((left.float() @ right.float().t()).to(torch.int32))
    return sums


@cache
def has_fast_product() -> bool:
    """Whether ``torch._int_mm`` is exact here, and faster than ``exact_product``; tried once per process.

    The trial takes milliseconds. It holds the products that saturate 16 bits on processors without VNNI. Since both
    products have the same bits, its time decides about nothing but the speed.
    """
    tokens, weights = _trial(_TRIAL_TOKENS), _trial(_TRIAL_ROWS)
    try:
        found = torch._int_mm(tokens, weights.t())
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    if not torch.equal(found, exact_product(tokens, weights)):
        return False
    rounds = range(_TRIAL_ROUNDS)
    fast = min(_seconds(lambda: torch._int_mm(tokens, weights.t())) for _ in rounds)
    return fast < min(_seconds(lambda: exact_product(tokens, weights)) for _ in rounds)


def _trial(count: int) -> torch.Tensor:
    """int8 [count, columns]: rows of 127, of -127, and of all numbers between."""
    columns = torch.arange(_TRIAL_COLUMNS)
    mixed = (torch.arange(count)[:, None] * 31 + columns * 17) % (2 * _LEVELS + 1) - _LEVELS
    mixed[0], mixed[1] = _LEVELS, -_LEVELS
    return mixed.to(torch.int8)


def _seconds(product: Callable[[], torch.Tensor]) -> float:
    start = time.perf_counter()
    product()
    return time.perf_counter() - start
