"""NF4 and LLM.int8 weights through bitsandbytes, made while a model is read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TypedDict

import torch
from transformers import BitsAndBytesConfig, PreTrainedConfig

from attribution.models.model_errors import ModelLoadError
from attribution.models.model_options import Quantization

_PACKAGES = ("bitsandbytes", "accelerate")


class Placement(TypedDict, total=False):
    """Arguments of ``from_pretrained``."""

    quantization_config: BitsAndBytesConfig
    device_map: dict[str, torch.device]


def quantization_config(
    quantization: Quantization, config: PreTrainedConfig, dtype: torch.dtype, *, but: Sequence[str] = ()
) -> BitsAndBytesConfig | None:
    """What transformers is told: matrices of linear layers are quantised, everything else stays in ``dtype``.

    So do the modules named ``but``.

    NF4 in blocks of 64 weights whose scales are quantised themselves (double quantisation); products run in
    ``dtype``. LLM.int8 with its threshold of 6: columns with greater activations are multiplied in float16, and
    which those are is decided for a whole batch. None for no quantisation.

    Raises:
        ModelLoadError: if a package is missing, or the model is quantised already.
    """
    if quantization is Quantization.NONE:
        return None
    already = getattr(config, "quantization_config", None)
    if already is not None:
        raise ModelLoadError(
            f"--quantization {quantization} needs a model with unquantised weights, this one's config.json has a "
            "quantization_config; leave --quantization out, or choose the unquantised model"
        )
    _require_packages(quantization)
    if quantization is Quantization.INT8:
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=[*but])  # type: ignore[no-untyped-call]
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=[*but],
    )


def placement(quantised: BitsAndBytesConfig | None, device: torch.device) -> Placement:
    """The arguments of ``from_pretrained`` for that; quantised weights are made on ``device`` at once."""
    return {} if quantised is None else {"quantization_config": quantised, "device_map": {"": device}}


def quantization_provenance(quantization: Quantization) -> dict[str, str]:
    """The quantisation, and the version of the library where there is one, for file metadata and the manifest."""
    if quantization is Quantization.NONE:
        return {"quantization": str(quantization)}
    return {"quantization": str(quantization), "bitsandbytes_version": version("bitsandbytes")}


def _require_packages(quantization: Quantization) -> None:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ModelLoadError(
            f"--quantization {quantization} needs {' and '.join(missing)}, not installed here; install it with "
            "pip install 'attribeam[quantization]'"
        )
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of every product that it casts to float16
