"""NF4 and LLM.int8 quantisation with bitsandbytes, applied while a model is loaded."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypedDict

import torch

from attribeam.attribution.options import Quantization
from attribeam.schemas.errors import ModelLoadError

if TYPE_CHECKING:
    from transformers import BitsAndBytesConfig, PreTrainedConfig

_BITSANDBYTES = "bitsandbytes"
_PACKAGES = (_BITSANDBYTES, "accelerate")


class LoadingArguments(TypedDict, total=False):
    """Arguments of ``from_pretrained``."""

    quantization_config: BitsAndBytesConfig
    device_map: dict[str, torch.device]


def quantization_config(
    quantization: Quantization, config: PreTrainedConfig, dtype: torch.dtype, *, but: Sequence[str] = ()
) -> BitsAndBytesConfig | None:
    """The configuration for transformers: quantise the matrices of linear layers, and keep the rest in ``dtype``.

    The modules named in ``but`` stay in ``dtype``, too. None means no quantisation.

    NF4 uses blocks of 64 weights with quantised scales (double quantisation), and products run in ``dtype``. LLM.int8
    uses its threshold of 6 on a GPU: columns with greater activations are multiplied in float16, and those columns are
    chosen for a whole batch.

    Raises:
        ModelLoadError: if a package is missing, or the model is already quantised.
    """
    if quantization is Quantization.NONE:
        return None
    from transformers import BitsAndBytesConfig

    _require_unquantised(quantization, config)
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


def loading_arguments(quantised: BitsAndBytesConfig | None, device: torch.device) -> LoadingArguments:
    """The matching arguments of ``from_pretrained``; quantised weights are created directly on ``device``."""
    return {} if quantised is None else {"quantization_config": quantised, "device_map": {"": device}}


def quantization_provenance(quantization: Quantization, config: PreTrainedConfig) -> dict[str, str]:
    """``quantization_name`` for metadata and manifest, with bitsandbytes' version if it reads the weights."""
    name = quantization_name(quantization, config)
    read_by_bitsandbytes = quantization is not Quantization.NONE or _BITSANDBYTES in name
    return {"quantization": name, **({"bitsandbytes_version": version(_BITSANDBYTES)} if read_by_bitsandbytes else {})}


def quantization_name(quantization: Quantization, config: PreTrainedConfig) -> str:
    """The requested quantisation, or "stored: " and the one in which the weights are stored."""
    stored = stored_quantization(config)
    return str(quantization) if stored is None else f"stored: {stored}"


def stored_quantization(config: PreTrainedConfig) -> str | None:
    """The quantisation of the stored weights, such as "bitsandbytes nf4", "gptq 4 bits" or "fp8"; None for none."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return None
    entries = found if isinstance(found, Mapping) else found.to_dict()
    method = entries.get("quant_method")
    method = str(getattr(method, "value", method) or "method not named")
    if entries.get("load_in_4bit"):
        return f"{method} {entries.get('bnb_4bit_quant_type', 'fp4')}"
    if entries.get("load_in_8bit"):
        return f"{method} {Quantization.INT8}"
    return f"{method} {entries['bits']} bits" if isinstance(entries.get("bits"), int) else method


def _require_unquantised(quantization: Quantization, config: PreTrainedConfig) -> None:
    stored = stored_quantization(config)
    if stored is not None:
        raise ModelLoadError(
            f"--quantization {quantization} needs a model with unquantised weights, but these are stored as {stored} "
            "(quantization_config of its config.json); leave --quantization out, or choose the unquantised model"
        )


def _require_packages(quantization: Quantization) -> None:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ModelLoadError(
            f"--quantization {quantization} needs {' and '.join(missing)}, not installed here; install it with "
            "pip install 'attribeam[quantization]'"
        )
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns about every product that it casts to float16
