"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.arrow_logs import ParquetLog, open_parquet
from attribeam.logs.columns import ColumnPart, list_item_type, plain_type, with_leaves
from attribeam.logs.jsonl_log import BLOCK_BYTES, MOST_BYTES, Line, line_value, no_json, text_lines
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import BATCH_BYTES
from attribeam.logs.traces.values import by_name
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BLANK = re.compile(rb"(?:\s++|\xef\xbb\xbf)*+")
_PARTS_OF_MARK = (b"", codecs.BOM_UTF8[:1], codecs.BOM_UTF8[:2])
_MOST_RATIO = 300
_LEAST_UNPACKED = 1 << 26
"""What is unpacked without a question, 64 MiB; beyond it, at most ``_MOST_RATIO`` times the packed bytes."""
_ARROW_STREAM = b"\xff\xff\xff\xff"


def records(
    file: BinaryIO, *, wrappers: Sequence[str] = (), takes_csv: bool = True, notes: Counter[str] | None = None
) -> Iterator[Found]:
    """The records in order; a ``RowFault`` stands in the place of one that cannot be read. An empty file has none.

    The content decides what kind of file it is, never a name. Of two members of the same name the last one counts.
    Columns of embeddings are not read; ``notes`` counts their rows.

    Raises:
        LogFormatError: if the file is none of these kinds.
        DataError: if it is damaged.
        OSError: if it cannot be read.
    """
    head = file.read(len(b"ARROW1"))
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        yield from _unzipped(file, wrappers, takes_csv)
    elif head.startswith(b"PAR1"):
        yield from parquet_rows(file, Counter() if notes is None else notes)
    elif head.startswith((b"ARROW1", _ARROW_STREAM)):
        yield from arrow_rows(file, Counter() if notes is None else notes, is_stream=head.startswith(_ARROW_STREAM))
    else:
        yield from _text_records(file, wrappers, takes_csv)


def _unzipped(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[Found]:
    with _Unzipped(file) as unzipped:
        try:
            yield from _text_records(cast(BinaryIO, unzipped), wrappers, takes_csv)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"should be whole gzip, is damaged: {error}; fetch it again") from error


class _Unzipped(gzip.GzipFile):
    """A zipped file that is read, unless it unpacks to far more than logs do."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def read(self, size: int | None = -1) -> bytes:
        """See ``_checked``."""
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """See ``_checked``."""
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        """``content``, which was read.

        Raises:
            DataError: if it is too much for what it was packed in.
        """
        if self.tell() > max(_LEAST_UNPACKED, _MOST_RATIO * self._packed.tell()):
            raise DataError(
                f"should unpack to at most {_MOST_RATIO} times its size, its first {self._packed.tell()} bytes give "
                f"{self.tell()}; if that is right, unpack it and name the unpacked file"
            )
        return content


def _text_records(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[Found]:
    begin = _beginning(file)
    file.seek(0)
    if begin.startswith(_UTF16):
        raise LogFormatError("should be UTF-8, begins like UTF-16; save it as UTF-8")
    if begin.startswith((b"{", b"[")):
        yield from json_values(file, wrappers, may_be_lines=begin.startswith(b"{"))
    elif begin and takes_csv and b"\x00" not in begin:
        yield from csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")


def _beginning(file: BinaryIO) -> bytes:
    """Some bytes from the first one on that is not blank; none of a blank file. Byte order marks are blank, too."""
    begin = b""
    while begin in _PARTS_OF_MARK and (block := file.read(BLOCK_BYTES)):
        begin = _BLANK.sub(b"", begin + block, count=1)
    return begin


_OWN_KEYS = frozenset(
    {"id", "record_id", "trace_id", "traceId", "span_id", "context", "info", "type", "question", "query", "user_input"}
)
"""An object with one of these keys is a record itself, whatever lists it has, unless their items ask something."""
_ASKING_KEYS = frozenset({"question", "query", "user_input", "user_query", "input", "inputs", "prompt", "messages"})
_DEEPEST_WRAPPER = 3
_CUT_OFF = "the file ends within it"
_CUT_OFF_CHARS = 16
_BETWEEN = re.compile("[ \t\r\n\ufeff,]*")
"""What may stand between values: white space, commas, and the byte order marks of files that were joined."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value of a file, or the fault of one that cannot be read; ``line`` counts from 1, ``item`` in its wrapper."""

    line: int
    value: object
    item: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.line}" if self.item is None else f"line {self.line}, item {self.item}"


