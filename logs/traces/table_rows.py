"""The rows of tables as objects: CSV, Parquet and Arrow.

Where quotes of a CSV file are wrong, reading goes on at the next line that begins a row.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.columns import ColumnPart, list_item_type, plain_type, with_leaves
from attribeam.logs.jsonl_log import BLOCK_BYTES
from attribeam.logs.reader import BATCH_ROWS, ParquetLog, open_parquet
from attribeam.logs.rows import BATCH_BYTES
from attribeam.logs.traces import FileRecord
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

MOST_CHARS = 1 << 26
MOST_LINES = 1 << 18
"""The longest row of CSV, 64 Mi characters on 262,144 lines; a quote that is never closed takes no more along."""

ARROW_STREAM = b"\xff\xff\xff\xff"
"""How a stream of Arrow begins."""

_BLANK_CHARS = " \t\n\r\f\v\ufeff"
_JSON = re.compile(r'\{\s*"|\[\s*\{')

_SEPARATORS = ",;\t|"
"""What may stand between the cells of CSV; the first one that the line of names has does."""
_MARKDOWN_ROW = re.compile(r"\|[^,;\t]*\|\s*$")
_STATED = re.compile(rf"sep=([{_SEPARATORS}])\s*$")
"""The line with which Excel says what stands between the cells."""

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


def csv_rows(file: BinaryIO) -> Iterator[FileRecord]:
    """The rows as objects, each with the line where it begins; a ``RowFault`` stands in the place of a faulty one.

    Where a row's quotes are wrong, as where one is opened and never closed, or a row is too long, reading goes on at
    the next line that begins a row with as many fields as there are names. The fault names the lines that are passed
    over. No line is read more than a few times, whatever quotes it has. Raises ``LogFormatError`` if the first line
    that is not blank is none of names.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        lines = _Lines(text)
        names = _names(lines)
        while names:
            first = lines.taken + 1
            row = lines.next_row()
            if row.damage is not None:
                yield FileRecord(first, _damaged(first, _pass_over(lines, row.lines, len(names)), row.damage))
            elif row.cells is None:
                return
            elif row.cells:
                yield FileRecord(first, _row_of(names, row.cells, first, lines.taken))
    finally:
        text.detach()


class _Row(NamedTuple):
    """The row that the next lines hold: its ``cells``, None at the end, or the ``damage`` that hides where it ends."""

    lines: Sequence[str]
    cells: list[str] | None = None
    damage: csv.Error | None = None


class _Lines:
    """The lines of a text, which can be given back.

    ``separator`` stands between the cells of a row. A quote that is open at the end of a line before ``_open_to`` is
    known to be closed by none that ends a row.
    """

    separator = ","

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text
        self._returned = deque[str]()
        self._open_to = 0
        self.taken = 0

    def take(self) -> str | None:
        """The next line, None at the end; of one that is too long, one character more than a row may have."""
        if self._returned:
            line = self._returned.popleft()
        else:
            line = end = self._text.readline(MOST_CHARS + 1)
            while len(line) > MOST_CHARS and end and not end.endswith(("\n", "\r")):
                end = self._text.readline(BLOCK_BYTES)
        self.taken += bool(line)
        return line or None

    def give_back(self, lines: Sequence[str]) -> None:
        """Have ``lines``, the last ones that were taken, read again."""
        self._returned.extendleft(reversed(lines))
        self.taken -= len(lines)

    def next_row(self) -> _Row:
        taken: list[str] = []
        try:
            return _Row(taken, next(csv.reader(self._feed(taken), delimiter=self.separator, strict=True), None))
        except csv.Error as error:
            self.open_before_here()
            return _Row(taken, damage=error)

    def open_before_here(self) -> None:
        """Remember that what was open up to here is never closed."""
        self._open_to = max(self._open_to, self.taken)

    def _feed(self, taken: list[str]) -> Iterator[str]:
        size = 0
        while (line := self.take()) is not None:
            taken.append(line)
            size += len(line)
            if size > MOST_CHARS or len(taken) > MOST_LINES:
                raise csv.Error(f"no end after {MOST_CHARS} characters or {MOST_LINES} lines")
            yield line
            if self.taken < self._open_to:
                raise csv.Error("a quote that is never closed")


def _pass_over(lines: _Lines, damaged: Sequence[str], width: int) -> int:
    """Go on behind the first of some ``damaged`` lines, at a row of ``width`` cells; the last line passed over."""
    while True:
        lines.give_back(damaged[1:])
        last = lines.taken
        row = lines.next_row()
        if row.damage is None and (row.cells is None or len(row.cells) == width):
            lines.give_back(row.lines)
            return last
        lines.open_before_here()
        damaged = row.lines


def _damaged(first: int, last: int, error: csv.Error) -> RowFault:
    where = f"line {first} should be CSV, is not"
    if last > first:
        where = f"{where}, and the lines up to {last} begin no row"
    return RowFault(Reason.INVALID_VALUE, f"{where}: {error}; close its quotes, or export the file again", column=None)


