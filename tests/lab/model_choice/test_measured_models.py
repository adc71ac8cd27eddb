"""Measured speed and memory: what the file holds, and what is read between the measured lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attribeam.lab.model_choice.measured_models import (
    MeasuredModel,
    Measurements,
    OtherStages,
    RowFigure,
    longest,
    seconds_per_row,
)
from attribeam.schemas.errors import DataError

FIGURES = (RowFigure(600, 8, 0.6), RowFigure(900, 8, 1.2), RowFigure(2200, 4, 5.1))
MODEL = MeasuredModel(
    "qwen2-0.5b", "float32", "none", "attn-union-dep", "cpu", "A processor", "python -m x", 13, 24, 2 * 10**9, FIGURES
)


@pytest.mark.parametrize(
    ("tokens", "seconds"), [(300, 0.3), (600, 0.6), (750, 0.9), (900, 1.2), (1550, 3.15), (2200, 5.1), (2850, 7.05)]
)
def test_seconds_lie_on_the_lines_between_the_measured_lengths(tokens: int, seconds: float) -> None:
    assert seconds_per_row(FIGURES[::-1], tokens) == pytest.approx(seconds)


def test_seconds_of_one_measured_length_grow_with_the_tokens() -> None:
    assert seconds_per_row(FIGURES[:1], 1200) == pytest.approx(1.2)


def test_longest_measured_row_is_known() -> None:
    assert longest(FIGURES) == 2200


def test_measurements_survive_their_file(tmp_path: Path) -> None:
    known = Measurements(OtherStages("A processor", "python -m x", FIGURES), (MODEL,))
    known.write(tmp_path / "measured.json")
    assert Measurements.from_file(tmp_path / "measured.json") == known
    assert [path.name for path in tmp_path.iterdir()] == ["measured.json"]


def test_new_measurement_takes_the_place_of_the_old_one_and_of_no_other() -> None:
    other = replace(MODEL, dtype="bfloat16")
    new = replace(MODEL, peak_bytes=1)
    assert Measurements(models=(MODEL, other)).with_model(new).models == (other, new)


@pytest.mark.parametrize("text", ["{", "[]", '{"models": []}', '{"other_stages": null, "models": [{"size": "x"}]}'])
def test_file_of_another_format_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"measured\.json should hold measured models"):
        Measurements.from_file(path)