def json_values(file: BinaryIO, wrappers: Sequence[str], *, may_be_lines: bool) -> Iterator[Found]:
    """The values of a file that begins like JSON; an object with one of the keys ``wrappers``, in snake
    case, and none of a record's own, gives its items, and a whole table its rows. Several documents may stand one
    behind the other.

    ``may_be_lines`` says that it begins with an object. If that ends within its line, each line is read for itself: one
    that is no JSON, or too long, is a ``RowFault`` in its place. So is what the file's end cuts off, a list that is
    not closed among it.

    Raises:
        LogFormatError: if not even the first value can be read.
        DataError: if a list or an object over several lines is damaged or too long, so that nobody knows where the
            next begins.
    """
    found = _lines(file) if may_be_lines and _first_line_is_whole(file) else _stream(file)
    for one in found:
        yield from _unwrapped(one, wrappers)


def _first_line_is_whole(file: BinaryIO) -> bool:
    """Whether the first line that is neither empty nor too long is JSON."""
    first = next((one for one in text_lines(file) if one.text is not None and one.text.strip()), None)
    return first is not None and not any(isinstance(one, RowFault) for one in _line_values(first, ""))


def _lines(file: BinaryIO) -> Iterator[Found]:
    for number, line in enumerate(text_lines(file), start=1):
        for value in _line_values(line, f"line {number}"):
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            yield from (Found(number, item, index) for index, item in items)


