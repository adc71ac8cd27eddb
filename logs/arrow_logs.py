"""Logs of Arrow data: Parquet files, partitioned folders, and tables in memory.

Files are read by any row groups, in batches, and only the columns that are needed. Names of folders, as in
``dt=2026-01-01/part-0.parquet``, give columns that stand in no file. A table in memory is anything that gives Arrow
data; its rows are checked as a file's rows are.
"""

from __future__ import annotations

import os
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import BinaryIO, Protocol, cast, runtime_checkable
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.columns import IMPORT_HINT, ColumnMap, ColumnPart, LogOptions
from attribeam.logs.reader import BATCH_ROWS, LogBatch, OpenLog, RowsMemoryError, runs
from attribeam.logs.rows import BATCH_BYTES, LESS_HINT, FaultyRow, RawRow, RowValidator, raw_rows
from attribeam.schemas import QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import DataError, LogFormatError, UsageError

_NULL = "__HIVE_DEFAULT_PARTITION__"


def with_partitions(log: OpenLog, path: str) -> OpenLog:
    """The log with a column of text for each folder ``name=value`` above its file; a column of the file goes before."""
    found = {name: value for name, value in _partitions(path).items() if name not in log.schema.names}
    return _PartitionedLog(log, found) if found and log.schema.names else log


def _partitions(path: str) -> dict[str, str | None]:
    """The names and values, decoded as URLs are; the innermost folder of a name counts."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    decoded = ((unquote(name), unquote(value)) for name, sign, value in pairs if name and sign)
    return {name: None if value == _NULL else value for name, value in decoded}


class _PartitionedLog:
    """A log with columns of one value, see ``OpenLog``."""

    def __init__(self, log: OpenLog, values: Mapping[str, str | None]) -> None:
        self._log = log
        self._values = values
        self.schema: pa.Schema = pa.schema([*log.schema, *(pa.field(name, pa.string()) for name in values)])
        self.row_count = log.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """See ``OpenLog``."""
        own = [part for part in parts if part.column not in self._values]
        for one in self._log.batches(own or [ColumnPart(self._log.schema.names[0])], rows):
            found = one.rows
            for name, value in self._values.items():
                found = found.append_column(name, pa.array([value] * found.num_rows, pa.string()))
            yield LogBatch(one.first_row, found.select([part.column for part in parts]), one.faults)


_BUFFER_BYTES = 1 << 20
_BYTES_PER_VALUE = 64
"""What a value takes as a Python object; a file may hold millions of nulls in a few bytes."""
_ENCRYPTED = b"PARE"
_MAGIC = (b"PAR1", _ENCRYPTED)
_SIGNATURE_BYTES = 28
"""What stands behind the footer of a file with encrypted columns."""


class ParquetReader:
    """Reads Parquet."""

    suffix = ".parquet"

    def open(self, file: BinaryIO) -> ParquetLog:
        """Read the footer; see ``attribeam.logs.reader.LogReader``."""
        try:
            return ParquetLog(open_parquet(file))
        except (OSError, pa.ArrowException) as error:
            file.seek(0)
            begin = file.read(4)
            if not begin:
                raise LogFormatError(
                    "should be a Parquet file, is empty: 0 bytes; write it anew, or remove it"
                ) from error
            if begin not in _MAGIC:
                raise LogFormatError(
                    "should be a Parquet file, does not begin like one; name its format with --log-format, such as "
                    "jsonl for JSON lines"
                ) from error
            if begin == _ENCRYPTED:
                raise _encrypted() from error
            found = " ".join(str(error).split())
            if "flatbuffers" in found:
                found = "a column is nested more than 100 levels deep, or the file is damaged"
            raise DataError(f"should be readable Parquet, but its footer is not: {found}; write it anew") from error


def open_parquet(file: BinaryIO) -> pq.ParquetFile:
    """Open a file to read it piece by piece.

    Raises:
        DataError: if its counts of rows differ, so that rows would be left unread, or columns are encrypted.
        OSError, pa.ArrowException: if it cannot be read.
    """
    parquet = pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    metadata, schema = parquet.metadata, parquet.schema
    file.seek(-8, os.SEEK_END)
    if int.from_bytes(file.read(4), "little") - metadata.serialized_size == _SIGNATURE_BYTES:
        raise _encrypted()  # Arrow ends the process where such a column is looked at
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


def _encrypted() -> DataError:
    return DataError("should be Parquet that anybody can read, is encrypted, whole or in columns; decrypt it first")


class ParquetLog:
    """One open Parquet file, see ``attribeam.logs.reader.OpenLog``."""

    def __init__(self, parquet: pq.ParquetFile) -> None:
        self._parquet = parquet
        self.schema: pa.Schema = parquet.schema_arrow.with_metadata(parquet.metadata.metadata)
        self.row_count: int = parquet.metadata.num_rows

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Read the row groups that hold a wanted row, each from its beginning to the last one in it."""
        columns = self._leaf_paths(parts)
        for group, first_row, wanted in _wanted_groups(self._parquet.metadata, rows):
            metadata = self._parquet.metadata.row_group(group)
            chunks = _chunks_of(metadata, columns)
            given = 0
            try:
                count = _rows_of_batch(chunks, metadata.num_rows)
                found = self._parquet.iter_batches(
                    batch_size=count, row_groups=[group], columns=columns, use_threads=False
                )
                for batch in _wanted_rows(found, first_row, wanted):
                    yield batch
                    given += batch.rows.num_rows
            except MemoryError as error:
                raise RowsMemoryError(wanted[given:], _too_large(group, chunks)) from error

    def _leaf_paths(self, parts: Sequence[ColumnPart]) -> list[str]:
        """The Parquet leaf columns to read: not those of other columns, nor other members of structs."""
        schema = self._parquet.schema
        paths = [schema.column(index).path for index in range(len(schema))]
        return [path for path in paths if any(_is_leaf_of(path, part) for part in parts)]


