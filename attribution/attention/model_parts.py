"""Loading what an attention model is made of, from its options."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from attribution.attention.attention_layer import LayerChoice, choose_layer
from attribution.attention.head_weights import HeadWeights
from attribution.models.depth_dependence import depth_matters
from attribution.models.model_directory import ModelDirectory, read_model_directory, runs_own_code
from attribution.models.model_errors import ModelLoadError
from attribution.models.model_options import ModelOptions
from attribution.models.model_revision import revision_of
from attribution.models.placement import choose_device, choose_dtype
from attribution.models.weight_loading import load_weights
from attribution.prompts.row_encoder import RowEncoder


@dataclass(frozen=True, slots=True)
class ModelParts:
    """A model's directory, its loaded layers, its tokenizer with the prompt, and the layer whose attention is taken."""

    directory: ModelDirectory
    model: PreTrainedModel
    encoder: RowEncoder
    layer: LayerChoice


def load_parts(options: ModelOptions, *, encoder: RowEncoder | None = None) -> ModelParts:
    """Read the weights of the layers up to L*, of all of them where the model's code needs all.

    ``encoder`` is the model's own, where it is loaded already.

    Raises:
        ModelLoadError: if the model cannot be loaded.
    """
    directory = read_model_directory(options)
    device = choose_device(options.device)
    layer = layer_of(directory)
    encoder = encoder or RowEncoder(directory)
    loaded = max(layer.layer, options.loaded_layers or 0)
    if runs_own_code(directory) or depth_matters(directory.config):
        loaded = len(layer.kinds)
    model = load_weights(directory, layer=loaded, dtype=choose_dtype(directory, device), device=device)
    return ModelParts(directory, model, encoder, layer)


def layer_of(directory: ModelDirectory) -> LayerChoice:
    """L*: the layer of the options, else of the model's ``attribution_config.json``, else the chosen one.

    Raises:
        ModelLoadError: if there is no such layer with attention.
    """
    requested = directory.options.layer
    try:
        return choose_layer(directory.config, directory.defaults.layer if requested is None else requested)
    except ValueError as error:
        raise ModelLoadError(f"model {directory.options.model!r}: {error}") from error


def head_weights_of(directory: ModelDirectory, *, layer: int, device: torch.device) -> torch.Tensor | None:
    """The weights of the options' file, float32 [attention heads] on ``device``; None where none is given.

    Raises:
        ModelLoadError: if they cannot be read, or were fitted for another model or layer.
    """
    if directory.options.head_weights is None:
        return None
    try:
        found = HeadWeights.from_file(directory.options.head_weights)
        attention_heads = int(directory.config.get_text_config().num_attention_heads)
        found.check_fits(revision=revision_of(directory, layer=layer), layer=layer, attention_heads=attention_heads)
    except ValueError as error:
        raise ModelLoadError(f"{error}; see --head-weights") from error
    return torch.tensor(found.weights, dtype=torch.float32, device=device)
