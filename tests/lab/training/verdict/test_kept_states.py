"""States of words on disk: kept, read back, and never those of another decoder or another text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.training.verdict.test_verdict_recipe import made_answers

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.models.decoder import Decoder
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_table import word_table
from attribeam.lab.training.verdict import recipe, word_fitting
from attribeam.lab.training.verdict.kept_states import KeptStates
from attribeam.lab.training.verdict.verdict_rows import VerdictRow, verdict_rows
from attribeam.lab.training.verdict.word_fitting import with_states
from attribeam.schemas import Passage, QARecord
from attribeam.schemas.errors import RunError
from attribeam.schemas.labelled_answer import JudgedDataset

DECODER = {f"language_model_{name}": "1" for name in ("weights", "prompt_template", "layer", "dtype", "quantization")}


@pytest.fixture(scope="module")
def rows() -> list[VerdictRow]:
    return list(verdict_rows(made_answers(6), AnswerParser.from_pretrained("bundled"), word_table(BUNDLED_VERDICT)))


@pytest.fixture(scope="module")
def records() -> list[QARecord]:
    return [one.record for one in made_answers(6)]


def states_of(rows: list[VerdictRow]) -> list[np.ndarray | None]:
    draw = np.random.default_rng(0)
    found: list[np.ndarray | None] = [draw.normal(size=(len(row.chars), 3)).astype(np.float16) for row in rows]
    return [None if place in (0, 3) else one for place, one in enumerate(found)]


def test_states_come_back_with_the_rows_that_have_none(
    rows: list[VerdictRow], records: list[QARecord], tmp_path: Path
) -> None:
    kept, states = KeptStates(tmp_path / "new", DECODER), states_of(rows)
    assert kept.read(rows, records) is None
    kept.write(rows, records, states)
    found = kept.read(rows, records)
    assert found is not None
    for one, other in zip(found, states, strict=True):
        assert (one is None) is (other is None)
        assert one is None or other is None or np.array_equal(one, other)
    assert [one.suffix for one in (tmp_path / "new").iterdir()] == [".npz"]


def test_rows_of_which_none_was_read_come_back(rows: list[VerdictRow], records: list[QARecord], tmp_path: Path) -> None:
    kept = KeptStates(tmp_path, DECODER)
    kept.write(rows, records, [None] * len(rows))
    assert kept.read(rows, records) == [None] * len(rows)


@pytest.mark.parametrize("name", DECODER)
def test_another_decoder_finds_nothing(
    name: str, rows: list[VerdictRow], records: list[QARecord], tmp_path: Path
) -> None:
    KeptStates(tmp_path, DECODER).write(rows, records, states_of(rows))
    assert KeptStates(tmp_path, DECODER | {name: "2"}).read(rows, records) is None
    assert KeptStates(tmp_path, DECODER | {"torch_version": "9"}).read(rows, records) is not None


def test_runs_beside_each_other_may_keep_the_same_rows(
    rows: list[VerdictRow], records: list[QARecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, states, replace_file = KeptStates(tmp_path, DECODER), states_of(rows), Path.replace

    def another_run_first(partial: Path, file: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace_file)
        monkeypatch.setattr("os.getpid", lambda: 0)
        kept.write(rows, records, states)
        return replace_file(partial, file)

    monkeypatch.setattr(Path, "replace", another_run_first)
    kept.write(rows, records, states)
    assert kept.read(rows, records) is not None
    assert [one.suffix for one in tmp_path.iterdir()] == [".npz"]


def test_another_text_finds_nothing(rows: list[VerdictRow], records: list[QARecord], tmp_path: Path) -> None:
    kept = KeptStates(tmp_path, DECODER)
    kept.write(rows, records, states_of(rows))
    first, *others = records
    for changed in (
        replace(first, question="Who?"),
        replace(first, passages=(Passage(text="Another."),)),
        replace(first, passages=(replace(first.passages[0], title="A title"),)),
        replace(first, answer=first.answer + " "),
    ):
        assert kept.read(rows, [changed, *others]) is None
    assert kept.read([replace(rows[0], chars=rows[1].chars), *rows[1:]], records) is None


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and no more", b"no archive at all"])
def test_damaged_file_counts_as_none(
    damage: bytes, rows: list[VerdictRow], records: list[QARecord], tmp_path: Path
) -> None:
    kept = KeptStates(tmp_path, DECODER)
    kept.write(rows, records, states_of(rows))
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert kept.read(rows, records) is None


def test_half_a_file_counts_as_none(rows: list[VerdictRow], records: list[QARecord], tmp_path: Path) -> None:
    kept = KeptStates(tmp_path, DECODER)
    kept.write(rows, records, states_of(rows))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for size in range(0, len(whole), 97):
        file.write_bytes(whole[:size])
        assert kept.read(rows, records) is None


def test_decoder_runs_once_and_its_states_are_the_same_from_disk(
    rows: list[VerdictRow], records: list[QARecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ModelOptions(model=str(save_tiny_model(tmp_path / "decoder")), device="cpu")
    decoder = Decoder.from_pretrained(options, layer=2)
    fresh = list(with_states(rows, records, decoder, kept_in=tmp_path / "states"))
    monkeypatch.setattr(word_fitting, "read_answers", lambda *_: pytest.fail("the decoder should not run again"))
    again = list(with_states(rows, records, decoder, kept_in=tmp_path / "states"))
    for one, other in zip(fresh, again, strict=True):
        assert one.states is not None
        assert other.states is not None
        assert np.array_equal(one.states, other.states)


def test_folder_that_cannot_be_written_is_named(
    rows: list[VerdictRow], records: list[QARecord], tmp_path: Path
) -> None:
    decoder = Decoder.from_pretrained(
        ModelOptions(model=str(save_tiny_model(tmp_path / "decoder")), device="cpu"), layer=2
    )
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises(RunError, match=r"--decoder-states .*file/states cannot be written"):
        list(with_states(rows, records, decoder, kept_in=tmp_path / "file" / "states"))


def test_recipe_keeps_states_and_fits_the_same_verdict_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers(20))))
    monkeypatch.setattr(recipe, "_FOLDS", 2)
    options = ["--data", str(tmp_path), "--decoder", str(save_tiny_model(tmp_path / "decoder")), "--decoder-layer", "2"]
    for name in ("first", "second"):
        recipe.main([*options, "--decoder-states", str(tmp_path / "states"), "--output", str(tmp_path / name)])
    first, second = ((tmp_path / name / "verdict.json").read_bytes() for name in ("first", "second"))
    assert first == second
    assert len(list((tmp_path / "states").iterdir())) == 1


@pytest.mark.parametrize("option", [("note", "x"), ("quantization", "int8"), ("share", "0"), ("states", "folder")])
def test_options_of_a_decoder_need_one(
    option: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, value = option
    with pytest.raises(SystemExit):
        recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own"), f"--decoder-{name}", value])
    assert f"--decoder-{name} is for --decoder" in capsys.readouterr().err
