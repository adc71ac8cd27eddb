"""Exact products of 8-bit integers on the CPU.

``torch._int_mm`` uses the processor's instructions for them (AVX512-VNNI, AMX). Where it is slow or not exact, products
in float32 that are kept exact take its place, with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch

LEVELS = 127
"""The greatest magnitude of an 8-bit integer; -128 is not used, so that negation stays within 8 bits."""

_EXACT_COLUMNS = 1024
"""float32 holds every integer up to 2**24, and so every sum of 1,024 products of 127 by 127."""

_TRIAL_TOKENS, _TRIAL_COLUMNS, _TRIAL_ROWS = 64, 1536, 512
_TRIAL_ROUNDS = 3


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
    mixed = (torch.arange(count)[:, None] * 31 + columns * 17) % (2 * LEVELS + 1) - LEVELS
    mixed[0], mixed[1] = LEVELS, -LEVELS
    return mixed.to(torch.int8)


def _seconds(product: Callable[[], torch.Tensor]) -> float:
    start = time.perf_counter()
    product()
    return time.perf_counter() - start
