"""Rows of exports as rows of a QA log: what an import checks, and the reader that audits one export directly."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.columns import INPUT_FIELDS, ColumnMap, ColumnPart, carried
from attribeam.logs.jsonl_log import kept
from attribeam.logs.qa_log import with_reading_notes
from attribeam.logs.reader import BATCH_ROWS, LogBatch, ParquetLog
from attribeam.logs.rows import BATCH_BYTES, FaultyRow, RawPassage, RawRow, RowValidator, text_bytes
from attribeam.logs.traces.assembly import TraceRow
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.trace_log import ExportRows
from attribeam.logs.traces.values import valid_text
from attribeam.schemas import QARecord, Reason, RowFault, RowSource
from attribeam.schemas.qa_record import RETRIEVALS

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
_FAULT_COLUMNS = ("fault_reason", "fault_message", "fault_column")
_MAP = ColumnMap(tuple((one.name, one.name) for one in INPUT_FIELDS if one.name in _DESCRIPTIONS), ())
_NO_LIMIT = 2**62
_logs: dict[tuple[object, ...], pa.NativeFile] = {}


def log_schema(*, of_traces: bool, stored: bool = False) -> pa.Schema:
    """The schema of the QA log; ``stored`` adds the columns of faults.

    A log ``of_traces`` has the ids that lead back to the trace store, which an audit carries into its evidence.
    Texts of a stored log are bytes, because they may be no valid Unicode, which is found when its rows are checked.
    """
    text = pa.binary() if stored else pa.string()
    passage = pa.struct([("passage_id", text), ("title", text), ("text", text)])
    kinds = {"passages": pa.list_(passage), "answered_at": pa.timestamp("us", tz="UTC"), "session_id": pa.string()}
    fields = [
        pa.field(name, kinds.get(name, text), metadata={"description": words}) for name, words in _DESCRIPTIONS.items()
    ]
    traces = [
        pa.field(name, pa.list_(_RETRIEVAL) if name == RETRIEVALS else pa.string(), metadata=carried(words))
        for name, words in _TRACE_DESCRIPTIONS.items()
        if of_traces
    ]
    return pa.schema([*fields, *traces, *(pa.field(name, pa.string()) for name in _FAULT_COLUMNS if stored)])


def checked(row: TraceRow, source: RowSource) -> QARecord | FaultyRow:
    """The record that an audit would read, or why it would refuse the row; ids of the store are extra columns."""
    passages = [RawPassage(*map(text_bytes, (one.text, one.title, one.passage_id))) for one in row.passages or ()]
    raw = RawRow(
        record_id=text_bytes(row.record_id),
        question=text_bytes(row.question),
        passages=None if row.passages is None else list(passages),
        answer=text_bytes(row.answer),
        target_spans=None,
        answered_at=row.answered_at,
        generator=text_bytes(row.generator),
        extra_columns=tuple(_store_ids(row).items()),
    )
    validator = RowValidator(_MAP, _NO_LIMIT)
    if row.fault is not None:
        return validator.refusal(raw, source, row.fault)
    return validator.outcome(raw, source, duplicate=False)


def _store_ids(row: TraceRow) -> dict[str, object]:
    ids = {name: valid_text(getattr(row, name)) for name in ("session_id", "trace_id", "span_id")}
    places = [{**one._asdict(), "span_id": valid_text(one.span_id)} for one in row.retrievals or ()]
    return {**ids, RETRIEVALS: None if row.retrievals is None else places}


def _stored_row(row: TraceRow) -> dict[str, object]:
    """The values of a row in the stored schema."""
    fault = row.fault
    return {
        **{name: text_bytes(getattr(row, name)) for name in ("record_id", "question", "answer", "generator")},
        "passages": row.passages
        and [
            {name: text_bytes(getattr(one, name)) for name in ("passage_id", "title", "text")} for one in row.passages
        ],
        "answered_at": row.answered_at,
        **_store_ids(row),
        "fault_reason": fault and str(fault.reason),
        "fault_message": fault and valid_text(str(fault)),
        "fault_column": fault and fault.column,
    }


class TableFile:
    """A Parquet file that rows are added to; as many wait in memory as a batch may have. A context manager."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._schema = schema
        self._waiting: list[Mapping[str, object]] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._waiting:
            self._flush()
        self._writer.close()

    def add(self, row: Mapping[str, object]) -> None:
        """Add one row."""
        self._waiting.append(row)
        self._size += _text_size(row)
        if len(self._waiting) == BATCH_ROWS or self._size >= BATCH_BYTES:
            self._flush()

    def describe(self, metadata: Mapping[bytes, bytes]) -> None:
        """Add to what the file says of itself."""
        self._writer.add_key_value_metadata(metadata)

    def _flush(self) -> None:
        self._writer.write_batch(pa.RecordBatch.from_pylist(self._waiting, schema=self._schema))
        self._waiting, self._size = [], 0


def _text_size(value: object) -> int:
    """The length of all texts, at any depth."""
    if isinstance(value, Mapping):
        return sum(map(_text_size, value.values()))
    return (
        sum(map(_text_size, value)) if isinstance(value, list) else len(value) if isinstance(value, bytes | str) else 0
    )


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
            found = zip(*(batch.rows.column(name).to_pylist() for name in _FAULT_COLUMNS), strict=True)
            faults = {
                row: RowFault(Reason(reason), message, column=column)
                for row, (reason, message, column) in enumerate(found, start=batch.first_row)
                if reason is not None
            }
            yield LogBatch(batch.first_row, batch.rows.select([part.column for part in parts]), faults)
