"""The whole command with all of its parts, as on a GPU, with a tiny model on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attribeam.lab.model_choice.measured_models import Measurements

pytestmark = pytest.mark.whole_report

ROOT = Path(__file__).parents[4]
MINUTES = 60
"""More than it ever takes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    module = "attribeam.lab.benchmarks.gpu_report"
    command = [sys.executable, "-m", module, "--output", str(folder), "--device", "cpu", "--minutes", str(MINUTES)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    log = (folder / "parts.log").read_text(encoding="utf-8", errors="replace")
    assert run.returncode == 0, f"{run.stdout}{run.stderr}{log[-4000:]}"
    return folder


@pytest.fixture(scope="module")
def parts(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The steps of each part."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {part["name"]: part["steps"] for part in report["parts"]}


def values(steps: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    return [finding["values"] for step in steps for finding in step["findings"] if finding["table"] == table]


def test_every_step_of_every_part_ends(parts: dict[str, list[dict[str, Any]]]) -> None:
    assert list(parts) == ["tests", "exactness", "latency", "memory", "audit", "halving", "profile", "sizes"]
    assert {(name, step["status"]) for name, steps in parts.items() for step in steps} == {
        (name, "done") for name in parts
    }


def test_gpu_tests_are_found_and_skipped_without_a_gpu(parts: dict[str, list[dict[str, Any]]]) -> None:
    found = values(parts["tests"], "Tests")
    assert len(found) > 50
    assert {one["why"] for one in found} == {"no CUDA device"}


def test_attention_is_exact_and_missing_kernels_are_said(parts: dict[str, list[dict[str, Any]]]) -> None:
    found = values(parts["exactness"], "Errors of S")
    assert [one["dtype"] for one in found if one.get("is_exact")] == ["float32", "bfloat16", "float16"]
    assert [one["kernel"] for one in found if "missing" in one] == ["flash-attn", "torch-varlen"] * 2


def test_latencies_are_compared_with_the_two_stages_and_with_nf4(parts: dict[str, list[dict[str, Any]]]) -> None:
    times = values(parts["latency"], "Times")
    assert {one["weights"]["quantization"] for one in times} == {"none", "nf4"}
    assert all(one["measured"]["seconds"] > 0 for one in times)
    ratios = values(parts["latency"], "AttnUnion against two stages")
    assert {(one["weights"], one["mode"], one["other"]) for one in ratios} == {
        (weights, mode, other)
        for weights in ("float32", "nf4")
        for mode in ("single", "batches")
        for other in ("two_stage", "two_stage_headless")
    }
    assert len(values(parts["latency"], "NF4 against full precision")) == 6


def test_memory_idle_share_and_halving_are_measured(parts: dict[str, list[dict[str, Any]]]) -> None:
    memory = values(parts["memory"], "Memory")
    assert [(one["weights"], one["tokens"]) for one in memory] == [(weights, 1024) for weights in ("float32", "nf4")]
    assert all(one["peak"] >= one["before"] > 0 for one in memory)
    (audit,) = values(parts["audit"], "Idle share")
    assert 0 <= audit["waiting_percent"] <= 100
    whole, mixed = values(parts["halving"], "Too little memory")
    assert whole["passes"] > 2
    assert (whole["faults"], mixed["faults"]) == (0, 1)
    assert max(whole["difference"], mixed["difference"]) < 1e-3


def test_profile_is_that_of_the_slowest_step(parts: dict[str, list[dict[str, Any]]]) -> None:
    (profiled,) = values(parts["profile"], "What is profiled")
    shares = {
        (one["weights"]["quantization"], one["measured"]["mode"], one["measured"]["shape"]): one["measured"][
            "operations"
        ]
        / one["measured"]["seconds"]
        / one["peak"]
        for one in values(parts["latency"], "Times")
        if one["measured"]["method"] == "attn_union"
    }
    assert (profiled["weights"]["quantization"], profiled["mode"], profiled["shape"]) == min(
        shares, key=shares.__getitem__
    )
    stages = [one["stage"] for one in values(parts["profile"], "Stages of one audit process")]
    assert stages == ["read", "parse", "spans", "encode", "attention", "evidence", "write", "all"]


def test_sizes_are_written_as_the_suggestion_reads_them(folder: Path) -> None:
    found = Measurements.from_file(folder / "measured_models.json").models
    assert [(one.size, one.quantization, one.device) for one in found] == [
        ("tiny", "nf4", "cpu"),
        ("tiny", "none", "cpu"),
    ]


def test_page_states_the_machine_and_every_part(folder: Path) -> None:
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert "Measured on a CPU" in page
    for words in ("| processor |", "| torch |", "| flash-attn |", "| attribeam | commit", "## 7. Profile"):
        assert words in page
    assert "not measured" not in page
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "measured_models.json",
        "parts.log",
        "report.json",
        "report.md",
        "steps.jsonl",
    ]
