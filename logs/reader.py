"""What a kind of log is: a reader that gives its rows as Arrow record batches. That of Parquet stands here, too.

Everything else is written once. Readers of other packages are found by the entry-point group
``attribeam.log_readers``, whose names are the values of ``--log-format``; docs/extending.md shows one.
"""

from __future__ import annotations

import argparse
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from itertools import accumulate, pairwise
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.columns import CONVERT_HINT, PARQUET, ColumnPart, LogOptions, parse_column_mapping
from attribeam.logs.rows import BATCH_BYTES
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError, UsageError

BATCH_ROWS = 256
"""The most rows of one batch: a worker's memory depends on it, and never on the size of a file."""

ENTRY_POINTS = "attribeam.log_readers"
OWN_FORMATS = (PARQUET, "jsonl", "ragas", "openinference", "langfuse", "otel-genai", "mlflow", "langsmith", "responses")
_BUFFER_BYTES = 1 << 20
_BYTES_PER_VALUE = 64
"""What a value takes as a Python object; a file may hold millions of nulls in a few bytes."""
_ENCRYPTED = b"PARE"
_MAGIC = (b"PAR1", _ENCRYPTED)
_IS_ENCRYPTED = "should be Parquet that anybody can read, is encrypted, whole or in columns; decrypt it first"
_SIGNATURE_BYTES = 28
"""What stands behind the footer of a file with encrypted columns."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Consecutive rows of a file; ``first_row`` is the 0-based row of the first one.

    ``faults`` are what the reader itself found wrong with rows, by their 0-based rows in the file; such a row becomes a
    dead letter, with its id and answer where they can be read.
    """

    first_row: int
    rows: pa.RecordBatch
    faults: Mapping[int, RowFault] = field(default_factory=dict)


class RowsMemoryError(MemoryError):
    """Rows, ascending and none of them given yet, that need more memory to be read than there is, and which fault."""

    def __init__(self, rows: Sequence[int], fault: RowFault) -> None:
        super().__init__(str(fault))
        self.rows = rows
        self.fault = fault


def runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[start, stop) of each run of consecutive ``rows``, which ascend."""
    ends = [index for index in range(1, len(rows)) if rows[index] != rows[index - 1] + 1]
    for begin, end in pairwise([0, *ends, len(rows)] if rows else ()):
        yield rows[begin], rows[end - 1] + 1


class OpenLog(Protocol):
    """One open file. ``schema`` has the names and types of the log itself."""

    schema: pa.Schema
    row_count: int

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Exactly ``rows``, which ascend and are all in the file, in batches of at most ``BATCH_ROWS``.

        A batch has the columns of ``parts`` under the log's names. Texts may be no UTF-8: they are checked later, row
        by row, so that a broken one harms no other row. Raises ``DataError``, which does not name the file, if it is
        damaged, and ``RowsMemoryError`` if some of the rows need too much memory; others behind them can still be asked
        for.
        """


class LogReader(Protocol):
    """One kind of log. ``suffix`` is how its files end where a folder is searched for them; braces hold several."""

    suffix: str

    def open(self, file: BinaryIO) -> OpenLog:
        """The log in a seekable file, which the caller closes. Reads no more than names, types and the row count need.

        Raises ``LogFormatError`` if the file is not of this kind, and ``DataError`` if it is damaged; neither names it.
        """


def reader_names() -> list[str]:
    """What ``--log-format`` may be: our own readers first."""
    others = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    return [*OWN_FORMATS, *sorted(others.difference(OWN_FORMATS))]


def reader_named(name: str) -> LogReader:
    """The reader of a format, else ``UsageError``; other packages are imported only where they are asked for."""
    if name == PARQUET:
        return ParquetReader()
    if name == "jsonl":
        from attribeam.logs.jsonl_log import JsonlReader

        return JsonlReader()
    if name in OWN_FORMATS:
        from attribeam.logs.traces.trace_log import TraceReader

        return TraceReader(name)
    entry = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    if entry is None:
        raise UsageError(f"--log-format should be one of {', '.join(reader_names())}, was: {name!r}")
    try:
        loaded: LogReader = entry.load()()
    except (ImportError, AttributeError, TypeError) as error:
        message = f"--log-format {name!r} should be {entry.value!r}, which cannot be imported: {error}"
        raise UsageError(message) from error
    if not callable(getattr(loaded, "open", None)) or not isinstance(getattr(loaded, "suffix", None), str):
        raise UsageError(
            f"--log-format {name!r} should be a class with a suffix and a method open, {entry.value!r} is none; "
            "docs/extending.md shows one"
        )
    return loaded


LOG_FORMAT_HELP = f"{', '.join(OWN_FORMATS)}, or that of a package"
COLUMNS_HELP = "which column holds which field, e.g. record_id=trace_id,answer=response"


def add_log_arguments(add: Callable[..., argparse.Action]) -> None:
    """Add ``--log-format`` and ``--columns`` with the ``add_argument`` of a parser or a group."""
    add("--log-format", default=PARQUET, metavar="NAME", help=f"{LOG_FORMAT_HELP} (default: %(default)s)")
    add("--columns", default="", metavar="FIELD=COLUMN,...", help=COLUMNS_HELP)


def log_options(arguments: argparse.Namespace) -> LogOptions:
    """How to read the logs; ``UsageError`` if ``--columns`` is no list of fields and columns."""
    return LogOptions(parse_column_mapping(arguments.columns), format=arguments.log_format)


