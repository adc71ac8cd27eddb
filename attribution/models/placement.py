"""Where a model runs and in which precision: what the options' names mean on this machine."""

from __future__ import annotations

import torch

from attribution.models.model_directory import ModelDirectory, ModelLoadError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """The device of a name such as "cuda:1"; for "auto" the first GPU, else the CPU.

    Raises:
        ModelLoadError: if there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"device should be 'auto', 'cpu', 'cuda' or 'cuda:1', was: {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelLoadError(f"device {name!r} should be there, but torch finds no CUDA; use --device cpu")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelLoadError(f"device {name!r} should be there, but is not: {error}; use --device cpu") from error
    return device


def choose_dtype(directory: ModelDirectory, device: torch.device) -> torch.dtype | str:
    """The user's dtype, else the model directory's, else float32 on a CPU and the model's own ("auto") elsewhere.

    Raises:
        ModelLoadError: if it is unknown.
    """
    name = directory.options.dtype or directory.defaults.dtype
    if name is None:
        return torch.float32 if device.type == "cpu" else "auto"
    if name not in _DTYPES:
        raise ModelLoadError(f"dtype should be one of {', '.join(_DTYPES)}, was: {name!r}")
    return _DTYPES[name]
