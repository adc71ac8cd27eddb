"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.arrow_logs import ParquetLog, open_parquet
from attribeam.logs.columns import ColumnPart, list_item_type, plain_type
from attribeam.logs.jsonl_log import BLOCK_BYTES, MOST_BYTES, line_value, no_json, text_lines
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import BATCH_BYTES
from attribeam.logs.traces.values import by_name
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BLANK = re.compile(rb"(?:\s++|\xef\xbb\xbf)*+")
_PARTS_OF_MARK = (b"", codecs.BOM_UTF8[:1], codecs.BOM_UTF8[:2])
_ARROW_STREAM = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A value of a file, or the fault of one that cannot be read; ``line`` counts from 1, ``item`` in its wrapper."""

    line: int
    value: object
    item: int | None = None

    @property
    def position(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.line}" if self.item is None else f"line {self.line}, item {self.item}"


def records(
    file: BinaryIO, *, wrappers: Sequence[str] = (), takes_csv: bool = True, notes: Counter[str] | None = None
) -> Iterator[FileRecord]:
    """The records in order; a ``RowFault`` stands in the place of one that cannot be read. An empty file has none.

    The content decides what kind of file it is, never a name. Of two members of the same name the last one counts.
    An object with one of the keys ``wrappers``, in snake case, and none of a record's own, gives its items. Columns of
    embeddings are not read; ``notes`` counts their rows.

    Raises:
        LogFormatError: if the file is none of these kinds.
        DataError: if it is damaged.
        OSError: if it cannot be read.
    """
    notes = Counter() if notes is None else notes
    head = file.read(len(b"ARROW1"))
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        try:
            with gzip.GzipFile(fileobj=file) as unzipped:
                yield from _text_records(cast(BinaryIO, unzipped), wrappers, takes_csv)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"should be whole gzip, is damaged: {error}; fetch it again") from error
    elif head.startswith(b"PAR1"):
        yield from parquet_rows(file, notes)
    elif head.startswith((b"ARROW1", _ARROW_STREAM)):
        yield from _arrow_rows(file, notes, is_stream=head.startswith(_ARROW_STREAM))
    else:
        yield from _text_records(file, wrappers, takes_csv)


def _text_records(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[FileRecord]:
    begin = _beginning(file)
    file.seek(0)
    if begin.startswith(_UTF16):
        raise LogFormatError("should be UTF-8, begins like UTF-16; save it as UTF-8")
    if begin.startswith((b"{", b"[")):
        values = _lines(file) if begin.startswith(b"{") and _first_line_is_whole(file) else _stream(file)
        for record in values:
            items = _items(record.value, wrappers) if wrappers else None
            if items is None:
                yield record
            else:
                yield from (FileRecord(record.line, item, number) for number, item in enumerate(items))
    elif begin and takes_csv and b"\x00" not in begin:
        yield from _csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")


def _beginning(file: BinaryIO) -> bytes:
    """Some bytes from the first one on that is not blank; none of a blank file. Byte order marks are blank, too."""
    begin = b""
    while begin in _PARTS_OF_MARK and (block := file.read(BLOCK_BYTES)):
        begin = _BLANK.sub(b"", begin + block, count=1)
    return begin


def _first_line_is_whole(file: BinaryIO) -> bool:
    """Whether the first line that is neither empty nor too long is JSON, so that each line is read for itself."""
    first = next((line for line in text_lines(file) if line.text is not None and line.text.strip()), None)
    return first is not None and not isinstance(line_value(first, ""), RowFault)


def _lines(file: BinaryIO) -> Iterator[FileRecord]:
    """One value per line, or the items of its list; a line that is no JSON, or too long, is a fault."""
    for number, line in enumerate(text_lines(file), start=1):
        if line.text is not None and not line.text.strip():
            continue
        value = line_value(line, f"line {number}")
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        yield from (FileRecord(number, item, index) for index, item in items)


_OWN_KEYS = frozenset(
    {"id", "record_id", "trace_id", "traceId", "span_id", "context", "info", "type", "question", "query", "user_input"}
)
"""An object with one of these keys is a record itself, whatever lists it has, unless their items ask something."""
_ASKING_KEYS = frozenset({"question", "query", "user_input", "user_query", "input", "inputs", "prompt", "messages"})
_DEEPEST_WRAPPER = 3


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


def _rows_of_table(value: Mapping[str, Any]) -> list[object] | None:
    """The rows of a whole table: as pandas splits it, with a list for each column, or with an object by row numbers."""
    names, lists = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(lists, list) and all(isinstance(name, str) for name in names):
        is_table = all(isinstance(row, list) and len(row) == len(names) for row in lists)
        return [dict(zip(names, row, strict=True)) for row in lists] if is_table else None
    columns = list(value.values())
    if len(columns) < 2:
        return None
    if all(isinstance(column, dict) and column for column in columns):
        numbers = list(columns[0])
        if all(map(str.isdecimal, numbers)) and all(list(column) == numbers for column in columns):
            return [{name: column[number] for name, column in value.items()} for number in numbers]
    if all(isinstance(column, list) and column for column in columns) and len(set(map(len, columns))) == 1:
        asked = next((column for name, column in value.items() if _asks({name: None})), [None])
        if all(isinstance(text, str) for text in asked):
            return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    return None


_CUT_OFF = "the file ends within it"
_CUT_OFF_CHARS = 16
_BETWEEN = re.compile("[ \t\r\n\ufeff,]*")
"""What may stand between values: white space, commas, and the byte order marks of files that were joined."""


def _stream(file: BinaryIO) -> Iterator[FileRecord]:
    """Values one behind the other, or in lists, over any lines; what the file's end cuts off is a fault.

    Raises:
        LogFormatError: if not even the first value can be read.
        DataError: if a value is damaged or too long, so that nobody knows where the next begins.
    """
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
            yield FileRecord(line, value)
            if isinstance(value, RowFault):
                return
            is_first = False
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
            between = _BETWEEN.match(self._text, self._at)
            self.advance(len(between[0]) if between else 0)
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
                message, position = str(error), 0
                if isinstance(error, json.JSONDecodeError):
                    message, position = error.msg, error.pos
                if not message.startswith("Unterminated string") and position < len(self._text) - _CUT_OFF_CHARS:
                    raise self._damage(message, position, is_first) from error
                if not self._grow():
                    return no_json(f"line {self.line}", _CUT_OFF)
                continue
            if end < len(self._text) or self._ended or self._text[end - 1] in '}]"':
                self.advance(end - self._at)
                return value
            self._grow()

    def _grow(self) -> bool:
        """Read on, as much as there is already, so that a long value is parsed only a few times over."""
        if self._ended:
            return False
        length = len(self._text) - self._at
        if length > MOST_BYTES:
            raise DataError(
                f"should have values of at most {MOST_BYTES} characters, the one in line {self.line} is longer; export "
                "as JSON lines, of which only those that are too long are left out"
            )
        block = self._file.read(min(max(BLOCK_BYTES, length), MOST_BYTES + 1 - length))
        self._ended = not block
        self._text = self._text[self._at :] + self._decode(block, self._ended)
        self._at = 0
        return True

    def _damage(self, message: str, position: int, is_first: bool) -> DataError:
        line = self.line + self._text.count("\n", self._at, position)
        if is_first:
            return LogFormatError(f"should hold JSON, line {line} cannot be parsed: {message}; check the format's name")
        return DataError(
            f"should hold JSON, line {line} cannot be parsed: {message}; export it again, best as JSON lines, of which "
            "only the faulty ones are left out"
        )


MOST_CHARS = 1 << 26
"""The longest field and line of CSV that is read."""

_BLANK_CHARS = " \t\n\r\f\v\ufeff"
_JSON = re.compile(r'\{\s*"|\[\s*\{')

csv.field_size_limit(MOST_CHARS)


def _csv_rows(file: BinaryIO) -> Iterator[FileRecord]:
    """The rows as objects, each with the line where it begins; one with another number of fields is a fault.

    Raises:
        LogFormatError: if the first line that is not blank is none of names.
        DataError: if quotes are wrong or a line is too long, so that nobody knows where the next row begins.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        lines = _csv_lines(text)
        blank = 0
        while not (first := next(lines, "x").lstrip(_BLANK_CHARS)):
            blank += 1
        if match := _JSON.search(first):
            raise LogFormatError(
                f"should begin with JSON, or with names of columns, line {blank + 1} has {match.start()} characters "
                "before its JSON; remove them"
            )
        yield from _read_csv(csv.reader(chain([first], lines), strict=True), blank)
    finally:
        text.detach()


