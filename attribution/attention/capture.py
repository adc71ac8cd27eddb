"""Captures one layer's attention from any Hugging Face model, and ends the forward pass there.

One function, registered as an attention implementation together with a mask function, serves every architecture:
query and key arrive normed and rotated, and scaling, soft cap, sinks and mask come as arguments. Below the captured
layer it delegates to torch's scaled dot product attention. In the captured layer it computes only the response rows,
in float32, and reduces them on the device (``reduction.py``). An observer sees the attention before that. Then a
private exception ends the pass.

A model is tried on a few small rows when it is loaded, so an unusable one fails before the run starts. The trial shows
in which directions the layer sees, and which layout its rows may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn

import torch
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import create_position_bias_mask, sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attribeam.attribution.attention.batching import (
    Job,
    RowLayout,
    choose_layout,
    end_to_end_inputs,
    padded_token_ids,
    row_requests,
)
from attribeam.attribution.attention.end_to_end_attention import end_to_end_attention
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, current_rows, rows_end_to_end
from attribeam.attribution.attention.reduction import (
    AttentionRule,
    Capture,
    LayerCount,
    PendingRows,
    RowAttention,
    RowRequest,
    plain_attention,
    reduce_row,
    to_device,
)
from attribeam.attribution.models.loading import CAPTURE_IMPLEMENTATION as CAPTURE_IMPLEMENTATION
from attribeam.attribution.models.model_directory import LayerChoice, ModelDirectory, read_model_directory
from attribeam.attribution.models.precision import choose_dtype
from attribeam.attribution.models.row_encoder import RowEncoder
from attribeam.attribution.models.weight_loading import (
    drop_unused_weights,
    keep_freed_memory,
    layers_to_load,
    load_weights,
)
from attribeam.attribution.options import ModelOptions, QueryPosition, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import Passage, QARecord, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


def capture_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    position_bias: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention implementation: captures the requested layer, and computes ordinary attention in all others.

    ``query`` [rows, attention heads, tokens, size]; ``key``, ``value`` [rows, key heads, tokens, size];
    ``attention_mask`` None (causal, or everything if the module is not causal) or [rows, 1, tokens, tokens].
    Returns ([rows, tokens, attention heads, size], None).

    Raises:
        ValueError: if the model's attention takes numeric arguments that this function does not know.
    """
    rows = current_rows()
    rule = _attention_rule(module, query, end_to_end=rows is not None, **options)
    if rows is not None and position_bias is not None:
        raise ValueError("end-to-end rows should have no position_bias, which depends on the place in the sequence")
    if rows is not None:
        observe_or_capture(module, _end_to_end_attentions(query, key, rows, rule), rule)
        return end_to_end_attention(query, key, value, rows=rows, rule=rule), None
    attention_mask = _with_position_bias(attention_mask, position_bias, query, key, rule)
    observe_or_capture(module, _padded_attentions(query, key, attention_mask, rule), rule)
    if rule.needs_written_out_weights:
        return plain_attention(query, key, value, attention_mask, rule), None
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, None


def _with_position_bias(
    mask: torch.Tensor | None,
    bias: torch.Tensor | None,
    query: torch.Tensor,
    key: torch.Tensor,
    rule: AttentionRule,
) -> torch.Tensor | None:
    """The mask, plus the model's position bias if it has one."""
    return mask if bias is None else create_position_bias_mask(bias, mask, rule.causal, query, key)


def _attention_rule(
    module: torch.nn.Module,
    query: torch.Tensor,
    *,
    end_to_end: bool,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **options: Any,
) -> AttentionRule:
    """The rule of a layer's attention; the window applies to end-to-end rows only, since padded rows have a mask.

    Raises:
        ValueError: if the layer takes numeric arguments that this function does not know.
    """
    unknown = [name for name, value in options.items() if torch.is_tensor(value) and value.is_floating_point()]
    if unknown:
        raise ValueError(f"its attention takes {' and '.join(unknown)}, which this version does not know")
    return AttentionRule(
        causal=bool(options.get("is_causal", getattr(module, "is_causal", True))),
        reach=_reach(options.get("sliding_window")) if end_to_end else None,
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        sinks=getattr(module, "sinks", None) if s_aux is None else s_aux,
    )


def _reach(sliding_window: int | None) -> int | None:
    """How far a token sees; transformers' window also counts the token itself."""
    return None if sliding_window is None else sliding_window - 1


