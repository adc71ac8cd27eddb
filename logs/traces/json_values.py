"""JSON as exports have it: one value per line, one list of values, or values one after the other; read in parts."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

BLOCK_BYTES = 1 << 20
MOST_CHARS = 1 << 29
"""The longest value that is read as one, half a GiB."""

_OWN_KEYS = frozenset(
    {"id", "record_id", "trace_id", "traceId", "span_id", "context", "info", "type", "question", "query", "user_input"}
)
"""An object with one of these keys is a record itself, whatever lists it has."""
_CUT_OFF_CHARS = 16
_SPACE = " \t\r\n"


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


def json_values(file: BinaryIO, wrappers: Sequence[str]) -> Iterator[Found]:
    """The values of a file that begins like JSON; an object with one of the keys ``wrappers``, and none
    of a record's own, gives its items.

    A line that is no JSON is a ``RowFault`` in the place of its value, and so is a value that the file's end cuts off.

    Raises:
        LogFormatError: if not even the first value can be read.
        DataError: if a list or an object over several lines is damaged, so that nobody knows where the next begins.
    """
    start = file.tell()
    begins_with = _first_character(file)
    file.seek(start)
    if begins_with == "{" and _first_line_is_whole(file):
        file.seek(start)
        found = _lines(file)
    else:
        file.seek(start)
        found = _stream(file)
    for one in found:
        yield from _unwrapped(one, wrappers)


def text_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file without their ends; a byte order mark is left out.

    Raises:
        DataError: if a line is longer than ``MOST_CHARS``.
    """
    begun: list[bytes] = []
    length, is_first = 0, True
    while block := file.read(BLOCK_BYTES):
        if is_first:
            block, is_first = block.removeprefix(codecs.BOM_UTF8), False
        first, *others = block.split(b"\n")
        begun.append(first)
        length += len(first)
        if length > MOST_CHARS:
            raise DataError(
                f"should have lines of at most {MOST_CHARS} bytes, has a longer one; export one record a line"
            )
        if others:
            yield b"".join(begun)
            *whole, last = others
            yield from whole
            begun, length = [last], len(last)
    if length:
        yield b"".join(begun)


def _first_character(file: BinaryIO) -> str:
    while block := file.read(BLOCK_BYTES):
        text = block.removeprefix(codecs.BOM_UTF8).lstrip()
        if text:
            return chr(text[0])
    return ""


def _first_line_is_whole(file: BinaryIO) -> bool:
    line = next((one for one in text_lines(file) if one.strip()), b"")
    try:
        json.loads(line.decode("utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError):
        return False
    return True


def _lines(file: BinaryIO) -> Iterator[Found]:
    for number, line in enumerate(text_lines(file), start=1):
        if not line.strip():
            continue
        try:
            yield Found(number, json.loads(line.decode("utf-8", errors="surrogateescape")))
        except (ValueError, RecursionError) as error:
            yield Found(number, _no_json(number, error))


def _unwrapped(found: Found, wrappers: Sequence[str]) -> Iterator[Found]:
    value = found.value
    if isinstance(value, dict) and not value.keys() & _OWN_KEYS:
        for key in wrappers:
            items = value.get(key)
            if isinstance(items, list):
                yield from (Found(found.line, item, number) for number, item in enumerate(items))
                return
    yield found


def _stream(file: BinaryIO) -> Iterator[Found]:
    window = _Window(file)
    is_list = window.skip(_SPACE) == "["
    if is_list:
        window.advance(1)
    is_first = True
    while True:
        following = window.skip(f"{_SPACE},")
        if following == "" or (is_list and following == "]"):
            return
        line = window.line
        value = window.value(is_first=is_first)
        yield Found(line, value)
        if isinstance(value, RowFault):
            return
        is_first = False


class _Window:
    """The part of a file that is being parsed: it grows until it holds the next value."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def skip(self, characters: str) -> str:
        """Go to the next character that is none of these; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in characters:
                    return self._text[self._at]
                self.advance(1)
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
                    return _no_json(self.line, error, "the file ends within it")
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
        if len(self._text) - self._at > MOST_CHARS:
            raise DataError(
                f"should have values of at most {MOST_CHARS} characters, the one in line {self.line} is longer; export "
                "as JSON lines"
            )
        block = self._file.read(max(BLOCK_BYTES, len(self._text) - self._at))
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


def _no_json(line: int, error: Exception, why: str = "") -> RowFault:
    message = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
    return RowFault(
        Reason.INVALID_JSON,
        f"line {line} should be JSON, cannot be parsed: {why or message}; export it again",
        column=None,
    )
