"""Logs in JSON lines: one object per line, whose keys are what the columns of a Parquet log are."""

from __future__ import annotations

import io
import json
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import BinaryIO

import pyarrow as pa

from attribeam.logs.columns import ColumnPart
from attribeam.logs.reader import BATCH_ROWS, LogBatch, runs
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import LogFormatError

_READ_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEPT_OUTLINES = 8
_outlines: dict[tuple[int, ...], _Outline] = {}
_Object = Mapping[str, object]


class JsonlReader:
    """Reads JSON lines; empty lines are no rows. A text that is not valid Unicode is a fault of its row."""

    suffix = ".jsonl"

    def open(self, file: BinaryIO) -> JsonlLog:
        """Read the file through for names, types and rows, unless this process did; see ``LogReader``."""
        identity = file_identity(file)
        outline = _outlines.get(identity) or _read_outline(file)
        if identity:
            _keep_outline(identity, outline)
        return JsonlLog(file, outline)


class JsonlLog:
    """One open file of JSON lines, see ``attribeam.logs.reader.OpenLog``."""

    def __init__(self, file: BinaryIO, outline: _Outline) -> None:
        self._file = file
        self._outline = outline
        self.schema = outline.schema
        self.row_count = outline.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Parse the blocks of lines that hold a wanted row."""
        kinds = {part.column: _picked(self.schema.field(part.column).type, part.members) for part in parts}
        for (first_row, start), (end_row, _) in pairwise([*self._outline.starts, (self.row_count, 0)]):
            wanted = rows[bisect_left(rows, first_row) : bisect_left(rows, end_row)]
            if not wanted:
                continue
            objects = [one for _, one in islice(_objects(self._file, start), end_row - first_row)]
            faults: dict[int, RowFault] = {}
            batch = pa.record_batch(
                {name: _values(objects, name, kind, first_row, faults) for name, kind in kinds.items()}
            )
            for begin, end in runs(wanted):
                inside = {row: fault for row, fault in faults.items() if begin <= row < end}
                yield LogBatch(begin, batch.slice(begin - first_row, end - begin), inside)


@dataclass(frozen=True, slots=True)
class _Outline:
    """What is known of a file that was read through; ``starts`` are each block's first row and its byte."""

    schema: pa.Schema
    row_count: int
    starts: tuple[tuple[int, int], ...]


def _read_outline(file: BinaryIO) -> _Outline:
    schema, starts, row_count = pa.schema([]), [], 0
    for block in _blocks(_objects(file, 0)):
        starts.append((row_count, block[0][0]))
        row_count += len(block)
        schema = _with_types(schema, [one for _, one in block], row_count)
    return _Outline(schema, row_count, tuple(starts))


def _blocks(found: Iterator[tuple[int, _Object]]) -> Iterator[list[tuple[int, _Object]]]:
    """Objects in blocks of ``BATCH_ROWS`` at most; one ``_BLOCK_BYTES`` or more behind a block's first is its last."""
    block: list[tuple[int, _Object]] = []
    for start, one in found:
        block.append((start, one))
        if len(block) == BATCH_ROWS or start - block[0][0] >= _BLOCK_BYTES:
            yield block
            block = []
    if block:
        yield block


def _keep_outline(identity: tuple[int, ...], outline: _Outline) -> None:
    _outlines.pop(identity, None)
    _outlines[identity] = outline
    if len(_outlines) > _KEPT_OUTLINES:
        del _outlines[next(iter(_outlines))]


def _with_types(schema: pa.Schema, objects: Sequence[_Object], row_count: int) -> pa.Schema:
    """``schema`` with the names and types of further objects, the last of ``row_count`` rows."""
    first_row = row_count - len(objects)
    for name in dict.fromkeys(name for one in objects for name in one):
        try:
            values = [_encoded(one.get(name)) for one in objects]
            try:
                schema = _with_type(schema, name, values)
            except (pa.ArrowException, OverflowError):
                schema = _with_type_of_each(schema, name, values, first_row)
        except (UnicodeEncodeError, RecursionError):
            raise LogFormatError(
                f"should have names of valid Unicode, and no values within hundreds of brackets; field {name!a} has "
                f"others, between rows {first_row} and {row_count - 1}; clean the log"
            ) from None
    return schema


def _with_type(schema: pa.Schema, name: str, values: Sequence[object]) -> pa.Schema:
    own = pa.schema([(name, _text_type(pa.array(values).type))])
    return pa.unify_schemas([schema, own], promote_options="permissive")


