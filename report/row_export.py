"""Rows of an audit as CSV for spreadsheets, in which no cell can act as a formula, and as JSON lines.

Both turn values of any Arrow type into plain ones first: values that JSON can hold.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.schemas.errors import RunError

PlainValue = str | int | float | bool | None | Sequence["PlainValue"] | Mapping[str, "PlainValue"]
"""A value that JSON can hold."""


def plain_rows(batch: pa.RecordBatch) -> Iterator[list[PlainValue]]:
    """The rows of a batch, values in the order of its columns.

    Times are texts in ISO 8601, to the nanosecond if the column is; bytes are Base64, durations seconds; NaN and
    infinity, which JSON lacks, are None.

    Raises:
        RunError: if Python has no type for a value of a column.
    """
    columns = [_values(name, batch.column(name)) for name in batch.schema.names]
    yield from (list(row) for row in zip(*columns, strict=True))


def _values(name: str, column: pa.Array) -> list[PlainValue]:
    try:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return [None if moment is None else _moment_text(moment) for moment in column.cast(pa.string()).to_pylist()]
        values: list[PlainValue] = column.to_pylist()
        return values if _is_plain(column) else [_plain(value) for value in values]
    except (ValueError, KeyError, OverflowError) as error:
        raise RunError(f"column {name!r} of type {column.type} cannot be written as text: {error}") from error


def _is_plain(column: pa.Array) -> bool:
    """True if JSON can hold all values of a column as they are, which saves a walk through nested ones."""
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    if pa.types.is_list(kind):
        return _is_plain(column.flatten())
    if pa.types.is_struct(kind):
        return all(_is_plain(part) for part in column.flatten())
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _moment_text(text: str) -> str:
    """Arrow's text of a moment in ISO 8601: "2026-11-19 02:00:00.000000001Z"."""
    return text.replace(" ", "T", 1)


def _plain(value: object) -> PlainValue:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _text(value)


def _text(value: object) -> PlainValue:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return str(value)
    raise ValueError(f"there is no text for a {type(value).__name__}")


BYTE_ORDER_MARK = "\ufeff"
_FORMULA_STARTS = tuple("=+-@＝＋－＠")
_CELL_BREAKS = ("\t", "\r", "\n")


def csv_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A byte order mark and the column names, then one record per row (RFC 4180).

    Lists and structs are JSON. A text that a spreadsheet might take for a formula gets a leading apostrophe.
    """
    yield BYTE_ORDER_MARK + _csv_record([_csv_cell(name) for name in schema.names])
    for batch in batches:
        for row in plain_rows(batch):
            yield _csv_record([_csv_cell(value) for value in row])


def _csv_cell(value: PlainValue) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    return f"'{text}" if _looks_like_formula(text) else text


def _looks_like_formula(text: str) -> bool:
    """True also after white space, which some spreadsheets skip, and at a tab or line break, which may start a cell."""
    return text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_CELL_BREAKS)


def _csv_record(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def jsonl_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One line per row, line feed included; fields in the order of the schema."""
    for batch in batches:
        names = batch.schema.names
        for row in plain_rows(batch):
            fields = dict(zip(names, row, strict=True))
            yield json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"
