"""Attention of rows laid end to end, one row after the other and in blocks of queries: runs everywhere.

No mask over all pairs of a row's tokens exists, so memory grows linearly with its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import scaled_dot_product_attention

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.end_to_end_rows import EndToEndRows, RowPlaces
from attribution.attention.plain_attention import MAX_WEIGHTS, attention_weights, weighted_values

_MASK_SIZE = 2**21
"""Largest mask of a block, in pairs of tokens."""


def row_by_row_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Attention of every token to those of its own row: [1, places, attention heads, size] in the dtype of ``query``.

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size].
    """
    _, head_count, place_count, _ = query.shape
    output = torch.empty((place_count, head_count, value.shape[-1]), dtype=query.dtype, device=query.device)
    for one in rows.places:
        keys, values = one.states(key[0]), one.states(value[0])
        for start, end in _blocks(one, rule, head_count):
            places = slice(one.start + start - one.prefix_length, one.start + end - one.prefix_length)
            output[places] = _block(query[0, :, places], keys, values, start, rule).transpose(0, 1)
    return output[None]


def _blocks(one: RowPlaces, rule: AttentionRule, head_count: int) -> Iterator[tuple[int, int]]:
    """The row's own positions in blocks, half-open: one block where no mask and no weights are made."""
    start, length = one.prefix_length, len(one)
    first, last = rule.keys_of(start, length, length)
    size = length
    if rule.is_plain:
        size = max(1, MAX_WEIGHTS // (head_count * (last - first)))
    elif not _needs_no_mask(start, length, length, rule):
        size = max(64, min(512, _MASK_SIZE // (last - first)))
    for position in range(start, length, size):
        yield position, min(position + size, length)


def _needs_no_mask(start: int, end: int, length: int, rule: AttentionRule) -> bool:
    """Whether a block sees just what fused kernels let it see: everything, or, from a row's start on, all before."""
    if rule.reach is not None and rule.reach < length - 1:
        return False
    return start == 0 and end == length if rule.causal else True


def _block(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int, rule: AttentionRule
) -> torch.Tensor:
    """Attention of the queries [attention heads, block, size] from position ``start`` on, over their row's keys."""
    end, length = start + query.shape[1], keys.shape[1]
    first, last = rule.keys_of(start, end, length)
    if not rule.is_plain and _needs_no_mask(start, end, length, rule):
        return _fused(query, keys, values, None, rule, causal=rule.causal)
    positions = torch.arange(length, device=query.device)
    seen = rule.visible(positions[start:end], positions[first:last])
    keys, values = keys[:, first:last], values[:, first:last]
    if rule.is_plain:
        return weighted_values(attention_weights(query, keys, seen, rule), values).to(query.dtype)
    return _fused(query, keys, values, seen, rule, causal=False)


def _fused(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    seen: torch.Tensor | None,
    rule: AttentionRule,
    *,
    causal: bool,
) -> torch.Tensor:
    """torch's fused attention; keys of a group are repeated where its kernels would else make all pairs of tokens."""
    grouped = query.shape[0] != keys.shape[0]
    if grouped and query.is_cuda and (seen is not None or query.dtype == torch.float32):
        group = query.shape[0] // keys.shape[0]
        keys, values, grouped = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0), False
    return scaled_dot_product_attention(
        query[None],
        keys[None],
        values[None],
        attn_mask=seen,
        is_causal=causal,
        scale=rule.scaling,
        enable_gqa=grouped,
    )[0]
