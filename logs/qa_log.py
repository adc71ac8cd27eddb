"""One file of a QA log as everybody reads it: checked records and faulty rows, repeated ids, passages' ids."""

from __future__ import annotations

import errno
import json
import tempfile
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribeam.logs.arrow_logs import with_partitions
from attribeam.logs.columns import ColumnMap, ColumnPart, LogOptions, is_text, list_item_type, plain_array, plain_type
from attribeam.logs.files import ArrowStorage, LogStorage, fingerprint
from attribeam.logs.lake_tables import without_gone_rows
from attribeam.logs.reader import LogBatch, OpenLog, RowsMemoryError, reader_named
from attribeam.logs.rows import NO_VALUES, FaultyRow, RawRow, RowValidator, raw_rows
from attribeam.schemas import QARecord, RowSource
from attribeam.schemas.errors import DataError, LogReadError, RunError
from attribeam.schemas.run_manifest import ReadingNote

_LASTING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM})
"""Why a file cannot be opened as long as nobody changes it."""
_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What never comes of reading, but of the temporary files that some readers need."""


_NOTES = b"attribeam.reading_notes"


def with_reading_notes(notes: Mapping[str, int]) -> dict[bytes, bytes]:
    """What a Parquet file says of how its rows were read, as metadata of its schema."""
    return {_NOTES: json.dumps({note: rows for note, rows in notes.items() if rows}).encode()}


def reading_notes(schema: pa.Schema) -> tuple[ReadingNote, ...]:
    """What ``with_reading_notes`` wrote; none where others wrote it."""
    with suppress(ValueError):
        found = json.loads((schema.metadata or {}).get(_NOTES, b"{}"))
        if isinstance(found, dict):
            return tuple(ReadingNote(note, rows) for note, rows in found.items() if type(rows) is int and rows > 0)
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
            found = self.storage.stamp(self.path, file)
        if found is None and file is None:
            raise LogReadError(f"log {self.path!r} is not there; bring it back, or correct its path")
        if found not in (None, self.stamp):
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
                unread: RowsMemoryError | None = None
                try:
                    yield from self._outcomes(log, columns, wanted, duplicates)
                except RowsMemoryError as error:
                    if not last_try:
                        raise
                    unread = error.with_traceback(None)
                if unread is None:
                    break
                yield from self._unread(log, columns, unread)
                wanted = wanted[bisect_right(wanted, unread.rows[-1]) :]
        self.check_unchanged()

    def _outcomes(
        self, log: OpenLog, columns: ColumnMap, rows: Sequence[int], duplicates: Collection[int]
    ) -> Iterator[QARecord | FaultyRow]:
        validator = RowValidator(columns, self.options.max_text_chars)
        for batch in self._batches(log, columns.parts(), rows):
            found = raw_rows(batch.rows, columns, self.options.max_text_chars)
            for row, raw in enumerate(found, start=batch.first_row):
                source = RowSource(self.path, row)
                fault = batch.faults.get(row)
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
            yield with_partitions(log, self.path)

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
        found = "is a link that leads nowhere" if "://" not in path and Path(path).is_symlink() else "is not there"
        raise DataError(f"log {path!r} {found}; bring it back, or correct its path") from error
    except (OSError, pa.ArrowException) as error:
        found = " ".join(str(error).split())
        if isinstance(error, OSError) and error.errno in _OF_WRITING:
            raise temporary_file_failed(error) from error
        kind = LogReadError if isinstance(error, OSError) and _may_pass(error, path) else DataError
        raise kind(f"log {path!r} cannot be read: {found}; replace it, or leave it out") from error


def temporary_file_failed(error: Exception) -> RunError:
    """What to raise where a temporary file cannot be written."""
    return RunError(
        f"a temporary file cannot be written: {' '.join(str(error).split())}; free space in {tempfile.gettempdir()} or "
        "name another folder with TMPDIR, and raise `ulimit -f` if it is too low"
    )


def _may_pass(error: OSError, path: str) -> bool:
    """Whether another attempt may read the file; an error of a local file without a number is Arrow's, of damage."""
    return "://" in path if error.errno is None else error.errno not in _LASTING


def _repeated_rows(batches: Iterator[list[object]], repeated: npt.NDArray[np.int64]) -> Iterator[int]:
    seen: set[object] = set()
    row_start = 0
    for ids in batches:
        for row in np.flatnonzero(np.isin(_id_hashes(ids), repeated)).tolist():
            value = ids[row]
            if value is None:
                continue
            if value in seen:
                yield row_start + row
            seen.add(value)
        row_start += len(ids)


def _id_hashes(ids: list[object]) -> npt.NDArray[np.int64]:
    return np.fromiter((hash(value) for value in ids), np.int64, len(ids))
