"""Files of an export to the rows that they come to, in the order in which they first appear; spans wait on disk."""

from __future__ import annotations

import pickle
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from attribeam.logs.files import LogStorage
from attribeam.logs.qa_log import temporary_file_failed
from attribeam.logs.rows import EMPTY_PASSAGE, text_bytes, unreadable_moment
from attribeam.logs.traces.assembly import Span, TraceRow, document_of_trace, passage_text_fault, row_of_trace, tree_of
from attribeam.logs.traces.documents import Document, Texts, document_of, no_texts, with_texts
from attribeam.logs.traces.formats import LogKind, SpanFormat
from attribeam.logs.traces.paths import PathSet, TraceOptions, path_set
from attribeam.logs.traces.record_files import records
from attribeam.logs.traces.rows import Rows
from attribeam.logs.traces.values import FileRecord, fault, in_snake_case, is_nothing, microseconds, shape
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, UsageError

MOST_SPANS = 20_000
MOST_BYTES = 1 << 28
"""The largest trace that is read into memory: 20,000 spans of together 256 MiB."""
_TOO_LARGE = f"trace should have at most {MOST_SPANS} spans of 256 MiB, has more; leave it out of the export"

_GROUPS = """
    SELECT min(rowid), trace, count(*) > ? OR sum(length(entry)) > ? FROM spans
    GROUP BY coalesce(trace, rowid) ORDER BY 1
"""


@contextmanager
def _temporary_table(schema: str) -> Iterator[sqlite3.Connection]:
    """A database in a temporary file that has no name any more, so that it goes whatever ends the process.

    Raises:
        RunError: if it cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="attribeam-") as folder:
        database = sqlite3.connect(Path(folder, "rows.sqlite"), isolation_level=None)
        for command in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "BEGIN EXCLUSIVE"):
            database.execute(command)
    try:
        database.execute(f"CREATE TABLE {schema}")
        yield database
    except sqlite3.Error as error:
        raise temporary_file_failed(error) from error
    finally:
        database.close()


class SpooledTrace(NamedTuple):
    """One trace: the file and line where it first appears, and its spans in the order of the export.

    A fault stands in the place of spans that are too many, and of a record that could not be read, which has no id.
    """

    file: int
    place: str
    trace_id: str | None
    spans: list[Span] | RowFault


@dataclass(frozen=True, slots=True)
class TraceSpool:
    """Takes spans, and gives traces in the order in which they first appear; see ``trace_spool``."""

    database: sqlite3.Connection

    def add(self, file: int, place: str, entry: Span | RowFault) -> None:
        """Keep a span, or the fault of a record that belongs to no known trace."""
        key = None if isinstance(entry, RowFault) else text_bytes(entry.trace_id)
        self.database.execute("INSERT INTO spans VALUES (?, ?)", (key, pickle.dumps((file, place, entry))))

    def traces(self) -> Iterator[SpooledTrace]:
        """Every trace once."""
        self.database.execute("CREATE INDEX by_trace ON spans (trace)")
        for first, trace, is_too_large in self.database.execute(_GROUPS, (MOST_SPANS, MOST_BYTES)):
            file, place, entry = next(self._entries("rowid", first))
            if isinstance(entry, RowFault):
                yield SpooledTrace(file, place, None, entry)
            elif is_too_large:
                yield SpooledTrace(file, place, entry.trace_id, fault(Reason.TRACE_TOO_LARGE, None, _TOO_LARGE))
            else:
                yield SpooledTrace(file, place, entry.trace_id, [span for *_, span in self._entries("trace", trace)])

    def _entries(self, column: str, value: object) -> Iterator[tuple[int, str, Span]]:
        found = self.database.execute(f"SELECT entry FROM spans WHERE {column} = ? ORDER BY rowid", (value,))
        return (pickle.loads(entry) for (entry,) in found)


@contextmanager
def trace_spool() -> Iterator[TraceSpool]:
    """A spool; its temporary file, as large as the texts of the spans, goes when the context is left.

    Raises:
        RunError: if the file cannot be written.
    """
    with _temporary_table("spans (trace BLOB, entry BLOB)") as database:
        yield TraceSpool(database)


@contextmanager
def passages_table(storage: LogStorage, path: str) -> Iterator[Texts]:
    """The table at ``path``, read once, of which the first passage of an id counts; a temporary file holds it.

    Its fields are ``passage_id`` (or ``id``), ``text`` (or ``content``, ``page_content``), and perhaps ``title``; it
    may be Parquet, Arrow, CSV, JSON or JSON lines.

    Raises:
        UsageError: if the table is not there, or no row has an id and a text.
        DataError: if it cannot be read.
        RunError: if the temporary file cannot be written.
    """
    with _temporary_table("passages (id BLOB PRIMARY KEY, text BLOB, title BLOB) WITHOUT ROWID") as database:
        rows = usable = 0
        try:
            with storage.open(path) as file:
                for rows, record in enumerate(records(file, wrappers=("data", "passages")), start=1):  # noqa: B007
                    if isinstance(record.value, RowFault):
                        raise DataError(f"{record.value}; correct the table")
                    document = document_of(record.value)
                    if document is not None and document.text is not None and document.passage_id:
                        usable += 1
                        row = map(text_bytes, (document.passage_id, document.text, document.title))
                        database.execute("INSERT OR IGNORE INTO passages VALUES (?, ?, ?)", tuple(row))
        except FileNotFoundError as error:
            raise UsageError(f"--passages-table {path!r} is not there; correct its path") from error
        except (DataError, OSError) as error:
            raise DataError(f"--passages-table {path!r} {' '.join(str(error).split())}") from error
        if not usable:
            raise UsageError(
                f"--passages-table {path!r} should have the fields passage_id and text, none of its {rows} rows "
                "has both"
            )
        yield partial(_passage, database)


def _passage(database: sqlite3.Connection, passage_id: str) -> Document | None:
    query = "SELECT text, title FROM passages WHERE id = ?"
    found = database.execute(query, (text_bytes(passage_id),)).fetchone()
    if found is None:
        return None
    text, title = (None if one is None else one.decode("utf-8", "surrogateescape") for one in found)
    return Document(text, title, passage_id)


_MOMENTS = frozenset({"start_time", "end_time", "timestamp", "start_time_unix_nano", "end_time_unix_nano"})

OpenFile = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens a file; what is raised while it is open may be given its name."""


