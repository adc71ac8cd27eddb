"""Attention of rows laid end to end, by the best means that the machine and the layer allow."""

from __future__ import annotations

import torch

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.end_to_end_rows import EndToEndRows
from attribution.attention.local_attention import local_attention
from attribution.attention.row_by_row_attention import row_by_row_attention
from attribution.attention.varlen_attention import runs_varlen, varlen_attention


def end_to_end_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Attention of every token to those of its own row: [1, places, attention heads, size] in the dtype of ``query``.

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size]. Only causal rows may
    share a prefix.
    """
    if runs_varlen(query, value, rule):
        return varlen_attention(query, key, value, rows=rows, rule=rule)
    if not rule.causal and rule.reach and not rule.is_plain:
        return local_attention(query, key, value, rows=rows, window=rule.reach, scaling=rule.scaling)
    return row_by_row_attention(query, key, value, rows=rows, rule=rule)
