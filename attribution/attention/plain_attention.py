"""The rule of one layer's attention, and attention with its weights written out.

``AttentionRule`` says which keys a query sees and how its weights are computed. Attention written out in float32
supports what fused kernels lack: soft caps, sinks, and access to the weights themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """The attention of one layer, as transformers' interface describes it.

    Attributes:
        causal: whether a query sees no later keys.
        reach: the distance, in positions, of the farthest key that a query sees; None if there is no limit.
        scaling: factor on the products of queries and keys.
        softcap: c in c * tanh(x / c), applied to the products; None for none.
        sinks: [attention heads], an extra logit per query that takes weight but adds no value; None for none.
    """

    causal: bool
    reach: int | None
    scaling: float
    softcap: float | None = None
    sinks: torch.Tensor | None = None

    @property
    def needs_written_out_weights(self) -> bool:
        """Whether the rule has a part that fused kernels do not support."""
        return self.softcap is not None or self.sinks is not None

    def visible_range(self, start: int, end: int, length: int) -> tuple[int, int]:
        """The half-open range of keys that the queries [start, end) of a row of ``length`` tokens can see."""
        first = 0 if self.reach is None else max(0, start - self.reach)
        if self.causal:
            return first, end
        return first, length if self.reach is None else min(length, end + self.reach)

    def visible(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor | None:
        """bool [queries, keys], both given by int64 positions; None if every query sees every key."""
        if not self.causal and self.reach is None:
            return None
        behind = queries[:, None] - keys
        seen = behind >= 0 if self.causal else behind.abs() <= (self.reach or 0)
        return seen & (behind <= self.reach) if self.causal and self.reach is not None else seen


MAX_WEIGHTS = 2**26
"""The most attention weights in memory at a time: 256 MiB."""


def attention_weights(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, rule: AttentionRule
) -> torch.Tensor:
    """softmax(scaling * Q K^T) of one row: float32 [attention heads, queries, keys].

    ``query`` [attention heads, queries, size], ``key`` [key heads, keys, size] (grouped: attention head h reads key
    head ``h // group``), ``mask`` bool or additive, broadcast to [attention heads, queries, keys]; the mask alone says
    what a query sees. With sinks, the weights sum to less than 1.
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
    """The values, weighted by ``weights`` [attention heads, queries, keys]: float32 [attention heads, queries, size].

    ``value`` [key heads, keys, size]; ``weights`` are float32.
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

    ``query`` [rows, attention heads, tokens, size]; ``key``, ``value`` [rows, key heads, tokens, size]; ``mask`` [rows
    or 1, 1 or attention heads, tokens, tokens], or None, in which case ``rule`` says what a query sees. Works row by
    row and in slices of queries, so that at most ``MAX_WEIGHTS`` weights exist at a time.
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
