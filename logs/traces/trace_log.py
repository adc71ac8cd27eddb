"""Files of an export to rows of a QA log, in the order in which they first appear, and the reader that audits one.

Spans wait on disk until all files are read.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.columns import INPUT_FIELDS, ColumnMap, ColumnPart, carried
from attribeam.logs.files import LogStorage
from attribeam.logs.jsonl_log import kept
from attribeam.logs.qa_log import with_reading_notes
from attribeam.logs.reader import BATCH_ROWS, LogBatch, ParquetLog
from attribeam.logs.rows import (
    BATCH_BYTES,
    EMPTY_PASSAGE,
    FaultyRow,
    RawPassage,
    RawRow,
    RowValidator,
    text_bytes,
    unreadable_moment,
)
from attribeam.logs.traces import FileRecord, in_snake_case, is_nothing, microseconds, shape, text_or_none, valid_text
from attribeam.logs.traces.assembly import (
    SpooledTrace,
    TraceRow,
    TraceSpool,
    document_of_trace,
    passage_text_fault,
    row_of_trace,
    temporary_table,
    trace_spool,
    tree_of,
)
from attribeam.logs.traces.documents import Document, Texts, document_of, no_texts, with_texts
from attribeam.logs.traces.formats import LOG_KINDS, LogKind, SpanFormat
from attribeam.logs.traces.paths import PathSet, TraceOptions, path_set
from attribeam.logs.traces.record_files import records
from attribeam.logs.traces.rows import IDS, Rows, member
from attribeam.schemas import QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.qa_record import RETRIEVALS


@contextmanager
def passages_table(storage: LogStorage, path: str) -> Iterator[Texts]:
    """The table at ``path``, read once, of which the first passage of an id counts; a temporary file holds it.

    Its fields are ``passage_id`` (or ``id``), ``text`` (or ``content``, ``page_content``), and perhaps ``title``; it
    may be Parquet, Arrow, CSV, JSON or JSON lines. Raises ``UsageError`` if the table is not there, or no row has an id
    and a text, and ``DataError`` if it cannot be read.
    """
    with temporary_table("passages (id BLOB PRIMARY KEY, text BLOB, title BLOB) WITHOUT ROWID") as database:
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

        def text_of(passage_id: str) -> Document | None:
            query = "SELECT text, title FROM passages WHERE id = ?"
            row = database.execute(query, (text_bytes(passage_id),)).fetchone() or (None, None)
            text, title = (None if cell is None else cell.decode("utf-8", "surrogateescape") for cell in row)
            return None if text is None else Document(text, title, passage_id)

        yield text_of


_MOMENTS = frozenset({"start_time", "end_time", "timestamp", "start_time_unix_nano", "end_time_unix_nano"})

OpenFile = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens a file; what is raised while it is open may be given its name."""


class PlacedRow(NamedTuple):
    """A row: the number of the file where it first appears, its 0-based number among the rows of that file."""

    file: int
    number: int
    row: TraceRow
    source: FileRecord | SpooledTrace

    def document(self) -> object:
        """What paths are searched in."""
        if isinstance(self.source, FileRecord):
            return self.source.value
        spans = self.source.spans
        return None if isinstance(spans, RowFault) else document_of_trace(tree_of(spans))


