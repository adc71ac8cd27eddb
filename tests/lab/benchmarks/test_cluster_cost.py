"""The model of cost: its arithmetic."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from attribeam.lab.benchmarks.cluster_cost import RowCost, main

SHORTER = {
    "rows": 500,
    "cluster_seconds": 35.0,
    "stage_ms": {"read": 1.0, "parse": 9.0, "attribute": 21.0, "evidence": 10.0},
    "log_bytes": 1_500_000,
    "output_bytes": 1_000_000,
    "shuffled_bytes": 1000,
}
LONGER = {
    "rows": 1000,
    "cluster_seconds": 50.0,
    "stage_ms": {"read": 1.0, "parse": 9.0, "attribute": 20.0, "evidence": 10.0},
    "log_bytes": 3_000_000,
    "output_bytes": 2_000_000,
    "shuffled_bytes": 1000,
}


@pytest.fixture
def cost() -> RowCost:
    """30 ms a row on two workers, after 20 s of start-up."""
    return RowCost.measured(SHORTER, LONGER, workers=2)


def test_what_does_not_grow_with_the_rows_is_start_up(cost: RowCost) -> None:
    assert (cost.cpu_ms, cost.model_ms) == (20.0, 20.0)
    assert cost.start_seconds == pytest.approx(50.0 - 1000 * 0.030)
    assert (cost.read_bytes, cost.written_bytes, cost.shuffled_bytes) == (3000, 2000, 1)


def test_engine_factor_is_a_worker_s_time_for_a_row_over_the_cpu_time_of_its_stages(cost: RowCost) -> None:
    assert cost.engine_factor == pytest.approx(30.0 * 2 / 40.0)


@pytest.mark.parametrize("run", [SHORTER, LONGER], ids=["shorter", "longer"])
def test_measured_runs_are_foretold_exactly(cost: RowCost, run: dict[str, Any]) -> None:
    assert cost.seconds(run["rows"], workers=2) == pytest.approx(run["cluster_seconds"])


def test_runs_of_one_length_are_refused() -> None:
    with pytest.raises(ValueError, match="different numbers of rows, both have: 1000"):
        RowCost.measured(LONGER, LONGER, workers=2)


def test_the_workers_that_are_named_finish_in_time_and_one_fewer_do_not(cost: RowCost) -> None:
    workers = cost.workers(10**8, hours=8)
    assert cost.seconds(10**8, workers=workers) <= 8 * 3600
    assert cost.seconds(10**8, workers=workers - 1) > 8 * 3600


def test_gpus_take_the_model_from_the_cores() -> None:
    cost = RowCost(
        cpu_ms=20, model_ms=100, engine_factor=1.5, start_seconds=0, read_bytes=0, written_bytes=0, shuffled_bytes=0
    )
    assert cost.with_gpus(3_600_000, hours=1, gpu_ms=2.0) == (30, 2)
    assert cost.workers(3_600_000, hours=1) == 180


def test_an_hour_shorter_than_the_start_up_is_refused(cost: RowCost) -> None:
    with pytest.raises(ValueError, match="more than the start-up of 20 s"):
        cost.workers(1, hours=0.001)


def run_command(monkeypatch: pytest.MonkeyPatch, path: Path, *runs: dict[str, Any]) -> int:
    path.write_text(json.dumps({"machine": "", "shape": "short", "runs": runs}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["cluster_cost", "--record", str(path)])
    return main()


def test_command_foretells_the_runs_after_the_two_shortest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    longest = LONGER | {"rows": 10_000, "cluster_seconds": 400.0}
    assert run_command(monkeypatch, tmp_path / "record.json", longest, LONGER, SHORTER) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "10,000 rows: foretold 320 s, took 400 s (-20%)"
    assert "start-up 20 s; a row: 40.0 ms of CPU in stages, of it 20.0 in the model" in printed[-2]


def test_command_needs_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_command(monkeypatch, tmp_path / "record.json", LONGER)
    assert "should hold runs of two lengths or more" in capsys.readouterr().err
