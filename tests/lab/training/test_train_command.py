"""``python -m lab.train``: which recipe runs, and the message if it cannot."""

from pathlib import Path

import pytest

from attribeam.attribution.answers.answer_parser import BUNDLED_PARSER
from attribeam.schemas.errors import ExitCode
from lab.train import RECIPES, main
from lab.training import loss_curve
from lab.training.attributor import recipe as attributor_recipe


def test_attributor_recipe_gets_the_arguments_after_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(attributor_recipe, "main", given.append)
    assert main(["attributor", "--pages", "p.jsonl", "--steps", "3"]) == 0
    assert given == [["--pages", "p.jsonl", "--steps", "3"]]


@pytest.mark.parametrize("arguments", [[], ["lexer"]])
def test_without_a_known_recipe_the_existing_ones_are_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.BAD_USAGE
    assert "name a recipe: parser, attributor, verdict" in capsys.readouterr().err


def test_missing_file_is_named_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone.conllu"
    assert main(["parser", "--evaluate", str(BUNDLED_PARSER), "--test", str(gone)]) == 1
    assert str(gone) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("parser", ["--treebank", "no such folder", "--output", "o"]),
        ("attributor", ["--pages", "no such file", "--output", "o"]),
    ],
)
def test_missing_extra_is_named_with_the_way_to_install_it(
    recipe: str, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loss_curve, "EXTRA_MODULE", "no_such_module")
    assert main([recipe, *options]) == ExitCode.BAD_USAGE
    assert "pip install 'attribeam[training]'" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_of_a_recipe_needs_no_extra(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loss_curve, "EXTRA_MODULE", "no_such_module")
    with pytest.raises(SystemExit) as ended:
        main([recipe, "--help"])
    assert ended.value.code == ExitCode.DONE
    assert "--output" in capsys.readouterr().out