_PlacedRecord = tuple[int, FileRecord]
_FoundRow = tuple[int, TraceRow, FileRecord | SpooledTrace]
"""The number of the file, the row, and what it was made of."""


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

        Raises ``UsageError`` if a path is none, and what ``records`` raises.
        """
        paths, form = path_set(self.options), self.kind.format
        placed = islice(self._records(form.wrappers, files), most_records)
        rows = self._rows(form, paths, placed) if isinstance(form, Rows) else self._traces(form, paths, placed)
        numbers = Counter[int]()
        for file, row, source in rows:
            if row.fault is None:
                self.seen.notes.update(row.notes)
                self.seen.notes[EMPTY_PASSAGE] += any(not (doc.text or "").strip() for doc in row.passages or ())
            elif not str(row.fault).startswith("line "):
                named = RowFault(row.fault.reason, f"{source.location}: {row.fault}", column=row.fault.column)
                row = row._replace(fault=named)
            yield PlacedRow(file, numbers[file], row, source)
            numbers[file] += 1

    def _records(self, wrappers: tuple[str, ...], files: Iterable[OpenFile]) -> Iterator[_PlacedRecord]:
        for number, opened in enumerate(files):
            with opened() as file:
                for record in records(file, wrappers=wrappers, takes_csv=self.kind.takes_csv, notes=self.seen.notes):
                    yield number, record

    def _rows(self, form: Rows, paths: PathSet, placed: Iterable[_PlacedRecord]) -> Iterator[_FoundRow]:
        made = Counter[str]()
        for file, record in placed:
            try:
                with _moderate_depth():
                    row = form.row(_object(record), self.options, paths)
                if row.fault is None:
                    passages = with_texts(row.passages or (), self.texts)
                    row = row._replace(passages=passages, fault=passage_text_fault(passages))
            except RowFault as error:
                members = record.value if isinstance(record.value, dict) else {}
                row = TraceRow(text_or_none(member([members], IDS)[1]), fault=error)
            yield file, _with_id(row, made), record

    def _traces(self, form: SpanFormat, paths: PathSet, placed: Iterable[_PlacedRecord]) -> Iterator[_FoundRow]:
        with trace_spool() as spool:
            for file, record in placed:
                self._spool(spool, file, form, record)
            for trace in spool.traces():
                try:
                    with _moderate_depth():
                        if isinstance(trace.spans, RowFault):
                            raise trace.spans
                        row = row_of_trace(trace.spans[0].trace_id, trace.spans, self.options, self.texts, paths)
                except RowFault as error:
                    row = TraceRow(trace.trace_id, fault=error)
                yield trace.file, row, trace

    def _spool(self, spool: TraceSpool, file: int, form: SpanFormat, record: FileRecord) -> None:
        members = record.value.items() if isinstance(record.value, dict) else ()
        moments = {name: value for name, value in members if in_snake_case(name) in _MOMENTS}
        unread = (name for name, value in moments.items() if not is_nothing(value) and microseconds(value) is None)
        self.seen.notes.update(map(unreadable_moment, unread))
        is_other = True
        try:
            with _moderate_depth():
                for entry in form.spans(_object(record)):
                    is_other = False
                    spool.add(file, record.location, entry)
                    self.seen.spans += not isinstance(entry, RowFault)
        except RowFault as error:
            is_other = False
            spool.add(file, record.location, error)
        self.seen.skipped += is_other


@contextmanager
def _moderate_depth() -> Iterator[None]:
    """Makes a fault of values that are nested deeper than Python goes."""
    try:
        yield
    except RecursionError as error:
        message = "record should have values of moderate depth, has deeper ones; leave it out of the export"
        raise RowFault(Reason.INVALID_VALUE, message, column=None) from error


def _with_id(row: TraceRow, made: Counter[str]) -> TraceRow:
    """The row; one without an id gets a digest of its content, so that it is the same in every export.

    A repeated row gets its number behind it. A row that could not be read stays without.
    """
    if row.record_id is not None or (row.question is None and row.answer is None):
        return row
    texts = (row.question, row.answer, *(passage.text for passage in row.passages or ()))
    content = "".join(f"{-1 if text is None else len(text)}:{text}" for text in texts)
    digest = blake2b(content.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    made[digest] += 1
    return row._replace(record_id=f"{digest}-{made[digest]}" if made[digest] > 1 else digest)


def _object(record: FileRecord) -> dict[str, object]:
    """The record, which has to be an object; else its ``RowFault``."""
    if isinstance(record.value, RowFault):
        raise record.value
    if not isinstance(record.value, dict):
        message = f"record should be an object, is {shape(record.value)}"
        raise RowFault(Reason.INVALID_VALUE, message, column=None)
    return record.value


_DESCRIPTIONS = {
    "record_id": "id of the trace or the row",
    "question": "what was asked",
    "passages": "what was retrieved, in the order of the prompt",
    "answer": "what was answered",
    "answered_at": "when the trace ended",
    "generator": "model that gave the answer",
    "session_id": "conversation that the trace belongs to",
}
_TRACE_DESCRIPTIONS = {
    "trace_id": "id of the trace in its store",
    "span_id": "id of the trace's root span",
    RETRIEVALS: "where the passages stand among the documents of the spans that retrieved them",
}
_RETRIEVAL = pa.struct([("span_id", pa.string()), ("position", pa.int32()), ("passage_index", pa.int32())])
_TEXTS = ("record_id", "question", "answer", "generator")
_FAULT_COLUMNS = ("fault_reason", "fault_message", "fault_column")
_FIELDS = tuple((field.name, field.name) for field in INPUT_FIELDS if field.name in _DESCRIPTIONS)
_VALIDATOR = RowValidator(ColumnMap(_FIELDS, ()), max_text_chars=2**62)
_logs: dict[tuple[object, ...], pa.NativeFile] = {}


def log_schema(*, of_traces: bool, stored: bool = False) -> pa.Schema:
    """The schema of the QA log; ``stored`` adds the columns of faults.

    A log ``of_traces`` has the ids that lead back to the trace store, which an audit carries into its evidence.
    Texts of a stored log are bytes, because they may be no valid Unicode, which is found when its rows are checked.
    """
    text = pa.binary() if stored else pa.string()
    passage = pa.struct([("passage_id", text), ("title", text), ("text", text)])
    kinds = {"passages": pa.list_(passage), "answered_at": pa.timestamp("us", tz="UTC"), "session_id": pa.string()}
    kinds |= {"trace_id": pa.string(), "span_id": pa.string(), RETRIEVALS: pa.list_(_RETRIEVAL)}
    described = {name: {b"description": words.encode()} for name, words in _DESCRIPTIONS.items()}
    described |= {name: carried(words) for name, words in _TRACE_DESCRIPTIONS.items() if of_traces}
    fields = [pa.field(name, kinds.get(name, text), metadata=metadata) for name, metadata in described.items()]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in _FAULT_COLUMNS if stored)])


def checked(row: TraceRow, source: RowSource) -> QARecord | FaultyRow:
    """The record that an audit would read, or why it would refuse the row; ids of the store are extra columns."""
    passages = [RawPassage(*map(text_bytes, (doc.text, doc.title, doc.passage_id))) for doc in row.passages or ()]
    raw = RawRow(
        **_bytes_of(row, _TEXTS),
        passages=None if row.passages is None else passages,
        target_spans=None,
        answered_at=row.answered_at,
        extra_columns=tuple(_store_ids(row).items()),
    )
    if row.fault is not None:
        return _VALIDATOR.refusal(raw, source, row.fault)
    return _VALIDATOR.outcome(raw, source, duplicate=False)


def _store_ids(row: TraceRow) -> dict[str, object]:
    ids = {name: valid_text(getattr(row, name)) for name in ("session_id", "trace_id", "span_id")}
    retrievals = [{**item._asdict(), "span_id": valid_text(item.span_id)} for item in row.retrievals or ()]
    return {**ids, RETRIEVALS: None if row.retrievals is None else retrievals}


def _bytes_of(texts: object, names: tuple[str, ...]) -> dict[str, bytes | None]:
    return {name: text_bytes(getattr(texts, name)) for name in names}


def _stored_row(row: TraceRow) -> dict[str, object]:
    fault = row.fault
    return {
        **_bytes_of(row, _TEXTS),
        "passages": row.passages and [_bytes_of(doc, ("passage_id", "title", "text")) for doc in row.passages],
        "answered_at": row.answered_at,
        **_store_ids(row),
        "fault_reason": fault and str(fault.reason),
        "fault_message": fault and valid_text(str(fault)),
        "fault_column": fault and fault.column,
    }


class TableFile(AbstractContextManager["TableFile"]):
    """A Parquet file that rows are added to, closed when the context is left; as many rows wait as a batch may have."""

    def __init__(self, file: Path | BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        self._schema = schema
        self._waiting: list[Mapping[str, object]] = []
        self._size = 0

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._writer:
            if kind is None:
                self.flush()

    def add(self, row: Mapping[str, object]) -> None:
        """Add one row."""
        self._waiting.append(row)
        self._size += _text_size(row)
        if len(self._waiting) == BATCH_ROWS or self._size >= BATCH_BYTES:
            self.flush()

    def describe(self, metadata: Mapping[bytes, bytes]) -> None:
        """Add to what the file says of itself."""
        self._writer.add_key_value_metadata(metadata)

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._waiting, schema=self._schema))
        self._waiting, self._size = [], 0


def _text_size(value: object) -> int:
    if isinstance(value, Mapping | list):
        return sum(map(_text_size, value.values() if isinstance(value, Mapping) else value))
    return len(value) if isinstance(value, bytes | str) else 0


class TraceReader:
    """Reads one file of an export with default options; spans of one trace have to lie in one file.

    The rows are put together once in each process and kept in a temporary file until another file needs its
    place. A file on another machine is read anew at every opening, so import it first.
    """

    def __init__(self, name: str) -> None:
        self._kind = LOG_KINDS[name]
        self.suffix = self._kind.suffix

    def open(self, file: BinaryIO) -> TraceLog:
        """Read the whole export; see ``LogReader``."""
        return TraceLog(kept(_logs, file, lambda: self._stored(file), os.getpid(), self._kind.name))

    def _stored(self, file: BinaryIO) -> pa.NativeFile:
        """A temporary file that has no name any more, and goes when nothing refers to it."""
        export = ExportRows(self._kind, TraceOptions())
        with tempfile.TemporaryDirectory(prefix="attribeam-log-") as folder:
            path = Path(folder, "rows.parquet")
            with TableFile(path, log_schema(of_traces=self._kind.is_of_traces, stored=True)) as table:
                for placed in export.read([lambda: nullcontext(file)]):
                    table.add(_stored_row(placed.row))
                table.describe(with_reading_notes(export.seen.notes))
            return pa.OSFile(str(path))


class TraceLog:
    """The rows of one export, see ``attribeam.logs.reader.OpenLog``."""

    def __init__(self, stored: pa.NativeFile) -> None:
        self._rows = ParquetLog(pq.ParquetFile(stored, pre_buffer=False))
        of_traces = "trace_id" in self._rows.schema.names
        self.schema: pa.Schema = log_schema(of_traces=of_traces).with_metadata(self._rows.schema.metadata)
        self.row_count: int = self._rows.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Read the rows that are wanted, and the faults of those that have one."""
        wanted = [*parts, *map(ColumnPart, _FAULT_COLUMNS)]
        for batch in self._rows.batches(wanted, rows):
            triples = zip(*(batch.rows.column(name).to_pylist() for name in _FAULT_COLUMNS), strict=True)
            faults = {
                row: RowFault(Reason(reason), message, column=column)
                for row, (reason, message, column) in enumerate(triples, start=batch.first_row)
                if reason is not None
            }
            yield LogBatch(batch.first_row, batch.rows.select([part.column for part in parts]), faults)
