"""One row's attention in one layer: its rule, the request for it, its reduction on the device, and its transfer.

Attention written out in float32 supports what fused kernels lack: soft caps, sinks, and access to the weights. Neither
host nor device waits for the other until a row's outcome is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np
import torch

from attribeam.attribution.rows import TokenAttribution
from attribeam.schemas import Reason, RowFault


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
    """The ``value`` [key heads, keys, size], weighted by float32 [attention heads, queries, keys]."""
    head_count, query_count, key_count = weights.shape
    grouped = weights.reshape(value.shape[0], -1, key_count)
    return torch.bmm(grouped, value.float()).view(head_count, query_count, -1)


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


class CapturedRow(NamedTuple):
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


def layer_index(module: torch.nn.Module, unnumbered: Iterator[int]) -> int:
    """The 0-based layer of an attention module; ask once per layer and pass, which counts modules without a number."""
    index: int | None = getattr(module, "layer_idx", None)
    return next(unnumbered) if index is None else index


@dataclass(slots=True)
class Capture:
    """The request and result of one forward pass. ``layer_index`` is 0-based; the layer sets ``bidirectional``."""

    layer_index: int
    top_k: int
    rows: list[RowRequest]
    captured: list[CapturedRow] = field(default_factory=list)
    bidirectional: bool = False
    unnumbered: Iterator[int] = field(default_factory=count)


@dataclass(frozen=True, slots=True)
class RowAttention:
    """The attention of one row of the batch; if ``mask`` is None, ``rule`` says what a query sees.

    ``query`` [attention heads, tokens, size]; ``key`` [key heads, tokens, size].
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


def plain_attention(attentions: Iterable[RowAttention], value: torch.Tensor) -> torch.Tensor:
    """Attention of a batch of padded rows: [rows, tokens, attention heads, size] in the dtype of ``value``.

    ``value`` [rows, key heads, tokens, size]. At most ``MAX_WEIGHTS`` weights exist at a time.
    """
    outputs = []
    for attention, values in zip(attentions, value, strict=True):
        head_count, token_count, _ = attention.query.shape
        positions = torch.arange(token_count, device=value.device)
        parts = torch.split(positions, max(1, MAX_WEIGHTS // (head_count * token_count)))
        weighted = [weighted_values(attention.weights(part, token_count), values).to(value.dtype) for part in parts]
        outputs.append(torch.cat(weighted, dim=1))
    return torch.stack(outputs).transpose(1, 2).contiguous()


def reduce_row(attention: RowAttention, request: RowRequest, *, top_k: int) -> CapturedRow:
    """S of one row, reduced; works in slices of response rows, to bound memory."""
    rows_at_once = max(1, MAX_WEIGHTS // (attention.query.shape[0] * request.token_count))
    slices = []
    for positions in torch.split(request.query_positions, rows_at_once):
        similarity = attention.similarity(positions, request.token_count)[:, : len(request.column_passage)]
        mass = passage_mass(similarity, request.column_passage, request.passage_count)
        outside = sink_mass(similarity, request.column_passage)
        slices.append(CapturedRow(*top_columns(similarity, top_k), mass, outside, similarity.sum().isfinite()))
    if len(slices) == 1:
        return slices[0]
    *parts, finite = zip(*slices, strict=True)
    joined = [*map(torch.cat, parts), torch.stack(finite).all()]
    return CapturedRow(*joined)


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

    ``similarity`` [rows, columns]; ``column_passage`` int64 [columns], -1 outside. Uses matrix products, because
    scattered additions have no fixed order on a GPU; many passages are taken in groups, each with its own columns.
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
    """The sum of each row over the columns outside all passages, as ``passage_mass``: float32 [rows]."""
    return similarity @ (column_passage < 0).to(similarity.dtype)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``tensor`` on ``device``; copies to a GPU go through pinned memory, so that the host does not wait."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class PendingRows:
    """The reduced rows of one forward pass, sent to the host in one transfer; only ``outcome`` waits for it."""

    def __init__(self, captured: Sequence[CapturedRow]) -> None:
        self._shapes = [(*row.top_columns.shape, row.passage_mass.shape[1]) for row in captured]
        parts = (part.contiguous() for row in captured for part in row)  # floats keep their bits
        flat = torch.cat(
            [(part.view(torch.int32) if part.is_floating_point() else part.int()).reshape(-1) for part in parts]
        )
        self._values = flat.to("cpu", non_blocking=True)
        self._transfer_done = torch.cuda.Event() if flat.is_cuda else None  # type: ignore[no-untyped-call]
        if self._transfer_done is not None:
            self._transfer_done.record(torch.cuda.current_stream(flat.device))
        counts = [responses * (2 * top_k + passages + 1) + 1 for responses, top_k, passages in self._shapes]
        self._starts = np.cumsum([0, *counts])

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