def _with_type_of_each(schema: pa.Schema, name: str, values: Sequence[object], first_row: int) -> pa.Schema:
    """As ``_with_type``, value by value: Arrow finds no type for great whole numbers and fractions together."""
    for row, value in enumerate(values, start=first_row):
        try:
            schema = _with_type(schema, name, [value])
        except (pa.ArrowException, OverflowError):
            raise LogFormatError(
                f"should have values of one type in field {name!r}, and whole numbers below 2**63; row {row} has "
                "another one; clean the log, or write such values as strings in all rows"
            ) from None
    return schema


def _objects(file: BinaryIO, start: int) -> Iterator[tuple[int, _Object]]:
    """(first byte, object) of each line from byte ``start`` on that is not empty."""
    file.seek(start)
    for line in _lines(file):
        text = line.removeprefix(_BYTE_ORDER_MARK) if start == 0 else line
        if text.strip():
            yield start, _parsed(text, start)
        start += len(line) + 1


def _lines(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while block := file.read(_READ_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _parsed(line: bytes, start: int) -> _Object:
    try:
        value = json.loads(line.decode("utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            f"should have one JSON object per line, the one at byte {start} cannot be parsed: {error}; if it is of "
            "another format, name that with --log-format"
        ) from error
    if not isinstance(value, dict):
        raise LogFormatError(f"should have one JSON object per line, at byte {start} is: {type(value).__name__}")
    return value


def _picked(kind: pa.DataType, members: Sequence[str] | None) -> pa.DataType:
    """The type without the members of its structs that nobody asked for."""
    if members is None or not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return kind
    return pa.list_(pa.struct([field for field in kind.value_type if field.name in members]))


def _values(
    objects: Sequence[_Object], name: str, kind: pa.DataType, first_row: int, faults: dict[int, RowFault]
) -> pa.Array:
    """The values of a field; of a row whose value its type cannot hold, null, and a fault in ``faults``."""
    try:
        return _array(objects, name, kind)
    except pa.ArrowInvalid:
        fitting = list(objects)
        for index, one in enumerate(objects):
            try:
                _array([one], name, kind)
            except pa.ArrowInvalid:
                fitting[index] = {}
                faults[first_row + index] = _misfit(name, kind)
        return _array(fitting, name, kind)


def _misfit(name: str, kind: pa.DataType) -> RowFault:
    return RowFault(
        Reason.INVALID_VALUE,
        f"column {name!r} should hold {kind}, holds a value that it cannot hold, such as a whole number beyond 2**53 "
        "beside fractions in other rows; write such values as strings in all rows",
        column=name,
    )


def _array(objects: Sequence[_Object], name: str, kind: pa.DataType) -> pa.Array:
    """The values of a field; texts reach the array as they are, valid Unicode or not."""
    return _retyped(pa.array([_encoded(one.get(name)) for one in objects], _bytes_type(kind)), kind)


def _encoded(value: object) -> object:
    if isinstance(value, str):
        try:
            return value.encode("utf-8", errors="surrogateescape")
        except UnicodeEncodeError:
            return value.encode("utf-8", errors="surrogatepass")
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    return {name: _encoded(one) for name, one in value.items()} if isinstance(value, dict) else value


def _bytes_type(kind: pa.DataType) -> pa.DataType:
    """The same type with bytes in the place of texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_bytes_type(kind.value_type))
    return pa.struct([(one.name, _bytes_type(one.type)) for one in kind]) if pa.types.is_struct(kind) else kind


def _text_type(kind: pa.DataType) -> pa.DataType:
    """The same type with texts in the place of bytes."""
    if pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_text_type(kind.value_type))
    return pa.struct([(one.name, _text_type(one.type)) for one in kind]) if pa.types.is_struct(kind) else kind


def _retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers with texts in the place of bytes, which nobody checks here."""
    children = []
    if pa.types.is_list(kind):
        children = [_retyped(array.values, kind.value_type)]
    elif pa.types.is_struct(kind):
        children = [_retyped(array.field(index), one.type) for index, one in enumerate(kind)]
    return pa.Array.from_buffers(kind, len(array), array.buffers()[: kind.num_buffers], children=children)


def file_identity(file: BinaryIO) -> tuple[int, ...]:
    """What tells a local file from all others; empty where it is not one."""
    try:
        found = os.fstat(file.fileno())
    except (OSError, AttributeError, io.UnsupportedOperation):
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
