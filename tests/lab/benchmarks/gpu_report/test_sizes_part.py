"""The part on sizes of models: its figures become a file that ``attribeam models suggest`` can read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attribeam.lab.benchmarks import model_size_measurement
from attribeam.lab.benchmarks.gpu_report.journal import Journal, Status
from attribeam.lab.benchmarks.gpu_report.part import PARTS, LeftOutError
from attribeam.lab.benchmarks.gpu_report.parts import sizes
from attribeam.lab.benchmarks.gpu_report.report_page import SIZES, write_report
from attribeam.lab.benchmarks.gpu_report.report_plan import plan_for
from attribeam.lab.model_choice.measured_models import Measurements
from attribeam.lab.model_choice.suggestion import SIZE_CLASSES

PLAN = plan_for("cpu", model=None, cores=1)
ABOUT = {"command": "the command", "state": "finished", "time": "now", "at_start": {}}


def test_each_step_that_has_ended_is_in_the_file_of_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_size_measurement, "_MOST_ROWS", 1)
    journal = Journal(tmp_path / "steps.jsonl")
    journal.begin({"machine": {"device": "cpu"}, "sizes": PLAN.as_values()})
    steps = sizes.steps(PLAN, journal.read(), tmp_path)
    assert [step.name for step in steps] == ["tiny float32", "tiny nf4"]
    journal.add_steps("sizes", [step.name for step in steps])
    write_report(tmp_path, PARTS, journal.read(), ABOUT)
    assert not (tmp_path / SIZES).exists()

    journal.add_outcome("sizes", steps[0].name, Status.DONE, seconds=1.0, findings=steps[0].run())
    write_report(tmp_path, PARTS, journal.read(), ABOUT)
    (model,) = Measurements.from_file(tmp_path / SIZES).models
    assert model.key == ("tiny", "float32", "none", "attn-union-dep", "cpu")
    assert len(model.figures) == 3
    assert all(one.seconds > 0 for one in model.figures)
    assert model.peak_bytes > 0
    (finding,) = journal.read().outcomes_of("sizes")[0].findings
    assert "| " + " | ".join(finding.cells) + " |" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_sizes_are_last_and_those_that_are_suggested() -> None:
    assert PARTS[-1].name == "sizes"
    assert set(plan_for("cuda", model=None, cores=1).suggested_sizes) <= {*SIZE_CLASSES}


def test_report_of_a_named_model_leaves_them_out(tmp_path: Path) -> None:
    (step,) = sizes.steps(replace(PLAN, model="some/model"), Journal(tmp_path / "steps.jsonl").read(), tmp_path)
    with pytest.raises(LeftOutError, match="leave --model out"):
        list(step.run())


def test_without_bitsandbytes_nf4_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attribeam.lab.benchmarks.gpu_report.part.find_spec", lambda _: None)
    step = sizes.steps(PLAN, Journal(tmp_path / "steps.jsonl").read(), tmp_path)[-1]
    with pytest.raises(LeftOutError, match="bitsandbytes"):
        list(step.run())
