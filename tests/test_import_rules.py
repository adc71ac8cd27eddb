"""Which room may import which, read from the import statements."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "attribeam"
ROOMS = ("schemas", "logs", "attribution", "transforms", "report", "pipeline", "lab")
ALLOWED = {
    "schemas": {"schemas"},
    "logs": {"schemas", "logs"},
    "attribution": {"schemas", "attribution"},
    "transforms": {"schemas", "logs", "attribution", "transforms"},
    "report": {"schemas", "logs", "report"},
    "pipeline": {"schemas", "logs", "attribution", "transforms", "report", "pipeline"},
    "lab/evaluation": {"schemas", "logs", "attribution", "report", "lab"},
    "lab/calibration": {"schemas", "logs", "attribution", "report", "lab"},
    "lab/model_choice": {"schemas", "logs", "attribution", "report", "lab"},
    "lab/training": {"schemas", "logs", "attribution", "report", "lab"},
    "examples": {"schemas", "attribution"},
}
EXCEPTIONS = {"attribution": {("attribution/attribute_table.py", "logs")}}
"""Where a table in memory meets the method: its rows are read as those of a log are."""
FORBIDDEN = {
    "schemas": {"torch", "transformers", "spacy", "apache_beam"},
    "logs": {"torch", "transformers", "spacy", "apache_beam"},
    "attribution": {"apache_beam"},
    "report": {"torch", "transformers", "spacy", "apache_beam"},
    "lab/evaluation": {"apache_beam"},
    "lab/model_choice": {"apache_beam"},
}


@cache
def _imports(path: Path, *, top_level_only: bool = False) -> tuple[str, ...]:
    """Modules that a file imports, with their full names; relative imports come as "."."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(_imported(tree.body if top_level_only else ast.walk(tree)))


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module)


def _files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def _rooms_of(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    parts = [name.split(".") for name in _imports(path)]
    return {part[1] for part in parts if part[0] == "attribeam" and len(part) > 1}


def test_every_room_stands_at_the_top_and_is_linked_into_the_package() -> None:
    links = {path.name: path.resolve() for path in PACKAGE.iterdir() if path.is_symlink()}
    assert links == {room: ROOT / room for room in ROOMS}


def test_no_room_is_imported_by_its_bare_name() -> None:
    bare = {*ROOMS, "evaluation", "training", "benchmarks"}
    paths = [path for room in (*ROOMS, "examples", "tests", "src") for path in _files(room)]
    assert len(paths) > 300
    assert [path.name for path in paths for name in _imports(path) if name.split(".")[0] in bare] == []


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    found = {(path.relative_to(ROOT).as_posix(), name) for path in _files(room) for name in _rooms_of(path)}
    assert found or room == "examples", f"{room} should import something, else this test looks at nothing"
    assert {one for one in found if one[1] not in ALLOWED[room]} == EXCEPTIONS.get(room, set())


def test_nothing_that_is_shipped_imports_tests_or_benchmarks() -> None:
    shipped = [path for room in ROOMS for path in _files(room) if "benchmarks" not in path.parts]
    wanted = ("tests", "attribeam.lab.benchmarks")
    assert [path.name for path in shipped for name in _imports(path) if name.startswith(wanted)] == []


@pytest.mark.parametrize(
    ("room", "allowed"),
    [
        ("answers", {"answers", "fast_paths"}),
        ("evidence", {"answers", "evidence"}),
        ("verdict", {"answers", "evidence", "verdict"}),
    ],
)
def test_answers_evidence_and_verdict_know_nothing_of_models(room: str, allowed: set[str]) -> None:
    rooms = {path.name for path in (ROOT / "attribution").iterdir() if (path / "__init__.py").is_file()}
    parts = [name.split(".") for path in _files(f"attribution/{room}") for name in _imports(path)]
    found = {part[2] for part in parts if part[:2] == ["attribeam", "attribution"] and part[2] in rooms}
    assert room in found
    assert found <= allowed


PIPELINE_ROOMS = ("chunks", "measures", "options", "workers", "outcome", "commands")


def test_the_rooms_of_the_pipeline_stand_in_an_order() -> None:
    rooms = {path.name for path in (ROOT / "pipeline").iterdir() if (path / "__init__.py").is_file()}
    assert rooms == set(PIPELINE_ROOMS)


@pytest.mark.parametrize("room", PIPELINE_ROOMS)
def test_a_room_of_the_pipeline_imports_only_itself_and_those_before_it(room: str) -> None:
    parts = [name.split(".") for path in _files(f"pipeline/{room}") for name in _imports(path)]
    found = {part[2] for part in parts if part[:2] == ["attribeam", "pipeline"] and part[2] in PIPELINE_ROOMS}
    assert found <= set(PIPELINE_ROOMS[: PIPELINE_ROOMS.index(room) + 1])


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_without_the_libraries_that_are_not_its_business(room: str) -> None:
    found = {(path.name, name) for path in _files(room) for name in _imports(path)}
    assert {(file, name) for file, name in found if name.split(".")[0] in FORBIDDEN[room]} == set()


def test_spacy_is_imported_for_the_answer_parser_only() -> None:
    found = {path.name for path in _files("attribution") for name in _imports(path) if name.split(".")[0] == "spacy"}
    assert found == {"answer_parser.py", "spacy_pipeline.py"}
    parser = ROOT / "attribution" / "answers" / "answer_parser.py"
    assert "spacy" not in {name.split(".")[0] for name in _imports(parser, top_level_only=True)}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_are_absolute(room: str) -> None:
    assert [path.name for path in _files(room) if "." in _imports(path)] == []


def test_no_module_is_called_utils() -> None:
    names = {path.stem for room in (*ROOMS, "examples", "tests") for path in _files(room)}
    assert "command_line" in names
    assert names.isdisjoint({"utils", "util", "helpers", "misc", "common"})


@pytest.mark.parametrize("module", ["attribeam", "attribeam.pipeline.local_driver"])
def test_the_package_and_the_driver_load_no_model_library(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'torch', 'spacy', 'transformers'}} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
