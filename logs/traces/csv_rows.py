"""The rows of a CSV file: where quotes are wrong, reading goes on at the next line that begins a row."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from attribeam.logs.jsonl_log import BLOCK_BYTES
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import LogFormatError


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A value of a file, or the fault of one that cannot be read; ``line`` counts from 1, ``item`` in its wrapper."""

    line: int
    value: object
    item: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.line}" if self.item is None else f"line {self.line}, item {self.item}"


MOST_CHARS = 1 << 26
MOST_LINES = 1 << 18
"""The longest row that is read, 64 Mi characters on 262,144 lines; a quote that is never closed takes no more along."""

_BLANK_CHARS = " \t\n\r\f\v\ufeff"
_JSON = re.compile(r'\{\s*"|\[\s*\{')

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


def csv_rows(file: BinaryIO) -> Iterator[FileRecord]:
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


def _csv_rows(lines: _Lines) -> Iterator[FileRecord]:
    names = _names(lines)
    while names:
        first = lines.taken + 1
        row = _next_row(lines)
        if row.damage is not None:
            last = _pass_over(lines, row.lines, len(names))
            yield FileRecord(first, _damaged(first, last, row.damage))
        elif row.cells is None:
            return
        elif row.cells:
            yield FileRecord(first, _row_of(names, row.cells, first, lines.taken))


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
