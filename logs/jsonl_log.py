"""Logs in JSON lines: one object per line, whose keys are what the columns of a Parquet log are."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, NamedTuple, TypeVar

import pyarrow as pa

from attribeam.logs.columns import CONVERT_HINT, MOST_LEVELS, ColumnPart, unified, unreadable, with_leaves
from attribeam.logs.reader import BATCH_ROWS, LogBatch, runs
from attribeam.logs.rows import text_bytes
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import LogFormatError

_PACKED = re.compile(
    rb"(?s)(?P<gzip>\x1f\x8b)|(?P<bzip2>BZh\d1AY&SY)|(?P<xz>\xfd7zXZ\x00)|(?P<zstd>\x28\xb5\x2f\xfd)"
    rb"|(?P<zip>PK\x03\x04)|(?P<tar>.{257}ustar)"
)

MOST_BYTES = 1 << 26
"""The longest record that is read from JSON, 64 MiB; parsed, it takes up to 30 times as much memory."""

BLOCK_BYTES = 1 << 20
_BATCH_BYTES = 1 << 24
_MOST_MEMBERS = 10_000
"""Different members of the objects of one field of a file."""

_MOST_KEPT = 8
_outlines: dict[tuple[object, ...], _Outline] = {}
_Object = Mapping[str, object]
_T = TypeVar("_T")


class Line(NamedTuple):
    """A line without its end and a byte order mark; ``text`` is None where it has more than ``MOST_BYTES``."""

    start: int
    text: bytes | None


def text_lines(file: BinaryIO, start: int = 0) -> Iterator[Line]:
    """The lines of a file from the byte ``start`` on, each read once however long it is."""
    file.seek(start)
    pieces: list[bytes] = []
    length = 0
    while block := file.read(BLOCK_BYTES):
        for number, piece in enumerate(block.split(b"\n")):
            if number:
                line = Line(start, b"".join(pieces).removeprefix(codecs.BOM_UTF8) if length <= MOST_BYTES else None)
                start, pieces, length = start + length + 1, [], 0
                yield line
            length += len(piece)
            if length <= MOST_BYTES:
                pieces.append(piece)
            else:
                pieces.clear()
    if length:
        yield Line(start, b"".join(pieces).removeprefix(codecs.BOM_UTF8) if length <= MOST_BYTES else None)


def line_value(line: Line, location: str) -> object:
    """What a line holds, or the ``RowFault`` of one that is too long or no JSON; ``place`` names it."""
    if line.text is None:
        return RowFault(
            Reason.TEXT_TOO_LONG,
            f"{location} should have at most {MOST_BYTES} bytes, has more; write each record on a line of its own, and "
            "leave this one out",
            column=None,
        )
    try:
        return json.loads(line.text.decode("utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        return no_json(location, error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__)


def no_json(location: str, why: str) -> RowFault:
    """The fault of what cannot be parsed."""
    message = f"{location} should be JSON, cannot be parsed: {why}; export it again, with one record a line"
    return RowFault(Reason.INVALID_JSON, message, column=None)


def check_unpacked(begin: bytes) -> None:
    """Raise ``LogFormatError`` for a file that begins as one that others are packed in."""
    if packed := _PACKED.match(begin):
        raise LogFormatError(f"should be a log, is packed as {packed.lastgroup}; unpack it first")


class JsonlReader:
    """Reads JSON lines; empty lines are no rows. A line that is no object, or too long, is a fault of its row."""

    suffix = ".jsonl"

    def open(self, file: BinaryIO) -> JsonlLog:
        """Read the file through for names, types and rows, unless this process did; see ``LogReader``."""
        check_unpacked(file.read(262))  # a tar says so at their end
        return JsonlLog(file, kept(_outlines, file, lambda: _read_outline(file)))


class JsonlLog:
    """One open file of JSON lines, see ``attribeam.logs.reader.OpenLog``."""

    def __init__(self, file: BinaryIO, outline: _Outline) -> None:
        self._file = file
        self._outline = outline
        self.schema = outline.schema
        self.row_count = outline.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Parse the blocks of lines that hold a wanted row."""
        kinds = {part.column: self.schema.field(part.column).type for part in parts}
        for part in parts:  # without the members of structs that nobody asked for
            kind = kinds[part.column]
            if part.members is not None and pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
                fields = [field for field in kind.value_type if field.name in part.members]
                kinds[part.column] = pa.list_(pa.struct(fields))
        for (first_row, start), (last_row, _) in pairwise([*self._outline.blocks, (self.row_count, 0)]):
            wanted = rows[bisect_left(rows, first_row) : bisect_left(rows, last_row)]
            if not wanted:
                continue
            block = _block(text_lines(self._file, start))
            faults = {row: item for row, (_, item) in enumerate(block, start=first_row) if isinstance(item, RowFault)}
            objects = [{} if isinstance(item, RowFault) else item for _, item in block]
            batch = pa.record_batch(
                {name: _values(objects, name, kind, first_row, faults) for name, kind in kinds.items()}
            )
            for begin, end in runs(wanted):
                inside = {row: fault for row, fault in faults.items() if begin <= row < end}
                yield LogBatch(begin, batch.slice(begin - first_row, end - begin), inside)


