"""Attention written out, in float32, with everything that fused kernels lack: soft cap, sinks, and the weights."""

from __future__ import annotations

import torch

MAX_WEIGHTS = 2**26
"""Largest number of attention weights that exist at a time: 256 MiB."""


def attention_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    positions: torch.Tensor | None,
    scaling: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """softmax(scaling * Q K^T) of one row: float32 [attention heads, queries, keys].

    ``query`` [attention heads, queries, size], ``key`` [key heads, keys, size] (grouped: attention head h reads key
    head ``h // group``), ``mask`` bool or additive [1 or attention heads, queries, keys]. ``positions`` [queries] are
    the queries' own positions and forbid later keys; they count only where ``mask`` is None. With ``sinks``
    [attention heads] the weights sum to less than 1.
    """
    head_count, query_count, _ = query.shape
    grouped = query.float().reshape(key.shape[0], -1, query.shape[-1])
    logits = torch.bmm(grouped, key.float().transpose(1, 2)).view(head_count, query_count, -1).mul_(scaling)
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    if mask is None and positions is not None:
        mask = torch.arange(logits.shape[-1], device=logits.device) <= positions[:, None]
    if mask is not None:
        logits = logits.masked_fill_(~mask, float("-inf")) if mask.dtype == torch.bool else logits + mask
    if sinks is None:
        return logits.softmax(-1)
    sink_logits = sinks.float().view(-1, 1, 1).expand(-1, query_count, 1)
    return torch.cat([logits, sink_logits], dim=-1).softmax(-1)[..., :-1]


def plain_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scaling: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
    causal: bool,
) -> torch.Tensor:
    """Attention of a batch: [rows, tokens, attention heads, size] in the dtype of ``query``.

    ``query`` [rows, attention heads, tokens, size]; ``key``, ``value`` [rows, key heads, tokens, size]; ``mask`` None
    or [rows or 1, 1 or attention heads, tokens, tokens]. Runs row by row and in slices of queries, so that at most
    ``MAX_WEIGHTS`` weights exist at a time.
    """
    row_count, head_count, token_count, _ = query.shape
    output = torch.empty((row_count, token_count, head_count, value.shape[-1]), dtype=query.dtype, device=query.device)
    masks = None if mask is None else mask.expand(row_count, -1, -1, -1)
    values = value.float().repeat_interleave(head_count // value.shape[1], dim=1)
    places = torch.arange(token_count, device=query.device)
    for row in range(row_count):
        for positions in torch.split(places, max(1, MAX_WEIGHTS // (head_count * token_count))):
            weights = attention_weights(
                query[row, :, positions],
                key[row],
                None if masks is None else masks[row, :, positions],
                positions=positions if causal else None,
                scaling=scaling,
                softcap=softcap,
                sinks=sinks,
            )
            output[row, positions] = (weights @ values[row]).transpose(0, 1).to(query.dtype)
    return output
