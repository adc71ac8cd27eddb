"""Measuring models for ``attribeam models suggest``: every figure that the suggestion reads is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import Qwen2Config

from attribeam.lab.benchmarks import model_sizes, random_model
from attribeam.lab.model_choice.measured_models import MeasuredModel, Measurements

TINY = Qwen2Config(
    vocab_size=32_768, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row per length, of a tiny model, without processes of its own."""
    monkeypatch.setattr(model_sizes, "_MOST_ROWS", 1)
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
