"""Reads marks that people saved on the page: CSV, JSONL or Parquet, one row per marked claim or answer.

A row needs ``record_id`` and ``label``; a mark on a claim also ``char_start`` and ``char_end``. Rows without a label,
such as those of people who were unsure, say nothing and are counted.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.schemas import CharRange
from attribeam.schemas.errors import DataError

SUPPORTED, UNSUPPORTED = "supported", "unsupported"
_NEEDED = ("record_id", "label")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Mark:
    """What people said of a claim, or of a whole answer; ``supported`` is about all that the answer says.

    Attributes:
        chars: the claim's place in the answer; None for the answer as a whole.
    """

    record_id: str
    chars: CharRange | None
    supported: bool


@dataclass(frozen=True, slots=True)
class Marks:
    """What some files of marks say together.

    Attributes:
        marks: one per place, in the order of the files.
        silent: rows without a label.
        disputed: places on which reviewers disagree; they are left out.
    """

    marks: tuple[Mark, ...]
    silent: int
    disputed: int


@dataclass(frozen=True, slots=True)
class _Said:
    place: tuple[str, CharRange | None]
    supported: bool | None
    reviewer: str
    moment: str


def read_marks(files: Sequence[Path]) -> Marks:
    """The marks of all files; of several by one reviewer on one place the newest counts.

    Raises:
        DataError: if a file cannot be read, or a row is not a mark; it names file, row and field.
    """
    said = [one for file in files for one in _marks_of(file)]
    newest: dict[tuple[tuple[str, CharRange | None], str], _Said] = {}
    for one in said:
        key = (one.place, one.reviewer)
        if key not in newest or newest[key].moment <= one.moment:
            newest[key] = one
    opinions: dict[tuple[str, CharRange | None], set[bool]] = {}
    for one in newest.values():
        if one.supported is not None:
            opinions.setdefault(one.place, set()).add(one.supported)
    agreed = {place: found for place, found in opinions.items() if len(found) == 1}
    return Marks(
        marks=tuple(Mark(*place, supported=found.copy().pop()) for place, found in agreed.items()),
        silent=sum(one.supported is None for one in said),
        disputed=len(opinions) - len(agreed),
    )


def _marks_of(file: Path) -> Iterator[_Said]:
    for number, row in enumerate(_rows(file), start=1):
        if number == 1:
            missing = [name for name in _NEEDED if name not in row]
            if missing:
                raise DataError(
                    f"marks file {file} should have the columns {' and '.join(_NEEDED)}, lacks "
                    f"{' and '.join(missing)}; save the marks on a page that this version wrote (Marks, Save as)"
                )
        yield _said(row, f"marks file {file}, row {number}")


def _said(row: Mapping[str, object], where: str) -> _Said:
    record_id = row["record_id"]
    if not isinstance(record_id, str) or not record_id:
        raise DataError(f"{where}: record_id should be the id of an audited answer, was: {record_id!r}")
    label = row["label"] or None
    if label not in (SUPPORTED, UNSUPPORTED, None):
        raise DataError(f"{where}: label should be {SUPPORTED!r}, {UNSUPPORTED!r} or empty, was: {label!r}")
    chars = _chars(row, where)
    reviewer, moment = (str(row.get(name) or "") for name in ("reviewer", "marked_at"))
    return _Said((record_id, chars), None if label is None else label == SUPPORTED, reviewer, moment)


def _chars(row: Mapping[str, object], where: str) -> CharRange | None:
    start, end = (row.get(name) for name in ("char_start", "char_end"))
    if start in (None, "") and end in (None, ""):
        return None
    try:
        return CharRange(int(str(start)), int(str(end)))
    except ValueError as error:
        raise DataError(
            f"{where}: char_start and char_end should be the claim's place in the answer, or empty for a mark on the "
            f"whole answer, were: {start!r} and {end!r}"
        ) from error


def _rows(file: Path) -> Iterator[Mapping[str, object]]:
    readers = {".csv": _csv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows, ".parquet": _parquet_rows}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise DataError(f"marks file {file} should end in {', '.join(readers)}, as the page saves marks")
    try:
        yield from reader(file)
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException) as error:
        raise DataError(f"marks file {file} cannot be read: {' '.join(str(error).split())}") from error


def _csv_rows(file: Path) -> Iterator[Mapping[str, object]]:
    """Rows of a CSV; the apostrophe that the page puts before what a spreadsheet takes for a formula goes."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines):
            yield {name: _plain(value) for name, value in row.items() if name is not None}


def _plain(value: str | None) -> str | None:
    return value[1:] if value and value[0] == "'" and value[1:].startswith(_FORMULA) else value


def _json_rows(file: Path) -> Iterator[Mapping[str, object]]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(
                    f"marks file {file}, line {number}: should be a JSON object, is none: {error}"
                ) from error
            if not isinstance(row, dict):
                raise DataError(f"marks file {file}, line {number}: should be a JSON object, was: {type(row).__name__}")
            yield row


def _parquet_rows(file: Path) -> Iterator[Mapping[str, object]]:
    yield from pq.read_table(file).to_pylist()
