"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, cast

from attribeam.logs.jsonl_log import BLOCK_BYTES, GZIP, MOST_BYTES, Line, line_value, no_json, text_lines
from attribeam.logs.traces import FileRecord, by_name
from attribeam.logs.traces.table_rows import ARROW_STREAM, csv_rows, table_rows
from attribeam.schemas import RowFault
from attribeam.schemas.errors import DataError, LogFormatError

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
    if head.startswith(GZIP):
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
        """See ``_checked``."""
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """See ``_checked``."""
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        """``content``, which was read; DataError if it is too much for what it was packed in."""
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
    if begin.startswith(_UTF16):
        raise LogFormatError("should be UTF-8, begins like UTF-16; save it as UTF-8")
    if begin.startswith((b"{", b"[")):
        yield from _json_values(file, wrappers, may_be_lines=begin.startswith(b"{"))
    elif begin and takes_csv and b"\x00" not in begin:
        yield from csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")


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
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            yield from (FileRecord(number, item, index) for index, item in items)


def _line_values(line: Line, location: str) -> Iterator[object]:
    """The values of a line, nearly always one, up to a ``RowFault`` in the place of what cannot be read."""
    whole = line_value(line, location)
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
                at_end = isinstance(error, json.JSONDecodeError) and (
                    error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _CUT_OFF_CHARS
                )
                if not at_end:
                    raise self._damage(error, is_first) from error
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
