"""Loading a causal language model whole, with its language-model head, and refusing what is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedModel

from attribution.models.model_directory import ModelDirectory
from attribution.models.model_errors import ModelLoadError, errors_named, quiet_transformers
from attribution.models.quantization import keep_weights_as_loaded, placement, quantization_config
from attribution.models.weight_files import weights_folder
from attribution.models.weight_loading import settled_dtype


class NotCausalError(ModelLoadError):
    """The model predicts no next token: it is an encoder, or has no language-model head.

    The message is what is wrong, then the way out.
    """

    def __init__(self, fault: str) -> None:
        super().__init__(f"{fault}; name one with --language-model")


def load_causal_weights(
    directory: ModelDirectory, *, dtype: torch.dtype | str, device: torch.device
) -> PreTrainedModel:
    """All layers and the language-model head, in evaluation mode on ``device``; quantised, but for the head, where the
    options say so.

    Raises:
        NotCausalError: if the model is no causal language model, or comes without its head.
        ModelLoadError: if the weights are missing, damaged, incomplete or not in safetensors files.
    """
    options = directory.options
    _check_causal(directory)
    settled = settled_dtype(directory, dtype)
    quantised = quantization_config(options.quantization, directory.config, settled, but=["lm_head"])
    with weights_folder(directory) as folder, errors_named(options.model), quiet_transformers():
        loaded = AutoModelForCausalLM.from_pretrained(
            str(folder),
            config=directory.config,
            trust_remote_code=options.trust_remote_code,
            use_safetensors=True,
            dtype=dtype,
            output_loading_info=True,
            **placement(quantised, device),
        )
        model, report = cast(tuple[Any, Mapping[str, set[str]]], loaded)
        model.eval().requires_grad_(False)
        if quantised is None:
            model.to(device)
    keep_weights_as_loaded(model)
    _check_complete(options.model, report)
    return cast(PreTrainedModel, model)


def _check_causal(directory: ModelDirectory) -> None:
    if not _has_causal_class(directory):
        raise NotCausalError(
            f"model {directory.options.model!r} should be a causal language model, is an encoder "
            f"({directory.config.model_type})"
        )


def _check_complete(name: str, report: Mapping[str, set[str]]) -> None:
    missing = sorted(report["missing_keys"])
    if missing:
        raise NotCausalError(
            f"model {name!r} should have all weights of a causal language model, lacks {len(missing)}: "
            f"{', '.join(missing[:3])}"
        )


def _has_causal_class(directory: ModelDirectory) -> bool:
    """Whether transformers, or the model's own code, has a causal language model of this kind."""
    own = getattr(directory.config, "auto_map", None) or {}
    return type(directory.config) in MODEL_FOR_CAUSAL_LM_MAPPING or "AutoModelForCausalLM" in own
