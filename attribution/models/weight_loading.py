"""Loads the weights of layers 1 to L* of a model onto its device, with transformers.

Weights are quantised while they are loaded, if requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from logging import ERROR
from typing import cast

import torch
from transformers import AutoModel, PreTrainedModel
from transformers.utils import logging

from attribeam.attribution.models.layer_choice import CAPTURE_IMPLEMENTATION, layer_types
from attribeam.attribution.models.loading import as_load_errors
from attribeam.attribution.models.model_directory import ModelDirectory, runs_own_code
from attribeam.attribution.models.precision import (
    LoadingArguments,
    keep_weights_as_loaded,
    loading_arguments,
    quantization_config,
    resolve_dtype,
)
from attribeam.attribution.models.weight_files import weights_folder
from attribeam.attribution.models.weight_memory import (
    WeightGroup,
    depth_matters,
    free_memory,
    nested_names,
    text_model_config,
    total_size,
    weight_groups,
)
from attribeam.attribution.options import Quantization
from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError


def layers_to_load(directory: ModelDirectory, layer: int) -> int:
    """``layer``, or the number of all layers where the model's code needs them to compute the first ones."""
    if runs_own_code(directory) or depth_matters(directory.config):
        return len(layer_types(directory.config))
    return layer


def load_weights(
    directory: ModelDirectory,
    *,
    layer: int,
    dtype: torch.dtype | str,
    device: torch.device,
    attention: str | None = CAPTURE_IMPLEMENTATION,
) -> PreTrainedModel:
    """Load layers 1 to ``layer`` of the text model (no language-model head), in evaluation mode on ``device``.

    Tensors of other layers are not read, and files that hold nothing else need not exist. ``attention`` names the
    implementation of transformers' attention interface; None leaves the choice to the model.

    Raises:
        ModelLoadError: if the weights do not fit into the device's free memory, are missing, damaged, incomplete or
            not in safetensors files, or cannot be quantised as requested.
    """
    settled = resolve_dtype(directory, dtype)
    quantised = quantization_config(directory.options.quantization, directory.config, settled)
    groups = check_fits(directory, layer=layer, dtype=settled, device=device)
    placed = loading_arguments(quantised, device)
    needed = sum(group.weights for group in groups)
    model, missing = _read_model(directory, layer, needed, dtype, device, attention, placed)
    _check_layers_complete(directory.options.model, missing, layer=layer)
    return model


def _read_model(
    directory: ModelDirectory,
    layer: int,
    needed: int,
    dtype: torch.dtype | str,
    device: torch.device,
    attention: str | None,
    placed: LoadingArguments,
) -> tuple[PreTrainedModel, Iterable[str]]:
    """The model on ``device``, and the names of the weights that its files lack."""
    options, config = directory.options, text_model_config(directory.config, layer)
    with (
        as_load_errors(options.model),
        weights_folder(directory, needed=needed, layer=layer) as folder,
        quiet_transformers(),
    ):
        model, report = AutoModel.from_pretrained(
            str(folder),
            config=config,
            key_mapping=nested_names(directory.config, config),
            trust_remote_code=options.trust_remote_code,
            use_safetensors=True,
            dtype=dtype,
            attn_implementation=attention,
            output_loading_info=True,
            **placed,
        )
        model.eval().requires_grad_(False)
        if not placed:
            model.to(device)
        keep_weights_as_loaded(model)
    return cast(PreTrainedModel, model), report["missing_keys"]


def _check_layers_complete(model: str, missing_keys: Iterable[str], *, layer: int) -> None:
    missing = sorted(name for name in missing_keys if "pooler" not in name)
    if missing:
        raise ModelLoadError(
            f"model {model!r} should have all weights of its layers 1 to {layer}, but lacks {len(missing)}: "
            f"{', '.join(missing[:3])}; is the directory complete, and does config.json belong to these weights?"
        )


def check_fits(
    directory: ModelDirectory, *, layer: int, dtype: torch.dtype, device: torch.device
) -> tuple[WeightGroup, ...]:
    """Check that the weights will fit into the device's free memory, without reading them; returns their groups.

    Raises:
        ModelLoadError: if they will not; the message names options that need less.
    """
    options = directory.options
    groups = weights_to_load(directory, layer)
    available = free_memory(device)
    if available is None or getattr(directory.config, "quantization_config", None) is not None:
        return groups
    needed = total_size(groups, dtype, options.quantization)
    if needed > available:
        least = total_size(groups, torch.bfloat16, Quantization.NF4)
        raise ModelUnavailableError(
            f"model {options.model!r} is too large for the device: layers 1 to {layer} need {format_size(needed)} for "
            f"their weights, but {device} has {format_size(available)} left; with --quantization nf4 --dtype "
            f"bfloat16 they need {format_size(least)}; or choose another --model, --device or a lower layer"
        )
    return groups


def weights_to_load(directory: ModelDirectory, layer: int) -> tuple[WeightGroup, ...]:
    """``weight_groups`` of a model.

    Raises:
        ModelLoadError: if transformers cannot make it.
    """
    options = directory.options
    with as_load_errors(options.model):
        return weight_groups(directory.config, layer, trust_remote_code=options.trust_remote_code)


def format_size(size: int) -> str:
    """A readable number of bytes: in units of 10**9, or of 10**6 for less than 10**8 bytes."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and reports of omitted layers inside; afterwards both are as before."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
