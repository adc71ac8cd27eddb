"""Model directories that nobody should trust: each is a sentence that says what is wrong, and costs next to nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.attribution.models.hostile_models import DAMAGES, HARMLESS
from tests.attribution.tiny_models import save_tiny_model

from attribeam import Attributor
from attribeam.attribution.models import directory_check
from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import UsageError

LONGEST_SENTENCE = 1_500


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("good"))


def damaged(good: Path, tmp_path: Path, name: str) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    DAMAGES[name](folder)
    return folder


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - HARMLESS))
def test_a_hostile_directory_is_refused_in_one_sentence(
    good: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(good, tmp_path, name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        Attributor.from_pretrained(str(folder), device="cpu")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < LONGEST_SENTENCE
    assert "panicked" not in capfd.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before, "code of the directory ran"


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_directory_whose_oddity_has_no_effect_serves_and_runs_no_code(good: Path, tmp_path: Path, name: str) -> None:
    folder = damaged(good, tmp_path, name)
    before = sorted(tmp_path.rglob("*"))
    attributor = Attributor.from_pretrained(str(folder), device="cpu")
    assert attributor.attribute(question="Who?", passages=["Ada Thorne built it."], answer="Ada Thorne did.")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name", ["a billion layers", "config nested deep", "map that points away", "weights are a queue"]
)
def test_models_check_ends_with_bad_usage(
    good: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(good, tmp_path, name)
    assert main(["models", "check", "--model", str(folder), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("attribeam models: this model cannot serve: ")
    assert error.count("\n") == 1


def test_nothing_is_allocated_for_weights_that_the_files_do_not_hold(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = damaged(good, tmp_path, "ten million positions")
    monkeypatch.setattr("attribeam.attribution.models.weight_loading.AutoModel.from_pretrained", pytest.fail)
    with pytest.raises(UsageError, match=r"asks for 320,036,496 weights, the safetensors files hold 56,608"):
        Attributor.from_pretrained(str(folder), device="cpu")


def test_an_ordinary_tokenizer_is_read_without_a_process_of_its_own(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_check.subprocess, "run", pytest.fail)
    directory_check.check_tokenizer(good / directory_check.TOKENIZER)
