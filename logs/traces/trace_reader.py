"""Exports of trace stores as logs that an audit reads directly: their rows lie in a temporary Parquet file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.arrow_logs import ParquetLog
from attribeam.logs.columns import ColumnPart
from attribeam.logs.jsonl_log import file_identity
from attribeam.logs.qa_log import with_reading_notes
from attribeam.logs.reader import BATCH_ROWS, LogBatch
from attribeam.logs.rows import BATCH_BYTES
from attribeam.logs.traces.formats import LOG_KINDS, LogKind
from attribeam.logs.traces.rows import FAULT_COLUMNS, log_schema, stored_fault, stored_row
from attribeam.logs.traces.trace_log import ExportRows
from attribeam.logs.traces.trace_records import TraceOptions

_KEPT_LOGS = 8
_logs: dict[tuple[object, ...], pa.NativeFile] = {}


class TraceReader:
    """Reads one file of an export with default options; spans of one trace have to lie in one file.

    The rows are put together once in each process and kept in a temporary file until another file needs its
    place. A file on another machine is read anew at every opening, so import it first.
    """

    def __init__(self, kind: LogKind) -> None:
        self._kind = kind
        self.suffix = kind.suffix

    def open(self, file: BinaryIO) -> TraceLog:
        """Read the whole export; see ``LogReader``."""
        identity = file_identity(file)
        key = (os.getpid(), self._kind.name, *identity)
        if identity and key in _logs:
            return TraceLog(_logs[key])
        stored = self._stored(file)
        if identity:
            _logs[key] = stored
            if len(_logs) > _KEPT_LOGS:
                del _logs[next(iter(_logs))]
        return TraceLog(stored)

    def _stored(self, file: BinaryIO) -> pa.NativeFile:
        """A temporary file that has no name any more, and goes when nothing refers to it."""
        schema, export = log_schema(stored=True), ExportRows(self._kind, TraceOptions())
        rows = (stored_row(placed.row) for placed in export.read([lambda: _left_open(file)]))
        with tempfile.TemporaryDirectory(prefix="attribeam-log-") as folder:
            path = str(Path(folder) / "rows.parquet")
            with pq.ParquetWriter(path, schema, compression="zstd") as writer:
                for some in _few(rows):
                    writer.write_batch(pa.RecordBatch.from_pylist(some, schema=schema))
                writer.add_key_value_metadata(with_reading_notes(export.seen.notes))
            return pa.OSFile(path)


def _few(rows: Iterator[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    """The rows, as many at a time as a batch may have, and as memory holds."""
    some: list[dict[str, object]] = []
    size = 0
    for row in rows:
        some.append(row)
        size += _text_bytes(list(row.values()))
        if len(some) == BATCH_ROWS or size >= BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _text_bytes(values: Sequence[object]) -> int:
    """The bytes of texts, at any depth."""
    size = sum(len(one) for one in values if isinstance(one, bytes))
    for one in values:
        if isinstance(one, list | dict):
            size += _text_bytes(one if isinstance(one, list) else list(one.values()))
    return size


class TraceLog:
    """The rows of one export, see ``attribeam.logs.reader.OpenLog``."""

    def __init__(self, stored: pa.NativeFile) -> None:
        self._rows = ParquetLog(pq.ParquetFile(stored, pre_buffer=False))
        self.schema: pa.Schema = log_schema().with_metadata(self._rows.schema.metadata)
        self.row_count: int = self._rows.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Read the rows that are wanted, and the faults of those that have one."""
        names = [part.column for part in parts]
        wanted = [*parts, *(ColumnPart(name) for name in FAULT_COLUMNS)]
        for batch in self._rows.batches(wanted, rows):
            found = zip(*(batch.rows.column(name).to_pylist() for name in FAULT_COLUMNS), strict=True)
            faults = {
                row: stored_fault(*one) for row, one in enumerate(found, start=batch.first_row) if one[0] is not None
            }
            yield LogBatch(batch.first_row, batch.rows.select(names), faults)


@contextmanager
def _left_open(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file, which its opener closes."""
    yield file


def ragas_reader() -> TraceReader:
    """For ``--log-format ragas``."""
    return TraceReader(LOG_KINDS["ragas"])


def openinference_reader() -> TraceReader:
    """For ``--log-format openinference``."""
    return TraceReader(LOG_KINDS["openinference"])


def langfuse_reader() -> TraceReader:
    """For ``--log-format langfuse``."""
    return TraceReader(LOG_KINDS["langfuse"])


def otel_genai_reader() -> TraceReader:
    """For ``--log-format otel-genai``."""
    return TraceReader(LOG_KINDS["otel-genai"])


def mlflow_reader() -> TraceReader:
    """For ``--log-format mlflow``."""
    return TraceReader(LOG_KINDS["mlflow"])


def langsmith_reader() -> TraceReader:
    """For ``--log-format langsmith``."""
    return TraceReader(LOG_KINDS["langsmith"])


def responses_reader() -> TraceReader:
    """For ``--log-format responses``."""
    return TraceReader(LOG_KINDS["responses"])
