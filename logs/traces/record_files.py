"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped.

Where quotes of a CSV file are wrong, reading goes on at the next line that begins a row.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import BinaryIO, NamedTuple, NoReturn, cast

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.columns import ColumnPart, list_item_type, plain_type, types_within, with_leaves
from attribeam.logs.jsonl_log import BLOCK_BYTES, MOST_BYTES, Line, check_unpacked, line_value, no_json, text_lines
from attribeam.logs.reader import BATCH_ROWS, ParquetLog, open_parquet
from attribeam.logs.rows import in_microseconds, of_batch_bytes, slices
from attribeam.logs.traces import FileRecord, by_name
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BLANK = re.compile(rb"(?:\s++|\xef\xbb\xbf)*+")
_PARTS_OF_MARK = (b"", codecs.BOM_UTF8[:1], codecs.BOM_UTF8[:2])
_MOST_RATIO = 300
_LEAST_UNPACKED = 1 << 26
"""What is unpacked without a question, 64 MiB; beyond it, at most ``_MOST_RATIO`` times the packed bytes."""


def records(
    file: BinaryIO, *, wrappers: Sequence[str] = (), takes_csv: bool = True, notes: Counter[str] | None = None
) -> Iterator[FileRecord]:
    """The records in order; a ``RowFault`` stands in the place of one that cannot be read. An empty file has none.

    The content decides what kind of file it is, never a name. Of two members of the same name the last one counts.
    Columns of embeddings are not read; ``notes`` counts their rows. Raises ``LogFormatError`` if the file is none of
    these kinds, and ``DataError`` if it is damaged.
    """
    head = file.read(len(b"ARROW1"))
    file.seek(0)
    if head.startswith(_GZIP):
        try:
            with _Unzipped(file) as unzipped:
                yield from _text_records(cast(BinaryIO, unzipped), wrappers, takes_csv)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"should be whole gzip, is damaged: {error}; fetch it again") from error
    elif head.startswith((b"PAR1", b"ARROW1", ARROW_STREAM)):
        yield from table_rows(file, Counter() if notes is None else notes)
    else:
        yield from _text_records(file, wrappers, takes_csv)


