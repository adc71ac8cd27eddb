"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.columns import ColumnPart, list_item_type, plain_type, with_leaves
from attribeam.logs.jsonl_log import BLOCK_BYTES, MOST_BYTES, Line, line_value, no_json, text_lines
from attribeam.logs.reader import BATCH_ROWS, ParquetLog, open_parquet
from attribeam.logs.rows import BATCH_BYTES
from attribeam.logs.traces.csv_rows import FileRecord, csv_rows
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
) -> Iterator[FileRecord]:
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


def _unzipped(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[FileRecord]:
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


def _text_records(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[FileRecord]:
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


def json_values(file: BinaryIO, wrappers: Sequence[str], *, may_be_lines: bool) -> Iterator[FileRecord]:
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
    for record in _lines(file) if may_be_lines and _first_line_is_whole(file) else _stream(file):
        yield from _unwrapped(record, wrappers)


def _first_line_is_whole(file: BinaryIO) -> bool:
    """Whether the first line that is neither empty nor too long is JSON."""
    first = next((line for line in text_lines(file) if line.text is not None and line.text.strip()), None)
    return first is not None and not any(isinstance(value, RowFault) for value in _line_values(first, ""))


def _lines(file: BinaryIO) -> Iterator[FileRecord]:
    for number, line in enumerate(text_lines(file), start=1):
        for value in _line_values(line, f"line {number}"):
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            yield from (FileRecord(number, item, index) for index, item in items)


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


def _unwrapped(record: FileRecord, wrappers: Sequence[str]) -> Iterator[FileRecord]:
    items = _items(record.value, wrappers) if wrappers else None
    if items is None:
        yield record
    else:
        yield from (FileRecord(record.line, item, number) for number, item in enumerate(items))


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
    if isinstance(names, list) and isinstance(lists, list) and all(isinstance(name, str) for name in names):
        if all(isinstance(cells, list) and len(cells) == len(names) for cells in lists):
            return [dict(zip(names, cells, strict=True)) for cells in lists]
        return None
    objects = {name: column for name, column in value.items() if isinstance(column, dict)}
    numbers = [str(number) for number in next(iter(objects.values()), ())]
    if 1 < len(objects) == len(value) and numbers and all(map(str.isdecimal, numbers)):
        if all([*column] == numbers for column in objects.values()):
            return [{name: column[number] for name, column in objects.items()} for number in numbers]
        return None
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


def parquet_rows(file: BinaryIO, notes: Counter[str]) -> Iterator[FileRecord]:
    """The rows of a Parquet file without embeddings; their numbers count from 1, as lines do.

    ``notes`` counts the rows of each column that is left out.

    A ``RowFault`` stands in the place of a row that cannot be read.

    Raises:
        DataError: if the file is damaged, or its counts of rows differ.
    """
    try:
        log = ParquetLog(open_parquet(file))
        vectors = [column.name for column in log.schema if _is_vector(column)]
        notes.update({_left_out(name): log.row_count for name in vectors})
        parts = [ColumnPart(name) for name in log.schema.names if name not in vectors]
        yield from _table_rows((batch.rows for batch in log.batches(parts, range(log.row_count))), notes)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"should be readable Parquet, is damaged: {' '.join(str(error).split())}") from error


def arrow_rows(file: BinaryIO, notes: Counter[str], *, is_stream: bool) -> Iterator[FileRecord]:
    """As ``parquet_rows``, for Arrow's file and stream formats; streams may stand one behind the other."""
    try:
        if is_stream:
            yield from _table_rows(_stream_batches(file), notes)
        else:
            opened = pa.ipc.open_file(file)
            batches = (opened.get_batch(index) for index in range(opened.num_record_batches))
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


def _table_rows(batches: Iterator[pa.RecordBatch], notes: Counter[str]) -> Iterator[FileRecord]:
    number = 0
    for whole in batches:
        vectors = [column.name for column in whole.schema if _is_vector(column)]
        notes.update({_left_out(name): whole.num_rows for name in vectors})
        for some in _pieces(whole.select([name for name in whole.schema.names if name not in vectors])):
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
        return {str(_plain(key, kind.key_type)): _plain(item, kind.item_type) for key, item in value}
    if isinstance(value, dict):
        return {name: _plain(member, kind.field(name).type) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    return value
