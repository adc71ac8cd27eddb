"""One cell of work: one method on one data set, with its result as plain data in a file.

The file's name contains a digest of everything that the result depends on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from attribeam.attribution.methods.method import Need
from attribeam.lab.evaluation.comparison import FailedRow, MethodTally
from attribeam.lab.evaluation.measures.accuracy import HighlightOverlap, HighlightTally
from attribeam.lab.evaluation.measures.citations import CitationCounts, CitationTally
from attribeam.lab.evaluation.measures.cost import Cost
from attribeam.lab.evaluation.measures.faithfulness import DropTally
from attribeam.lab.evaluation.report import write_json
from attribeam.lab.evaluation.suite.data_files import DataFile
from attribeam.schemas.errors import RunError

CELL_FORMAT = 2
"""Increased whenever the content of a cell, or the way it is computed, changes."""


class Kind(StrEnum):
    """What a cell measures."""

    PASSAGES = "passages"
    LATENCY = "latency"
    SENSITIVITY = "sensitivity"
    TARGETS = "targets"
    FAITHFULNESS = "faithfulness"
    CITATIONS = "citations"
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one data set.

    Attributes:
        kind: what is measured.
        data: the data set.
        method: the method's name in the tables, empty if there is none.
        needs: what has to be loaded.
        depends_on: plain data; the result stays valid until any of it changes.
        all_layers: whether the model is loaded beyond the captured layer.
    """

    kind: Kind
    data: DataFile
    method: str
    needs: frozenset[Need]
    depends_on: Mapping[str, object]
    all_layers: bool = False

    @property
    def title(self) -> str:
        """The cell in words."""
        return f"{self.kind}, {self.data.name}" + (f", {self.method}" if self.method else "")

    @property
    def key(self) -> str:
        """SHA-256 of everything that the result depends on, in hex."""
        plain = {"format": CELL_FORMAT, "kind": self.kind, "method": self.method, **self.depends_on}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @property
    def file_name(self) -> str:
        """The name of the result's file."""
        words = re.sub(r"[^\w-]+", "-", f"{self.kind} {self.data.name} {self.method}".strip())
        return f"{words}-{self.key[:12]}.json"


class CellStore:
    """Reads and writes the results of cells below a directory, which is created if it does not exist."""

    def __init__(self, directory: Path) -> None:
        """Create the directory.

        Raises:
            RunError: if it cannot be created.
        """
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"--output of a suite should be a directory, could not be created: {error}") from error

    def read(self, cell: Cell) -> Any | None:
        """The cell's result, None if it is not finished or its file is damaged or belongs to another cell."""
        try:
            stored = json.loads((self._directory / cell.file_name).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
            return None
        return stored["result"] if isinstance(stored, dict) and stored.get("key") == cell.key else None

    def write(self, cell: Cell, result: object) -> None:
        """Store the result of a finished cell.

        Raises:
            RunError: if it cannot be written.
        """
        stored = {"key": cell.key, "cell": cell.title, "depends_on": cell.depends_on, "result": result}
        try:
            write_json(self._directory / cell.file_name, stored)
        except OSError as error:
            raise RunError(f"the result of a cell could not be written: {error}") from error


Stored = Mapping[str, Any]
"""The content of a cell's file, written by ``asdict`` of the tally and read only by the functions below."""


def stored_tally(tally: MethodTally | DropTally | CitationTally) -> Stored:
    """The tally as plain data, from which all figures can be computed."""
    return asdict(tally)


def method_tally(stored: Stored, name: str) -> MethodTally:
    """The stored tally, with the name that the tables use."""
    return MethodTally(
        name=name,
        credits=[*stored["credits"]],
        spans=[*stored["spans"]],
        spans_without_evidence=stored["spans_without_evidence"],
        isolated_spans=stored["isolated_spans"],
        failed=_failed(stored),
        highlights=_overlaps(stored["highlights"]),
        sentences=_overlaps(stored["sentences"]),
        cost=None if stored["cost"] is None else Cost(**stored["cost"]),
    )


def drop_tally(stored: Stored, name: str) -> DropTally:
    """The stored tally, with the name that the tables use."""
    return DropTally(
        name=name,
        drops=[*stored["drops"]],
        spans=[*stored["spans"]],
        spans_without_passage=stored["spans_without_passage"],
        failed=_failed(stored),
    )


def citation_tally(stored: Stored, name: str) -> CitationTally:
    """The stored tally, with the name that the tables use."""
    return CitationTally(
        name=name, counts=[CitationCounts(**counts) for counts in stored["counts"]], failed=_failed(stored)
    )


def _failed(stored: Stored) -> list[FailedRow]:
    return [FailedRow(**row) for row in stored["failed"]]


def _overlaps(stored: Stored) -> HighlightTally:
    return HighlightTally([[HighlightOverlap(**overlap) for overlap in row] for row in stored["rows"]])
