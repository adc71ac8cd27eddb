"""The finished cells of a suite: one JSON file each, written as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evaluation.evaluation_error import EvaluationError
from evaluation.reports.json_file import write_json
from evaluation.suite.cell import Cell


class CellStore:
    """Reads and writes the results of cells below a directory, which is made where it is missing."""

    def __init__(self, directory: Path) -> None:
        """Make the directory.

        Raises:
            EvaluationError: if it cannot be made.
        """
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvaluationError(f"--output of a suite should be a directory, cannot be made: {error}") from error

    def read(self, cell: Cell) -> Any | None:
        """The cell's result; None where it is not finished, or its file is another cell's or damaged."""
        try:
            stored = json.loads((self._directory / cell.file_name).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
            return None
        return stored["result"] if isinstance(stored, dict) and stored.get("key") == cell.key else None

    def write(self, cell: Cell, result: object) -> None:
        """Keep a finished cell.

        Raises:
            EvaluationError: if it cannot be written.
        """
        stored = {"key": cell.key, "cell": cell.title, "depends_on": cell.depends_on, "result": result}
        try:
            write_json(self._directory / cell.file_name, stored)
        except OSError as error:
            raise EvaluationError(f"the result of a cell could not be written: {error}") from error