class ParquetReader:
    """Reads Parquet."""

    suffix = ".parquet"

    def open(self, file: BinaryIO) -> ParquetLog:
        """Read the footer; see ``LogReader``."""
        try:
            return ParquetLog(open_parquet(file))
        except (OSError, pa.ArrowException) as error:
            file.seek(0)
            begin = file.read(4)
            if begin == _ENCRYPTED:
                raise DataError(_IS_ENCRYPTED) from error
            if begin not in _MAGIC:
                name_it = "name its format with --log-format, such as jsonl for JSON lines"
                problem = f"does not begin like one; {name_it}, or {CONVERT_HINT}"
                problem = problem if begin else "is empty: 0 bytes; write it anew, or remove it"
                raise LogFormatError(f"should be a Parquet file, {problem}") from error
            problem = " ".join(str(error).split())
            if "flatbuffers" in problem:
                problem = "a column is nested more than 100 levels deep, or the file is damaged"
            raise DataError(f"should be readable Parquet, but its footer is not: {problem}; write it anew") from error


def open_parquet(file: BinaryIO) -> pq.ParquetFile:
    """Open a file to read it piece by piece; ``OSError`` or ``pa.ArrowException`` if it cannot be read.

    Raises ``DataError`` if its counts of rows differ, so that rows would be left unread, or columns are encrypted.
    """
    parquet = pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    metadata, schema = parquet.metadata, parquet.schema
    file.seek(-8, os.SEEK_END)
    if int.from_bytes(file.read(4), "little") - metadata.serialized_size == _SIGNATURE_BYTES:
        raise DataError(_IS_ENCRYPTED)  # Arrow ends the process where such a column is looked at
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    flat = next((index for index in range(len(schema)) if schema.column(index).max_repetition_level == 0), None)
    rows = [group.num_rows for group in groups]
    values = rows if flat is None else [group.column(flat).num_values for group in groups]
    if sum(rows) != metadata.num_rows or values != rows:
        raise DataError(
            f"should have one count of rows, has {metadata.num_rows} in its footer, {sum(rows)} in its row groups and "
            f"{sum(values)} in their columns; write it anew"
        )
    return parquet


class ParquetLog:
    """One open Parquet file, see ``OpenLog``."""

    def __init__(self, parquet: pq.ParquetFile) -> None:
        self._parquet = parquet
        self.schema: pa.Schema = parquet.schema_arrow.with_metadata(parquet.metadata.metadata)
        self.row_count: int = parquet.metadata.num_rows

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Read the row groups that hold a wanted row, and of them only the leaf columns of ``parts``."""
        schema, metadata = self._parquet.schema, self._parquet.metadata
        paths = [schema.column(index).path for index in range(len(schema))]
        columns = [path for path in paths if any(_is_leaf_of(path, part) for part in parts)]
        ends = accumulate((metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)), initial=0)
        for group, (first_row, end) in enumerate(pairwise(ends)):
            if wanted := rows[bisect_left(rows, first_row) : bisect_left(rows, end)]:
                yield from self._group_batches(group, first_row, wanted, columns)

    def _group_batches(
        self, group: int, first_row: int, rows: Sequence[int], columns: Sequence[str]
    ) -> Iterator[LogBatch]:
        """The ``rows`` of a row group, which is read from its beginning to the last of them."""
        metadata = self._parquet.metadata.row_group(group)
        chunks = [
            chunk for chunk in map(metadata.column, range(metadata.num_columns)) if chunk.path_in_schema in columns
        ]
        given = 0
        try:
            for batch in self._parquet.iter_batches(
                _rows_of_batch(chunks, metadata.num_rows), row_groups=[group], columns=columns, use_threads=False
            ):
                end = first_row + batch.num_rows
                for start, stop in runs(rows[bisect_left(rows, first_row) : bisect_left(rows, end)]):
                    yield LogBatch(start, batch.slice(start - first_row, stop - start))
                    given += stop - start
                if end > rows[-1]:
                    return
                first_row = end
        except MemoryError as error:  # Arrow has to hold whole pages and dictionaries
            largest = max(chunks, key=lambda chunk: chunk.total_uncompressed_size)
            column = largest.path_in_schema.split(".")[0]
            message = (
                f"row group {group} should have values that fit into memory, has {largest.total_uncompressed_size} "
                f"bytes of them in column {column!r}; leave out what is too large, write smaller row groups, or give "
                "more memory"
            )
            raise RowsMemoryError(rows[given:], RowFault(Reason.OUT_OF_MEMORY, message, column=column)) from error


def _rows_of_batch(chunks: Sequence[pq.ColumnChunkMetaData], rows: int) -> int:
    """How many rows have about ``BATCH_BYTES``: of each its share of the columns, and whole dictionaries.

    Rows may share a long value, which is stored once and read once for each of them. A dictionary is taken to be packed
    as its whole column is.
    """
    stored: int = sum(chunk.total_uncompressed_size + _BYTES_PER_VALUE * chunk.num_values for chunk in chunks)
    of_a_row = stored // max(1, rows)
    for chunk in chunks:
        if chunk.has_dictionary_page:
            packed = max(0, chunk.data_page_offset - chunk.dictionary_page_offset)
            of_a_row += int(min(1, packed / max(1, chunk.total_compressed_size)) * chunk.total_uncompressed_size)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, of_a_row)))


def _is_leaf_of(path: str, part: ColumnPart) -> bool:
    if path == part.column or not path.startswith(f"{part.column}."):
        return path == part.column
    inner = path[len(part.column) + 1 :].split(".")
    return part.members is None or len(inner) <= 2 or inner[-1] in part.members
