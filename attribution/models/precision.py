"""A model's device, precision and quantisation, and what ``--dtype auto`` chooses on a CPU.

That is asked for once, before models are loaded; loading never measures, so no two processes of a run can disagree.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from attribeam.attribution.models import half_precision_instructions
from attribeam.attribution.models.model_directory import ModelDirectory, read_light_directory
from attribeam.attribution.option_declaration import AUTO_DTYPE
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.schemas.errors import ModelLoadError, UsageError

if TYPE_CHECKING:
    from transformers import BitsAndBytesConfig, PreTrainedConfig

_BITSANDBYTES = "bitsandbytes"


def quantization_config(
    quantization: Quantization, config: PreTrainedConfig, dtype: torch.dtype, *, but: Sequence[str] = ()
) -> BitsAndBytesConfig | None:
    """The configuration for transformers: quantise the matrices of linear layers, and keep the rest in ``dtype``.

    The modules named in ``but`` stay in ``dtype``, too. None means no quantisation. NF4 has blocks of 64 weights with
    quantised scales, and products in ``dtype``. LLM.int8 has its threshold of 6: columns with greater activations are
    multiplied in float16, and are chosen for a whole batch. Raises ``ModelLoadError`` if a package is missing, or the
    model is already quantised.
    """
    if quantization is Quantization.NONE:
        return None
    from transformers import BitsAndBytesConfig

    stored = stored_quantization(config)
    if stored is not None:
        raise ModelLoadError(
            f"--quantization {quantization} needs a model with unquantised weights, but these are stored as {stored} "
            "(quantization_config of its config.json); leave --quantization out, or choose the unquantised model"
        )
    missing = [name for name in (_BITSANDBYTES, "accelerate") if find_spec(name) is None]
    if missing:
        raise ModelLoadError(
            f"--quantization {quantization} needs {' and '.join(missing)}, not installed here; install it with "
            "pip install 'attribeam[quantization]'"
        )
    logging.getLogger(_BITSANDBYTES).setLevel(logging.ERROR)  # it warns about every product that it casts to float16
    if quantization is Quantization.INT8:
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=[*but])  # type: ignore[no-untyped-call]
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=[*but],
    )


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
    stored = getattr(config, "quantization_config", None)
    if stored is None:
        return None
    entries = stored if isinstance(stored, Mapping) else stored.to_dict()
    method = entries.get("quant_method")
    method = str(getattr(method, "value", method) or "method not named")
    if entries.get("load_in_4bit"):
        return f"{method} {entries.get('bnb_4bit_quant_type', 'fp4')}"
    if entries.get("load_in_8bit"):
        return f"{method} {Quantization.INT8}"
    return f"{method} {entries['bits']} bits" if isinstance(entries.get("bits"), int) else method


_REPACKS = "support_avx512bf16_for_cpu"
"""The layer attribute that lets its first forward pass on the CPU repack the weights for a bfloat16 kernel."""


def keep_weights_as_loaded(network: torch.nn.Module) -> None:
    """Make every 4-bit layer compute with the weights as loaded, on every processor.

    With AVX512-BF16, bitsandbytes would repack them in the first pass on the CPU, with scales rounded to bfloat16, and
    compute float32 and float16 in bfloat16, too. With AVX-512, it uses wrong scales for most weights of a matrix whose
    rows are not whole blocks, if its columns are a multiple of 16; such a matrix is read as a single row, which avoids
    that. Raises ``ModelLoadError`` if this version of bitsandbytes has no switch for repacking.
    """
    if sys.modules.get(_BITSANDBYTES) is None:
        return
    from bitsandbytes.nn import Linear4bit  # an extra

    for layer in network.modules():
        if not isinstance(layer, Linear4bit):
            continue
        if not hasattr(layer, _REPACKS):
            raise ModelLoadError(
                f"bitsandbytes {version(_BITSANDBYTES)} may repack 4-bit weights to suit the processor and cannot be "
                "stopped; install the version that pip install 'attribeam[quantization]' takes"
            )
        setattr(layer, _REPACKS, False)
        if layer.weight.device.type == "cpu":
            state, shape = layer.weight.quant_state, (layer.out_features, layer.in_features)
            if tuple(state.shape) == shape and layer.in_features % state.blocksize != 0:
                layer.forward = partial(_product, layer)


def _product(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """The layer's own forward pass, with its weights read as a single row."""
    from bitsandbytes.functional import dequantize_4bit  # an extra

    state = layer.weight.quant_state
    dtype = layer.compute_dtype or states.dtype
    in_one_row = copy(state)
    in_one_row.shape, in_one_row.dtype = torch.Size((1, state.shape.numel())), dtype
    weight = dequantize_4bit(layer.weight.data.view(-1, 1), in_one_row).view(state.shape)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    return torch.nn.functional.linear(states.to(dtype), weight, bias).to(states.dtype)


