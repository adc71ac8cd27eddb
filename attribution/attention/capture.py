"""Captures one layer's attention from any Hugging Face model, and ends the forward pass there.

One function, registered as an attention implementation together with a mask function, serves every architecture:
query and key arrive normed and rotated, and scaling, soft cap, sinks and mask come as arguments. A model is tried on a
few small rows when it is loaded, so an unusable one fails before the run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, ClassVar

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
    is_exact,
    padded_token_ids,
    row_requests,
)
from attribeam.attribution.attention.end_to_end_attention import (
    EndToEndRows,
    current_rows,
    end_to_end_attention,
    rows_end_to_end,
)
from attribeam.attribution.attention.reduction import (
    AttentionRule,
    Capture,
    CapturedRow,
    PendingRows,
    RowAttention,
    RowRequest,
    layer_index,
    plain_attention,
    reduce_row,
    to_device,
)
from attribeam.attribution.models import CAPTURE_IMPLEMENTATION as CAPTURE_IMPLEMENTATION
from attribeam.attribution.models.model_directory import (
    LayerChoice,
    ModelDirectory,
    RowEncoder,
    model_context,
    read_model_directory,
)
from attribeam.attribution.models.weight_loading import (
    drop_unused_weights,
    keep_freed_memory,
    layers_to_load,
    load_weights,
)
from attribeam.attribution.options import ModelOptions, QueryPosition, SoftmaxOver
from attribeam.schemas import RowFault
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
    ``attention_mask`` None (causal, or everything if the module is not causal) or [rows, 1, tokens, tokens]. Of the
    captured layer only the response rows are computed, in float32. Returns ([rows, tokens, attention heads, size],
    None). Raises ``ValueError`` if the model's attention takes numeric arguments that this function does not know.
    """
    rows = current_rows()
    rule = _attention_rule(module, query, end_to_end=rows is not None, **options)
    if rows is not None and position_bias is not None:
        raise ValueError("end-to-end rows should have no position_bias, which depends on the place in the sequence")
    if position_bias is not None:
        attention_mask = create_position_bias_mask(position_bias, attention_mask, rule.causal, query, key)
    _observe_or_capture(module, _row_attentions(query, key, attention_mask, rows, rule), rule)
    if rows is not None:
        return end_to_end_attention(query, key, value, rows=rows, rule=rule), None
    if rule.needs_written_out_weights:
        return plain_attention(_row_attentions(query, key, attention_mask, rows, rule), value), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)[0], None


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
    """The rule of a layer's attention; the window applies to end-to-end rows only, since padded rows have a mask."""
    unknown = [name for name, value in options.items() if torch.is_tensor(value) and value.is_floating_point()]
    if unknown:
        raise ValueError(f"its attention takes {' and '.join(unknown)}, which this version does not know")
    window = options.get("sliding_window") if end_to_end else None
    return AttentionRule(
        causal=bool(options.get("is_causal", getattr(module, "is_causal", True))),
        reach=None if window is None else window - 1,  # transformers' window also counts the token itself
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        sinks=getattr(module, "sinks", None) if s_aux is None else s_aux,
    )


def _row_attentions(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, rows: EndToEndRows | None, rule: AttentionRule
) -> Iterator[RowAttention]:
    if rows is not None:
        for places in rows.places:
            yield RowAttention(places.states(query[0]), places.states(key[0]), None, rule)
        return
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


