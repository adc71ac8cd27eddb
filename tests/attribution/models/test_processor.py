"""Which products in half precision a processor has, from what the system says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from attribeam.attribution.models import processor
from attribeam.attribution.models.processor import half_precision_instructions

XEON = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu sse avx2 avx512f avx512_bf16 amx_bf16 amx_tile\n"
EPYC = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse avx2 fma\nbugs\t\t: avx512_bf16\n"
GRANITE = "flags\t: avx512_fp16 amx_bf16 amx_fp16 amx_tile avx512_bf16\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd bf16 asimdhp i8mm\n"


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (XEON, {"bfloat16": ("amx_bf16", "avx512_bf16")}),
        (GRANITE, {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}),
        (EPYC, {}),
        (ARM, {}),
    ],
    ids=["amx", "amx with float16", "avx2", "arm"],
)
def test_instructions_are_those_of_the_line_of_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, description: str, expected: dict[str, tuple[str, ...]]
) -> None:
    (tmp_path / "cpuinfo").write_text(description, encoding="utf-8")
    monkeypatch.setattr(processor, "_DESCRIPTION", tmp_path / "cpuinfo")
    assert half_precision_instructions() == expected


@pytest.mark.parametrize("description", [None, "processor\t: 0\n"], ids=["no file", "no flags"])
def test_torch_is_asked_where_the_system_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, description: str | None
) -> None:
    if description is not None:
        (tmp_path / "cpuinfo").write_text(description, encoding="utf-8")
    monkeypatch.setattr(processor, "_DESCRIPTION", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.delattr(torch.cpu, "_is_amx_fp16_supported")
    assert half_precision_instructions() == {"bfloat16": ("avx512_bf16",)}
