"""One row's attention in one layer, what is wanted of it, and what it is reduced to on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.plain_attention import MAX_WEIGHTS, attention_weights
from attribution.attention.top_columns import passage_mass, sink_mass, top_columns


@dataclass(frozen=True, slots=True)
class RowRequest:
    """What to take of one row of the batch.

    Attributes:
        query_positions: int64 [responses], the position whose attention is row i of S.
        token_count: tokens of the row that the softmax runs over: all, padding left out, or the prompt's.
        column_passage: int64 [prompt_length], passage of each prompt column, -1 outside.
        passage_count: number of passages.
    """

    query_positions: torch.Tensor
    token_count: int
    column_passage: torch.Tensor
    passage_count: int


@dataclass(frozen=True, slots=True)
class CapturedRow:
    """One row of the batch, reduced: ``top_columns`` [responses, k], ``top_scores`` likewise, ``passage_mass``
    [responses, passages], ``sink_mass`` [responses], and ``finite``, a scalar, False where S has NaN or infinity. All
    still on the device."""

    top_columns: torch.Tensor
    top_scores: torch.Tensor
    passage_mass: torch.Tensor
    sink_mass: torch.Tensor
    finite: torch.Tensor


@dataclass(frozen=True, slots=True)
class RowAttention:
    """The attention of one row of the batch: [attention heads, tokens, size], [key heads, tokens, size], mask.

    Where ``mask`` is None, ``rule`` says what a query sees.
    """

    query: torch.Tensor
    key: torch.Tensor
    mask: torch.Tensor | None
    rule: AttentionRule

    def similarity(
        self, positions: torch.Tensor, token_count: int, head_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Rows ``positions`` of the attention, mean over attention heads: float32 [positions, token_count].

        With ``head_weights`` float32 [attention heads], which sum to 1, the weighted mean.
        """
        weights = self.weights(positions, token_count)
        return weights.mean(0) if head_weights is None else torch.tensordot(head_weights, weights, dims=1)

    def weights(self, positions: torch.Tensor, token_count: int) -> torch.Tensor:
        """Rows ``positions`` of the attention, float32 [attention heads, positions, token_count]."""
        columns = torch.arange(token_count, device=self.query.device)
        seen = self.rule.visible(positions, columns) if self.mask is None else self.mask[:, positions, :token_count]
        return attention_weights(self.query[:, positions], self.key[:, :token_count], seen, self.rule)


def reduce_row(
    attention: RowAttention, request: RowRequest, *, top_k: int, head_weights: torch.Tensor | None
) -> CapturedRow:
    """S of one row, reduced; computed in slices of response rows, so that memory stays bounded."""
    rows_at_once = max(1, MAX_WEIGHTS // (attention.query.shape[0] * request.token_count))
    slices = []
    for positions in torch.split(request.query_positions, rows_at_once):
        similarity = attention.similarity(positions, request.token_count, head_weights)
        slices.append(_reduced(similarity[:, : len(request.column_passage)], request, top_k))
    return slices[0] if len(slices) == 1 else _joined(slices)


def _reduced(similarity: torch.Tensor, request: RowRequest, top_k: int) -> CapturedRow:
    """``similarity`` float32 [response rows, prompt_length]."""
    columns, scores = top_columns(similarity, top_k)
    return CapturedRow(
        top_columns=columns,
        top_scores=scores,
        passage_mass=passage_mass(similarity, request.column_passage, request.passage_count),
        sink_mass=sink_mass(similarity, request.column_passage),
        finite=similarity.sum().isfinite(),
    )


def _joined(slices: Sequence[CapturedRow]) -> CapturedRow:
    return CapturedRow(
        top_columns=torch.cat([one.top_columns for one in slices]),
        top_scores=torch.cat([one.top_scores for one in slices]),
        passage_mass=torch.cat([one.passage_mass for one in slices]),
        sink_mass=torch.cat([one.sink_mass for one in slices]),
        finite=torch.stack([one.finite for one in slices]).all(),
    )
