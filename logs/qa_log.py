"""A QA log as everybody reads it, a file or a table in memory: checked records and faulty rows, in order.

Names of folders, as in ``dt=2026-01-01/part-0.parquet``, give columns that stand in no file.
"""

from __future__ import annotations

import errno
import json
import re
import tempfile
import warnings
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Protocol, cast, runtime_checkable
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribeam.logs.columns import (
    IMPORT_HINT,
    ColumnMap,
    ColumnPart,
    LogOptions,
    is_text,
    list_item_type,
    plain_array,
    plain_type,
)
from attribeam.logs.files import ArrowStorage, LogStorage, fingerprint
from attribeam.logs.lake_tables import without_gone_rows
from attribeam.logs.reader import BATCH_ROWS, LogBatch, OpenLog, RowsMemoryError, reader_named
from attribeam.logs.rows import LESS_HINT, NO_VALUES, FaultyRow, RawRow, RowValidator, raw_rows, slices
from attribeam.schemas import QARecord, RowFault, RowSource
from attribeam.schemas.errors import DataError, LogFormatError, LogReadError, RunError, UsageError
from attribeam.schemas.run_manifest import ReadingNote

_LASTING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM})
"""Why a file cannot be opened as long as nobody changes it."""
_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What never comes of reading, but of the temporary files that some readers need."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
_NOTES = b"attribeam.reading_notes"


def with_reading_notes(notes: Mapping[str, int]) -> dict[bytes, bytes]:
    """What a Parquet file says of how its rows were read, as metadata of its schema."""
    return {_NOTES: json.dumps({note: rows for note, rows in notes.items() if rows}).encode()}


def reading_notes(schema: pa.Schema) -> tuple[ReadingNote, ...]:
    """What ``with_reading_notes`` wrote; none where others wrote it."""
    with suppress(ValueError):
        notes = json.loads((schema.metadata or {}).get(_NOTES, b"{}"))
        if isinstance(notes, dict):
            return tuple(ReadingNote(note, rows) for note, rows in notes.items() if type(rows) is int and rows > 0)
    return ()


@dataclass(frozen=True, slots=True)
class CheckedLog:
    """A file whose columns fit; ``column_names`` are all that it has.

    ``notes`` say what was chosen, left out or could not be read, each with the number of rows.
    """

    row_count: int
    columns: ColumnMap
    column_names: tuple[str, ...]
    notes: tuple[ReadingNote, ...] = ()


