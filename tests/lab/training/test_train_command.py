"""``attribeam train``: which recipe runs, and what it says where it cannot."""

from pathlib import Path

import pytest

import attribeam.attribution
import attribeam.lab.training.attributor.recipe
from attribeam.lab.training import command
from attribeam.pipeline.command_line import main

BUNDLED_PARSER = Path(attribeam.attribution.__file__).parent / "bundled" / "parser"


def test_parser_recipe_prints_the_size_of_a_finished_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "parser", "--evaluate", str(BUNDLED_PARSER)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("size ")
    assert printed.endswith(" MB\n")


def test_attributor_recipe_gets_the_words_after_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(attribeam.lab.trainingm.lab.training.attributor.recipe, "main", given.append)
    assert main(["train", "attributor", "--pages", "p.jsonl", "--steps", "3"]) == 0
    assert given == [["--pages", "p.jsonl", "--steps", "3"]]


@pytest.mark.parametrize(("recipe", "option"), [("parser", "--dev"), ("attributor", "--output")])
def test_help_of_a_recipe_lists_its_options(recipe: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", recipe, "--help"])
    assert ended.value.code == 0
    assert option in capsys.readouterr().out


def test_unknown_recipe_is_named_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "lexer"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "lexer" in message
    assert "parser" in message
    assert "attributor" in message


def test_missing_file_is_named_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone.conllu"
    assert main(["train", "parser", "--evaluate", str(BUNDLED_PARSER), "--test", str(gone)]) == 1
    assert str(gone) in capsys.readouterr().err


def test_missing_extra_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "EXTRA_MODULE", "no_such_module")
    assert main(["train", "parser"]) == 1
    assert "pip install 'attribeam[training]'" in capsys.readouterr().err