class _Unzipped(gzip.GzipFile):
    """A zipped file that is read, unless it unpacks to far more than logs do."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        if self.tell() > max(_LEAST_UNPACKED, _MOST_RATIO * self._packed.tell()):
            raise DataError(
                f"should unpack to at most {_MOST_RATIO} times its size, its first {self._packed.tell()} bytes give "
                f"{self.tell()}; if that is right, unpack it and name the unpacked file"
            )
        return content


def _text_records(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[FileRecord]:
    begin = b""
    while begin in _PARTS_OF_MARK and (block := file.read(BLOCK_BYTES)):
        begin = _BLANK.sub(b"", begin + block, count=1)
    file.seek(0)
    check_unpacked(begin)
    if begin.startswith(_UTF16):
        raise LogFormatError("should be UTF-8, begins like UTF-16; save it as UTF-8")
    if begin.startswith((b"{", b"[")):
        yield from _json_values(file, wrappers, may_be_lines=begin.startswith(b"{"))
    elif begin and takes_csv and b"\x00" not in begin.partition(b"\n")[0]:
        yield from csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")


_OWN_KEYS = frozenset(
    {"id", "record_id", "trace_id", "traceId", "span_id", "context", "info", "type", "question", "query", "user_input"}
    | {"answer", "response"}
)
"""An object with one of these keys is a record itself, whatever lists it has, unless their items ask something."""
_ASKING_KEYS = frozenset({"question", "query", "user_input", "user_query", "input", "inputs", "prompt", "messages"})
_PAGES = ("hits", "logs")
"""Lists of records under these names, of a search or of a store of logs, have to ask something."""
_DEEPEST_WRAPPER = 3
_CUT_OFF = "the file ends within it"
_CUT_OFF_CHARS = 16
_BETWEEN = re.compile("[ \t\r\n\ufeff,]*")
"""What may stand between values: white space, commas, and the byte order marks of files that were joined."""


def _json_values(file: BinaryIO, wrappers: Sequence[str], *, may_be_lines: bool) -> Iterator[FileRecord]:
    """The values of a file that begins like JSON, where several documents may stand one behind the other.

    An object with one of the keys ``wrappers``, in snake case, and none of a record's own, gives its items, and a whole
    table its rows. ``may_be_lines`` says that the file begins with an object. If that ends within its line, each line
    is read for itself: one that is no JSON, or too long, is a ``RowFault`` in its place. So is what the file's end cuts
    off.

    Raises ``LogFormatError`` if not even the first value can be read, and ``DataError`` if a list or an object over
    several lines is damaged or too long, so that nobody knows where the next begins.
    """
    lines = text_lines(file) if may_be_lines else iter(())
    first = next((line for line in lines if line.text is not None and line.text.strip()), None)
    is_whole = first is not None and not any(isinstance(value, RowFault) for value in _line_values(first, ""))
    for record in _lines(file) if is_whole else _stream(file):
        items = _items(record.value, wrappers) if wrappers else None
        if items is None:
            yield record
        else:
            yield from (FileRecord(record.line, item, number) for number, item in enumerate(items))


def _lines(file: BinaryIO) -> Iterator[FileRecord]:
    for number, line in enumerate(text_lines(file), start=1):
        for value in _line_values(line, f"line {number}"):
            items = enumerate(value) if value and isinstance(value, list) else [(None, value)]
            yield from (FileRecord(number, item, index) for index, item in items)


def _line_values(line: Line, location: str) -> list[object]:
    """The values of a line, nearly always one, up to a ``RowFault`` in the place of what cannot be read."""
    whole = line_value(line, location)
    if line.text is None or not isinstance(whole, RowFault):
        return [whole]
    text, values = line.text.decode("utf-8", errors="surrogateescape"), []
    at = _start_of_next(text, 0)
    with suppress(ValueError, RecursionError):
        while at < len(text):
            value, end = json.JSONDecoder().raw_decode(text, at)
            values.append(value)
            at = _start_of_next(text, end)
        return values
    return [*values, whole]


def _start_of_next(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return at if between is None else between.end()


def _items(value: object, wrappers: Sequence[str], depth: int = 0) -> Sequence[object] | None:
    """The records in an object that wraps them, perhaps in another one; None where it is a record itself."""
    if not isinstance(value, dict):
        return None
    rows = _rows_of_table(value)
    if rows is not None or value.keys() & _ASKING_KEYS:
        return rows
    own = by_name(value)
    for key in (key for key in (*wrappers, *_PAGES) if key in own):
        inner = value[own[key]]
        items = inner if isinstance(inner, list) or depth == _DEEPEST_WRAPPER else _items(inner, wrappers, depth + 1)
        is_open = key in _PAGES or (items is inner and value.keys() & _OWN_KEYS)
        if isinstance(items, list) and (not is_open or any(map(_asks, items))):
            return items
    return None


def _asks(item: object) -> bool:
    return isinstance(item, dict) and (not _ASKING_KEYS.isdisjoint(by_name(item)) or _asks(item.get("_source")))


def _rows_of_table(value: Mapping[str, object]) -> list[object] | None:
    """The rows of a whole table: as pandas splits it, with an object or with a list for each column."""
    names, lists = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(lists, list) and all(isinstance(name, str) for name in names):
        is_whole = all(isinstance(cells, list) and len(cells) == len(names) for cells in lists)
        return [dict(zip(names, cells, strict=True)) for cells in lists] if is_whole else None
    objects = {name: column for name, column in value.items() if isinstance(column, dict)}
    numbers = [str(number) for number in next(iter(objects.values()), ())]
    if 1 < len(objects) == len(value) and numbers and all(map(str.isdecimal, numbers)):
        is_whole = all([*column] == numbers for column in objects.values())
        return [{name: column[at] for name, column in objects.items()} for at in numbers] if is_whole else None
    columns = [column for column in value.values() if isinstance(column, list)]
    if 1 < len(columns) == len(value) and len({len(column) for column in columns}) == 1 and columns[0]:
        asked = next((column for name, column in zip(value, columns, strict=True) if _asks({name: None})), [None])
        if all(isinstance(cell, str) for cell in asked):
            return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return None


def _stream(file: BinaryIO) -> Iterator[FileRecord]:
    file.seek(0)
    window = _Window(file)
    list_line: int | None = None
    is_first, item = True, 0
    while following := window.following():
        line = window.line
        if following == ("[" if list_line is None else "]"):
            list_line, item = line if list_line is None else None, 0
            window.advance(1)
            continue
        value = window.value(is_first=is_first)
        yield FileRecord(line, value, item if line == list_line else None)
        if isinstance(value, RowFault):
            return
        is_first, item = False, item + 1
    if list_line is not None:
        yield FileRecord(list_line, no_json(f"list that begins in line {list_line}", _CUT_OFF))


class _Window:
    """The part of a file that is being parsed: it grows until it holds the next value."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def following(self) -> str:
        """Go to the first character of what comes next; "" at the end."""
        while True:
            self.advance(_start_of_next(self._text, self._at) - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def advance(self, count: int) -> None:
        self.line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def value(self, *, is_first: bool) -> object:
        """The value here, or a ``RowFault`` where the file ends before it does."""
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except RecursionError as error:
                message = f"should have values of moderate depth, the one in line {self.line} is deeper"
                raise DataError(message) from error
            except json.JSONDecodeError as error:
                at_end = error.pos >= len(self._text) - _CUT_OFF_CHARS
                if not at_end and not error.msg.startswith("Unterminated string"):
                    self._raise_damage(error, is_first)
                if not self._grow():
                    return no_json(f"line {self.line}", _CUT_OFF)
                continue
            except ValueError as error:
                self._raise_damage(error, is_first)
            if end < len(self._text) or self._ended or self._text[end - 1] in '}]"':
                self.advance(end - self._at)
                return value
            self._grow()

    def _grow(self) -> bool:
        """Read on, as much as there is already, so that a long value is parsed only a few times over."""
        if self._ended:
            return False
        if len(self._text) - self._at > MOST_BYTES:
            raise DataError(
                f"should have values of at most {MOST_BYTES} characters, the one in line {self.line} is longer; export "
                "as JSON lines, of which only those that are too long are left out"
            )
        length = len(self._text) - self._at
        block = self._file.read(min(max(BLOCK_BYTES, length), MOST_BYTES + 1 - length))
        self._ended = not block
        self._text = self._text[self._at :] + self._decode(block, self._ended)
        self._at = 0
        return True

    def _raise_damage(self, error: ValueError, is_first: bool) -> NoReturn:
        line, message = self.line, str(error)
        if isinstance(error, json.JSONDecodeError):
            line, message = line + self._text.count("\n", self._at, error.pos), error.msg
        problem = f"should hold JSON, line {line} cannot be parsed: {message}"
        if is_first:
            raise LogFormatError(f"{problem}; check the format's name") from error
        way_out = "export it again, best as JSON lines, of which only the faulty ones are left out"
        raise DataError(f"{problem}; {way_out}") from error


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
                last, where = _pass_over(lines, row.lines, len(names)), f"line {first} should be CSV, is not"
                where += f", and the lines up to {last} begin no row" if last > first else ""
                message = f"{where}: {row.damage}; close its quotes, or export the file again"
                yield FileRecord(first, RowFault(Reason.INVALID_VALUE, message, column=None))
            elif row.cells is None:
                return
            elif row.cells == names:
                message = f"line {first} should be a row, repeats the names of columns; leave it out"
                yield FileRecord(first, RowFault(Reason.INVALID_VALUE, message, column=None))
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


def _names(lines: _Lines) -> list[str]:
    first = line = lines.take()
    stated: re.Match[str] | None = None
    while first is not None and (not (line := first.lstrip(_BLANK_CHARS)) or _STATED.match(line or "")):
        stated = stated or _STATED.match(line or "")
        first = line = lines.take()
    if line is not None and (found := _JSON.search(line)):
        raise LogFormatError(
            f"should begin with JSON, or with names of columns, line {lines.taken} has {found.start()} characters "
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
        message = f"{where} should have {len(names)} fields as line 1 has, has {len(cells)}; export the file again"
        return RowFault(Reason.INVALID_VALUE, message, column=None)
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
            parts = [*map(ColumnPart, names)]
            batches: Iterator[pa.RecordBatch] = (batch.rows for batch in log.batches(parts, range(log.row_count)))
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
        for some in slices(whole.select(_read_columns(whole.schema, whole.num_rows, notes)), BATCH_ROWS):
            for few in of_batch_bytes(some):
                yield from _row_values(few)


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
    if len(items) < len(schema.names):
        name = next(name for name in schema.names if schema.names.count(name) > 1)
        raise DataError(f"should have columns with different names, has {name!r} more than once; rename one of them")
    vectors = {name for name, item in items.items() if item is not None and pa.types.is_floating(item)}
    notes.update({f"column {name!r} is not read, since it holds lists of numbers": rows for name in vectors})
    return [name for name in schema.names if name not in vectors]


def _row_values(batch: pa.RecordBatch) -> Iterator[object]:
    for index, field in enumerate(batch.schema):  # Python's moments are no finer than microseconds
        wanted = with_leaves(field.type, lambda kind: in_microseconds(kind) if pa.types.is_timestamp(kind) else kind)
        if wanted != field.type:
            cast_column = pc.cast(batch.column(index), options=pc.CastOptions(wanted, allow_time_truncate=True))
            batch = batch.set_column(index, field.name, cast_column)
    try:
        yield from _plain_rows(batch)
    except (OverflowError, ValueError):
        for row in slices(batch, 1):
            try:
                yield from _plain_rows(row)
            except UnicodeDecodeError as error:
                message = f"row should hold UTF-8, holds other bytes at byte {error.start}"
                yield RowFault(Reason.INVALID_UTF8, message, column=None)
            except (OverflowError, ValueError):
                message = "row should hold moments of the years 1 to 9999, holds others; correct it"
                yield RowFault(Reason.INVALID_VALUE, message, column=None)


def _plain_rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = batch.to_pylist()
    for field in (field for field in batch.schema if any(map(_needs_care, types_within(field.type)))):
        for row in rows:
            row[field.name] = _plain(row[field.name], field.type)
    return rows


def _needs_care(kind: pa.DataType) -> bool:
    """True where Python's value of this type is none that JSON has."""
    tests = (pa.types.is_map, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return isinstance(kind, pa.BaseExtensionType) or pa.types.is_decimal(kind) or any(test(kind) for test in tests)


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
