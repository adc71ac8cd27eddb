"""Logs in Parquet files: any row groups, any batch of rows, and only the columns that are needed."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.columns import ColumnPart
from attribeam.logs.reader import BATCH_ROWS, LogBatch, RowsMemoryError, runs
from attribeam.logs.rows import BATCH_BYTES
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

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
