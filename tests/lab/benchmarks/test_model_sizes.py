"""Measuring models for ``attribeam models suggest``: every figure that the suggestion reads is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Qwen2Config

from attribeam.lab.benchmarks import model_size_measurement, model_sizes, random_model
from attribeam.lab.benchmarks.latency_rows import LATENCY_SHAPES, latency_records
from attribeam.lab.model_choice.measured_models import MeasuredModel, Measurements, RowFigure

TINY = Qwen2Config(
    vocab_size=32_768, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row per length, of a tiny model, without processes of its own."""
    monkeypatch.setattr(model_size_measurement, "_MOST_ROWS", 1)
    monkeypatch.setitem(random_model.SHAPES, "thin", TINY)
    monkeypatch.setattr(model_sizes.subprocess, "run", _run)


class _Ended:
    returncode = 0

    def __init__(self, stdout: str) -> None:
        self.stdout = stdout


def _run(command: list[str], **_: object) -> _Ended:
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert model_sizes.main(command[3:]) == 0
    return _Ended(printed.getvalue())


def measured(path: Path, *options: str) -> Measurements:
    assert model_sizes.main(["--output", str(path), *options]) == 0
    return Measurements.from_file(path)


def test_model_is_measured_at_every_length_and_says_how(tmp_path: Path) -> None:
    (model,) = measured(tmp_path / "m.json", "--sizes", "thin", "--dtypes", "bfloat16").models
    assert model.key == ("thin", "bfloat16", "none", "attn-union-dep", "cpu")
    assert (model.layer, model.layer_count) == (3, 4)
    assert len(model.figures) == 3
    assert all(one.seconds > 0 and one.rows == 1 for one in model.figures)
    assert [one.row_tokens for one in model.figures] == sorted(one.row_tokens for one in model.figures)
    assert model.peak_bytes > 10**8
    assert "--sizes thin --dtypes bfloat16" in model.command
    assert "cores used" in model.machine


def test_methods_of_hidden_states_are_measured_as_well(tmp_path: Path) -> None:
    (model,) = measured(tmp_path / "m.json", "--sizes", "thin", "--methods", "hss-union").models
    assert model.method == "hss-union"
    assert all(one.seconds > 0 for one in model.figures)


def test_bundled_model_shows_what_a_row_costs_besides(tmp_path: Path) -> None:
    found = measured(tmp_path / "m.json", "--sizes", "bundled", "minilm", "--dtypes", "bfloat16", "float32")
    assert [one.size for one in found.models] == ["bundled", "minilm"]
    assert {one.dtype for one in found.models} == {"float32"}
    assert found.other_stages is not None
    assert all(one.seconds >= 0 for one in found.other_stages.figures)
    assert len(found.other_stages.figures) == 3


def test_model_that_fails_is_told_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], **rest: object) -> _Ended:
        ended = _run(command, **rest)
        ended.returncode = int("bfloat16" in command[4])
        return ended

    monkeypatch.setattr(model_sizes.subprocess, "run", run)
    path = tmp_path / "m.json"
    assert model_sizes.main(["--output", str(path), "--sizes", "thin", "--dtypes", "bfloat16", "float32"]) == 1
    kept: tuple[MeasuredModel, ...] = Measurements.from_file(path).models
    assert [one.dtype for one in kept] == ["float32"]
    assert "ended with exit code 1" in capsys.readouterr().out


def test_longer_rows_are_left_out_where_they_take_too_long(tmp_path: Path) -> None:
    (model,) = measured(tmp_path / "m.json", "--sizes", "thin", "--limit", "0").models
    assert len(model.figures) == 1


def test_figures_of_a_gpu_report_are_added_without_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known, found = tmp_path / "known.json", tmp_path / "found.json"
    one = MeasuredModel("thin", "bfloat16", "none", "attn-union-dep", "cpu", "here", "this", 3, 4, 7, ())
    other = replace(one, device="cuda", machine="a GPU")
    Measurements(models=(one, replace(other, peak_bytes=9))).write(known)
    Measurements(models=(other,)).write(found)
    assert model_sizes.main(["--output", str(known), "--add", str(found)]) == 0
    assert Measurements.from_file(known).models == (one, other)
    assert model_sizes.main(["--output", str(known), "--add", str(tmp_path / "absent.json")]) == 2
    assert "absent.json should hold measured models" in capsys.readouterr().err
    assert Measurements.from_file(known).models == (one, other)


def test_device_of_several_gpus_is_a_gpu_to_the_suggestion() -> None:
    wanted = model_size_measurement.SizedModel("thin", "bfloat16", "none", "attn-union-dep", "cuda:1")
    assert wanted.device_kind == "cuda"
    assert "--device cuda " in wanted.command


@pytest.mark.parametrize(("device", "passes"), [("cpu", [1, 1, 3]), ("cuda:1", [1, 1, 3, 3])])
def test_whole_batch_warms_up_on_a_gpu_whose_kernels_load_when_first_used(
    device: str, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watch:
        seconds = 1.5

        def __init__(self, measured: str) -> None:
            assert measured == device

        def __enter__(self) -> Watch:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    ran: list[int] = []
    monkeypatch.setattr(model_size_measurement, "StopWatch", Watch)
    model: Any = SimpleNamespace(device=torch.device(device), encode=lambda _: SimpleNamespace(token_ids=[1, 2]))
    records = latency_records(LATENCY_SHAPES[0], 3)
    found = model_size_measurement._figure(records, model, lambda rows, _: ran.append(len(rows)), seconds=9.0)
    assert ran == passes
    assert found == RowFigure(2, 3, 0.5)