@dataclass(frozen=True, slots=True)
class QALog:
    """One file; picklable, and open only while it is read.

    Where there is a ``stamp``, see ``LogStorage.stamp``, every opening has to lead to the file of that stamp, before it
    is read and afterwards: what was fingerprinted is what is read.

    Every method raises ``LogFormatError`` if the file is of another format or lacks a column, ``DataError`` if it is
    not there or is damaged, ``LogReadError`` if its file system fails or it was replaced, and ``UsageError`` if the
    format is unknown. Messages name the file.
    """

    path: str
    options: LogOptions = field(default_factory=LogOptions)
    storage: LogStorage = field(default_factory=ArrowStorage)
    stamp: str | None = None

    def check(self) -> CheckedLog:
        """Look at names, types and number of rows, and at no row."""
        with self._opened() as log:
            columns = self._column_map(log)
            own = [ReadingNote(note, log.row_count) for note in columns.notes]
            return CheckedLog(log.row_count, columns, tuple(log.schema.names), (*reading_notes(log.schema), *own))

    def fingerprint(self) -> tuple[int, str]:
        """Size in bytes and SHA-256 of the content."""
        with self.opened() as file:
            return fingerprint(file)

    def stamped(self) -> QALog:
        """This log with the stamp of the file that its path leads to now; without one where it leads to none."""
        with file_errors_named(self.path):
            return replace(self, stamp=self.storage.stamp(self.path))

    def check_unchanged(self, file: BinaryIO | None = None) -> None:
        """Refuse a path that no longer leads to the file of the stamp, or an open ``file`` that is another one."""
        if self.stamp is None:
            return
        with file_errors_named(self.path):
            stamp = self.storage.stamp(self.path, file)
        if stamp is None and file is None:
            raise LogReadError(f"log {self.path!r} is not there; bring it back, or correct its path")
        if stamp not in (None, self.stamp):
            raise LogReadError(
                f"log {self.path!r} was replaced or written to while it was read, so that rows would not be of the "
                "content that was fingerprinted; leave it alone until the run has ended, and start the run again"
            )

    def outcomes(
        self, rows: Sequence[int] | None = None, *, duplicate_rows: Collection[int] = (), last_try: bool = False
    ) -> Iterator[QARecord | FaultyRow]:
        """Exactly one outcome per row, in the order of the file.

        ``rows`` ascend; without them all are read. Those in ``duplicate_rows`` are faulty. At a ``last_try``, so are
        rows that need more memory to be read than there is; else that is a MemoryError.
        """
        self.check_unchanged()
        duplicates = frozenset(duplicate_rows)
        with self._opened() as log:
            columns = self._column_map(log)
            wanted = range(log.row_count) if rows is None else rows
            while wanted:
                try:
                    yield from self._outcomes(log, columns, wanted, duplicates)
                    break
                except RowsMemoryError as error:
                    if not last_try:
                        raise
                    unread = error.with_traceback(None)
                yield from self._unread(log, columns, unread)
                wanted = wanted[bisect_right(wanted, unread.rows[-1]) :]
        self.check_unchanged()

    def _outcomes(
        self, log: OpenLog, columns: ColumnMap, rows: Sequence[int], duplicates: Collection[int]
    ) -> Iterator[QARecord | FaultyRow]:
        validator = RowValidator(columns, self.options.max_text_chars)
        for batch in self._batches(log, columns.parts(), rows):
            raws = raw_rows(batch.rows, columns, self.options.max_text_chars)
            for row, raw in enumerate(raws, start=batch.first_row):
                source, fault = RowSource(self.path, row), batch.faults.get(row)
                if fault is not None:
                    yield validator.refusal(raw, source, fault)
                else:
                    yield validator.outcome(raw, source, duplicate=row in duplicates)

    def _unread(self, log: OpenLog, columns: ColumnMap, unread: RowsMemoryError) -> Iterator[FaultyRow]:
        """The rows with their ids, if at least those can be read."""
        validator, most_chars = RowValidator(columns, self.options.max_text_chars), self.options.max_text_chars
        known = replace(columns, pairs=tuple(pair for pair in columns.pairs if pair[0] == "record_id"), extra_fields=())
        ids: dict[int, RawRow] = {}
        with suppress(RowsMemoryError):
            for batch in self._batches(log, known.parts(), unread.rows):
                ids.update(enumerate(raw_rows(batch.rows, known, most_chars), start=batch.first_row))
        for row in unread.rows:
            yield validator.refusal(ids.get(row, NO_VALUES), RowSource(self.path, row), unread.fault)

    def duplicate_rows(self) -> npt.NDArray[np.int64]:
        """0-based rows, ascending, whose id an earlier row of the file has; nulls are never duplicates.

        A first pass keeps a 64-bit hash per row; only ids whose hash comes up twice are compared, in a second.
        """
        hashes = np.concatenate([_id_hashes(ids) for ids in self._ids()] or [np.empty(0, np.int64)])
        values, counts = np.unique(hashes, return_counts=True)
        repeated = values[counts > 1]
        return np.array([*_repeated_rows(self._ids(), repeated)] if len(repeated) else [], np.int64)

    def passage_ids(self) -> Iterator[pa.Array]:
        """Lists of the ids of rows' passages, batch by batch; nothing where the log's passages have no ids."""
        with self._opened() as log:
            columns = self._column_map(log)
            if not columns.has("passages"):
                return
            column = columns.column_of("passages")
            item = list_item_type(plain_type(log.schema.field(column).type))
            if item is not None and pa.types.is_struct(item) and item.get_field_index("passage_id") >= 0:
                for batch in self._batches(log, [ColumnPart(column, ("passage_id",))], None):
                    yield plain_array(batch.rows.column(column))

    def _ids(self) -> Iterator[list[object]]:
        """The ids batch by batch; text as bytes, because it may be no UTF-8."""
        with self._opened() as log:
            column = self._column_map(log).column_of("record_id")
            for batch in self._batches(log, [ColumnPart(column)], None):
                plain = plain_array(batch.rows.column(column))
                yield (plain.cast(pa.large_binary()) if is_text(plain.type) else plain).to_pylist()

    def _column_map(self, log: OpenLog) -> ColumnMap:
        """The columns of the fields; a file without rows and names, such as an empty one of JSON lines, needs none."""
        if not log.row_count and not log.schema.names:
            return ColumnMap.of_nothing(self.options)
        return ColumnMap.from_schema(self.path, log.schema, self.options)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file's bytes."""
        with file_errors_named(self.path), self.storage.open(self.path) as file:
            self.check_unchanged(file)
            yield file
            self.check_unchanged(file)

    @contextmanager
    def _opened(self) -> Iterator[OpenLog]:
        reader = reader_named(self.options.format)
        with self.opened() as file:
            with reader_errors_named(self.path):
                log = without_gone_rows(reader.open(file), self.path, self.options.tables, self.storage)
            yield _with_partitions(log, self.path)

    def _batches(self, log: OpenLog, parts: Sequence[ColumnPart], rows: Sequence[int] | None) -> Iterator[LogBatch]:
        wanted = range(log.row_count) if rows is None else rows
        if not wanted:
            return
        if wanted[-1] >= log.row_count:
            raise LogReadError(
                f"log {self.path!r} should have at least {wanted[-1] + 1} rows, has {log.row_count}; it was changed "
                "after the run was planned, start the run again"
            )
        with reader_errors_named(self.path):
            yield from log.batches(parts, wanted)


