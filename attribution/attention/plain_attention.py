"""Attention written out, in float32, with everything that fused kernels lack: soft cap, sinks, and the weights."""

from __future__ import annotations

import torch

from attribution.attention.attention_rule import AttentionRule

MAX_WEIGHTS = 2**26
"""Largest number of attention weights that exist at a time: 256 MiB."""


def attention_weights(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, rule: AttentionRule
) -> torch.Tensor:
    """softmax(scaling * Q K^T) of one row: float32 [attention heads, queries, keys].

    ``query`` [attention heads, queries, size], ``key`` [key heads, keys, size] (grouped: attention head h reads key
    head ``h // group``), ``mask`` bool or additive, broadcast to [attention heads, queries, keys]; it alone says what
    a query sees. With sinks the weights sum to less than 1.
    """
    head_count, query_count, _ = query.shape
    grouped = query.float().reshape(key.shape[0], -1, query.shape[-1])
    logits = torch.bmm(grouped, key.float().transpose(1, 2)).view(head_count, query_count, -1).mul_(rule.scaling)
    if rule.softcap is not None:
        logits = torch.tanh(logits / rule.softcap) * rule.softcap
    if mask is not None:
        logits = logits.masked_fill_(~mask, float("-inf")) if mask.dtype == torch.bool else logits + mask
    if rule.sinks is None:
        return logits.softmax(-1)
    sink_logits = rule.sinks.float().view(-1, 1, 1).expand(-1, query_count, 1)
    return torch.cat([logits, sink_logits], dim=-1).softmax(-1)[..., :-1]


def weighted_values(weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The sum of the values under ``weights`` [attention heads, queries, keys]: [attention heads, queries, size].

    ``value`` [key heads, keys, size]; float32, as the weights are.
    """
    head_count, query_count, key_count = weights.shape
    grouped = weights.reshape(value.shape[0], -1, key_count)
    return torch.bmm(grouped, value.float()).view(head_count, query_count, -1)


def plain_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    rule: AttentionRule,
) -> torch.Tensor:
    """Attention of a batch of padded rows: [rows, tokens, attention heads, size] in the dtype of ``query``.

    ``query`` [rows, attention heads, tokens, size]; ``key``, ``value`` [rows, key heads, tokens, size]; ``mask`` None,
    then ``rule`` says what a query sees, or [rows or 1, 1 or attention heads, tokens, tokens]. Runs row by row and in
    slices of queries, so that at most ``MAX_WEIGHTS`` weights exist at a time.
    """
    row_count, head_count, token_count, _ = query.shape
    output = torch.empty((row_count, token_count, head_count, value.shape[-1]), dtype=query.dtype, device=query.device)
    masks = None if mask is None else mask.expand(row_count, -1, -1, -1)
    places = torch.arange(token_count, device=query.device)
    for row in range(row_count):
        for positions in torch.split(places, max(1, MAX_WEIGHTS // (head_count * token_count))):
            seen = rule.visible(positions, places) if masks is None else masks[row, :, positions]
            weights = attention_weights(query[row, :, positions], key[row], seen, rule)
            output[row, positions] = weighted_values(weights, value[row]).transpose(0, 1).to(query.dtype)
    return output