class PlacedRow(NamedTuple):
    """A row: the number of the file where it first appears, its 0-based number among the rows of that file.

    ``document`` gives what paths are searched in.
    """

    file: int
    number: int
    row: TraceRow
    document: Callable[[], object]


PlacedRecord = tuple[int, FileRecord]


@dataclass(slots=True)
class Seen:
    """What was read so far; ``skipped`` are records that are no spans, such as scores.

    ``notes`` counts what was chosen, left out, or could not be read, by what is to be told of it.
    """

    spans: int = 0
    skipped: int = 0
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ExportRows:
    """The rows of the files of one export.

    Attributes:
        kind: the format.
        options: how a trace becomes a row.
        texts: texts of passages by their ids, for traces that have only the ids.
        seen: counts that grow while rows are read.
    """

    kind: LogKind
    options: TraceOptions
    texts: Texts = no_texts
    seen: Seen = field(default_factory=Seen)

    def read(self, files: Iterable[OpenFile], most_records: int | None = None) -> Iterator[PlacedRow]:
        """The rows of all files, or of the first records. Spans of a trace may lie in several files, in any order.

        Raises:
            UsageError: if a path is none.
            LogFormatError, DataError, OSError: as ``records``.
        """
        paths = path_set(self.options)
        form = self.kind.format
        found = islice(self._records(form.wrappers, files), most_records)
        return self._rows(form, paths, found) if isinstance(form, Rows) else self._traces(form, paths, found)

    def _rows(self, form: Rows, paths: PathSet, found: Iterable[PlacedRecord]) -> Iterator[PlacedRow]:
        made, numbers = Counter[bytes](), Counter[int]()
        for file, one in found:
            try:
                with _moderate_depth():
                    row = self._with_texts(form.row(_object(one), self.options, paths))
            except RowFault as error:
                row = TraceRow(None, fault=error)
            self._note(row)
            yield PlacedRow(file, numbers[file], _placed_row(_with_id(row, made), one.place), partial(_value, one))
            numbers[file] += 1

    def _note(self, row: TraceRow) -> None:
        if row.fault is None:
            self.seen.notes.update(row.notes)
            self.seen.notes[EMPTY_PASSAGE] += any(not (one.text or "").strip() for one in row.passages or ())

    def _with_texts(self, row: TraceRow) -> TraceRow:
        if row.fault is not None or not row.passages:
            return row
        row = row._replace(passages=with_texts(row.passages, self.texts))
        return row._replace(fault=passage_text_fault(row.passages or ()))

    def _traces(self, form: SpanFormat, paths: PathSet, found: Iterable[PlacedRecord]) -> Iterator[PlacedRow]:
        with trace_spool() as spool:
            for file, one in found:
                self._spool(spool, file, form, one)
            numbers = Counter[int]()
            for trace in spool.traces():
                row = _placed_row(self._row_of(trace, paths), trace.place)
                self._note(row)
                yield PlacedRow(trace.file, numbers[trace.file], row, partial(_document, trace))
                numbers[trace.file] += 1

    def _spool(self, spool: TraceSpool, file: int, form: SpanFormat, record: FileRecord) -> None:
        count = 0
        self.seen.notes.update(_unreadable_moments(record.value))
        try:
            with _moderate_depth():
                for span in form.spans(_object(record)):
                    spool.add(file, record.place, span)
                    count += 1
        except RowFault as error:
            spool.add(file, record.place, error)
            return
        self.seen.spans += count
        self.seen.skipped += not count

    def _row_of(self, trace: SpooledTrace, paths: PathSet) -> TraceRow:
        if isinstance(trace.spans, RowFault):
            return TraceRow(trace.trace_id, fault=trace.spans)
        try:
            with _moderate_depth():
                return row_of_trace(trace.spans[0].trace_id, trace.spans, self.options, self.texts, paths)
        except RowFault as error:
            return TraceRow(trace.trace_id, fault=error)

    def _records(self, wrappers: tuple[str, ...], files: Iterable[OpenFile]) -> Iterator[PlacedRecord]:
        for number, opened in enumerate(files):
            with opened() as file:
                for record in records(file, wrappers=wrappers, takes_csv=self.kind.takes_csv, notes=self.seen.notes):
                    yield number, record


