"""What of a layer's attention is S of a row, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch

from attribution.attention.row_attention import RowRequest
from attribution.attention.transfers import to_device
from attribution.settings import QueryPosition, SoftmaxOver
from attribution.token_attribution import EncodedRow

Job = tuple[EncodedRow, int]
"""A row and the number of its passages."""


def row_requests(
    jobs: Sequence[Job], *, query_position: QueryPosition, softmax_over: SoftmaxOver, device: torch.device
) -> list[RowRequest]:
    """One request a row, in their order; what they hold goes to the device in one transfer."""
    passages = np.concatenate([row.column_passage for row, _ in jobs]).astype(np.int64)
    on_device = to_device(torch.from_numpy(passages), device)
    borders = accumulate((len(row.column_passage) for row, _ in jobs), initial=0)
    columns = (on_device[start:end] for start, end in pairwise(borders))
    shift = 1 if query_position is QueryPosition.PREDICTING else 0
    return [
        RowRequest(
            query_positions=torch.arange(row.prompt_length - shift, len(row.token_ids) - shift, device=device),
            token_count=row.prompt_length if softmax_over is SoftmaxOver.PROMPT else len(row.token_ids),
            column_passage=column_passage,
            passage_count=passage_count,
        )
        for (row, passage_count), column_passage in zip(jobs, columns, strict=True)
    ]
