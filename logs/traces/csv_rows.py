"""Rows of CSV files, and the Python literals in their cells.

Lists and objects as Python prints them, which is how ``csv`` and data frames write them into a CSV file.

The rows of a CSV file, with a line of names; a row whose quotes are wrong costs no other row.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import sys
import tokenize
from collections import deque
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from attribeam.logs.jsonl_log import BLOCK_BYTES
from attribeam.logs.traces.json_values import Found
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import LogFormatError

_NAMES = {
    "None": None,
    "True": True,
    "False": False,
    "nan": None,
    "NaN": None,
    "null": None,
    "true": True,
    "false": False,
}
_MOST_CHARS = 1 << 22
_BESIDE_STRINGS = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
_ARRAY = re.compile(r"^\s*array\((.*?)(?:,\s*dtype=\w+)?\)\s*$", re.DOTALL)


def printed_value(text: str) -> list[object] | dict[str, object] | None:
    """The list or object that a text prints, in JSON or in Python; None where it prints none.

    Objects may be printed as calls with keywords, such as ``HumanMessage(content='...')``; the name then stands under
    ``type``. NaN is None. A text that goes on behind a list, or begins with a remark in brackets, prints none.

    Raises:
        ValueError: if it begins like a list or an object and is none, or is numpy's print, which may be cut and has no
            commas.
    """
    if text.lstrip().startswith("array("):
        text = _ARRAY.sub(r"\1", text)
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if _REMARK.match(text) or not _BEGINS.match(text) or not _GOES_ON.search(text):
            return None
        value = _of_python(text)
    return value if isinstance(value, list | dict) else None


def opened_text(value: object) -> object:
    """What a text prints, see ``printed_value``; any other value, and a text that prints nothing, as it is."""
    if not isinstance(value, str):
        return value
    try:
        found = printed_value(value)
    except ValueError:
        return value
    return value if found is None else found


_BEGINS = re.compile(r"""\s*[\[{][\s\[({]*+(?:[\]})'"]|[-+]?[0-9]|\w+\(|(?:None|True|False|nan)\b|$)""")
"""How a list or an object of Python begins: by another one, a text, a number, a call or a constant."""
_GOES_ON = re.compile(r""",\s*['"{]|[\]}]\s*$""")
"""What has a second item or an end."""
_REMARK = re.compile(r"""\s*\[(?:[^\[\]'"]*|\s*'[^'\\\n]*'\s*|\s*"[^"\\\n]*"\s*)\]\s*[^\s\],})]""")
"""Something in brackets with text behind it."""


def _of_python(text: str) -> object:
    if len(text) > _MOST_CHARS:
        raise ValueError(f"one that is no JSON and has more than {_MOST_CHARS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if _has_neighbours(text.strip()):
            raise ValueError("a list as numpy prints it, without commas")
        return _value(tree.body)
    except (SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError("a list that is cut off or no list of Python") from error


def _has_neighbours(text: str) -> bool:
    """True where two strings stand side by side, which Python would join without a word."""
    last = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _BESIDE_STRINGS:
            continue
        if token.type == tokenize.STRING and last == tokenize.STRING:
            return True
        last = token.type
    return False


def _value(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=value):
            return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_value(key)): _value(one) for key, one in zip(keys, values, strict=True) if key is not None}
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Call(func=ast.Name(id="array"), args=[ast.List() as items]):
            return _value(items)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return {"type": name} | {one.arg: _value(one.value) for one in keywords if one.arg is not None}
        case _:
            raise ValueError("something that is no plain value of Python")


MOST_CHARS = 1 << 26
MOST_LINES = 1 << 18
"""The longest row that is read, 64 Mi characters on 262,144 lines; a quote that is never closed takes no more along."""

_BLANK = " \t\n\r\f\v\ufeff"
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
        yield from _rows(_Lines(text))
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


def _rows(lines: _Lines) -> Iterator[Found]:
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
    while line is not None and not (line := line.lstrip(_BLANK)):
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
