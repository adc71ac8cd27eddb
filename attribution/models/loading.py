"""What loaders share: what is costly is loaded once, errors of libraries, and what the processor computes fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import ParamSpec, TypeVar

from attribeam.schemas import RowFault
from attribeam.schemas.errors import AttribeamError, DataError, ModelLoadError, ModelUnavailableError

CAPTURE_IMPLEMENTATION = "attribeam_capture"
"""The name of the attention that is captured, among those that transformers can be told to use."""
_LONGEST_FAULT = 500
_OUT_OF_MEMORY_MESSAGES = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""Of torch's CPU allocator, and of CUDA where something other than torch's GPU allocator asked for the memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """True for the out-of-memory errors of Python, of CUDA and its libraries, and of torch's CPU allocator."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY_MESSAGES)


@contextmanager
def as_load_errors(model: str) -> Iterator[None]:
    """Turn whatever a missing, broken or hostile model makes libraries raise into ``ModelLoadError``."""
    try:
        yield
    except DataError as error:
        raise ModelLoadError(f"model {model!r}: {error}") from error
    except AttribeamError:
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime":  # a library in Rust gave up
            kind = ModelUnavailableError if is_out_of_memory(error) else ModelLoadError
            raise kind(f"model {model!r} {_explained(error)}") from error
        raise


def _explained(error: BaseException) -> str:
    if isinstance(error, KeyError):
        if error.args == (CAPTURE_IMPLEMENTATION,):
            return "should go through transformers' attention interface, but its code does not; choose another model"
        return (
            f"should have a config.json and a tokenizer.json that transformers {version('transformers')} knows, "
            f"{error} is missing or unknown; fetch them again"
        )
    if isinstance(error, RowFault):
        return f"cannot take a sample row: {error}; do tokenizer.json and config.json belong to one model?"
    if "ignore_mismatched_sizes" in str(error):
        return (
            "should have weights of the shapes that its config.json says, has others; are both of one model? fetch "
            "them again"
        )
    if is_out_of_memory(error):
        return (
            "does not fit into the free memory of its device; try --quantization nf4, which needs the least, or choose "
            "another --model, --device or --dtype"
        )
    kind = "" if isinstance(error, OSError | ValueError | ImportError) else f"{type(error).__name__}: "
    fault = " ".join(str(error).split())[:_LONGEST_FAULT]
    return (
        f"could not be loaded: {kind}{fault} (--model should be 'bundled', a hub id or a directory with config.json, "
        "tokenizer.json and safetensors weights)"
    )


_P = ParamSpec("_P")
_T = TypeVar("_T")


def loaded_once(load: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a loader so that its last result stays loaded for the next call with the same, hashable arguments.

    Threads wait for the one that loads; ``lru_cache`` alone would let each load its own. One that raises is called
    again.
    """
    keep, lock = lru_cache(maxsize=1)(load), RLock()

    @wraps(load)
    def load_or_wait(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with lock:
            return keep(*args, **kwargs)  # type: ignore[arg-type]

    return load_or_wait


_PROCESSOR = Path("/proc/cpuinfo")
_FLAG_LINES = ("flags", "Features")
"""How /proc/cpuinfo names the line of instructions: on x86, and on ARM."""
_PRODUCT_INSTRUCTIONS = {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}
_QUESTIONS_TO_TORCH = {
    "amx_bf16": "_is_amx_tile_supported",
    "avx512_bf16": "_is_avx512_bf16_supported",
    "amx_fp16": "_is_amx_fp16_supported",
}


def half_precision_instructions() -> dict[str, tuple[str, ...]]:
    """Instructions for products of matrices, by dtype; only those of x86 are known. On Linux no torch is needed."""
    flags = _processor_flags()
    known = {dtype: tuple(name for name in names if name in flags) for dtype, names in _PRODUCT_INSTRUCTIONS.items()}
    return {dtype: names for dtype, names in known.items() if names}


def _processor_flags() -> frozenset[str]:
    """The instructions that Linux names; elsewhere those that torch finds."""
    try:
        lines = _PROCESSOR.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in _FLAG_LINES:
            return frozenset(value.split())
    import torch  # heavy, and not needed on Linux

    return frozenset(flag for flag, name in _QUESTIONS_TO_TORCH.items() if getattr(torch.cpu, name, bool)())
