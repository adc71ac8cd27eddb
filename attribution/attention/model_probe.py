"""Trying a model on a few small rows when it is loaded, so that a run fails before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from transformers import PreTrainedModel

from attribution.attention.attention_layer import LayerChoice
from attribution.attention.model_parts import head_weights_of
from attribution.attention.modernbert_weights import encoder_weights
from attribution.attention.row_capture import RowCapture
from attribution.attention.row_layout import RowLayout, captures_agree, choose_layout
from attribution.attention.row_requests import Job
from attribution.attention.transfers import RowsOnTheirWay
from attribution.models.model_directory import ModelDirectory
from attribution.models.model_errors import ModelLoadError
from attribution.models.unused_weights import without_unused_weights
from attribution.prompts.row_encoder import RowEncoder
from attribution.settings import QueryPosition, SoftmaxOver
from schemas import Passage, QARecord, RowFault, RowSource

_EVERY_COLUMN = 2**31 - 1
_PROBES = (
    ("Which word?", "One word.", "A word."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "The other."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "Nobody knows."),
)
"""Question, passage and answer of rows that every model is tried on; the last two have one prompt."""


def try_model(
    directory: ModelDirectory, model: PreTrainedModel, *, encoder: RowEncoder, layer: LayerChoice
) -> tuple[RowCapture, RowLayout]:
    """How attention is taken of layer ``layer`` of ``model``, and how rows may lie before it.

    Weights that one row's attention did not need are let go, unless more layers are asked for.

    Raises:
        ModelLoadError: if the attention cannot be taken, or the attention heads' weights do not fit.
    """
    options, defaults = directory.options, directory.defaults
    capture = RowCapture(
        network=model,
        layer=layer.layer,
        query_position=QueryPosition.PREDICTING,
        softmax_over=defaults.softmax_over or SoftmaxOver.VISIBLE,
        head_weights=head_weights_of(directory, layer=layer.layer, device=model.device),
    )
    jobs = _probe_jobs(encoder)
    with nullcontext() if options.loaded_layers else without_unused_weights(model, layer.layer):
        capture = _try_row(capture, jobs[0], model=options.model)
    layout = _try_layouts(capture, jobs, layer.kinds[: layer.layer])
    fitting = QueryPosition.SELF if capture.bidirectional else QueryPosition.PREDICTING
    position = options.query_position or defaults.query_position or fitting
    capture = replace(capture, query_position=position)
    return _with_encoder(capture, jobs) if layout is RowLayout.END_TO_END else capture, layout


def _probe_jobs(encoder: RowEncoder) -> list[Job]:
    """The rows to try a model on, however short its context is."""
    records = [
        QARecord("probe", question, (Passage(text=passage),), answer, RowSource("", 0))
        for question, passage, answer in _PROBES
    ]
    return [(encoder.encode_any_length(record), 1) for record in records]


def _try_row(capture: RowCapture, job: Job, *, model: str) -> RowCapture:
    """``capture`` with what one row shows: whether the layer sees to the right as well.

    Raises:
        ModelLoadError: if its attention cannot be taken, or is not finite.
    """
    try:
        found = capture.take([job], layout=RowLayout.PADDED, top_k=1)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ModelLoadError(f"model {model!r} does not give its attention: {error}; choose another") from error
    if isinstance(RowsOnTheirWay(found.captured).outcome(0), RowFault):
        dtype = capture.network.dtype
        raise ModelLoadError(f"model {model!r} gives NaN or infinity in {dtype}; choose another --dtype")
    return replace(capture, bidirectional=found.bidirectional)


def _try_layouts(capture: RowCapture, jobs: Sequence[Job], kinds: Sequence[str]) -> RowLayout:
    """The layout for a model with layers of these ``kinds`` up to L*."""
    return choose_layout(
        capture.network,
        kinds,
        padded=lambda: capture.take(jobs, layout=RowLayout.PADDED, top_k=_EVERY_COLUMN),
        end_to_end=lambda: capture.take(jobs, layout=RowLayout.END_TO_END, top_k=_EVERY_COLUMN),
    )


def _with_encoder(capture: RowCapture, jobs: Sequence[Job]) -> RowCapture:
    """With the pass in few steps, where there is one for the model and it gives the same attention."""
    shorter = replace(capture, encoder=encoder_weights(capture.network, capture.layer))
    if shorter.encoder is None:
        return capture
    found, expected = (one.take(jobs, layout=RowLayout.END_TO_END, top_k=_EVERY_COLUMN) for one in (shorter, capture))
    return shorter if captures_agree(found, expected, capture.network) else capture
