"""Attention of a bfloat16 row on the CPU in blocks of queries.

torch's fused kernel computes bfloat16 attention on a CPU without AMX no faster than float32. Here, the products of
queries and keys and the softmax are float32, as in that kernel, and only the weights are rounded to bfloat16, for the
product with the values, which AVX512-BF16 computes at twice the speed.
"""

from __future__ import annotations

from functools import cache

import torch

from attribeam.attribution.attention.plain_attention import AttentionRule
from attribeam.attribution.models.processor import half_precision_instructions

_BLOCK = 64
"""Queries per block: fewer make small products, more compute weights of keys that causality hides."""


def runs_blocked(query: torch.Tensor, rule: AttentionRule) -> bool:
    """Whether ``blocked_attention`` serves a layer and is faster: AVX512-BF16 without AMX, for which torch has more."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or rule.needs_written_out_weights:
        return False
    return rule.causal and _has_avx512_without_amx()


@cache
def _has_avx512_without_amx() -> bool:
    return half_precision_instructions().get("bfloat16") == ("avx512_bf16",)


def blocked_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, start: int, rule: AttentionRule
) -> torch.Tensor:
    """Attention of the queries at the places ``start`` and after, to keys of their row: [queries, heads, size].

    ``query`` [attention heads, queries, size]; ``key``, ``value`` [key heads, keys, size], all bfloat16.
    """
    heads, count, size = query.shape
    groups = key.shape[0]
    scaled = query.float().mul_(rule.scaling).view(groups, heads // groups, count, size)
    keys = key.float().transpose(1, 2).contiguous()
    output = torch.empty((count, heads, value.shape[-1]), dtype=query.dtype)
    room = torch.empty(heads // groups * min(_BLOCK, count) * (start + count))
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        seen = slice(*rule.visible_range(start + first, start + last, key.shape[1]))
        hidden = _hidden(start + first, start + last, seen, rule)
        for group in range(groups):
            queries = scaled[group, :, first:last].reshape(-1, size)
            weights = room[: len(queries) * (seen.stop - seen.start)].view(len(queries), -1)
            torch.mm(queries, keys[group, :, seen], out=weights)
            weights.view(-1, last - first, weights.shape[1])[:, :, -hidden.shape[1] :].add_(hidden)
            torch.softmax(weights, -1, out=weights)
            found = weights.to(query.dtype) @ value[group, seen]
            output[first:last, group * heads // groups : (group + 1) * heads // groups] = found.view(
                -1, last - first, value.shape[-1]
            ).transpose(0, 1)
    return output


def _hidden(first: int, last: int, seen: slice, rule: AttentionRule) -> torch.Tensor:
    """0 where a query sees a key and minus infinity elsewhere, for the last keys of ``seen``; the others all see.

    float32 [queries, keys]; without a limit of reach, only the block's own keys can be hidden.
    """
    begin = first if rule.reach is None else seen.start
    visible = rule.visible(torch.arange(first, last), torch.arange(begin, seen.stop))
    assert visible is not None
    return torch.zeros(visible.shape).masked_fill_(~visible, float("-inf"))