def _wanted_groups(metadata: pq.FileMetaData, rows: Sequence[int]) -> Iterator[tuple[int, int, Sequence[int]]]:
    """(row group, its first row, wanted rows in it) of the groups that hold a wanted row."""
    first_row = 0
    for group in range(metadata.num_row_groups):
        end = first_row + metadata.row_group(group).num_rows
        if wanted := rows[bisect_left(rows, first_row) : bisect_left(rows, end)]:
            yield group, first_row, wanted
        first_row = end


def _chunks_of(group: pq.RowGroupMetaData, columns: Sequence[str]) -> list[pq.ColumnChunkMetaData]:
    chunks = (group.column(index) for index in range(group.num_columns))
    return [chunk for chunk in chunks if chunk.path_in_schema in columns]


def _too_large(group: int, chunks: Sequence[pq.ColumnChunkMetaData]) -> RowFault:
    """The fault of rows whose row group Arrow cannot read, which has to hold whole pages and dictionaries."""
    largest = max(chunks, key=lambda chunk: chunk.total_uncompressed_size)
    column = largest.path_in_schema.split(".")[0]
    return RowFault(
        Reason.OUT_OF_MEMORY,
        f"row group {group} should have values that fit into memory, has {largest.total_uncompressed_size} bytes of "
        f"them in column {column!r}; leave out what is too large, write smaller row groups, or give more memory",
        column=column,
    )


def _rows_of_batch(chunks: Sequence[pq.ColumnChunkMetaData], rows: int) -> int:
    """How many rows have about ``BATCH_BYTES``: of each its share of the columns, and whole dictionaries.

    Rows may share a long value, which is stored once and read once for each of them.
    """
    stored: int = sum(chunk.total_uncompressed_size + _BYTES_PER_VALUE * chunk.num_values for chunk in chunks)
    of_a_row: int = stored // max(1, rows) + sum(map(_dictionary_bytes, chunks))
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, of_a_row)))


def _dictionary_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    """About how many bytes a column's dictionary has, if it is packed as the whole column is."""
    if not chunk.has_dictionary_page:
        return 0
    packed = max(0, chunk.data_page_offset - chunk.dictionary_page_offset)
    return int(min(1, packed / max(1, chunk.total_compressed_size)) * chunk.total_uncompressed_size)


