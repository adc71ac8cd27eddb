"""One row's attention in one layer: the request for it, its reduction on the device, and its transfer to the host.

A row is reduced to the k best columns of each response token, the mass on each passage, and the mass outside the
passages. Neither host nor device waits for the other until a row's outcome is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from attribeam.attribution.attention.plain_attention import MAX_WEIGHTS, AttentionRule, attention_weights
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Reason, RowFault

_LARGEST_MEMBERSHIP = 2**24
"""Columns times passages of the matrix that sums over passages, 64 MB in float32."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """What to capture from one row of the batch.

    Attributes:
        query_positions: int64 [responses], the position whose attention is row i of S.
        token_count: number of tokens that the softmax runs over: all of the row without padding, or the prompt's.
        column_passage: int64 [prompt_length], the passage of each prompt column, -1 outside.
        passage_count: number of passages.
    """

    query_positions: torch.Tensor
    token_count: int
    column_passage: torch.Tensor
    passage_count: int


@dataclass(frozen=True, slots=True)
class CapturedRow:
    """One row of the batch, reduced; the tensors are still on the device.

    Attributes:
        top_columns, top_scores: [responses, k].
        passage_mass: [responses, passages].
        sink_mass: [responses].
        finite: scalar, False if S contains NaN or infinity.
    """

    top_columns: torch.Tensor
    top_scores: torch.Tensor
    passage_mass: torch.Tensor
    sink_mass: torch.Tensor
    finite: torch.Tensor


@dataclass(slots=True)
class LayerCount:
    """Numbers the attention modules of one forward pass from 0."""

    unnumbered: int = 0

    def index_of(self, module: torch.nn.Module) -> int:
        """The 0-based layer of an attention module; ask once per layer.

        Modules that do not know their layer (DistilBERT's, ALBERT's) are counted as the pass reaches them.
        """
        index: int | None = getattr(module, "layer_idx", None)
        if index is None:
            self.unnumbered += 1
            return self.unnumbered - 1
        return index


@dataclass(slots=True)
class Capture:
    """The request and result of one forward pass. ``layer_index`` is 0-based; the layer sets ``bidirectional``."""

    layer_index: int
    top_k: int
    rows: list[RowRequest]
    captured: list[CapturedRow] = field(default_factory=list)
    bidirectional: bool = False
    layers: LayerCount = field(default_factory=LayerCount)


@dataclass(frozen=True, slots=True)
class RowAttention:
    """The attention of one row of the batch.

    ``query`` [attention heads, tokens, size]; ``key`` [key heads, tokens, size]. If ``mask`` is None, ``rule`` says
    what a query sees.
    """

    query: torch.Tensor
    key: torch.Tensor
    mask: torch.Tensor | None
    rule: AttentionRule

    def similarity(self, positions: torch.Tensor, token_count: int) -> torch.Tensor:
        """Rows ``positions`` of the attention, averaged over attention heads: float32 [positions, token_count]."""
        return self.weights(positions, token_count).mean(0)

    def weights(self, positions: torch.Tensor, token_count: int) -> torch.Tensor:
        """Rows ``positions`` of the attention: float32 [attention heads, positions, token_count]."""
        columns = torch.arange(token_count, device=self.query.device)
        seen = self.rule.visible(positions, columns) if self.mask is None else self.mask[:, positions, :token_count]
        return attention_weights(self.query[:, positions], self.key[:, :token_count], seen, self.rule)


def reduce_row(attention: RowAttention, request: RowRequest, *, top_k: int) -> CapturedRow:
    """S of one row, reduced; works in slices of response rows, to bound memory."""
    rows_at_once = max(1, MAX_WEIGHTS // (attention.query.shape[0] * request.token_count))
    slices = []
    for positions in torch.split(request.query_positions, rows_at_once):
        similarity = attention.similarity(positions, request.token_count)
        slices.append(_reduce_slice(similarity[:, : len(request.column_passage)], request, top_k))
    return slices[0] if len(slices) == 1 else _join_slices(slices)


def _reduce_slice(similarity: torch.Tensor, request: RowRequest, top_k: int) -> CapturedRow:
    """``similarity`` float32 [response rows, prompt_length]."""
    columns, scores = top_columns(similarity, top_k)
    return CapturedRow(
        top_columns=columns,
        top_scores=scores,
        passage_mass=passage_mass(similarity, request.column_passage, request.passage_count),
        sink_mass=sink_mass(similarity, request.column_passage),
        finite=similarity.sum().isfinite(),
    )


def _join_slices(slices: Sequence[CapturedRow]) -> CapturedRow:
    return CapturedRow(
        top_columns=torch.cat([one.top_columns for one in slices]),
        top_scores=torch.cat([one.top_scores for one in slices]),
        passage_mass=torch.cat([one.passage_mass for one in slices]),
        sink_mass=torch.cat([one.sink_mass for one in slices]),
        finite=torch.stack([one.finite for one in slices]).all(),
    )


def top_columns(similarity: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``min(top_k, columns)`` best columns of each row, best first, ties towards the lower column (Equation 1).

    ``similarity`` float32 [rows, columns], not negative. Returns (int64 columns, float32 scores), both [rows, k].
    Score and column form one integer key, so that all keys differ and every device gives the same order.
    """
    column_count = similarity.shape[1]
    ranks = torch.arange(column_count - 1, -1, -1, device=similarity.device)
    keys = similarity.contiguous().view(torch.int32).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(ranks)
    best = keys.topk(min(top_k, column_count), dim=1).values
    columns = column_count - 1 - best.bitwise_and(0xFFFFFFFF)
    return columns, similarity.gather(1, columns)


