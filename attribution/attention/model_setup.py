"""Loads the layers of an attention model with transformers, then tries them on a few small rows.

An unusable model thus fails before the run starts. The trial shows in which directions the layer sees, and which
layout its rows may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from attribeam.attribution.attention.batching import RowLayout, choose_layout
from attribeam.attribution.attention.capture import LayerCapture
from attribeam.attribution.attention.forward_pass import Job
from attribeam.attribution.attention.reduction import PendingRows
from attribeam.attribution.models.dtype_choice import choose_dtype
from attribeam.attribution.models.freed_memory import keep_freed_memory
from attribeam.attribution.models.layer_choice import LayerChoice
from attribeam.attribution.models.model_directory import ModelDirectory, read_model_directory
from attribeam.attribution.models.row_encoder import RowEncoder
from attribeam.attribution.models.truncated_model import drop_unused_weights
from attribeam.attribution.models.weight_loading import layers_to_load, load_weights
from attribeam.attribution.options import ModelOptions, QueryPosition
from attribeam.schemas import Passage, QARecord, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


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