def _wanted_rows(found: Iterator[pa.RecordBatch], first_row: int, rows: Sequence[int]) -> Iterator[LogBatch]:
    """The parts of the batches that hold ``rows``; stops behind the last one."""
    for batch in found:
        end = first_row + batch.num_rows
        for start, stop in runs(rows[bisect_left(rows, first_row) : bisect_left(rows, end)]):
            yield LogBatch(start, batch.slice(start - first_row, stop - start))
        first_row = end
        if first_row > rows[-1]:
            return


def _is_leaf_of(path: str, part: ColumnPart) -> bool:
    if path == part.column:
        return True
    if not path.startswith(f"{part.column}."):
        return False
    inner = path[len(part.column) + 1 :].split(".")
    return part.members is None or len(inner) <= 2 or inner[-1] in part.members


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
    """A table that is read once, from its first row to its last.

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

        Raises:
            UsageError: if the data are no table.
            LogFormatError: if a column is missing, is there twice or has another type than expected.
        """
        schema, _ = self._opened
        if self.row_count == 0:
            schema = _with_types(schema, passages=dict(self.options.columns).get("passages", "passages"))
        try:
            found = ColumnMap.from_schema(self.name, schema, self.options)
        except LogFormatError as error:
            raise LogFormatError(in_python(str(error))) from error
        for note in found.notes:
            warnings.warn(in_python(note), stacklevel=2)
        return found

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
        seen: set[object] = set()
        row = 0
        for batch in _small(self._opened[1]):
            for raw in raw_rows(batch.select(names), self.columns, self.options.max_text_chars):
                source = RowSource(self.name, row)
                yield _explained(validator.outcome(raw, source, duplicate=_is_repeated(raw, seen)))
                row += 1

    @cached_property
    def _opened(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        return _record_batches(self.data)


def in_python(message: str) -> str:
    """A message that names options of the command line, with the keywords of the same names."""
    message = message.replace(IMPORT_HINT, "give lists, such as json.loads makes of JSON text")
    message = re.sub(r"--columns (\w+)=\.\.\.", r'columns={"\1": ...}', message)
    message = re.sub(r"--columns (\w+)=(\w+)", r'columns={"\1": "\2"}', message)
    message = re.sub(r"--columns (\w+)=", r'columns={"\1": ""}', message)
    message = message.replace(LESS_HINT, f"{LESS_HINT}, or raise max_text_chars")
    return re.sub(r"--(columns|extra-columns)", lambda found: found[1].replace("-", "_"), message)


def _record_batches(data: object) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if isinstance(data, ArrowStream):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise UsageError(
                "the table should be one that Arrow can hold, with one name and one type of values for each column; "
                "the error before this one says what is in the way"
            ) from error
        return reader.schema, reader
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, Dataset):
        return _dataset_batches(data)
    raise UsageError(
        "a table is needed that gives Arrow data (__arrow_c_stream__), as those of pyarrow, pandas, polars and DuckDB "
        f"do, or a datasets.Dataset; was a {type(data).__name__}; collect a lazy one, and give a list of dicts to "
        "attribute_many"
    )


def _dataset_batches(data: Dataset) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    tables = data.with_format("arrow").iter(batch_size=BATCH_ROWS)
    first = next(tables, None)
    if first is None:
        schema: pa.Schema = getattr(data.features, "arrow_schema", pa.schema([]))
        return schema, []
    return first.schema, (batch for table in chain([first], tables) for batch in table.to_batches())


def _with_types(schema: pa.Schema, *, passages: str) -> pa.Schema:
    """A table without rows may have columns without a type; they are taken for what they should be."""
    types = {passages: pa.list_(pa.string())}
    return pa.schema(
        [one.with_type(types.get(one.name, pa.string())) if pa.types.is_null(one.type) else one for one in schema]
    )


def _small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _is_repeated(raw: RawRow, seen: set[object]) -> bool:
    """Whether an earlier row has the same id; a missing id is never repeated."""
    if raw.record_id is None:
        return False
    repeated = raw.record_id in seen
    seen.add(raw.record_id)
    return repeated


def _explained(outcome: QARecord | FaultyRow) -> QARecord | FaultyRow:
    if isinstance(outcome, QARecord):
        return outcome
    fault = outcome.fault
    explained = RowFault(fault.reason, in_python(str(fault)), column=fault.column)
    return FaultyRow(outcome.source, outcome.record_id, explained, outcome.answer)
