"""One hierarchy of errors, and the exit code of each."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import attribeam
from attribeam.pipeline import command_line
from attribeam.pipeline.command_line import main
from attribeam.schemas import errors
from attribeam.schemas.errors import (
    AttribeamError,
    DataError,
    ExitCode,
    LogReadError,
    ModelLoadError,
    RunError,
    UsageError,
)

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "logs", "attribution", "transforms", "pipeline", "report", "evaluation", "lab/training")
_OF_ONE_ROW_OR_INSIDE = {
    "RowFault",
    "SlowPatternError",
    "ModelWorkerDiedError",
    "RowsMemoryError",
    "PageError",
    "_LayerReached",
    "_LayerCaptured",
}


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError, ExitCode.BAD_USAGE), (DataError, 2), (LogReadError, 1), (ModelLoadError, 2), (RunError, 1)],
)
def test_error_of_a_command_is_one_line_and_its_exit_code(
    error: type[AttribeamError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise error("the log is gone; name another")

    monkeypatch.setattr("attribeam.report.history_command.run", fail)
    assert main(["history", "nights"]) == code
    assert capsys.readouterr().err == "attribeam history: the log is gone; name another\n"


def test_every_error_is_offered_by_the_package() -> None:
    own = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert own <= set(attribeam.__all__)
    assert all(getattr(attribeam, name) is getattr(errors, name) for name in own)


def test_data_errors_are_value_errors_and_model_errors_runtime_errors() -> None:
    assert issubclass(DataError, ValueError)
    assert issubclass(LogReadError, DataError)
    assert issubclass(ModelLoadError, RuntimeError)


def _exceptions(room: str) -> dict[str, set[str]]:
    """Exception classes of a room with the names of their bases."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / room).rglob("*.py"))]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    named = {one.name: {base.id for base in one.bases if isinstance(base, ast.Name)} for one in classes}
    return {
        name: bases for name, bases in named.items() if any(base.endswith(("Error", "Exception")) for base in bases)
    }


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_has_a_hierarchy_of_its_own(room: str) -> None:
    known = {
        "AttribeamError",
        *(one.__name__ for one in AttribeamError.__subclasses__()),
        "LogFormatError",
        "ModelLoadError",
    }
    others = {name for name, bases in _exceptions(room).items() if not bases & known} - _OF_ONE_ROW_OR_INSIDE
    assert others == ({"AttribeamError"} if room == "schemas" else set())


def test_commands_leave_errors_to_the_command_line() -> None:
    for command in command_line.COMMANDS:
        tree = ast.parse((ROOT / f"{command.module.removeprefix('attribeam.').replace('.', '/')}.py").read_text())
        caught = [node.type for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type is not None]
        names = {part.id for kind in caught for part in ast.walk(kind) if isinstance(part, ast.Name)}
        assert names & {"AttribeamError", "UsageError", "DataError", "RunError"} == set(), command.name
