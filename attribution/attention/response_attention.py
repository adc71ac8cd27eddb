"""Which earlier tokens of its own response each response token attends to (the appendix's alternative of Dep)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from attribution.attention.plain_attention import MAX_WEIGHTS
from attribution.attention.row_attention import RowAttention
from attribution.attention.top_columns import top_columns


def response_similarity(
    attention: RowAttention,
    *,
    query_positions: torch.Tensor,
    prompt_length: int,
    head_weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """One layer's attention to earlier response tokens: float32 [responses, responses], 0 from the diagonal on.

    The softmax is over all that a token sees, prompt and response. ``query_positions`` int64 [responses] are the
    positions whose attention is row i of S; the response are the row's tokens from ``prompt_length`` on. Computed in
    slices, so that memory stays bounded.
    """
    heads, token_count, _ = attention.query.shape
    rows_at_once = max(1, MAX_WEIGHTS // (heads * token_count))
    slices = [
        attention.similarity(positions, token_count, head_weights)[:, prompt_length:]
        for positions in torch.split(query_positions, rows_at_once)
    ]
    return torch.cat(slices).tril(-1)


def attributed_tokens(similarities: Sequence[torch.Tensor], *, top_k: int) -> npt.NDArray[np.bool_]:
    """bool [responses, responses]: whether the row's token is attributed to the column's, an earlier one.

    Equation 1 over earlier response tokens alone: its ``top_k`` largest similarities, those above 0. Where a row went
    through the model in several windows, a pair of tokens counts as its largest value there.
    """
    similarity = torch.stack(list(similarities)).amax(0)
    columns, scores = top_columns(similarity, top_k)
    found = torch.zeros(similarity.shape, dtype=torch.bool, device=similarity.device)
    found.scatter_(1, columns, scores > 0)
    attributed: npt.NDArray[np.bool_] = found.cpu().numpy()
    return attributed
