"""Which keys a query of a row sees, and how its attention weights come about."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """The attention of one layer, as transformers' interface tells it.

    Attributes:
        causal: whether a query sees nothing behind itself.
        reach: how many positions away the farthest key is that a query sees; None where it sees all.
        scaling: factor of the products of queries and keys.
        softcap: c of c * tanh(x / c), put on the products; None for none.
        sinks: [attention heads], one more logit a query that takes weight and gives nothing; None for none.
    """

    causal: bool
    reach: int | None
    scaling: float
    softcap: float | None = None
    sinks: torch.Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether fused kernels lack something of it."""
        return self.softcap is not None or self.sinks is not None

    def keys_of(self, start: int, end: int, length: int) -> tuple[int, int]:
        """The positions that the queries ``[start, end)`` of a row of ``length`` see at most, half-open."""
        first = 0 if self.reach is None else max(0, start - self.reach)
        if self.causal:
            return first, end
        return first, length if self.reach is None else min(length, end + self.reach)

    def visible(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor | None:
        """bool [queries, keys], both given by their int64 positions; None where every query sees every key."""
        if not self.causal and self.reach is None:
            return None
        behind = queries[:, None] - keys
        seen = behind >= 0 if self.causal else behind.abs() <= (self.reach or 0)
        return seen & (behind <= self.reach) if self.causal and self.reach is not None else seen