def _line_values(line: Line, place: str) -> Iterator[object]:
    """The values of a line, nearly always one, up to a ``RowFault`` in the place of what cannot be read."""
    whole = line_value(line, place)
    if line.text is None or not isinstance(whole, RowFault):
        yield whole
        return
    text = line.text.decode("utf-8", errors="surrogateescape")
    at = _start_of_next(text, 0)
    while at < len(text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            yield whole
            return
        yield value
        at = _start_of_next(text, end)


def _start_of_next(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return at if between is None else between.end()


def _unwrapped(found: Found, wrappers: Sequence[str]) -> Iterator[Found]:
    items = _items(found.value, wrappers) if wrappers else None
    if items is None:
        yield found
    else:
        yield from (Found(found.line, item, number) for number, item in enumerate(items))


def _items(value: object, wrappers: Sequence[str], depth: int = 0) -> Sequence[object] | None:
    """The records in an object that wraps them, perhaps in another one; None where it is a record itself."""
    if not isinstance(value, dict):
        return None
    rows = _rows_of_table(value)
    if rows is not None or value.keys() & _ASKING_KEYS:
        return rows
    own = by_name(value)
    for inner in (value[own[key]] for key in wrappers if key in own):
        if isinstance(inner, list) and (not value.keys() & _OWN_KEYS or any(map(_asks, inner))):
            return inner
        items = _items(inner, wrappers, depth + 1) if depth < _DEEPEST_WRAPPER else None
        if items is not None:
            return items
    return None


def _asks(item: object) -> bool:
    return isinstance(item, dict) and not _ASKING_KEYS.isdisjoint(by_name(item))


def _rows_of_table(value: Mapping[str, object]) -> list[object] | None:
    """The rows of a whole table: as pandas splits it, with an object or with a list for each column."""
    names, lists = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(lists, list) and all(isinstance(one, str) for one in names):
        if all(isinstance(one, list) and len(one) == len(names) for one in lists):
            return [dict(zip(names, one, strict=True)) for one in lists]
        return None
    objects = {name: one for name, one in value.items() if isinstance(one, dict)}
    numbers = [str(one) for one in next(iter(objects.values()), ())]
    if 1 < len(objects) == len(value) and numbers and all(map(str.isdecimal, numbers)):
        if all([*one] == numbers for one in objects.values()):
            return [{name: column[number] for name, column in objects.items()} for number in numbers]
        return None
    columns = [one for one in value.values() if isinstance(one, list)]
    if 1 < len(columns) == len(value) and len({len(one) for one in columns}) == 1 and columns[0]:
        asked = next((column for name, column in zip(value, columns, strict=True) if _asks({name: None})), [None])
        if all(isinstance(one, str) for one in asked):
            return [dict(zip(value, one, strict=True)) for one in zip(*columns, strict=True)]
    return None


def _stream(file: BinaryIO) -> Iterator[Found]:
    file.seek(0)
    window = _Window(file)
    list_line: int | None = None
    is_first = True
    while following := window.following():
        line = window.line
        if list_line is None and following == "[":
            list_line = line
            window.advance(1)
        elif list_line is not None and following == "]":
            list_line = None
            window.advance(1)
        else:
            value = window.value(is_first=is_first)
            yield Found(line, value)
            if isinstance(value, RowFault):
                return
            is_first = False
    if list_line is not None:
        yield Found(list_line, no_json(f"list that begins in line {list_line}", _CUT_OFF))


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
        """Leave characters behind."""
        self.line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def value(self, *, is_first: bool) -> object:
        """The value here, or a ``RowFault`` where the file ends before it does."""
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except RecursionError as error:
                raise DataError(
                    f"should have values of moderate depth, the one in line {self.line} is deeper"
                ) from error
            except ValueError as error:
                if not self._may_go_on(error):
                    raise self._damage(error, is_first) from error
                if not self._grow():
                    return no_json(f"line {self.line}", _CUT_OFF)
                continue
            if end < len(self._text) or self._ended or self._text[end - 1] in '}]"':
                self.advance(end - self._at)
                return value
            self._grow()

    def _may_go_on(self, error: ValueError) -> bool:
        """True where the error lies at the end of what was read so far."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _CUT_OFF_CHARS

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

    def _damage(self, error: ValueError, is_first: bool) -> DataError:
        line, message = self.line, str(error)
        if isinstance(error, json.JSONDecodeError):
            line, message = line + self._text.count("\n", self._at, error.pos), error.msg
        if is_first:
            return LogFormatError(f"should hold JSON, line {line} cannot be parsed: {message}; check the format's name")
        return DataError(
            f"should hold JSON, line {line} cannot be parsed: {message}; export it again, best as JSON lines, of which "
            "only the faulty ones are left out"
        )


MOST_CHARS = 1 << 26
MOST_LINES = 1 << 18
"""The longest row that is read, 64 Mi characters on 262,144 lines; a quote that is never closed takes no more along."""

_BLANK_CHARS = " \t\n\r\f\v\ufeff"
_JSON = re.compile(r'\{\s*"|\[\s*\{')

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


def csv_rows(file: BinaryIO) -> Iterator[Found]:
    """The rows as objects, each with the line where it begins; a ``RowFault`` stands in the place of a faulty one.

    Where a row's quotes are wrong, as where one is opened and never closed, or a row is too long, reading goes on at
    the next line that begins a row with as many fields as there are names. The fault names the lines that are passed
    over. No line is read more than a few times, whatever quotes it has.

    Raises:
        LogFormatError: if the first line that is not blank is none of names.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield from _csv_rows(_Lines(text))
    finally:
        text.detach()


class _Lines:
    """The lines of a text, which can be given back.

    A quote that is open at the end of a line before ``open_to`` is known to be closed by none that ends a row.
    """

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text
        self._returned = deque[str]()
        self.taken = 0
        self.open_to = 0

    def take(self) -> str | None:
        """The next line, None at the end; of one that is too long, one character more than a row may have."""
        line = self._returned.popleft() if self._returned else self._read()
        self.taken += bool(line)
        return line or None

    def _read(self) -> str:
        line = end = self._text.readline(MOST_CHARS + 1)
        while len(line) > MOST_CHARS and end and not end.endswith(("\n", "\r")):
            end = self._text.readline(BLOCK_BYTES)
        return line

    def give_back(self, lines: Sequence[str]) -> None:
        """Have ``lines``, the last ones that were taken, read again."""
        self._returned.extendleft(reversed(lines))
        self.taken -= len(lines)


class _Row(NamedTuple):
    """The row that the next lines hold: its ``cells``, None at the end, or the ``damage`` that hides where it ends."""

    lines: Sequence[str]
    cells: list[str] | None = None
    damage: csv.Error | None = None


def _csv_rows(lines: _Lines) -> Iterator[Found]:
    names = _names(lines)
    while names:
        first = lines.taken + 1
        row = _next_row(lines)
        if row.damage is not None:
            last = _pass_over(lines, row.lines, len(names))
            yield Found(first, _damaged(first, last, row.damage))
        elif row.cells is None:
            return
        elif row.cells:
            yield Found(first, _row_of(names, row.cells, first, lines.taken))


def _next_row(lines: _Lines) -> _Row:
    taken: list[str] = []
    try:
        cells = next(csv.reader(_feed(lines, taken), strict=True), None)
    except csv.Error as error:
        lines.open_to = max(lines.open_to, lines.taken)
        return _Row(taken, damage=error)
    return _Row(taken, cells)


def _feed(lines: _Lines, taken: list[str]) -> Iterator[str]:
    """Lines for one row, which are added to ``taken``."""
    size = 0
    while (line := lines.take()) is not None:
        taken.append(line)
        size += len(line)
        if size > MOST_CHARS or len(taken) > MOST_LINES:
            raise csv.Error(f"no end after {MOST_CHARS} characters or {MOST_LINES} lines")
        yield line
        if lines.taken < lines.open_to:
            raise csv.Error("a quote that is never closed")


def _pass_over(lines: _Lines, damaged: Sequence[str], width: int) -> int:
    """Go on behind the first of some ``damaged`` lines, at a row of ``width`` cells; the last line passed over."""
    while True:
        lines.give_back(damaged[1:])
        last = lines.taken
        row = _next_row(lines)
        if row.damage is None and (row.cells is None or len(row.cells) == width):
            lines.give_back(row.lines)
            return last
        lines.open_to = max(lines.open_to, lines.taken)
        damaged = row.lines


def _damaged(first: int, last: int, error: csv.Error) -> RowFault:
    where = f"line {first} should be CSV, is not"
    if last > first:
        where = f"{where}, and the lines up to {last} begin no row"
    return RowFault(Reason.INVALID_VALUE, f"{where}: {error}; close its quotes, or export the file again", column=None)


def _names(lines: _Lines) -> list[str]:
    """The names of the columns; none in an empty file."""
    line = lines.take()
    while line is not None and not (line := line.lstrip(_BLANK_CHARS)):
        line = lines.take()
    if line is not None and (json := _JSON.search(line)):
        raise LogFormatError(
            f"should begin with JSON, or with names of columns, line {lines.taken} has {json.start()} characters "
            "before its JSON; remove them"
        )
    lines.give_back([] if line is None else [line])
    row = _next_row(lines)
    if row.damage is not None:
        first = lines.taken - len(row.lines) + 1
        raise LogFormatError(f"should be CSV with a line of names, line {first} is none: {row.damage}")
    names = row.cells or []
    if len(names) == 1:
        raise LogFormatError(
            "should be CSV with commas and a line of names, line 1 has no comma; check the format's name"
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
        wanted = with_leaves(column.type, _coarser)
        if wanted != column.type:
            column = pc.cast(column, options=pc.CastOptions(wanted, allow_time_truncate=True))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _coarser(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", tz=kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "ns" else kind


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
