"""Rows of Parquet and Arrow as the objects that JSON would hold: maps, ids, bytes and decimals as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.arrow_logs import ParquetLog, open_parquet
from attribeam.logs.columns import ColumnPart, list_item_type, plain_type
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import BATCH_BYTES
from attribeam.logs.traces.json_values import Found
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError


def parquet_rows(file: BinaryIO, notes: Counter[str]) -> Iterator[Found]:
    """The rows of a Parquet file without embeddings; their numbers count from 1, as lines do.

    ``notes`` counts the rows of each column that is left out.

    A ``RowFault`` stands in the place of a row that cannot be read.

    Raises:
        DataError: if the file is damaged, or its counts of rows differ.
    """
    try:
        log = ParquetLog(open_parquet(file))
        vectors = [one.name for one in log.schema if _is_vector(one)]
        notes.update({_left_out(name): log.row_count for name in vectors})
        parts = [ColumnPart(name) for name in log.schema.names if name not in vectors]
        yield from _table_rows((one.rows for one in log.batches(parts, range(log.row_count))), notes)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"should be readable Parquet, is damaged: {' '.join(str(error).split())}") from error


def arrow_rows(file: BinaryIO, notes: Counter[str], *, is_stream: bool) -> Iterator[Found]:
    """As ``parquet_rows``, for Arrow's file and stream formats; streams may stand one behind the other."""
    try:
        if is_stream:
            yield from _table_rows(_stream_batches(file), notes)
        else:
            found = pa.ipc.open_file(file)
            batches = (found.get_batch(index) for index in range(found.num_record_batches))
            yield from _table_rows(batches, notes)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"should be readable Arrow, is damaged: {' '.join(str(error).split())}") from error


def _stream_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The batches of all streams up to the file's end."""
    while True:
        yield from pa.ipc.open_stream(file)
        start = file.tell()
        if not file.read(1):
            return
        file.seek(start)


def _is_vector(field: pa.Field) -> bool:
    """Whether a column holds lists of numbers, which would take most of the time and memory."""
    item = list_item_type(plain_type(field.type))
    return item is not None and pa.types.is_floating(item)


def _left_out(name: str) -> str:
    return f"column {name!r} is not read, since it holds lists of numbers"


def _table_rows(batches: Iterator[pa.RecordBatch], notes: Counter[str]) -> Iterator[Found]:
    number = 0
    for whole in batches:
        vectors = [one.name for one in whole.schema if _is_vector(one)]
        notes.update({_left_out(name): whole.num_rows for name in vectors})
        for some in _pieces(whole.select([name for name in whole.schema.names if name not in vectors])):
            for value in _row_values(_in_microseconds(some)):
                number += 1
                yield Found(number, value)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Few rows at a time, of which each may stand for the whole of a dictionary."""
    for start in range(0, batch.num_rows, BATCH_ROWS):
        some = batch.slice(start, BATCH_ROWS)
        rows = max(1, BATCH_BYTES // max(1, some.nbytes))
        yield from (some.slice(index, rows) for index in range(0, some.num_rows, rows))


def _in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Nanoseconds as microseconds at any depth, since Python's moments are no finer."""
    columns = []
    for column in batch.columns:
        wanted = _coarser(column.type)
        if wanted != column.type:
            column = pc.cast(column, options=pc.CastOptions(wanted, allow_time_truncate=True))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _coarser(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_coarser(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_coarser(field.type)) for field in kind.fields])
    return kind


def _row_values(batch: pa.RecordBatch) -> Iterator[object]:
    try:
        yield from _plain_rows(batch)
    except (UnicodeDecodeError, OverflowError, ValueError):
        for index in range(batch.num_rows):
            try:
                yield from _plain_rows(batch.slice(index, 1))
            except UnicodeDecodeError as error:
                message = f"row should hold UTF-8, holds other bytes at byte {error.start}"
                yield RowFault(Reason.INVALID_UTF8, message, column=None)
            except (OverflowError, ValueError):
                message = "row should hold moments of the years 1 to 9999, holds others; correct it"
                yield RowFault(Reason.INVALID_VALUE, message, column=None)


def _plain_rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = batch.to_pylist()
    for field in batch.schema:
        if _needs_care(field.type):
            for row in rows:
                row[field.name] = _plain(row[field.name], field.type)
    return rows


def _needs_care(kind: pa.DataType) -> bool:
    """True where Python's value of this type, or of one within it, is none that JSON has."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_nested(kind) and not pa.types.is_map(kind):
        return any(_needs_care(kind.field(index).type) for index in range(kind.num_fields))
    tests = (pa.types.is_map, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return pa.types.is_decimal(kind) or any(is_one(kind) for is_one in tests)


def _plain(value: object, kind: pa.DataType) -> object:
    """The value as JSON has it: a map is an object, bytes are text, those of a fixed length an id in hexadecimals."""
    if value is None:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(value, kind.storage_type) if isinstance(value, bytes | list | dict) else str(value)
    if isinstance(value, bytes):
        return value.hex() if pa.types.is_fixed_size_binary(kind) else value.decode("utf-8", "surrogateescape")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if pa.types.is_map(kind) and isinstance(value, list):
        return {str(_plain(key, kind.key_type)): _plain(one, kind.item_type) for key, one in value}
    if isinstance(value, dict):
        return {name: _plain(one, kind.field(name).type) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, kind.value_type) for one in value]
    return value