def _end_to_end_attentions(
    query: torch.Tensor, key: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> Iterator[RowAttention]:
    for one in rows.places:
        yield RowAttention(one.states(query[0]), one.states(key[0]), None, rule)


def _padded_attentions(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, rule: AttentionRule
) -> Iterator[RowAttention]:
    masks = [None] * len(query) if mask is None else mask.expand(len(query), -1, -1, -1)
    for row, row_mask in enumerate(masks):
        yield RowAttention(query[row], key[row], row_mask, rule)


def capture_mask(*arguments: Any, **options: Any) -> torch.Tensor | None:
    """The mask of ``sdpa_mask``; None for end-to-end rows, which the attention itself keeps apart."""
    return None if current_rows() is not None else sdpa_mask(*arguments, **options)


ALL_ATTENTION_FUNCTIONS.register(CAPTURE_IMPLEMENTATION, capture_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(CAPTURE_IMPLEMENTATION, capture_mask)


class _LayerCaptured(Exception):  # noqa: N818 - control flow, not a fault
    """Raised at the captured layer, and caught in ``capturing``."""


Observer = Callable[[int, RowAttention], None]
"""Called with a 0-based layer and the attention of one row, for every row of each layer that the pass reaches."""


@dataclass(slots=True)
class _Observation:
    observer: Observer
    layers: LayerCount = field(default_factory=LayerCount)


_current: ContextVar[Capture | None] = ContextVar("attribeam_capture", default=None)
_observed: ContextVar[_Observation | None] = ContextVar("attribeam_observation", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Show ``observer`` the attention of the one forward pass inside, before it is reduced.

    An exception from the observer ends the pass.
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
        RuntimeError: if the pass ended without reaching the layer through this implementation.
    """
    token = _current.set(capture)
    try:
        yield
    except _LayerCaptured:
        return
    finally:
        _current.reset(token)
    raise RuntimeError(
        f"the model should reach layer {capture.layer_index + 1} through transformers' attention interface, but did not"
    )


def observe_or_capture(module: torch.nn.Module, attentions: Iterator[RowAttention], rule: AttentionRule) -> None:
    """Show the attention of all rows to the observer, and end the pass if this is the captured layer."""
    capture, observation = _current.get(), _observed.get()
    captured = capture is not None and capture.layers.index_of(module) == capture.layer_index
    if not captured and observation is None:
        return
    rows = list(attentions)
    if observation is not None:
        _show_to_observer(observation, observation.layers.index_of(module), rows)
    if capture is not None and captured:
        capture.bidirectional = not rule.causal
        _end_pass(capture, rows)


def _show_to_observer(observation: _Observation, layer_index: int, attentions: Sequence[RowAttention]) -> None:
    for attention in attentions:
        observation.observer(layer_index, attention)


def _end_pass(capture: Capture, attentions: Sequence[RowAttention]) -> NoReturn:
    for attention, request in zip(attentions, capture.rows, strict=True):
        capture.captured.append(reduce_row(attention, request, top_k=capture.top_k))
    raise _LayerCaptured


@dataclass(frozen=True, slots=True)
class LayerCapture:
    """How one layer's attention is captured.

    Attributes:
        network: the loaded layers, with ``capture_attention`` as their attention.
        layer: 1-based L*.
        query_position: the position whose attention is row i of S.
        softmax_over: the columns over which each row of the attention is normalised.
        bidirectional: whether the layer's tokens also see to the right.
    """

    name: ClassVar = "of the model"
    network: PreTrainedModel
    layer: int
    query_position: QueryPosition
    softmax_over: SoftmaxOver
    bidirectional: bool = False
    context: ClassVar = 0

    @property
    def shares(self) -> bool:
        """Whether rows may share a prefix."""
        return not self.bidirectional

    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:
        """Run the pass; the rows of the result are reduced, but still on the device."""
        rows = [row for row, _ in jobs]
        capture = Capture(
            layer_index=self.layer - 1,
            top_k=top_k,
            rows=self.requests(jobs),
            bidirectional=self.bidirectional,
        )
        if layout is RowLayout.PADDED:
            padded_pass(self.network, rows, capture)
        else:
            end_to_end_pass(self.network, rows, capture, share=self.shares)
        return capture

    @property
    def device(self) -> torch.device:
        """Where the layers run."""
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the layers below the captured one."""
        return self.network.dtype

    def requests(self, jobs: Sequence[Job]) -> list[RowRequest]:
        """Builds per-row capture requests, in row order."""
        return row_requests(
            jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=self.device
        )


@torch.inference_mode()
def end_to_end_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture, *, share: bool) -> None:
    """Run ``rows`` as one sequence without padding, and fill ``capture``.

    With ``share`` (causal models only), a prefix that rows of the batch have in common is computed once.
    """
    places, inputs = end_to_end_inputs(rows, model.device, share=share)
    options = {} if capture.bidirectional else {"use_cache": False}
    with capturing(capture), rows_end_to_end(places):
        model(**inputs, **options)


@torch.inference_mode()
def padded_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` stacked and padded on the right, and fill ``capture``.

    Causality hides the padding; bidirectional models get a mask.
    """
    device = model.device
    lengths = torch.tensor([len(row.token_ids) for row in rows])
    width = int(lengths.max())
    mask = None
    if capture.bidirectional and int(lengths.min()) < width:
        mask = to_device(torch.arange(width) < lengths[:, None], device)
    with capturing(capture):
        model(input_ids=padded_token_ids(rows, device), attention_mask=mask, use_cache=False)


def load_capture(
    options: ModelOptions, *, encoder: RowEncoder, layer: LayerChoice, device: torch.device
) -> tuple[LayerCapture, RowLayout]:
    """Load the layers up to L*, or all layers if the model's code needs them, and try them as ``try_model`` does.

    Raises:
        ModelLoadError: if the model cannot be loaded, or its attention cannot be taken.
    """
    directory = read_model_directory(options)
    loaded = layers_to_load(directory, max(layer.layer, options.loaded_layers or 0))
    model = load_weights(directory, layer=loaded, dtype=choose_dtype(directory, device), device=device)
    return try_model(directory, model, encoder=encoder, layer=layer)


_EVERY_COLUMN = 2**31 - 1
_PROBES = (
    ("Which word?", "One word.", "A word."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "The other."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "Nobody knows."),
)
"""Question, passage and answer of the rows that every model is tried on; the last two share a prompt."""


def try_model(
    directory: ModelDirectory, model: PreTrainedModel, *, encoder: RowEncoder, layer: LayerChoice
) -> tuple[LayerCapture, RowLayout]:
    """How to capture the attention of ``layer`` in ``model``, and which layout its rows may have.

    Weights that one row's attention does not need are released, unless the options ask for more layers.

    Raises:
        ModelLoadError: if the attention cannot be taken.
    """
    options, defaults = directory.options, directory.defaults
    capture = LayerCapture(
        network=model,
        layer=layer.layer,
        query_position=QueryPosition.PREDICTING,
        softmax_over=defaults.trained.softmax_over,
    )
    jobs = _probe_jobs(encoder)
    with nullcontext() if options.loaded_layers else drop_unused_weights(model, layer.layer):
        capture = _try_row(capture, jobs[0], model=options.model)
    layout = _try_layouts(capture, jobs, layer.kinds[: layer.layer])
    fitting = QueryPosition.SELF if capture.bidirectional else QueryPosition.PREDICTING
    position = options.query_position or defaults.model.query_position or fitting
    capture = replace(capture, query_position=position)
    keep_freed_memory(model)
    return capture, layout


def _probe_jobs(encoder: RowEncoder) -> list[Job]:
    """The rows to try a model on, even if they exceed its context."""
    records = [
        QARecord("probe", question, (Passage(text=passage),), answer, RowSource("", 0))
        for question, passage, answer in _PROBES
    ]
    return [(encoder.encode_any_length(record), 1) for record in records]


def _try_row(capture: LayerCapture, job: Job, *, model: str) -> LayerCapture:
    """``capture``, completed by what one row shows: whether the layer also sees to the right.

    Raises:
        ModelLoadError: if the row's attention cannot be taken, or is not finite.
    """
    try:
        found = capture.take([job], layout=RowLayout.PADDED, top_k=1)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ModelLoadError(f"model {model!r} does not give its attention: {error}; choose another") from error
    if isinstance(PendingRows(found.captured).outcome(0), RowFault):
        dtype = capture.network.dtype
        raise ModelLoadError(f"model {model!r} gives NaN or infinity in {dtype}; choose another --dtype")
    return replace(capture, bidirectional=found.bidirectional)


def _try_layouts(capture: LayerCapture, jobs: Sequence[Job], kinds: Sequence[str]) -> RowLayout:
    """The layout for a model whose layers up to L* are of these ``kinds``."""
    return choose_layout(
        capture.network,
        kinds,
        padded=lambda: capture.take(jobs, layout=RowLayout.PADDED, top_k=_EVERY_COLUMN),
        end_to_end=lambda: capture.take(jobs, layout=RowLayout.END_TO_END, top_k=_EVERY_COLUMN),
    )