def _csv_lines(text: io.TextIOBase) -> Iterator[str]:
    while line := text.readline(MOST_CHARS + 1):
        if len(line) > MOST_CHARS:
            raise csv.Error(f"no end after {MOST_CHARS} characters")
        yield line


def _read_csv(reader: Iterator[list[str]], blank: int) -> Iterator[FileRecord]:
    names: list[str] = []
    while True:
        line = blank + reader.line_num + 1  # type: ignore[attr-defined]
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if not names:
                raise LogFormatError(f"should be CSV with a line of names, line {line} is none: {error}") from error
            raise DataError(
                f"should be CSV, line {line} begins a row that is none: {error}; close its quotes, or export it "
                "as JSON lines"
            ) from error
        if cells is None:
            return
        if names and cells:
            yield FileRecord(line, _csv_row(names, cells, line))
        elif len(cells) == 1:
            raise LogFormatError(
                f"should be CSV with commas and a line of names, line {line} has no comma; check the format's name"
            )
        names = names or cells


def _csv_row(names: Sequence[str], cells: Sequence[str], line: int) -> object:
    if len(cells) != len(names):
        message = f"line {line} should have {len(names)} fields as the line of names has, has {len(cells)}"
        return RowFault(Reason.INVALID_VALUE, f"{message}; export the file again", column=None)
    row: dict[str, str | None] = {}
    for name, cell in zip(names, cells, strict=True):
        if row.setdefault(name, cell or None) != (cell or None):
            message = (
                f"line {line} should have one value in {name!r}, which the line of names has twice, has two; rename one"
            )
            return RowFault(Reason.INVALID_VALUE, message, column=None)
    return row


