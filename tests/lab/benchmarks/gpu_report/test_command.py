"""The command's usage: what cannot be measured is refused before anything is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attribeam.lab.benchmarks.gpu_report import __main__ as command

ROOT = Path(__file__).parents[4]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gpu_report", *arguments])
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    return command.main()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_a_gpu_nothing_is_written_and_the_way_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--output", str(tmp_path / "out")) == 2
    assert "torch finds no CUDA; use --device cpu" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_model_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--output", str(tmp_path / "out"), "--device", "cpu", "--model", str(tmp_path / "no model"))
    assert run(monkeypatch, *arguments) == 2
    assert "should be a directory with config.json" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "eight"])
def test_minutes_are_a_number_above_zero(
    minutes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "--output", str(tmp_path), "--minutes", minutes)
    assert ended.value.code == 2
    assert "--minutes" in capsys.readouterr().err


def test_driver_of_a_report_needs_no_torch() -> None:
    """It would load for seconds, and might hold memory of the GPU that the parts are to have."""
    code = "import sys, attribeam.lab.benchmarks.gpu_report.__main__; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