@dataclass(frozen=True, slots=True)
class _Outline:
    """What is known of a file that was read through; ``blocks`` are the first row and the first byte of each block."""

    schema: pa.Schema
    row_count: int
    blocks: tuple[tuple[int, int], ...]


def _read_outline(file: BinaryIO) -> _Outline:
    types, blocks, row_count = _Types(), [], 0
    fault, has_objects = None, False
    lines = text_lines(file)
    while block := _block(lines):
        blocks.append((row_count, block[0][0]))
        fault = fault or next((item for _, item in block if isinstance(item, RowFault)), None)
        has_objects = has_objects or any(not isinstance(item, RowFault) for _, item in block)
        types.add(block, row_count)
        row_count += len(block)
    if fault is not None and not has_objects:
        way_out = f"if the file is of another format, name that with --log-format, or {CONVERT_HINT}"
        raise LogFormatError(f"{fault}; {way_out}")
    return _Outline(types.schema(), row_count, tuple(blocks))


def _block(lines: Iterator[Line]) -> list[tuple[int, _Object | RowFault]]:
    """(first byte, object) of the next lines that are not empty: as many as a batch may have, and as memory holds."""
    rows: list[tuple[int, _Object | RowFault]] = []
    size = 0
    for line in lines:
        if line.text is None or line.text.strip():
            rows.append((line.start, _object(line)))
            size += len(line.text or b"")
            if len(rows) == BATCH_ROWS or size >= _BATCH_BYTES:
                break
    return rows


def _object(line: Line) -> _Object | RowFault:
    location = f"line at byte {line.start}"
    value = line_value(line, location)
    if isinstance(value, RowFault):
        return value
    expected, actual = "one JSON object", type(value).__name__
    if isinstance(value, dict):
        expected, actual = f"names of valid Unicode, and values of at most {MOST_LEVELS} levels", _oddity(value)
        if not actual:
            return value
    return RowFault(Reason.INVALID_VALUE, f"{location} should have {expected}, has {actual}; leave it out", column=None)


def _oddity(value: _Object) -> str:
    """Why no column can hold what is in an object; empty if nothing is wrong."""
    level: list[object] = [value]
    for _ in range(MOST_LEVELS + 1):
        objects = [item for item in level if isinstance(item, dict)]
        try:
            "".join(name for item in objects for name in item).encode()
        except UnicodeEncodeError:
            return "another name"
        lists = [*(item.values() for item in objects), *(item for item in level if isinstance(item, list))]
        level = [inner for items in lists for inner in items if isinstance(inner, dict | list)]
        if not level:
            return ""
    return "deeper ones"


