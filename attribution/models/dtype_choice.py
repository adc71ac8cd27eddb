"""A model's device and precision, and what ``--dtype auto`` chooses on a CPU.

That is the half precision of the weights, where products are faster in it. ``Attributor.from_pretrained`` asks before
it loads the model. An audit asks once, before it starts its workers, which are told the result. Loading itself never
measures anything, so no two processes of a run can disagree.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass

import torch

from attribeam.attribution.models.model_directory import ModelDirectory, read_light_directory
from attribeam.attribution.models.processor import half_precision_instructions
from attribeam.attribution.models.quantization import stored_quantization
from attribeam.attribution.option_declaration import AUTO_DTYPE
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.schemas.errors import ModelLoadError, UsageError

_TORCH_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """The device for a name such as "cuda:1"; "auto" is the first GPU, else the CPU.

    Raises:
        UsageError: if the name stands for several devices.
        ModelLoadError: if there is no such device.
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
    name = next((one for one in asked if one != AUTO_DTYPE), AUTO_DTYPE)
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

_ROWS, _WIDTH = 512, 1024
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    """The chosen dtype by name, and why."""

    dtype: str
    reason: str


def choose_half_precision(options: ModelOptions) -> DtypeChoice | None:
    """Half precision or float32 for a model that is stored in half precision and runs on the CPU.

    None if nothing is to be chosen: the dtype is given by the user or the model's directory, the device is a GPU, the
    weights are stored otherwise or quantised, or the processor has no instructions for products in half precision.

    Raises:
        ModelLoadError: if there is no such model or device.
    """
    asked = options.dtype != AUTO_DTYPE or options.quantization is not Quantization.NONE
    if asked or not half_precision_instructions():
        return None
    directory = read_light_directory(options)
    given = directory.defaults.model.dtype != AUTO_DTYPE or stored_quantization(directory.config) is not None
    if given or choose_device(options.device).type != "cpu":
        return None
    stored = resolve_dtype(directory, "auto")
    return None if stored == torch.float32 else _choose(stored)


def _choose(stored: torch.dtype) -> DtypeChoice:
    name = str(stored).removeprefix("torch.")
    instructions = half_precision_instructions().get(name, ())
    if not instructions:
        return DtypeChoice("float32", f"this processor has no instructions for products in {name}, as stored")
    named = " and ".join(instructions)
    if not is_faster(stored):
        return DtypeChoice(
            "float32", f"products in {name}, as stored, are not {_FASTER} times as fast here, in spite of {named}"
        )
    return DtypeChoice(
        name, f"the weights are stored so, and products are {_FASTER} times as fast here or more ({named})"
    )


def is_faster(dtype: torch.dtype) -> bool:
    """Whether products of matrices take less than two thirds of the time in ``dtype`` that they take in float32.

    The two take turns, and the best time of each counts, so that another program seldom matters.
    """
    matrices = {one: _matrices(one) for one in (torch.float32, dtype)}
    rounds = [{one: _seconds(*pair) for one, pair in matrices.items()} for _ in range(_ROUNDS)]
    best = {one: min(seconds[one] for seconds in rounds) for one in matrices}
    return best[torch.float32] > _FASTER * best[dtype]


def _matrices(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(_ROWS, _WIDTH, dtype=dtype), torch.ones(_WIDTH, _WIDTH, dtype=dtype)


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
