"""Reading the weights of layers 1 to L* onto a device, quantised on the way if that is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from transformers import AutoModel, PreTrainedModel

from attribution.attention.attention_capture import IMPLEMENTATION
from attribution.models.free_memory import free_memory
from attribution.models.model_directory import ModelDirectory
from attribution.models.model_errors import ModelLoadError, errors_named, quiet_transformers
from attribution.models.model_options import Quantization
from attribution.models.quantization import Placement, keep_weights_as_loaded, placement, quantization_config
from attribution.models.text_model import nested_names, text_model_config
from attribution.models.weight_files import weights_folder
from attribution.models.weight_memory import total_size, weight_groups


def load_weights(
    directory: ModelDirectory, *, layer: int, dtype: torch.dtype | str, device: torch.device
) -> PreTrainedModel:
    """Layers 1 to ``layer`` of the text model (no language-model head), in evaluation mode on ``device``.

    Tensors of other layers are not read from the files, and files with no others need not be there.

    Raises:
        ModelLoadError: if the weights do not fit into what the device has left, or are missing, damaged, incomplete
            or not in safetensors files, or cannot be quantised as asked.
    """
    settled = settled_dtype(directory, dtype)
    quantised = quantization_config(directory.options.quantization, directory.config, settled)
    check_fits(directory, layer=layer, dtype=settled, device=device)
    model, missing = _read(directory, layer, dtype, device, placement(quantised, device))
    _check_complete(directory.options.model, missing, layer=layer)
    return model


def _read(
    directory: ModelDirectory, layer: int, dtype: torch.dtype | str, device: torch.device, placed: Placement
) -> tuple[PreTrainedModel, Iterable[str]]:
    """The model on ``device``, and the names of the weights that its files lack."""
    options, config = directory.options, text_model_config(directory.config, layer)
    with weights_folder(directory, layer=layer) as folder, errors_named(options.model), quiet_transformers():
        model, report = AutoModel.from_pretrained(
            str(folder),
            config=config,
            key_mapping=nested_names(directory.config, config),
            trust_remote_code=options.trust_remote_code,
            use_safetensors=True,
            dtype=dtype,
            attn_implementation=IMPLEMENTATION,
            output_loading_info=True,
            **placed,
        )
        model.eval().requires_grad_(False)
        if not placed:
            model.to(device)
    keep_weights_as_loaded(model)
    return cast(PreTrainedModel, model), report["missing_keys"]


def _check_complete(model: str, missing_keys: Iterable[str], *, layer: int) -> None:
    missing = sorted(name for name in missing_keys if "pooler" not in name)
    if missing:
        raise ModelLoadError(
            f"model {model!r} should have all weights of its layers 1 to {layer}, lacks {len(missing)}: "
            f"{', '.join(missing[:3])}; is the directory complete, and is config.json that of these weights?"
        )


def settled_dtype(directory: ModelDirectory, dtype: torch.dtype | str) -> torch.dtype:
    """The dtype that "auto" comes to: what config.json says, for the text model or the whole, else float32."""
    if isinstance(dtype, torch.dtype):
        return dtype
    named = getattr(directory.config.get_text_config(), "dtype", None) or getattr(directory.config, "dtype", None)
    return named if isinstance(named, torch.dtype) else torch.float32


def check_fits(directory: ModelDirectory, *, layer: int, dtype: torch.dtype, device: torch.device) -> None:
    """Compare what the weights will need with what the device has left; reads none of them.

    Raises:
        ModelLoadError: if that is too little; the message says for which options it would be enough.
    """
    options = directory.options
    available = free_memory(device)
    if available is None or getattr(directory.config, "quantization_config", None) is not None:
        return
    with errors_named(options.model):
        groups = weight_groups(directory.config, layer, trust_remote_code=options.trust_remote_code)
    needed = total_size(groups, dtype, options.quantization)
    if needed > available:
        least = total_size(groups, torch.bfloat16, Quantization.NF4)
        raise ModelLoadError(
            f"model {options.model!r} is too large for the device: layers 1 to {layer} need {size_text(needed)} for "
            f"their weights, {device} has {size_text(available)} left; with --quantization nf4 --dtype bfloat16 they "
            f"need {size_text(least)}; or choose another --model, --device or a lower --layer"
        )


def size_text(size: int) -> str:
    """A number of bytes as people read it, in units of 10**9, or of 10**6 below a tenth of that."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
