"""Reads marks that people saved on the page: CSV, JSONL or Parquet, one row per marked claim or answer.

A row needs ``record_id`` and ``label``; a mark on a claim also ``char_start`` and ``char_end``. ``source_file`` and
``source_row`` tell answers with one id apart. Rows without a label, such as those of people who were unsure, say
nothing and are counted. A mark without a reviewer is one of the file's, by its path where files share a name.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.schemas import CharRange, RowSource
from attribeam.schemas.errors import DataError

SUPPORTED, UNSUPPORTED = "supported", "unsupported"
_NEEDED = ("record_id", "label")
_COLUMNS = (
    *_NEEDED, "source_file", "source_row", "span_index", "char_start", "char_end", "mark", "note", "reviewer",
    "marked_at",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Mark:
    """What people said of a claim, or of a whole answer; ``supported`` is about all that the answer says.

    Attributes:
        chars: the claim's place in the answer; None for the answer as a whole.
        source: the row that the answer stood in when it was marked, None where the file does not say.
    """

    record_id: str
    chars: CharRange | None
    supported: bool
    source: RowSource | None = None


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
class MergedMarks:
    """Some files of marks as one: per place a row as the page saves it and labels by reviewer; labels of each two."""

    rows: tuple[Mapping[str, object], ...]
    disputed: int
    labels: Sequence[Mapping[str, bool]]
    pairs: Mapping[tuple[str, str], Sequence[tuple[bool, bool]]]


_Place = tuple[str, CharRange | None, RowSource | None]
"""Id, place in the answer and row: what a mark is on."""


@dataclass(frozen=True, slots=True)
class _Said:
    place: _Place
    supported: bool | None
    reviewer: str
    moment: str
    row: Mapping[str, object]


def read_marks(files: Sequence[Path]) -> Marks:
    """The marks of all files; of several by one reviewer on one place the newest counts.

    Raises:
        DataError: if a file cannot be read, or a row is not a mark; it names file, row and field.
    """
    said = _marks_in(files)
    labels = {place: {one.supported for one in own} - {None} for place, own in _newest(said).items()}
    agreed = ((place, found) for place, found in labels.items() if len(found) == 1)
    return Marks(
        marks=tuple(Mark(name, chars, found == {True}, source) for (name, chars, source), found in agreed),
        silent=sum(one.supported is None for one in said),
        disputed=sum(len(found) > 1 for found in labels.values()),
    )


def merge_marks(files: Sequence[Path], *, moment: str) -> MergedMarks:
    """The marks of all files, one row per place: the newest, or where reviewers disagree one of ``unsure``.

    Such a row has no label, and its note says who says what; the page's filter of marks lists them. Rows are dated
    ``moment`` (ISO 8601), so that a page takes them for newer than its own.

    Raises:
        DataError: as ``read_marks``.
    """
    by_place = _newest(_marks_in(files))
    rows, disputed = [], 0
    for own in by_place.values():
        named = sorted((one for one in own if one.supported is not None), key=lambda one: one.reviewer)
        row = dict(max(named or own, key=lambda one: one.moment).row)
        row |= {"reviewer": ", ".join(sorted(one.reviewer for one in own)), "marked_at": moment}
        if len({one.supported for one in named}) > 1:
            words = (f"{one.reviewer}: {SUPPORTED if one.supported else UNSUPPORTED}" for one in named)
            row |= {"mark": "unsure", "label": None, "note": f"disputed; {', '.join(words)}"}
            disputed += 1
        rows.append(row)
    labels = [{one.reviewer: one.supported for one in own if one.supported is not None} for own in by_place.values()]
    reviewers = sorted({name for one in labels for name in one})
    pairs = {
        (first, second): [(one[first], one[second]) for one in labels if first in one and second in one]
        for first, second in combinations(reviewers, 2)
    }
    return MergedMarks(tuple(rows), disputed, labels, {names: both for names, both in pairs.items() if both})


def cohen_kappa(labels: Sequence[tuple[bool, bool]]) -> float:
    """How far two reviewers agree beyond what chance gives them, at most 1; 1 where both have but one label."""
    first, second = (fmean(both) for both in zip(*labels, strict=True))
    chance = first * second + (1 - first) * (1 - second)
    return (fmean(one == other for one, other in labels) - chance) / (1 - chance) if chance < 1 else 1.0


def krippendorff_alpha(labels: Sequence[Mapping[str, bool]]) -> float:
    """How far reviewers agree beyond chance, at most 1, given each place's labels by reviewer, who may lack some.

    1 where there is but one label, NaN where no place has two.

    Raises:
        ImportError: if the package krippendorff is missing.
    """
    from krippendorff import alpha

    several = [one for one in labels if len(one) > 1]
    if not several:
        return math.nan
    if len({label for one in several for label in one.values()}) == 1:
        return 1.0
    reviewers = sorted({name for one in several for name in one})
    table = [[float(one[name]) if name in one else math.nan for one in several] for name in reviewers]
    return float(alpha(reliability_data=table, level_of_measurement="nominal"))


def _newest(said: Iterable[_Said]) -> dict[_Place, list[_Said]]:
    """The newest mark of each reviewer, by place."""
    newest: dict[_Place, dict[str, _Said]] = {}
    for one in said:
        own = newest.setdefault(one.place, {})
        if one.reviewer not in own or own[one.reviewer].moment <= one.moment:
            own[one.reviewer] = one
    return {place: [*own.values()] for place, own in newest.items()}


def marks_by_answer(marks: Iterable[Mark], answers: Iterable[tuple[str, RowSource]]) -> dict[RowSource, list[Mark]]:
    """The marks of each answer that has some, given the ids and rows of an audit's answers.

    A mark is of the answer with its id. Where several answers have this id, as behind masks, it is of the one in its
    row.
    """
    rows: defaultdict[str, set[RowSource]] = defaultdict(set)
    for record_id, source in answers:
        rows[record_id].add(source)
    by_id: defaultdict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        by_id[mark.record_id].append(mark)
    found: dict[RowSource, list[Mark]] = {}
    for record_id, own in by_id.items():
        sources = rows[record_id]
        is_one = len(sources) == 1 and len({mark.source for mark in own} - {None}) <= 1
        for mark in own:
            place = next(iter(sources)) if is_one else mark.source
            if place is not None and place in sources:
                found.setdefault(place, []).append(mark)
    return found


def _marks_in(files: Sequence[Path]) -> list[_Said]:
    stems = [file.stem for file in files]
    return [one for file in files for one in _marks_of(file, file.stem if stems.count(file.stem) == 1 else str(file))]


def _marks_of(file: Path, reviewer: str) -> Iterator[_Said]:
    for number, row in enumerate(_rows(file), start=1):
        if number == 1:
            missing = [name for name in _NEEDED if name not in row]
            if missing:
                raise DataError(
                    f"marks file {file} should have the columns {' and '.join(_NEEDED)}, lacks "
                    f"{' and '.join(missing)}; save the marks on a page that this version wrote (Marks, Save as)"
                )
        yield _said(row, f"marks file {file}, row {number}", reviewer)


def _said(row: Mapping[str, object], where: str, reviewer: str) -> _Said:
    record_id = row.get("record_id")
    if not isinstance(record_id, str) or not record_id or not _is_unicode(record_id):
        raise DataError(f"{where}: record_id should be the id of an audited answer, was: {record_id!r}")
    label = row.get("label") or None
    if label not in (SUPPORTED, UNSUPPORTED, None):
        raise DataError(f"{where}: label should be {SUPPORTED!r}, {UNSUPPORTED!r} or empty, was: {label!r}")
    supported = None if label is None else label == SUPPORTED
    place = (record_id, _chars(row, where), _source(row, where))
    return _Said(place, supported, str(row.get("reviewer") or reviewer), str(row.get("marked_at") or ""), row)


def _is_unicode(text: str) -> bool:
    """Whether a text has no half of a character, which JSON may hold and no id of an audit has."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _chars(row: Mapping[str, object], where: str) -> CharRange | None:
    start, end = row.get("char_start"), row.get("char_end")
    if start in (None, "") and end in (None, ""):
        return None
    try:
        return CharRange(int(str(start)), int(str(end)))
    except ValueError as error:
        raise DataError(
            f"{where}: char_start and char_end should be the claim's place in the answer, or empty for a mark on the "
            f"whole answer, were: {start!r} and {end!r}"
        ) from error


