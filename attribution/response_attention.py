"""Which earlier tokens of its own response each response token attends to (the appendix's alternative of Dep)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from attribution.attention_capture import RowAttention
from attribution.plain_attention import MAX_WEIGHTS
from attribution.top_columns import top_columns


@dataclass(frozen=True, slots=True)
class ResponseAttribution:
    """The attribution of one response's tokens to earlier ones of the same response: Equation 1 over those alone.

    Attributes:
        top_tokens: int32 [responses, k], by falling similarity, ties towards the earlier token.
        top_scores: float32 [responses, k], their similarities; 0 where there are fewer than k earlier tokens.
    """

    top_tokens: npt.NDArray[np.int32]
    top_scores: npt.NDArray[np.float32]

    def attributed(self) -> npt.NDArray[np.bool_]:
        """bool [responses, responses]: whether the row's token is attributed to the column's, an earlier one."""
        size = len(self.top_tokens)
        found = np.zeros((size, size), dtype=np.bool_)
        rows, places = np.nonzero(self.top_scores > 0)
        found[rows, self.top_tokens[rows, places]] = True
        return found


def response_attribution(
    attention: RowAttention,
    *,
    query_positions: torch.Tensor,
    prompt_length: int,
    top_k: int,
    head_weights: torch.Tensor | None = None,
) -> ResponseAttribution:
    """Reduce one layer's attention of a row; the softmax is over all that a token sees, prompt and response.

    ``query_positions`` int64 [responses], the position whose attention is row i of S; the response are the last tokens
    of the row, from ``prompt_length`` on. Computed in slices, so that memory stays bounded.
    """
    heads, token_count, _ = attention.query.shape
    responses = torch.arange(len(query_positions), device=query_positions.device)
    rows_at_once = max(1, MAX_WEIGHTS // (heads * token_count))
    columns, scores = [], []
    slices = zip(torch.split(responses, rows_at_once), torch.split(query_positions, rows_at_once), strict=True)
    for own, positions in slices:
        similarity = attention.similarity(positions, token_count, head_weights)[:, prompt_length:]
        earlier = torch.where(responses < own[:, None], similarity, 0.0)
        best, best_scores = top_columns(earlier, top_k)
        columns.append(best.to("cpu", torch.int32))
        scores.append(best_scores.cpu())
    return ResponseAttribution(torch.cat(columns).numpy(), torch.cat(scores).numpy())