@contextmanager
def reader_errors_named(path: str) -> Iterator[None]:
    """Readers do not know the path, so it is put in front of their messages."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"log {path!r} {error}") from error


@contextmanager
def file_errors_named(path: str) -> Iterator[None]:
    """Errors of file systems and of Arrow as a ``DataError`` that names the file, a ``LogReadError`` if it may pass.

    A temporary file that cannot be written is a ``RunError``.
    """
    try:
        yield
    except MemoryError:
        raise
    except FileNotFoundError as error:
        problem = "is a link that leads nowhere" if "://" not in path and Path(path).is_symlink() else "is not there"
        raise DataError(f"log {path!r} {problem}; bring it back, or correct its path") from error
    except (OSError, pa.ArrowException) as error:
        problem = " ".join(str(error).split())
        if isinstance(error, OSError) and error.errno in _OF_WRITING:
            raise temporary_file_failed(error) from error
        # one of a local file without a number is Arrow's, of damage
        may_pass = isinstance(error, OSError) and (
            "://" in path if error.errno is None else error.errno not in _LASTING
        )
        kind = LogReadError if may_pass else DataError
        raise kind(f"log {path!r} cannot be read: {problem}; replace it, or leave it out") from error


def temporary_file_failed(error: Exception) -> RunError:
    """What to raise where a temporary file cannot be written."""
    return RunError(
        f"a temporary file cannot be written: {' '.join(str(error).split())}; free space in {tempfile.gettempdir()} or "
        "name another folder with TMPDIR, and raise `ulimit -f` if it is too low"
    )


def _repeated_rows(batches: Iterator[list[object]], repeated: npt.NDArray[np.int64]) -> Iterator[int]:
    seen: set[object] = set()
    row_start = 0
    for ids in batches:
        for row in np.flatnonzero(np.isin(_id_hashes(ids), repeated)).tolist():
            if ids[row] in seen:
                yield row_start + row
            if ids[row] is not None:
                seen.add(ids[row])
        row_start += len(ids)


def _id_hashes(ids: list[object]) -> npt.NDArray[np.int64]:
    return np.fromiter((hash(value) for value in ids), np.int64, len(ids))


def _with_partitions(log: OpenLog, path: str) -> OpenLog:
    """The log with a column of text for each folder ``name=value`` above its file.

    A column of the file goes before, and the innermost folder of a name counts. Both are decoded as URLs are.
    """
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    decoded = {unquote(name): unquote(value) for name, sign, value in pairs if name and sign}
    values = {
        name: None if value == _NULL else value for name, value in decoded.items() if name not in log.schema.names
    }
    return _PartitionedLog(log, values) if values and log.schema.names else log


class _PartitionedLog:
    def __init__(self, log: OpenLog, values: Mapping[str, str | None]) -> None:
        self._log = log
        self._values = values
        self.schema: pa.Schema = pa.schema([*log.schema, *(pa.field(name, pa.string()) for name in values)])
        self.row_count = log.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        own = [part for part in parts if part.column not in self._values]
        for batch in self._log.batches(own or [ColumnPart(self._log.schema.names[0])], rows):
            table = batch.rows
            for name, value in self._values.items():
                table = table.append_column(name, pa.array([value] * table.num_rows, pa.string()))
            yield replace(batch, rows=table.select([*dict.fromkeys(part.column for part in parts)]))


@runtime_checkable
class ArrowStream(Protocol):
    """A table of any library by Arrow's PyCapsule interface: of pyarrow, pandas, polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class Dataset(Protocol):
    """What is used of a ``datasets.Dataset``, whose chosen and shuffled rows its own iterator knows."""

    features: object

    def with_format(self, type: str) -> Dataset: ...

    def iter(self, batch_size: int) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class TableLog:
    """A table that is read once, from its first row to its last; its rows are checked as a file's rows are.

    Attributes:
        data: what holds the rows.
        name: what stands for the file's name in records and messages.
        options: as for a file; the format says nothing.
    """

    data: object
    name: str
    options: LogOptions

    @cached_property
    def columns(self) -> ColumnMap:
        """Which columns hold which fields.

        Raises ``UsageError`` if the data are no table, and ``LogFormatError`` as ``ColumnMap.from_schema``.
        """
        schema, _ = self._opened
        if self.row_count == 0:  # columns without a type are taken for what they should be
            types = {dict(self.options.columns).get("passages", "passages"): pa.list_(pa.string())}
            untyped = [col for col in schema if pa.types.is_null(col.type)]
            for col in untyped:
                schema = schema.set(schema.names.index(col.name), col.with_type(types.get(col.name, pa.string())))
        try:
            columns = ColumnMap.from_schema(self.name, schema, self.options)
        except LogFormatError as error:
            raise LogFormatError(in_python(str(error))) from error
        for note in columns.notes:
            warnings.warn(in_python(note), stacklevel=2)
        return columns

    @property
    def row_count(self) -> int | None:
        """Number of rows where the table knows it; None for a stream or a query, which asking might use up."""
        counts = [getattr(self.data, name, None) for name in ("num_rows", "height")]
        if hasattr(self.data, "iloc"):
            counts.append(len(cast(Sized, self.data)))
        return next((count for count in counts if isinstance(count, int)), None)

    def outcomes(self) -> Iterator[QARecord | FaultyRow]:
        """Exactly one outcome per row, in order; a row whose id an earlier one has is faulty."""
        validator = RowValidator(self.columns, self.options.max_text_chars)
        names = list(dict.fromkeys(part.column for part in self.columns.parts()))
        pieces = (piece.select(names) for batch in self._opened[1] for piece in slices(batch, BATCH_ROWS))
        raws = (raw for piece in pieces for raw in raw_rows(piece, self.columns, self.options.max_text_chars))
        seen: set[object] = set()
        for row, raw in enumerate(raws):
            is_repeated = raw.record_id is not None and raw.record_id in seen
            seen.add(raw.record_id)
            outcome = validator.outcome(raw, RowSource(self.name, row), duplicate=is_repeated)
            if isinstance(outcome, FaultyRow):
                fault = outcome.fault
                outcome = replace(outcome, fault=RowFault(fault.reason, in_python(str(fault)), column=fault.column))
            yield outcome

    @cached_property
    def _opened(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        data = self.data
        if isinstance(data, ArrowStream):
            try:
                reader = pa.RecordBatchReader.from_stream(data)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise UsageError(
                    "the table should be one that Arrow can hold, with one name and one type of values for each "
                    "column; the error before this one says what is in the way"
                ) from error
            return reader.schema, reader
        if isinstance(data, pa.RecordBatch):
            return data.schema, [data]
        if isinstance(data, Dataset):
            tables = data.with_format("arrow").iter(batch_size=BATCH_ROWS)
            first = next(tables, None)
            if first is None:
                return getattr(data.features, "arrow_schema", pa.schema([])), []
            return first.schema, (batch for table in chain([first], tables) for batch in table.to_batches())
        raise UsageError(
            "a table is needed that gives Arrow data (__arrow_c_stream__), as those of pyarrow, pandas, polars and "
            f"DuckDB do, or a datasets.Dataset; was a {type(data).__name__}; collect a lazy one, and give a list of "
            "dicts to attribute_many"
        )


def in_python(message: str) -> str:
    """A message that names options of the command line, with the keywords of the same names."""

    def as_dict(found: re.Match[str]) -> str:
        return "columns={" + re.sub(r"(\w+)=", r'"\1": ', found[1]).replace(",", ", ") + "}"

    message = message.replace(IMPORT_HINT, "give lists, such as json.loads makes of JSON text")
    message = re.sub(r"--columns (\w+=\.\.\.(?:,\w+=\.\.\.)*)", as_dict, message)
    message = re.sub(r"--columns (\w+)=(\w+)", r'columns={"\1": "\2"}', message)
    message = re.sub(r"--columns (\w+)=", r'columns={"\1": ""}', message)
    message = message.replace(LESS_HINT, f"{LESS_HINT}, or raise max_text_chars")
    return re.sub(r"--(columns|extra-columns)", lambda match: match[1].replace("-", "_"), message)
