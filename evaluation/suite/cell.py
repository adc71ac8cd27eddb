"""One cell of work: one method on one data set. Its result is kept under a digest of all that it depends on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from evaluation.methods.need import Need
from evaluation.suite.data_files import DataFile

CELL_FORMAT = 1
"""Counts up whenever what a cell holds, or how it is computed, changes."""


class Kind(StrEnum):
    """What is measured."""

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
        method: the method's name in the tables; empty where there is none.
        needs: what has to be loaded.
        depends_on: plain data; the result is kept until any of it changes.
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
        """SHA-256 of what the result depends on, in hex."""
        plain = {"format": CELL_FORMAT, "kind": self.kind, "method": self.method, **self.depends_on}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @property
    def file_name(self) -> str:
        """The name of the file with the result."""
        words = re.sub(r"[^\w-]+", "-", f"{self.kind} {self.data.name} {self.method}".strip())
        return f"{words}-{self.key[:12]}.json"