def passage_mass(similarity: torch.Tensor, column_passage: torch.Tensor, passage_count: int) -> torch.Tensor:
    """The sum of each row over the columns of each passage: float32 [rows, passages].

    ``similarity`` [rows, columns]; ``column_passage`` int64 [columns], -1 outside. Uses a matrix product, because
    scattered additions have no fixed order on a GPU. If there are many passages, they are taken in groups, each with
    the columns that lie in it.
    """
    passages = torch.arange(passage_count, device=similarity.device)
    if passage_count * len(column_passage) <= _LARGEST_MEMBERSHIP:
        return similarity @ _membership(column_passage, passages, similarity)
    masses = []
    for some in torch.split(passages, max(1, _LARGEST_MEMBERSHIP // len(column_passage))):
        columns = ((column_passage >= some[0]) & (column_passage <= some[-1])).nonzero()[:, 0]
        masses.append(similarity[:, columns] @ _membership(column_passage[columns], some, similarity))
    return torch.cat(masses, dim=1)


def _membership(column_passage: torch.Tensor, passages: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """[columns, passages], 1 where a column lies in a passage, else 0, in the dtype of ``like``."""
    return (column_passage[:, None] == passages).to(like.dtype)


def sink_mass(similarity: torch.Tensor, column_passage: torch.Tensor) -> torch.Tensor:
    """The sum of each row over the columns outside all passages: float32 [rows].

    ``similarity`` [rows, columns]; ``column_passage`` int64 [columns], -1 outside. Uses a matrix product as well.
    """
    return similarity @ (column_passage < 0).to(similarity.dtype)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``tensor`` on ``device``; copies to a GPU go through pinned memory, so that the host does not wait."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class PendingRows:
    """The reduced rows of one forward pass, sent to the host in one transfer; only ``outcome`` waits for it."""

    def __init__(self, captured: Sequence[CapturedRow]) -> None:
        self._shapes = [(*one.top_columns.shape, one.passage_mass.shape[1]) for one in captured]
        parts = [part.reshape(-1) for one in captured for part in _as_int32(one)]
        flat = torch.cat(parts)
        self._values = flat.to("cpu", non_blocking=True)
        self._transfer_done = torch.cuda.Event() if flat.is_cuda else None  # type: ignore[no-untyped-call]
        if self._transfer_done is not None:
            self._transfer_done.record(torch.cuda.current_stream(flat.device))
        self._starts = np.cumsum([0, *(_int32_count(*shape) for shape in self._shapes)])

    def outcome(self, index: int) -> TokenAttribution | RowFault:
        """A row's attribution, or NON_FINITE_ATTENTION if its S contains NaN or infinity."""
        if self._transfer_done is not None:
            self._transfer_done.synchronize()
        responses, top_k, passages = self._shapes[index]
        values = self._values.numpy()[self._starts[index] : self._starts[index + 1]]
        if not values[-1]:
            return RowFault(
                Reason.NON_FINITE_ATTENTION, "attention should be finite, but contains NaN or infinity; see --dtype"
            )
        sizes = (responses * top_k, responses * top_k, responses * passages, responses)
        columns, scores, mass, outside = np.split(values[:-1], np.cumsum(sizes)[:-1])
        return TokenAttribution(
            top_columns=columns.reshape(responses, top_k),
            top_scores=scores.view(np.float32).reshape(responses, top_k),
            passage_mass=mass.view(np.float32).reshape(responses, passages),
            sink_mass=outside.view(np.float32),
        )


def _as_int32(one: CapturedRow) -> tuple[torch.Tensor, ...]:
    """The five tensors of a row as int32; floats keep their bits."""
    return (
        one.top_columns.to(torch.int32),
        one.top_scores.contiguous().view(torch.int32),
        one.passage_mass.contiguous().view(torch.int32),
        one.sink_mass.contiguous().view(torch.int32),
        one.finite.to(torch.int32),
    )


def _int32_count(responses: int, top_k: int, passages: int) -> int:
    return responses * (2 * top_k + passages + 1) + 1
