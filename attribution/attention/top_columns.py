"""Reducing similarity rows on the device: the k best columns, the mass of each passage, and that outside them."""

from __future__ import annotations

import torch


def top_columns(similarity: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``min(top_k, columns)`` best columns of each row, best first, ties towards the lower column (Equation 1).

    ``similarity`` float32 [rows, columns], not negative. Returns (int64 columns, float32 scores), both [rows, k].
    Score and column make one integer key, so that all keys differ and every device gives the same order.
    """
    column_count = similarity.shape[1]
    ranks = torch.arange(column_count - 1, -1, -1, device=similarity.device)
    keys = similarity.contiguous().view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(ranks)
    best = keys.topk(min(top_k, column_count), dim=1).values
    columns = column_count - 1 - best.bitwise_and(0xFFFFFFFF)
    return columns, similarity.gather(1, columns)


def passage_mass(similarity: torch.Tensor, column_passage: torch.Tensor, passage_count: int) -> torch.Tensor:
    """The sum of each row over the columns of each passage: float32 [rows, passages].

    ``similarity`` [rows, columns]; ``column_passage`` int64 [columns], -1 outside. A matrix product rather than
    scattered additions, which have no fixed order on a GPU.
    """
    passages = torch.arange(passage_count, device=similarity.device)
    return similarity @ (column_passage[:, None] == passages).to(similarity.dtype)


def sink_mass(similarity: torch.Tensor, column_passage: torch.Tensor) -> torch.Tensor:
    """The sum of each row over the columns that lie in no passage: float32 [rows].

    ``similarity`` [rows, columns]; ``column_passage`` int64 [columns], -1 outside. A matrix product as well.
    """
    return similarity @ (column_passage < 0).to(similarity.dtype)