def _names(lines: _Lines) -> list[str]:
    """The names of the columns; none in an empty file."""
    first = line = lines.take()
    stated: re.Match[str] | None = None
    while first is not None and (not (line := first.lstrip(_BLANK_CHARS)) or _STATED.match(line or "")):
        stated = stated or _STATED.match(line or "")
        first = line = lines.take()
    if line is not None and (json := _JSON.search(line)):
        raise LogFormatError(
            f"should begin with JSON, or with names of columns, line {lines.taken} has {json.start()} characters "
            "before its JSON; remove them"
        )
    marks = "" if line is not None and _MARKDOWN_ROW.match(line) else _SEPARATORS
    lines.separator = stated[1] if stated else next((mark for mark in marks if mark in (first or "")), ",")
    if first is not None and lines.separator == "\t":  # the first name may be empty
        line = first.lstrip(_BLANK_CHARS.replace("\t", ""))
    lines.give_back([] if line is None else [line])
    row = lines.next_row()
    if row.damage is not None:
        number = lines.taken - len(row.lines) + 1
        raise LogFormatError(f"should be CSV with a line of names, line {number} is none: {row.damage}")
    names = row.cells or []
    if len(names) == 1:
        raise LogFormatError(
            "should be CSV with a line of names, line 1 has no comma, semicolon, tab or bar; check the format's name"
        )
    return names


def _row_of(names: Sequence[str], cells: Sequence[str], first: int, last: int) -> object:
    if len(cells) != len(names):
        where = f"line {first}" if first == last else f"line {first}, whose quotes end in line {last},"
        return RowFault(
            Reason.INVALID_VALUE,
            f"{where} should have {len(names)} fields as line 1 has, has {len(cells)}; export the file again",
            column=None,
        )
    row: dict[str, str | None] = {}
    for name, cell in zip(names, cells, strict=True):
        if row.setdefault(name, cell or None) != (cell or None):
            message = f"line {first} should have one value in {name!r}, which line 1 names twice, has two; rename one"
            return RowFault(Reason.INVALID_VALUE, message, column=None)
    return row


def table_rows(file: BinaryIO, notes: Counter[str]) -> Iterator[FileRecord]:
    """The rows of a Parquet or Arrow file without embeddings; their numbers count from 1, as lines do.

    Streams of Arrow may stand one behind the other. ``notes`` counts the rows of each column that is left out. A
    ``RowFault`` stands in the place of a row that cannot be read. Raises ``DataError`` if the file is damaged, or its
    counts of rows differ.
    """
    head = file.read(4)
    file.seek(0)
    kind = "Parquet" if head == b"PAR1" else "Arrow"
    try:
        if kind == "Parquet":
            log = ParquetLog(open_parquet(file))
            names = _read_columns(log.schema, log.row_count, notes)
            batches: Iterator[pa.RecordBatch] = (
                batch.rows for batch in log.batches([*map(ColumnPart, names)], range(log.row_count))
            )
        elif head == ARROW_STREAM:
            batches = _stream_batches(file)
        else:
            opened = pa.ipc.open_file(file)
            batches = map(opened.get_batch, range(opened.num_record_batches))
        for number, value in enumerate(_values(batches, notes), start=1):
            yield FileRecord(number, value)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"should be readable {kind}, is damaged: {' '.join(str(error).split())}") from error


def _values(batches: Iterable[pa.RecordBatch], notes: Counter[str]) -> Iterator[object]:
    for whole in batches:
        batch = whole.select(_read_columns(whole.schema, whole.num_rows, notes))
        for start in range(0, batch.num_rows, BATCH_ROWS):
            some = batch.slice(start, BATCH_ROWS)
            rows = max(1, BATCH_BYTES // max(1, some.nbytes))  # each may stand for the whole of a dictionary
            for first in range(0, some.num_rows, rows):
                yield from _row_values(some.slice(first, rows))


def _stream_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The batches of all streams up to the file's end."""
    while True:
        yield from pa.ipc.open_stream(file)
        start = file.tell()
        if not file.read(1):
            return
        file.seek(start)


def _read_columns(schema: pa.Schema, rows: int, notes: Counter[str]) -> list[str]:
    """The names of the columns but those of lists of numbers, which would take most of the time and memory."""
    items = {field.name: list_item_type(plain_type(field.type)) for field in schema}
    vectors = {name for name, item in items.items() if item is not None and pa.types.is_floating(item)}
    notes.update({f"column {name!r} is not read, since it holds lists of numbers": rows for name in vectors})
    return [name for name in schema.names if name not in vectors]


def _row_values(batch: pa.RecordBatch) -> Iterator[object]:
    columns = []
    for column in batch.columns:  # Python's moments are no finer than microseconds
        wanted = with_leaves(column.type, _coarser)
        options = pc.CastOptions(wanted, allow_time_truncate=True)
        columns.append(column if wanted == column.type else pc.cast(column, options=options))
    batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
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


def _coarser(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", tz=kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "ns" else kind


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
        return {str(_plain(key, kind.key_type)): _plain(item, kind.item_type) for key, item in value}
    if isinstance(value, dict):
        return {name: _plain(member, kind.field(name).type) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    return value
