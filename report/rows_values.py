"""Arrow rows as plain values for text formats: what JSON can say, whatever the type of an extra column."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from report.failures import ReportError

Plain = str | int | float | bool | None | Sequence["Plain"] | Mapping[str, "Plain"]
"""Text, numbers, truth, nothing, and lists and objects of these."""


def plain_rows(batch: pa.RecordBatch) -> Iterator[list[Plain]]:
    """The rows of a batch, values in the order of its columns.

    Moments are texts in ISO 8601, in nanoseconds where the column has them; bytes are Base64, durations seconds;
    numbers beyond JSON (NaN, infinity) are None.

    Raises:
        ReportError: if a column holds a value that Python has no type for.
    """
    columns = [_values(name, batch.column(name)) for name in batch.schema.names]
    yield from (list(row) for row in zip(*columns, strict=True))


def _values(name: str, column: pa.Array) -> list[Plain]:
    try:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return [None if moment is None else _moment_text(moment) for moment in column.cast(pa.string()).to_pylist()]
        values: list[Plain] = column.to_pylist()
        return values if _is_plain(column) else [_plain(value) for value in values]
    except (ValueError, OverflowError) as error:
        raise ReportError(f"column {name!r} of type {column.type} cannot be written as text: {error}") from error


def _is_plain(column: pa.Array) -> bool:
    """True where JSON has all values of a column as they are, which saves a walk through nested ones."""
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


def _plain(value: object) -> Plain:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _text(value)


def _text(value: object) -> Plain:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return str(value)
    raise ValueError(f"there is no text for a {type(value).__name__}")
