"""The part on memory: on a GPU, rows of all lengths run beside a model that is loaded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from attribeam.lab.benchmarks.attribution_memory import MemoryMeasurement
from attribeam.lab.benchmarks.gpu_report.journal import JournalState
from attribeam.lab.benchmarks.gpu_report.parts import memory
from attribeam.lab.benchmarks.gpu_report.report_plan import plan_for
from attribeam.lab.benchmarks.random_model import RandomModel


def test_each_model_is_loaded_once_for_rows_of_all_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, str]] = []

    def load(model: RandomModel) -> str:
        loaded.append((model.shape, model.quantization))
        return model.shape

    def measure(attributor: Any, model: RandomModel, tokens: int) -> MemoryMeasurement:
        assert attributor == model.shape
        return MemoryMeasurement(tokens, 10, 10 + 2 * tokens)

    monkeypatch.setattr(RandomModel, "attributor", load)
    monkeypatch.setattr(memory, "measure_row", measure)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    steps = memory.steps(plan_for("cuda", model=None, cores=4), JournalState(), tmp_path)
    found = [finding.values for step in steps for finding in step.run()]
    assert loaded == [(name, form) for form in ("none", "nf4") for name in ("qwen2-7b", "qwen2-0.5b")]
    assert [(one["model"], one["tokens"]) for one in found[:5]] == [
        ("qwen2-7b", 1024),
        ("qwen2-7b", 4096),
        ("qwen2-7b", 16_384),
        ("qwen2-7b", 32_768),
        ("qwen2-0.5b", 1024),
    ]
