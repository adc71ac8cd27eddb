"""What the processor can compute in half precision; asking takes no torch on Linux."""

from __future__ import annotations

from pathlib import Path

_DESCRIPTION = Path("/proc/cpuinfo")
_FLAG_LINES = ("flags", "Features")
"""How /proc/cpuinfo names the line of instructions: on x86, and on ARM."""

_PRODUCT_INSTRUCTIONS = {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}
_QUESTIONS_TO_TORCH = {
    "amx_bf16": "_is_amx_tile_supported",
    "avx512_bf16": "_is_avx512_bf16_supported",
    "amx_fp16": "_is_amx_fp16_supported",
}


def half_precision_instructions() -> dict[str, tuple[str, ...]]:
    """The names of the processor's instructions for products of matrices, by dtype; a dtype without any is left out.

    Only those of x86 are known (AMX and AVX-512), so there are none on ARM.
    """
    flags = _processor_flags()
    found = {dtype: tuple(name for name in names if name in flags) for dtype, names in _PRODUCT_INSTRUCTIONS.items()}
    return {dtype: names for dtype, names in found.items() if names}


def _processor_flags() -> frozenset[str]:
    """The instructions that Linux names; elsewhere those that torch finds."""
    try:
        lines = _DESCRIPTION.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in _FLAG_LINES:
            return frozenset(value.split())
    return _flags_of_torch()


def _flags_of_torch() -> frozenset[str]:
    import torch  # heavy, and not needed on Linux

    return frozenset(flag for flag, name in _QUESTIONS_TO_TORCH.items() if getattr(torch.cpu, name, bool)())
