"""Taking one layer's attention out of any Hugging Face model, and ending its forward pass there.

One function, registered as an attention implementation together with a mask function, serves every architecture:
query and key arrive normed and rotated, and scaling, soft cap, sinks and mask come as arguments. In the layers below
the captured one it hands on to torch's scaled dot product attention. In that layer it computes only the response
rows, in float32, reduces them on the device to k columns, one mass a passage and one outside the passages, and ends the
pass with a private exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from transformers.integrations.sdpa_attention import create_position_bias_mask, sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.end_to_end_attention import end_to_end_attention
from attribution.attention.end_to_end_rows import EndToEndRows, current_rows
from attribution.attention.plain_attention import MAX_WEIGHTS, attention_weights, plain_attention
from attribution.attention.top_columns import passage_mass, sink_mass, top_columns

IMPLEMENTATION = "attribeam_capture"


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


@dataclass(slots=True)
class _LayerCount:
    """Numbers the attention modules of one forward pass from 0."""

    unnumbered: int = 0

    def index_of(self, module: torch.nn.Module) -> int:
        """The 0-based layer whose attention ``module`` is; to be asked once a layer.

        Modules that do not know it (DistilBERT's, ALBERT's) are counted as the pass comes by.
        """
        index: int | None = getattr(module, "layer_idx", None)
        if index is None:
            self.unnumbered += 1
            return self.unnumbered - 1
        return index


@dataclass(slots=True)
class Capture:
    """One forward pass's request and result; ``layer_index`` is 0-based. ``bidirectional`` is set by the layer.

    ``head_weights`` float32 [attention heads] sum to 1; None is the mean over attention heads.
    """

    layer_index: int
    top_k: int
    rows: list[RowRequest]
    head_weights: torch.Tensor | None = None
    captured: list[CapturedRow] = field(default_factory=list)
    bidirectional: bool = False
    layers: _LayerCount = field(default_factory=_LayerCount)


class _ForwardPassEnds(Exception):  # noqa: N818 - a message to the caller, not a fault
    """Raised at the captured layer, caught in ``capturing``."""


Observer = Callable[[int, "RowAttention"], None]
"""Is shown the attention of every row, with the 0-based layer: of every layer, or, where rows lie end to end, of the
captured one."""


@dataclass(slots=True)
class _Observation:
    observer: Observer
    layers: _LayerCount = field(default_factory=_LayerCount)


_current: ContextVar[Capture | None] = ContextVar("attribeam_capture", default=None)
_observed: ContextVar[_Observation | None] = ContextVar("attribeam_observation", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Show the attention of the one forward pass inside to ``observer``, before anything is reduced.

    What the observer raises ends the pass.
    """
    token = _observed.set(_Observation(observer))
    try:
        yield
    finally:
        _observed.reset(token)


@contextmanager
def capturing(capture: Capture) -> Iterator[None]:
    """Run the model's forward pass inside; it ends at the captured layer, and ``capture.captured`` is filled.

    Raises:
        RuntimeError: if the pass came to its end without reaching the layer through this implementation.
    """
    token = _current.set(capture)
    try:
        yield
    except _ForwardPassEnds:
        return
    finally:
        _current.reset(token)
    raise RuntimeError(
        f"the model should reach layer {capture.layer_index + 1} through transformers' attention interface, but did not"
    )


