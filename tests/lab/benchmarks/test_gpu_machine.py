"""The description of a machine: a GPU's driver is that of the GPU which is measured."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
import torch

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


def test_a_gpu_is_described_with_its_driver_and_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(total_memory=80 * 10**9, major=9, minor=0, multi_processor_count=132, uuid="bbbb")
    monkeypatch.setattr(gpu_machine, "choose_device", torch.device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (79 * 10**9, 80 * 10**9))
    monkeypatch.setattr(gpu_machine, "varlen_kernels", lambda *_: ("flash-attn", "torch-varlen"))
    monkeypatch.setattr(gpu_machine, "_commit", lambda: "abc")
    answer(monkeypatch, TWO_GPUS)
    found = describe_machine("cuda:1")
    assert found["device"] == "NVIDIA H100"
    assert found["memory"] == "80.00 GB"
    assert found["compute capability"] == "9.0, 132 processors"
    assert found["driver"] == "580.2"
    assert found["kernels for rows of variable length"] == "flash-attn, torch-varlen"
    assert describe_load("cuda")["free memory of the GPU"] == "79.00 GB"
