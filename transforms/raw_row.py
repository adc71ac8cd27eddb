"""Rows of a record batch as plain data, with texts still as bytes, so that a broken one harms no other row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from schemas import Reason, RowFault
from transforms.column_types import is_text, plain_array
from transforms.input_format import InputFormat

_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}


RawText = bytes | int | None
RawRange = tuple[int | None, int | None]
_Reader = Callable[[pa.Array], list[Any]]


@dataclass(frozen=True, slots=True)
class RawPassage:
    """One passage before its texts are decoded."""

    text: RawText
    title: RawText
    passage_id: RawText


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as it stands in the file; nothing of it is checked yet.

    ``answered_at`` is a text or a number of microseconds since 1970 in UTC. An extra column whose value cannot be
    read holds the fault.
    """

    record_id: RawText
    question: bytes | None
    passages: list[RawPassage | None] | None
    answer: bytes | None
    target_spans: list[RawRange | None] | None
    answered_at: bytes | int | None
    generator: bytes | None
    extra_columns: tuple[tuple[str, object | RowFault], ...]


def raw_rows(batch: pa.RecordBatch, input_format: InputFormat) -> Iterator[RawRow]:
    """The rows of a batch, in order."""
    values = {name: _field_values(name, column, batch, input_format) for name, column in _READERS.items()}
    extra = [(field.name, plain_array(batch.column(field.name))) for field in input_format.extra_fields]
    for index in range(batch.num_rows):
        row = {name: column[index] for name, column in values.items()}
        yield RawRow(**row, extra_columns=tuple((name, _extra_value(name, array[index])) for name, array in extra))


def text_values(array: pa.Array) -> list[RawText]:
    """Bytes of each text, or the number where the column holds integers."""
    plain = plain_array(array)
    values: list[RawText] = (plain.cast(pa.large_binary()) if is_text(plain.type) else plain).to_pylist()
    return values


def _field_values(name: str, reader: _Reader, batch: pa.RecordBatch, input_format: InputFormat) -> list[Any]:
    if not input_format.has(name):
        return [None] * batch.num_rows
    return reader(batch.column(input_format.column_of(name)))


def _passage_values(array: pa.Array) -> list[list[RawPassage | None] | None]:
    items = plain_array(pc.list_flatten(plain_array(array)))
    if is_text(items.type):
        passages = [None if text is None else RawPassage(text, None, None) for text in text_values(items)]
    else:
        columns = [_member(items, name) for name in ("text", "title", "passage_id")]
        valid = items.is_valid().to_pylist()
        passages = [RawPassage(*one) if there else None for there, *one in zip(valid, *columns, strict=True)]
    return _grouped(array, passages)


def _range_values(array: pa.Array) -> list[list[RawRange | None] | None]:
    items = plain_array(pc.list_flatten(plain_array(array)))
    starts, ends = (plain_array(pc.struct_field(items, name)).to_pylist() for name in ("char_start", "char_end"))
    valid = items.is_valid().to_pylist()
    ranges = [(start, end) if there else None for there, start, end in zip(valid, starts, ends, strict=True)]
    return _grouped(array, ranges)


def _moment_values(array: pa.Array) -> list[bytes | int | None]:
    plain = plain_array(array)
    if is_text(plain.type):
        return text_values(plain)
    if pa.types.is_date32(plain.type):
        return [None if days is None else days * 86_400 * 10**6 for days in plain.cast(pa.int32()).to_pylist()]
    ticks = plain.cast(pa.int64()).to_pylist()
    unit = "ms" if pa.types.is_date64(plain.type) else plain.type.unit
    if unit == "ns":
        return [None if tick is None else tick // 1000 for tick in ticks]
    return [None if tick is None else tick * _MICROSECONDS[unit] for tick in ticks]


_READERS: dict[str, _Reader] = {
    "record_id": text_values,
    "question": text_values,
    "passages": _passage_values,
    "answer": text_values,
    "target_spans": _range_values,
    "answered_at": _moment_values,
    "generator": text_values,
}


def _member(items: pa.Array, name: str) -> list[RawText]:
    """A field of structs; None everywhere if they have no such field."""
    index = items.type.get_field_index(name)
    return [None] * len(items) if index < 0 else text_values(pc.struct_field(items, name))


def _grouped(array: pa.Array, items: list[Any]) -> list[Any]:
    """The items of each row's list, None where the list itself is null."""
    grouped, start = [], 0
    for length in pc.list_value_length(plain_array(array)).to_pylist():
        grouped.append(None if length is None else items[start : start + length])
        start += length or 0
    return grouped


def _extra_value(name: str, scalar: pa.Scalar) -> object | RowFault:
    try:
        if pa.types.is_temporal(scalar.type) and not pa.types.is_interval(scalar.type):
            return cast(object, scalar.value)
        return cast(object, scalar.as_py())
    except UnicodeDecodeError:
        return RowFault(Reason.INVALID_UTF8, _message(name, "UTF-8", "other bytes"), column=name)
    except (ValueError, OverflowError):
        return RowFault(Reason.INVALID_VALUE, _message(name, str(scalar.type), "a value beyond it"), column=name)


def _message(column: str, expected: str, found: str) -> str:
    return f"column {column!r} should hold {expected}, holds {found}; clean the log, or leave it out of --extra-columns"
