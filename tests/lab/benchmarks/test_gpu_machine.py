"""The description of a machine: a GPU's driver is that of the GPU which is measured."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from attribeam.lab.benchmarks import gpu_machine
from attribeam.lab.benchmarks.gpu_machine import describe_load, describe_machine
from attribeam.schemas.errors import ModelLoadError

TWO_GPUS = "GPU-aaaa, 580.1, [N/A], 700.00 W, 1980 MHz\nGPU-bbbb, 580.2, Enabled, 350.00 W, 1755 MHz\n"


def answer(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, output)

    monkeypatch.setattr(gpu_machine.subprocess, "run", run)


def test_a_cpu_is_described_with_its_versions() -> None:
    found = describe_machine("cpu")
    assert found["device"] == "cpu"
    assert {"processor", "torch", "transformers", "flash-attn", "bitsandbytes", "attribeam"} <= set(found)
    assert set(describe_load("cpu")) == {"load of the processors"}


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_machine.torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelLoadError, match="torch finds no CUDA"):
        describe_machine("cuda")


def test_driver_is_that_of_the_gpu_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, TWO_GPUS)
    assert gpu_machine._driver("bbbb") == {
        "driver": "580.2",
        "MIG": "Enabled",
        "power limit": "350.00 W",
        "highest clock": "1755 MHz",
    }
    assert gpu_machine._driver("MIG-cccc")["driver"] == "580.1"


def test_driver_that_nobody_tells_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "\n")
    assert "unknown" in gpu_machine._driver("aaaa")["driver"]
    monkeypatch.undo()

    def fail(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(gpu_machine.subprocess, "run", fail)
    assert "unknown" in gpu_machine._driver("aaaa")["driver"]