@contextmanager
def _moderate_depth() -> Iterator[None]:
    """Makes a fault of values that are nested deeper than Python goes."""
    try:
        yield
    except RecursionError as error:
        message = "record should have values of moderate depth, has deeper ones; leave it out of the export"
        raise fault(Reason.INVALID_VALUE, None, message) from error


def _unreadable_moments(record: object) -> Iterator[str]:
    for name, value in record.items() if isinstance(record, dict) else ():
        if in_snake_case(name) in _MOMENTS and not is_nothing(value) and microseconds(value) is None:
            yield unreadable_moment(name)


def _value(record: FileRecord) -> object:
    return record.value


def _document(trace: SpooledTrace) -> object:
    return None if isinstance(trace.spans, RowFault) else document_of_trace(tree_of(trace.spans))


def _with_id(row: TraceRow, made: Counter[bytes]) -> TraceRow:
    """The row; one without an id gets a digest of its content, so that it is the same in every export.

    A repeated row gets its number behind it. A row that could not be read stays without.
    """
    if row.record_id is not None or (row.question is None and row.answer is None):
        return row
    texts = (row.question, row.answer, *(one.text for one in row.passages or ()))
    digest = blake2b(digest_size=8)
    for text in texts:
        digest.update(f"{-1 if text is None else len(text)}:{text}".encode(errors="surrogatepass"))
    made[digest.digest()] += 1
    times = made[digest.digest()]
    return row._replace(record_id=digest.hexdigest() + (f"-{times}" if times > 1 else ""))


def _object(record: FileRecord) -> dict[str, object]:
    """The record, which has to be an object.

    Raises:
        RowFault: if it is none, or could not be read.
    """
    if isinstance(record.value, RowFault):
        raise record.value
    if not isinstance(record.value, dict):
        raise fault(Reason.INVALID_VALUE, None, f"record should be an object, is {shape(record.value)}")
    return record.value


def _placed_row(row: TraceRow, place: str) -> TraceRow:
    """The row; its fault, if any, with the place in front, unless it names one."""
    if row.fault is None or str(row.fault).startswith("line "):
        return row
    return row._replace(fault=fault(row.fault.reason, row.fault.column, f"{place}: {row.fault}"))