class _Types:
    def __init__(self) -> None:
        self._types: dict[str, pa.DataType] = {}
        self._members: dict[str, set[str]] = {}
        self._mixed: dict[str, pa.Field] = {}

    def schema(self) -> pa.Schema:
        """The fields, those of several types last; one whose objects have ever new members is none."""
        narrow = {name: kind for name, kind in self._types.items() if len(self._members[name]) <= _MOST_MEMBERS}
        return pa.schema([*narrow.items(), *self._mixed.values()])

    def add(self, block: Sequence[tuple[int, _Object | RowFault]], first_row: int) -> None:
        """Widen the types to what further rows hold."""
        columns: dict[str, list[tuple[int, object]]] = {}
        for row, (_, item) in enumerate(block, start=first_row):
            for name, value in () if isinstance(item, RowFault) else item.items():
                columns.setdefault(name, []).append((row, value))
        for name, cells in columns.items():
            known = self._members.setdefault(name, set())
            for _, value in cells:
                if len(known) <= _MOST_MEMBERS:
                    known.update(_members(value))
            if len(known) <= _MOST_MEMBERS and name not in self._mixed:
                values = [(row, _encoded(value)) for row, value in cells]
                try:
                    self._types[name] = _wider_type(self._types.get(name), values)
                except LogFormatError as error:
                    self._mixed[name] = unreadable(name, str(error))
                    self._types.pop(name, None)


def _members(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield (inner := f"{path}.{name}")
            yield from _members(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _members(item, path)


def _wider_type(known: pa.DataType | None, cells: Sequence[tuple[int, object]]) -> pa.DataType:
    try:
        return _with_type(known, [value for _, value in cells])
    except (pa.ArrowException, OverflowError):
        for row, value in cells:  # one by one: Arrow finds no type for great whole numbers and fractions together
            try:
                known = _with_type(known, [value])
            except (pa.ArrowException, OverflowError):
                raise LogFormatError(
                    f"should have values of one type, and whole numbers below 2**63; row {row} has another one; clean "
                    "the log, or write such values as strings in all rows"
                ) from None
        return known


def _with_type(known: pa.DataType | None, values: Sequence[object]) -> pa.DataType:
    kind = with_leaves(pa.array(values).type, lambda leaf: pa.string() if pa.types.is_binary(leaf) else leaf)
    return kind if known is None or known == kind else unified(known, kind)


def _values(
    objects: Sequence[_Object], name: str, kind: pa.DataType, first_row: int, faults: dict[int, RowFault]
) -> pa.Array:
    """The values of a field; of a row whose value its type cannot hold, null, and a fault in ``faults``."""
    try:
        return _array(objects, name, kind)
    except pa.ArrowInvalid:
        fitting = list(objects)
        for index, row in enumerate(objects):
            try:
                _array([row], name, kind)
            except pa.ArrowInvalid:
                fitting[index] = {}
                faults[first_row + index] = RowFault(
                    Reason.INVALID_VALUE,
                    f"column {name!r} should hold {kind}, holds a value that it cannot hold, such as a whole number "
                    "beyond 2**53 beside fractions in other rows; write such values as strings in all rows",
                    column=name,
                )
        return _array(fitting, name, kind)


def _array(objects: Sequence[_Object], name: str, kind: pa.DataType) -> pa.Array:
    """The values of a field; texts reach the array as they are, valid Unicode or not."""
    bytes_kind = with_leaves(kind, lambda leaf: pa.binary() if pa.types.is_string(leaf) else leaf)
    return _retyped(pa.array([_encoded(row.get(name)) for row in objects], bytes_kind), kind)


def _encoded(value: object) -> object:
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    return {name: _encoded(item) for name, item in value.items()} if isinstance(value, dict) else value


def _retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers with texts in the place of bytes, which nobody checks here."""
    children = []
    if pa.types.is_list(kind):
        children = [_retyped(array.values, kind.value_type)]
    elif pa.types.is_struct(kind):
        children = [_retyped(array.field(index), field.type) for index, field in enumerate(kind)]
    return pa.Array.from_buffers(kind, len(array), array.buffers()[: kind.num_buffers], children=children)


def kept(known: dict[tuple[object, ...], _T], file: BinaryIO, make: Callable[[], _T], *key: object) -> _T:
    """What ``make`` gives for a local file, from ``known`` if it was made there already; the last eight are kept."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError, io.UnsupportedOperation):
        return make()
    whole = (*key, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    value = known.pop(whole) if whole in known else make()
    known[whole] = value
    if len(known) > _MOST_KEPT:
        del known[next(iter(known))]
    return value
