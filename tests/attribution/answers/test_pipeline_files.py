"""Where a parser's files are: bundled, in a directory, or in an installed package."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attribeam.attribution.answers.answer_parser import (
    BUNDLED_PARSER,
    AnswerParser,
    package_folder,
    pipeline_folder,
    pipeline_identity,
    pipeline_meta,
)
from attribeam.attribution.answers.spacy_pipeline import LockstepParser

PACKAGE = "own_english_pipeline"
COMPONENT = """
from spacy.language import Language
from spacy.tokens import Doc

@Language.component("own_component_of_a_package")
def leave_alone(doc: Doc) -> Doc:
    return doc
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package, as ``spacy package`` makes it, with a component of its own."""
    folder = tmp_path / PACKAGE
    data = folder / "en_attribeam_universal-1.0.0"
    shutil.copytree(BUNDLED_PARSER, data)
    shutil.copy(data / "meta.json", folder)
    config = (data / "config.cfg").read_text(encoding="utf-8").replace('"parser"]', '"parser", "senter2"]', 1)
    (data / "config.cfg").write_text(
        config + '\n[components.senter2]\nfactory = "own_component_of_a_package"\n', encoding="utf-8"
    )
    (folder / "__init__.py").write_text(COMPONENT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop(PACKAGE, None)


def test_pipeline_of_a_package_is_found_by_name_and_by_both_of_its_folders(package: Path) -> None:
    data = package / "en_attribeam_universal-1.0.0"
    assert pipeline_folder(PACKAGE) == pipeline_folder(str(package)) == pipeline_folder(str(data)) == data
    assert PACKAGE not in sys.modules  # finding it ran none of its code


def test_named_package_brings_its_own_components_and_the_faster_parser(package: Path) -> None:
    parser = AnswerParser.from_pretrained(PACKAGE)
    assert isinstance(parser._nlp.get_pipe("parser"), LockstepParser)
    folder = pipeline_folder(PACKAGE)
    assert parser.identity == pipeline_identity(folder, pipeline_meta(folder))
    assert parser.parse("Rain fell.") == AnswerParser.from_pretrained("bundled").parse("Rain fell.")
    assert package.name in sys.modules


@pytest.mark.usefixtures("package")
def test_directory_is_taken_before_a_package_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    shutil.copytree(BUNDLED_PARSER, here / PACKAGE)
    monkeypatch.chdir(here)
    assert pipeline_folder(PACKAGE) == Path(PACKAGE)


@pytest.mark.parametrize("name", ["no_such_pipeline", "json", "no.such", "en-core", "/no/such/folder", ""])
def test_name_without_a_pipeline_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="'bundled', an installed spaCy pipeline or a directory"):
        pipeline_folder(name)


@pytest.mark.parametrize("meta", ["{", "[]", json.dumps({"lang": "en"}), json.dumps({"lang": "a", "name": "b"})])
def test_folder_with_a_broken_description_is_left_to_spacy_to_refuse(tmp_path: Path, meta: str) -> None:
    (tmp_path / "meta.json").write_text(meta, encoding="utf-8")
    assert pipeline_folder(str(tmp_path)) == tmp_path
    with pytest.raises(ValueError, match="name another with --parser"):
        AnswerParser.from_pretrained(str(tmp_path))


def test_module_that_is_no_package_has_no_folder() -> None:
    assert package_folder("this") is None
