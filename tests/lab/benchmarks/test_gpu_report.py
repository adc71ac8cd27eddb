"""The GPU report: its commands exist, and the page says how each one ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.benchmarks import (
    attribution_latency,
    attribution_memory,
    attribution_profile,
    gpu_report,
    model_workers,
)
from lab.benchmarks.gpu_report import PARTS, Part, Target, sizes_for
from lab.benchmarks.random_model import RandomModel

PARSERS = {
    "attribution_latency": attribution_latency._parser,
    "attribution_memory": attribution_memory._parser,
    "attribution_profile": attribution_profile._parser,
    "model_workers": model_workers._parser,
}


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
@pytest.mark.parametrize("model", [None, "an/own-model"])
@pytest.mark.parametrize("part", [name for name in PARTS if name != "tests"])
def test_commands_are_ones_that_the_benchmarks_take(part: str, model: str | None, device: str) -> None:
    commands = PARTS[part].commands(Target(device, model, sizes_for(device)))
    assert commands
    for _, module, *options in commands:
        args = PARSERS[module.rpartition(".")[2]]().parse_args(options)
        assert args.device == device
        assert model is None or args.model == model


def test_page_says_how_each_command_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [["-c", "print('a line')"], ["-c", "raise SystemExit(3)"], ["-c", "import signal; signal.pause()"]]
    monkeypatch.setitem(PARTS, "tests", Part("Tests", lambda _: commands))
    monkeypatch.setattr(sys, "argv", ["gpu_report", "--output", str(tmp_path), "--device", "cpu"])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--parts", "tests", "memory", "--minutes", "0.05"])
    assert gpu_report.main() == 1
    page = (tmp_path / "report.md").read_text()
    for words in ("a line\n```", "FAILED with exit code 3", "stopped, time was up", "not run, time was up"):
        assert words in page


def test_memory_of_a_row_is_measured_beside_the_loaded_model() -> None:
    model = RandomModel("tiny")
    found = attribution_memory.measure_row(model.attributor(), model, 300)
    assert found.peak >= found.before > 2**20
