"""Sets up an attention model: loads its parts, then tries them on a few small rows.

An unusable model thus fails before the run starts. The trial shows in which directions the layer sees, which layout
its rows may have, and whether a fast path gives the same attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedModel

from attribeam.attribution.attention.batching import RowLayout, captures_agree, choose_layout
from attribeam.attribution.attention.forward_pass import Job, LayerCapture
from attribeam.attribution.attention.modernbert_pass import encoder_weights
from attribeam.attribution.attention.reduction import PendingRows
from attribeam.attribution.models.freed_memory import keep_freed_memory
from attribeam.attribution.models.layer_choice import LayerChoice, choose_layer
from attribeam.attribution.models.model_directory import ModelDirectory, read_model_directory
from attribeam.attribution.models.packed_layers import pack_linear_layers, unpack_linear_layers
from attribeam.attribution.models.row_encoder import RowEncoder
from attribeam.attribution.models.truncated_model import drop_unused_weights
from attribeam.attribution.models.weight_loading import choose_device, choose_dtype, layers_to_load, load_weights
from attribeam.attribution.options import ModelOptions, QueryPosition
from attribeam.schemas import Passage, QARecord, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


@dataclass(frozen=True, slots=True)
class ModelParts:
    """A model's directory, its loaded layers, its tokenizer with the prompt, and the layer whose attention is taken."""

    directory: ModelDirectory
    model: PreTrainedModel
    encoder: RowEncoder
    layer: LayerChoice


def load_parts(options: ModelOptions, *, encoder: RowEncoder | None = None) -> ModelParts:
    """Load the layers up to L*, or all layers if the model's code needs them.

    Pass ``encoder`` if the model's own row encoder is loaded already.

    Raises:
        ModelLoadError: if the model cannot be loaded.
    """
    directory = read_model_directory(options)
    device = choose_device(options.device)
    layer = configured_layer(directory)
    encoder = encoder or RowEncoder(directory)
    loaded = layers_to_load(directory, max(layer.layer, options.loaded_layers or 0))
    model = load_weights(directory, layer=loaded, dtype=choose_dtype(directory, device), device=device)
    return ModelParts(directory, model, encoder, layer)


def configured_layer(directory: ModelDirectory) -> LayerChoice:
    """L*: the layer from the options, else from the model's ``attribution_config.json``, else the default choice.

    Raises:
        ModelLoadError: if there is no such layer, or it has no attention.
    """
    requested = directory.options.layer
    try:
        return choose_layer(directory.config, directory.defaults.model.layer if requested is None else requested)
    except ValueError as error:
        raise ModelLoadError(f"model {directory.options.model!r}: {error}") from error


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
    if layout is RowLayout.END_TO_END:
        capture = _with_fast_path(capture, jobs)
    if capture.fused_weights is None:
        _pack_layers(capture, jobs, layout)
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


def _with_fast_path(capture: LayerCapture, jobs: Sequence[Job]) -> LayerCapture:
    """``capture`` with the fused pass, if the model has one and it gives the same attention; else as it is."""
    fused = replace(capture, fused_weights=encoder_weights(capture.network, capture.layer))
    if fused.fused_weights is None:
        return capture
    found, expected = (one.take(jobs, layout=RowLayout.END_TO_END, top_k=_EVERY_COLUMN) for one in (fused, capture))
    return fused if captures_agree(found, expected, capture.network) else capture


def _pack_layers(capture: LayerCapture, jobs: Sequence[Job], layout: RowLayout) -> None:
    """Lay out bfloat16 weights of linear layers for the CPU, unless the model's code multiplies by them elsewhere."""
    if capture.network.device.type != "cpu" or capture.network.dtype != torch.bfloat16:
        return
    expected = capture.take(jobs, layout=layout, top_k=_EVERY_COLUMN)
    if not pack_linear_layers(capture.network):
        return
    try:
        found = capture.take(jobs, layout=layout, top_k=_EVERY_COLUMN)
        agree = captures_agree(found, expected, capture.network)
    except (LookupError, RuntimeError, TypeError, ValueError):
        agree = False
    if not agree:
        unpack_linear_layers(capture.network)