def _source(row: Mapping[str, object], where: str) -> RowSource | None:
    file, number = row.get("source_file"), row.get("source_row")
    if file in (None, "") or number in (None, ""):
        return None
    try:
        return RowSource(str(file), int(str(number)))
    except ValueError as error:
        raise DataError(f"{where}: source_row should be the number of a row, was: {number!r}") from error


def _rows(file: Path) -> Iterator[Mapping[str, object]]:
    readers = {".csv": _csv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows, ".parquet": _parquet_rows}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise DataError(f"marks file {file} should end in {', '.join(readers)}, as the page saves marks")
    try:
        yield from reader(file)
    except DataError:
        raise
    except (OSError, ValueError, LookupError, ArithmeticError, csv.Error, pa.ArrowException) as error:
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
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"marks file {file}, line {number}: should be a JSON object, is none: {error}"
                ) from error
            if not isinstance(row, dict):
                raise DataError(f"marks file {file}, line {number}: should be a JSON object, was: {type(row).__name__}")
            yield row


def _parquet_rows(file: Path) -> Iterator[Mapping[str, object]]:
    """Rows of a Parquet file; times become texts, which Python's own could not hold."""
    table = pq.read_table(file, columns=[name for name in pq.read_schema(file).names if name in _COLUMNS])
    columns = [one.cast(pa.string()) if pa.types.is_temporal(one.type) else one for one in table.columns]
    yield from pa.table(columns, names=table.column_names).to_pylist()