_TORCH_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """The device for a name such as "cuda:1"; "auto" is the first GPU, else the CPU.

    Raises ``UsageError`` if the name stands for several devices; ``ModelLoadError`` if there is no such device.
    """
    if name == "all" or "," in name:
        raise UsageError(f"device should be a single one, was: {name!r}; only attribeam audit takes several")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(
            f"device should be 'auto', 'cpu', 'cuda' or 'cuda:1', or one of a plug-in of torch that is installed, was: "
            f"{name!r}"
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelLoadError(f"device {name!r} should exist, but torch finds no CUDA; use --device cpu")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # a device of a plug-in that is missing, too
        reason = str(error).partition("\n")[0]  # CUDA's advice to programmers follows
        raise ModelLoadError(f"device {name!r} should be usable, but is not: {reason}; use --device cpu") from error
    return device


def choose_dtype(directory: ModelDirectory, device: torch.device) -> torch.dtype | str:
    """The user's dtype, else the model directory's, else float32 on a CPU and the model's own ("auto") elsewhere.

    Nothing is measured here: where a CPU is faster in half precision, ``choose_half_precision`` has said so before.
    """
    asked = (directory.options.dtype, directory.defaults.model.dtype)
    name = next((choice for choice in asked if choice != AUTO_DTYPE), AUTO_DTYPE)
    if name == AUTO_DTYPE:
        return torch.float32 if device.type == "cpu" else "auto"
    return _TORCH_DTYPES[name]


def resolve_dtype(directory: ModelDirectory, dtype: torch.dtype | str) -> torch.dtype:
    """The dtype that "auto" stands for: config.json's, for the text model or the whole model, else float32."""
    if isinstance(dtype, torch.dtype):
        return dtype
    named = getattr(directory.config.get_text_config(), "dtype", None) or getattr(directory.config, "dtype", None)
    named = _TORCH_DTYPES.get(str(named), named)
    return named if isinstance(named, torch.dtype) else torch.float32


_FASTER = 1.5
"""How many times as fast as in float32 products must be; less is not worth the lost digits."""
_ROWS, _WIDTH, _ROUNDS = 512, 1024, 5


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    """The chosen dtype by name, and why."""

    dtype: str
    reason: str


def choose_half_precision(options: ModelOptions) -> DtypeChoice | None:
    """Half precision or float32 for a model that is stored in half precision and runs on the CPU.

    None if nothing is to be chosen: the dtype is given by the user or the model's directory, the device is a GPU, the
    weights are stored otherwise or quantised, or the processor has no instructions for products in half precision.
    """
    available = half_precision_instructions()
    if options.dtype != AUTO_DTYPE or options.quantization is not Quantization.NONE or not available:
        return None
    directory = read_light_directory(options)
    given = directory.defaults.model.dtype != AUTO_DTYPE or stored_quantization(directory.config) is not None
    if given or choose_device(options.device).type != "cpu":
        return None
    stored = resolve_dtype(directory, "auto")
    if stored == torch.float32:
        return None
    name = str(stored).removeprefix("torch.")
    if name not in available:
        return DtypeChoice("float32", f"this processor has no instructions for products in {name}, as stored")
    named = " and ".join(available[name])
    if is_faster(stored):
        return DtypeChoice(
            name, f"the weights are stored so, and products are {_FASTER} times as fast here or more ({named})"
        )
    return DtypeChoice(
        "float32", f"products in {name}, as stored, are not {_FASTER} times as fast here, in spite of {named}"
    )


def is_faster(dtype: torch.dtype) -> bool:
    """Whether products of matrices take less than two thirds of the time in ``dtype`` that they take in float32.

    The two take turns, and the best time of each counts, so that another program seldom matters.
    """
    matrices = {
        kind: (torch.ones(_ROWS, _WIDTH, dtype=kind), torch.ones(_WIDTH, _WIDTH, dtype=kind))
        for kind in (torch.float32, dtype)
    }
    rounds = [{kind: _seconds(*pair) for kind, pair in matrices.items()} for _ in range(_ROUNDS)]
    best = {kind: min(seconds[kind] for seconds in rounds) for kind in matrices}
    return best[torch.float32] > _FASTER * best[dtype]


def _seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    start = time.perf_counter()
    left @ right
    return time.perf_counter() - start


def main() -> None:
    """Read options as JSON from standard input, and print the choice as JSON: its two texts, or null."""
    choice = choose_half_precision(ModelOptions(**json.load(sys.stdin)))
    print(json.dumps(None if choice is None else asdict(choice)))


if __name__ == "__main__":
    main()
