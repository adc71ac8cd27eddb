"""Everything that a model's attributions depend on, for file metadata and the run manifest."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import torch

from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.end_to_end_attention import kernel_name
from attribeam.attribution.models.layer_choice import LayerChoice
from attribeam.attribution.models.model_directory import ModelDirectory, runs_own_code
from attribeam.attribution.models.quantization import quantization_provenance
from attribeam.attribution.models.row_encoder import RowEncoder
from attribeam.attribution.models.weight_files import revision_of

if TYPE_CHECKING:
    from attribeam.attribution.attention.capture import LayerCapture
    from attribeam.attribution.attention.modernbert_pass import FusedCapture


def of_model(directory: ModelDirectory, layer: LayerChoice) -> dict[str, str]:
    """The model, whose code it runs, and the layer with the reason for choosing it."""
    return {
        "model": directory.options.model,
        "model_revision": revision_of(directory, layer=layer.layer),
        "model_code": "of its repository" if runs_own_code(directory) else "of transformers",
        "model_type": str(directory.config.model_type),
        **layer.provenance(),
    }


def of_capture(capture: LayerCapture | FusedCapture) -> dict[str, str]:
    """How S is taken from the layer's attention, and by which forward pass."""
    return {
        "query_position": str(capture.query_position),
        "softmax_over": str(capture.softmax_over),
        "forward_pass": capture.name,
    }


def of_prompt(encoder: RowEncoder) -> dict[str, str]:
    """The prompt template and the longest row."""
    return {
        "prompt_template": encoder.template.digest,
        "prompt_template_name": encoder.template_name,
        "max_tokens": str(encoder.max_tokens),
    }


def of_batches(capture: LayerCapture | FusedCapture, *, layout: RowLayout, token_budget: int) -> dict[str, str]:
    """How rows are laid out in a batch, and what computes their attention."""
    end_to_end = layout is RowLayout.END_TO_END
    return {
        "token_budget": str(token_budget),
        "attention_backend": kernel_name(capture.device, capture.dtype) if end_to_end else "sdpa",
        "row_layout": str(layout),
    }


def of_machine(capture: LayerCapture | FusedCapture, directory: ModelDirectory) -> dict[str, str]:
    """Precision, device and versions."""
    device = capture.device
    return {
        **quantization_provenance(directory.options.quantization, directory.config),
        "dtype": str(capture.dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch_version": str(torch.__version__),  # a plain string, so that it unpickles without torch
        "transformers_version": version("transformers"),
    }