_current: ContextVar[Capture | None] = ContextVar("attribeam_capture", default=None)
_observed: ContextVar[tuple[Observer, Iterator[int]] | None] = ContextVar("attribeam_observation", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Show ``observer`` the attention of the one pass inside, before it is reduced; its exceptions end the pass."""
    token = _observed.set((observer, count()))
    try:
        yield
    finally:
        _observed.reset(token)


@contextmanager
def capturing(capture: Capture) -> Iterator[None]:
    """Run a forward pass inside, which ends at the captured layer and fills ``capture.captured``, else RuntimeError."""
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


def _observe_or_capture(module: torch.nn.Module, attentions: Iterator[RowAttention], rule: AttentionRule) -> None:
    """Show the attention of all rows to the observer, and end the pass if this is the captured layer."""
    capture, observed = _current.get(), _observed.get()
    captured = capture is not None and layer_index(module, capture.unnumbered) == capture.layer_index
    if not captured and observed is None:
        return
    rows = list(attentions)
    if observed is not None:
        observer, unnumbered = observed
        index = layer_index(module, unnumbered)
        for attention in rows:
            observer(index, attention)
    if capture is not None and captured:
        capture.bidirectional = not rule.causal
        for attention, request in zip(rows, capture.rows, strict=True):
            capture.captured.append(reduce_row(attention, request, top_k=capture.top_k))
        raise _LayerCaptured


@dataclass(frozen=True, slots=True)
class LayerCapture:
    """How one layer's attention is captured; ``bidirectional`` if its tokens also see to the right.

    The ``network`` has ``capture_attention`` as its attention; ``layer`` is 1-based, the rest as of ``AttentionModel``.
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

    @torch.inference_mode()
    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:
        """Run the pass; the rows of the result are reduced, but still on the device.

        Causality hides padding on the right; bidirectional models get a mask.
        """
        rows, device = [row for row, _ in jobs], self.device
        capture = Capture(self.layer - 1, top_k, self.requests(jobs), bidirectional=self.bidirectional)
        if layout is RowLayout.END_TO_END:
            packed, inputs = end_to_end_inputs(rows, device, share=self.shares)
            options = {} if self.bidirectional else {"use_cache": False}
            with capturing(capture), rows_end_to_end(packed):
                self.network(**inputs, **options)
            return capture
        lengths = torch.tensor([len(row.token_ids) for row in rows])
        width = int(lengths.max())
        mask = None
        if self.bidirectional and int(lengths.min()) < width:
            mask = to_device(torch.arange(width) < lengths[:, None], device)
        with capturing(capture):
            self.network(input_ids=padded_token_ids(rows, device), attention_mask=mask, use_cache=False)
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


def load_capture(options: ModelOptions, *, encoder: RowEncoder, layer: LayerChoice) -> tuple[LayerCapture, RowLayout]:
    """Load the layers up to L*, or all if the model's code needs them, and try them as ``try_model`` does."""
    directory = read_model_directory(options)
    loaded = layers_to_load(directory, max(layer.layer, options.loaded_layers or 0))
    return try_model(directory, load_weights(directory, layer=loaded), encoder=encoder, layer=layer)


_EVERY_COLUMN = 2**31 - 1
_EXACT_TOLERANCE = 1e-4
_ROUGH_TOLERANCE = 0.03
"""For half precision and quantised weights, whose sums depend on the shape of the batch."""


def try_model(
    directory: ModelDirectory, model: PreTrainedModel, *, encoder: RowEncoder, layer: LayerChoice
) -> tuple[LayerCapture, RowLayout]:
    """How to capture the attention of ``layer`` in ``model``, and the layout of its rows; else ModelLoadError.

    Weights that one row's attention does not need are released, unless the options ask for more layers.
    """
    options, defaults = directory.options, directory.defaults
    capture = LayerCapture(model, layer.layer, QueryPosition.PREDICTING, defaults.trained.softmax_over)
    jobs = [(row, 1) for row in encoder.probes()]
    longest, context = max(len(row.token_ids) for row, _ in jobs), model_context(directory.config)
    if context is not None and longest > context:
        raise ModelLoadError(
            f"model {options.model!r} should read a sample row of {longest} tokens, its config.json gives it a context "
            f"of {context}; choose another"
        )
    with nullcontext() if options.loaded_layers else drop_unused_weights(model, layer.layer):
        try:
            alone = capture.take(jobs[:1], layout=RowLayout.PADDED, top_k=_EVERY_COLUMN)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise ModelLoadError(
                f"model {options.model!r} does not give its attention: {error}; choose another"
            ) from error
        if isinstance(PendingRows(alone.captured).outcome(0), RowFault):
            raise ModelLoadError(
                f"model {options.model!r} gives NaN or infinity in {model.dtype}; choose another --dtype"
            )
    capture = replace(capture, bidirectional=alone.bidirectional)
    take = partial(capture.take, jobs, top_k=_EVERY_COLUMN)
    padded = take(layout=RowLayout.PADDED)
    tolerance = _EXACT_TOLERANCE if is_exact(model) else _ROUGH_TOLERANCE
    layout = choose_layout(
        model, layer.kinds[: layer.layer], lambda: not _differ(take(layout=RowLayout.END_TO_END), padded, tolerance)
    )
    if layout is RowLayout.PADDED and is_exact(model) and _differ(alone, padded, _ROUGH_TOLERANCE):
        raise ModelLoadError(
            f"model {options.model!r} should give a row the attention that it has alone, but it depends on the padding "
            "behind it; choose another"
        )
    fitting = QueryPosition.SELF if capture.bidirectional else QueryPosition.PREDICTING
    position = options.query_position or defaults.model.query_position or fitting
    keep_freed_memory(model)
    return replace(capture, query_position=position), layout


def _differ(first: Capture, second: Capture, tolerance: float) -> bool:
    """Whether the attention of a row that both have differs; NaN does."""
    pairs = zip(first.captured, second.captured, strict=False)
    return not all((_full_similarity(a) - _full_similarity(b)).abs().max() <= tolerance for a, b in pairs)


def _full_similarity(row: CapturedRow) -> torch.Tensor:
    """S of a row that kept every column: float32 [responses, prompt_length]."""
    return torch.zeros_like(row.top_scores).scatter_(1, row.top_columns, row.top_scores)
