"""The output of an evaluation: a JSON file for scripts and tables for people."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from attribeam.evaluation.datasets.dataset_file import SkippedRow, data_files
from attribeam.evaluation.measures.bootstrap import Estimate, Interval
from attribeam.report.messages import one_line
from attribeam.schemas import QARecord, RowFault
from attribeam.schemas.written_files import file_sha256, new_file


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a method could not attribute; all of its spans count as wrong. ``row`` is its 0-based number."""

    row: int
    reason: str
    message: str

    @classmethod
    def of(cls, record: QARecord, fault: RowFault) -> Self:
        """The row of a record."""
        return cls(record.source.source_row, str(fault.reason), str(fault))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run found: ``report`` for the JSON file, dataclasses or plain data, and the same as text."""

    report: object
    text: str


def text_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table for the terminal: header, rule and lines, the first column flush left and the others flush right."""
    shown = [[one_line(cell) for cell in line] for line in (header, *lines)]
    widths = [max(len(line[column]) for line in shown) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in (shown[0], ["-" * width for width in widths], *shown[1:]))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
    return "  ".join([line[0].ljust(widths[0]), *cells]).rstrip()


def interval_cell(interval: Interval | None, *, digits: int = 1, sign: str = "") -> str:
    """Both ends of an interval, empty for None; set ``sign`` to "+" to show a plus sign."""
    return "" if interval is None else f"{interval.low:{sign}.{digits}f} to {interval.high:{sign}.{digits}f}"


def estimate_cells(estimate: Estimate | None, *, digits: int = 1) -> tuple[str, str]:
    """A figure and its interval, empty for None."""
    if estimate is None:
        return "", ""
    return f"{estimate.value:.{digits}f}", interval_cell(estimate.interval, digits=digits)


def write_json(path: Path, value: object) -> None:
    """Write plain data; the file is replaced atomically, so that no reader sees half of it.

    Raises:
        OSError: if it cannot be written.
    """
    with new_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False, default=asdict) + "\n").encode())


def skip_remarks(skipped: Sequence[SkippedRow]) -> list[str]:
    """One line per reason, with the number of rows."""
    counts = Counter(one.reason for one in skipped)
    return [f"{count} rows skipped: {one_line(reason)}" for reason, count in sorted(counts.items())]


def failure_remarks(failed: Sequence[FailedRow], *, consequence: str) -> list[str]:
    """One line per reason, with the number of rows and what happens to them."""
    counts = Counter(one.reason for one in failed)
    return [f"{count} rows failed and {consequence}: {one_line(reason)}" for reason, count in sorted(counts.items())]


def data_digest(path: Path, dataset: str) -> str:
    """SHA-256 of a data set's file, in hex; of several files in a directory, that of their digests in order."""
    digests = [file_sha256(file) for file in data_files(path, dataset)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def verdict_in_use(provenance: Mapping[str, str]) -> str:
    """One line on the thresholds that decided, from the provenance of an attributor."""
    if "answer_risk_threshold" in provenance:
        risk = provenance["answer_risk_threshold"]
        return f"verdict in use: {provenance['verdict']}, an answer has an unsupported claim from risk {risk} on"
    if "supported_threshold" in provenance:
        supported, weak = provenance["supported_threshold"], provenance["weak_threshold"]
        return f"verdict in use: mass, supported from {supported} on, unsupported below {weak}"
    return "verdict in use: none, no thresholds are known for this model and method"
