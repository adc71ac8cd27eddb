"""What a run reads: every file checked and fingerprinted, cut into chunks that do not depend on the workers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from attribeam.logs.columns import check_same_extra_fields
from attribeam.logs.files import ArrowStorage, LogStorage, find_logs
from attribeam.logs.privacy import Redactor
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import reader_named
from attribeam.logs.rows import RowRange
from attribeam.schemas import SpanKind, evidence_schema
from attribeam.schemas.errors import DataError, LogReadError, UsageError
from attribeam.schemas.run_manifest import InputFile, ReadingNote
from attribeam.transforms.audit_settings import AuditSettings

_MAX_STEM_CHARS = 48


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A log that can be audited, with its stamp, and what to tell of how it is read."""

    log: QALog
    row_count: int
    notes: tuple[ReadingNote, ...] = ()

    @property
    def path(self) -> str:
        """Where it lies."""
        return self.log.path


@dataclass(frozen=True, slots=True)
class InputCheck:
    """Files whose schemas fit, in order, the fields of ``--extra-columns``, which they share, and what to tell.

    ``settings`` are those that were given, with the versions of the tables that the files belong to.
    """

    files: tuple[CheckedFile, ...]
    extra_fields: tuple[pa.Field, ...]
    notes: tuple[str, ...]
    settings: AuditSettings

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A unit of work: its name sorts in input order; ``input`` is the file that its rows lie in."""

    name: str
    rows: RowRange
    input: InputFile


@dataclass(frozen=True, slots=True)
class InputPlan:
    """All input files and the chunks that cover their rows exactly once; every file has at least one chunk."""

    inputs: tuple[InputFile, ...]
    chunks: tuple[Chunk, ...]
    notes: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(file.row_count for file in self.inputs)


def check_input(
    patterns: Sequence[str],
    settings: AuditSettings,
    storage: LogStorage | None = None,
    *,
    table_version: int | None = None,
) -> InputCheck:
    """Find the files, read what they say of themselves, and check all columns before anything else happens.

    ``table_version`` is that of the Delta or Iceberg table which the input is, else its current one is read.

    Raises:
        UsageError: if nothing matches, a file is missing, damaged or of another format, a column is missing or has
            another type, or the files do not agree on the types of the extra columns.
        LogReadError: if a file system or the network fails.
    """
    storage = storage or ArrowStorage()
    suffix = reader_named(settings.log_format).suffix
    found = find_logs(patterns, suffix, storage, option="--input", version=table_version)
    settings = replace(settings, tables=found.tables)
    try:
        logs = [QALog(path, settings.log_options, storage).stamped() for path in found.paths]
        checked = {log.path: log.check() for log in logs}
        extra_fields = check_same_extra_fields({path: one.columns for path, one in checked.items()})
    except LogReadError as error:
        raise LogReadError(f"--input: {error}") from error
    except DataError as error:
        raise UsageError(f"--input: {error}") from error
    if not any(one.column_names for one in checked.values()):
        raise UsageError(f"--input: {found.paths[0]!r} has no row, nor has any other file; there is nothing to audit")
    if tuple(settings.span_kinds) == (SpanKind.GIVEN,) and not any(
        one.columns.has("target_spans") for one in checked.values()
    ):
        raise UsageError(
            "--spans given needs rows that give spans, and no file has a column target_spans; name it with --columns "
            "target_spans=..., or choose other --spans"
        )
    _check_extra_fields(extra_fields, settings)
    files = tuple(CheckedFile(log, checked[log.path].row_count, checked[log.path].notes) for log in logs)
    return InputCheck(files, extra_fields, (*found.notes,), settings)


def _check_extra_fields(extra_fields: Sequence[pa.Field], settings: AuditSettings) -> None:
    """Refuse names of the evidence's own, and keys of objects that are to be masked: a table states them in its type.

    Raises:
        UsageError: if there is one.
    """
    try:
        evidence_schema(extra_fields=extra_fields)
    except ValueError as error:
        raise UsageError(f"--extra-columns: {error}") from error
    redactor = Redactor(settings.privacy)
    for field in extra_fields:
        if any(redactor.mask(name) != name for name in _members(field.type)):
            raise UsageError(
                f"--extra-columns carries {field.name!r}, whose objects have keys that hold what is to be masked, and "
                "keys are written as they are; leave it out, or write it as text"
            )


def _members(kind: pa.DataType) -> Iterator[str]:
    for index in range(kind.num_fields if pa.types.is_nested(kind) else 0):
        if pa.types.is_struct(kind):
            yield kind.field(index).name
        yield from _members(kind.field(index).type)


def make_plan(check: InputCheck, *, rows_per_chunk: int) -> InputPlan:
    """Fingerprint the checked files, find their duplicate ids, and cut them into chunks.

    Raises:
        LogReadError: if a file turns out to be damaged now that it is read, or changes meanwhile.
    """
    inputs: list[InputFile] = []
    chunks: list[Chunk] = []
    for index, file in enumerate(check.files):
        try:
            size_bytes, sha256 = file.log.fingerprint()
            duplicates = file.log.duplicate_rows().tolist()
            file.log.check_unchanged()
        except DataError as error:
            raise LogReadError(str(error)) from error
        inputs.append(InputFile(file.path, size_bytes, file.row_count, sha256, file.notes))
        whole = RowRange(file.path, 0, file.row_count, tuple(duplicates), file.log.stamp)
        for start in range(0, max(1, file.row_count), rows_per_chunk):
            rows = part_of(whole, start, min(start + rows_per_chunk, file.row_count))
            chunks.append(Chunk(chunk_name(index, file.path, start), rows, inputs[-1]))
    return InputPlan(tuple(inputs), tuple(chunks), check.notes)


def check_input_unchanged(rows: RowRange, storage: LogStorage | None = None) -> None:
    """Refuse to keep what was read of a file that is no longer the one that was fingerprinted.

    Raises:
        LogReadError: if it was replaced or written to, or is gone.
    """
    QALog(rows.file, storage=storage or ArrowStorage(), stamp=rows.stamp).check_unchanged()


def chunk_name(file_index: int, path: str, row_start: int) -> str:
    """A readable name, unique in a run, that sorts by file and row: ``00003-part-0-r0000002000``."""
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".parquet")
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", stem)[:_MAX_STEM_CHARS].strip("-.") or "file"
    return f"{file_index:05d}-{readable}-r{row_start:010d}"


def part_of(rows: RowRange, start: int, end: int) -> RowRange:
    """The rows from ``start`` to ``end`` (exclusive) of these."""
    inside = tuple(row for row in rows.duplicate_rows if start <= row < end)
    return replace(rows, row_start=start, row_end=end, duplicate_rows=inside)