def capture_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention implementation: capture at the requested layer, plain attention in every other.

    ``query`` [rows, attention heads, tokens, size]; ``key``, ``value`` [rows, key heads, tokens, size];
    ``attention_mask`` None (causal, or everything where the module is not causal) or [rows, 1, tokens, tokens].
    Returns ([rows, tokens, attention heads, size], None), as the interface wants it.

    Raises:
        ValueError: if the model's attention takes numbers that are unknown here.
    """
    unknown = [name for name, value in options.items() if torch.is_tensor(value) and value.is_floating_point()]
    if unknown:
        raise ValueError(f"its attention takes {' and '.join(unknown)}, which this version does not know")
    rows = current_rows()
    rule = AttentionRule(
        causal=bool(options.get("is_causal", getattr(module, "is_causal", True))),
        reach=None if rows is None else _reach(options.get("sliding_window")),
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        sinks=getattr(module, "sinks", None) if s_aux is None else s_aux,
    )
    if position_bias is not None:
        if rows is not None:
            raise ValueError("rows end to end should have no position_bias, which goes by the place in the sequence")
        attention_mask = create_position_bias_mask(position_bias, attention_mask, rule.causal, query, key)
    if rows is not None:
        _show_or_end(module, _of_rows_end_to_end(query, key, rows, rule), rule)
        return end_to_end_attention(query, key, value, rows=rows, rule=rule), None
    _show_or_end(module, _of_padded_rows(query, key, attention_mask, rule), rule)
    if rule.is_plain:
        return plain_attention(query, key, value, attention_mask, rule), None
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    return output, None


def _reach(sliding_window: int | None) -> int | None:
    """How far a token sees: the interface counts the token itself as well. Padded rows have a mask that says so."""
    return None if sliding_window is None else sliding_window - 1


def _show_or_end(module: torch.nn.Module, attentions: Iterator[RowAttention], rule: AttentionRule) -> None:
    """Show the attention of all rows to the observer, and end the pass where the layer is the captured one."""
    capture, observation = _current.get(), _observed.get()
    captured = capture is not None and capture.layers.index_of(module) == capture.layer_index
    if not captured and observation is None:
        return
    rows = list(attentions)
    if observation is not None:
        _show(observation, observation.layers.index_of(module), rows)
    if capture is not None and captured:
        capture.bidirectional = not rule.causal
        _end_pass(capture, rows)


def _of_rows_end_to_end(
    query: torch.Tensor, key: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> Iterator[RowAttention]:
    for one in rows.places:
        yield RowAttention(one.states(query[0]), one.states(key[0]), None, rule)


def _of_padded_rows(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, rule: AttentionRule
) -> Iterator[RowAttention]:
    masks = [None] * len(query) if mask is None else mask.expand(len(query), -1, -1, -1)
    for row, row_mask in enumerate(masks):
        yield RowAttention(query[row], key[row], row_mask, rule)


def _show(observation: _Observation, layer_index: int, attentions: Sequence[RowAttention]) -> None:
    for attention in attentions:
        observation.observer(layer_index, attention)


def _end_pass(capture: Capture, attentions: Sequence[RowAttention]) -> NoReturn:
    for attention, request in zip(attentions, capture.rows, strict=True):
        capture.captured.append(reduce_row(attention, request, capture))
    raise _ForwardPassEnds


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


def reduce_row(attention: RowAttention, request: RowRequest, capture: Capture) -> CapturedRow:
    """S of one row, reduced; computed in slices of response rows, so that memory stays bounded."""
    rows_at_once = max(1, MAX_WEIGHTS // (attention.query.shape[0] * request.token_count))
    prompt_length = len(request.column_passage)
    slices = []
    for positions in torch.split(request.query_positions, rows_at_once):
        similarity = attention.similarity(positions, request.token_count, capture.head_weights)[:, :prompt_length]
        columns, scores = top_columns(similarity, capture.top_k)
        mass = passage_mass(similarity, request.column_passage, request.passage_count)
        outside = sink_mass(similarity, request.column_passage)
        slices.append(CapturedRow(columns, scores, mass, outside, similarity.isfinite().all()))
    if len(slices) == 1:
        return slices[0]
    return CapturedRow(
        torch.cat([one.top_columns for one in slices]),
        torch.cat([one.top_scores for one in slices]),
        torch.cat([one.passage_mass for one in slices]),
        torch.cat([one.sink_mass for one in slices]),
        torch.stack([one.finite for one in slices]).all(),
    )


def capture_mask(*arguments: Any, **options: Any) -> torch.Tensor | None:
    """The mask of ``sdpa_mask``; None for rows that lie end to end, whose borders the attention itself keeps."""
    return None if current_rows() is not None else sdpa_mask(*arguments, **options)


ALL_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, capture_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, capture_mask)
