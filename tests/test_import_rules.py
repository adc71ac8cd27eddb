"""Which room may import which, read from the import statements."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("schemas", "attribution", "transforms", "report", "pipeline", "evaluation", "training")
OWN = {*ROOMS, "benchmarks", "examples", "tests"}
ALLOWED = {
    "schemas": {"schemas"},
    "attribution": {"schemas", "attribution"},
    "transforms": {"schemas", "attribution", "transforms"},
    "report": {"schemas", "report"},
    "pipeline": {"schemas", "attribution", "transforms", "report", "pipeline"},
    "evaluation": {"schemas", "attribution", "evaluation"},
    "training": {"schemas", "attribution", "training"},
    "examples": {"schemas", "attribution", "examples"},
}
FORBIDDEN = {
    "schemas": {"torch", "transformers", "spacy", "apache_beam"},
    "attribution": {"apache_beam"},
    "report": {"torch", "transformers", "spacy", "apache_beam"},
    "evaluation": {"apache_beam"},
}


def _imports(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Modules that a file imports, with their full names; relative imports come as "."."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module)


def _files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    found = {(path.name, name) for path in _files(room) for name in _imports(path) if name.split(".")[0] in OWN}
    assert found, f"{room} should import something, else this test looks at nothing"
    assert {(file, name) for file, name in found if name.split(".")[0] not in ALLOWED[room]} == set()


@pytest.mark.parametrize(("room", "allowed"), [("answers", {"answers"}), ("evidence", {"answers", "evidence"})])
def test_answers_and_evidence_know_nothing_of_models(room: str, allowed: set[str]) -> None:
    rooms = {path.name for path in (ROOT / "attribution").iterdir() if (path / "__init__.py").is_file()}
    parts = [name.split(".") for path in _files(f"attribution/{room}") for name in _imports(path)]
    found = {part[1] for part in parts if part[0] == "attribution" and len(part) > 1 and part[1] in rooms}
    assert room in found
    assert found <= allowed


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_without_the_libraries_that_are_not_its_business(room: str) -> None:
    found = {(path.name, name) for path in _files(room) for name in _imports(path)}
    assert {(file, name) for file, name in found if name.split(".")[0] in FORBIDDEN[room]} == set()


def test_spacy_is_imported_for_the_answer_parser_only() -> None:
    found = {path.name for path in _files("attribution") for name in _imports(path) if name.split(".")[0] == "spacy"}
    assert found == {"answer_parser.py", "lockstep_parser.py", "parser_input.py"}
    parser = ROOT / "attribution" / "answers" / "answer_parser.py"
    assert "spacy" not in {name.split(".")[0] for name in _imports(parser, top_level_only=True)}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_are_absolute(room: str) -> None:
    assert [path.name for path in _files(room) if "." in _imports(path)] == []


def test_no_module_is_called_utils() -> None:
    names = {path.stem for room in OWN for path in _files(room)}
    assert "command_line" in names
    assert names.isdisjoint({"utils", "util", "helpers", "misc", "common"})


def test_the_driver_of_the_command_line_loads_no_model_library() -> None:
    code = "import sys, pipeline.local_driver; print(sorted({'torch', 'spacy', 'transformers'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