def parquet_rows(file: BinaryIO, notes: Counter[str]) -> Iterator[FileRecord]:
    """The rows of a Parquet file without embeddings; their numbers count from 1, as lines do.

    ``notes`` counts the rows of each column that is left out. A ``RowFault`` stands in the place of a row that cannot
    be read.

    Raises:
        DataError: if the file is damaged, or its counts of rows differ.
    """
    try:
        log = ParquetLog(open_parquet(file))
        parts = [ColumnPart(name) for name in _kept(log.schema, log.row_count, notes)]
        yield from _table_rows((batch.rows for batch in log.batches(parts, range(log.row_count))), notes)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"should be readable Parquet, is damaged: {' '.join(str(error).split())}") from error


def _arrow_rows(file: BinaryIO, notes: Counter[str], *, is_stream: bool) -> Iterator[FileRecord]:
    """As ``parquet_rows``, for Arrow's file and stream formats; streams may stand one behind the other."""
    try:
        yield from _table_rows(_stream_batches(file) if is_stream else _file_batches(file), notes)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"should be readable Arrow, is damaged: {' '.join(str(error).split())}") from error


def _file_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    opened = pa.ipc.open_file(file)
    yield from (opened.get_batch(index) for index in range(opened.num_record_batches))


def _stream_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The batches of all streams up to the file's end."""
    while True:
        yield from pa.ipc.open_stream(file)
        start = file.tell()
        if not file.read(1):
            return
        file.seek(start)


def _kept(schema: pa.Schema, rows: int, notes: Counter[str]) -> list[str]:
    """The columns but those of lists of fractions, which would take most of the time and memory; these are counted."""
    kept = []
    for field in schema:
        item = list_item_type(plain_type(field.type))
        if item is not None and pa.types.is_floating(item):
            notes[f"column {field.name!r} is not read, since it holds lists of numbers"] += rows
        else:
            kept.append(field.name)
    return kept


def _table_rows(batches: Iterator[pa.RecordBatch], notes: Counter[str]) -> Iterator[FileRecord]:
    number = 0
    for whole in batches:
        for some in _pieces(whole.select(_kept(whole.schema, whole.num_rows, notes))):
            for value in _row_values(_in_microseconds(some)):
                number += 1
                yield FileRecord(number, value)


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
        if not pa.types.is_string(field.type) and not pa.types.is_primitive(field.type):
            for row in rows:
                row[field.name] = _plain(row[field.name], field.type)
    return rows


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
        return {str(_plain(key, kind.key_type)): _plain(member, kind.item_type) for key, member in value}
    if isinstance(value, dict):
        return {name: _plain(member, kind.field(name).type) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    return value
