"""JSON rows from a file, checked field by field, and the choice of usable rows.

Errors name file, row and field; a row that cannot be used is skipped with a reason.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from attribeam.evaluation.datasets.labelled_answer import SkippedRow
from attribeam.schemas import Passage, RowSource
from attribeam.schemas.errors import DataError

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class DataRow:
    """One line of a data file, or an object inside it.

    Attributes:
        row: 0-based number of the line.
        where: file, line and place, for error messages.
        file: the name of the file.
    """

    fields: Mapping[str, object]
    row: int
    where: str
    file: str = ""

    @property
    def source(self) -> RowSource:
        """Where a record of this row is from."""
        return RowSource(self.file, self.row)

    def text(self, field: str) -> str:
        """The field's string.

        Raises:
            DataError: if it is missing or not a string. The methods below raise it likewise.
        """
        return self._typed(field, str, "a string")

    def integer(self, field: str) -> int:
        """The field's whole number."""
        value = self._typed(field, int, "a whole number")
        if isinstance(value, bool):
            raise self.error(field, "should be a whole number, was: bool")
        return value

    def boolean(self, field: str) -> bool:
        """The field's boolean."""
        return self._typed(field, bool, "true or false")

    def optional_boolean(self, field: str) -> bool | None:
        """The field's boolean, None if it is missing or null."""
        return None if self.fields.get(field) is None else self.boolean(field)

    def optional_number(self, field: str) -> float | None:
        """The field's number, None if it is missing or null."""
        value = self.fields.get(field)
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return value
        raise self.error(field, f"should be a number, was: {type(value).__name__}")

    def optional_text(self, field: str) -> str | None:
        """The field's string, None if it is missing or null."""
        return None if self.fields.get(field) is None else self.text(field)

    def texts(self, field: str) -> list[str]:
        """The field's list of strings."""
        return self._items(field, "strings", lambda value: isinstance(value, str))

    def integers(self, field: str) -> list[int]:
        """The field's list of whole numbers."""
        return self._items(field, "whole numbers", _is_whole)

    def ranges(self, field: str) -> list[tuple[int, int]]:
        """The field's list of [start, end] pairs."""
        pairs: list[list[int]] = self._items(
            field,
            "[start, end] pairs",
            lambda pair: isinstance(pair, list) and len(pair) == 2 and all(map(_is_whole, pair)),
        )
        return [(start, end) for start, end in pairs]

    def objects(self, field: str) -> list[DataRow]:
        """The field's list of objects."""
        values = self._items(field, "objects", lambda value: isinstance(value, dict))
        return [self._inner(value, f"{field}[{index}]") for index, value in enumerate(values)]

    def inner(self, field: str) -> DataRow:
        """The field's object."""
        value = self.fields.get(field)
        if not isinstance(value, dict):
            raise self.error(field, f"should be an object, was: {type(value).__name__}; is it another kind of export?")
        return self._inner(value, field)

    def passage(self, passage_id: str | None = None) -> Passage:
        """The passage with the row's ``text`` and its ``title``, if it has one."""
        return Passage(self.text("text"), self.optional_text("title") or None, passage_id)

    def error(self, field: str, problem: str) -> DataError:
        """The error to raise for a faulty field."""
        return DataError(f"{self.where}: field {field!r} {problem}")

    def _inner(self, fields: Mapping[str, object], place: str) -> DataRow:
        return replace(self, fields=fields, where=f"{self.where}, {place}")

    def _items(self, field: str, what: str, is_item: Callable[[object], bool]) -> list[Any]:
        values = self._typed(field, list, f"a list of {what}")
        if not all(map(is_item, values)):
            raise self.error(field, f"should be a list of {what}, contains something else")
        return values

    def _typed(self, field: str, kind: type[_Value], expected: str) -> _Value:
        if field not in self.fields:
            raise self.error(field, f"should be {expected}, is missing; the row has: {sorted(self.fields)}")
        value = self.fields[field]
        if not isinstance(value, kind):
            raise self.error(field, f"should be {expected}, was: {type(value).__name__}")
        return value


def _is_whole(value: object) -> bool:
    return type(value) is int


def read_rows(path: Path) -> Iterator[DataRow]:
    """The objects of a ``.jsonl`` or ``.jsonl.xz`` file, one per line; empty lines are skipped.

    Raises:
        DataError: if the file cannot be read, or a line is not a JSON object.
    """
    lines = ((number, line) for number, line in enumerate(_lines(path), start=1) if line.strip())
    for row, (number, line) in enumerate(lines):
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: should be one JSON object, could not be parsed: {error}") from error
        if not isinstance(value, dict):
            raise DataError(f"{where}: should be one JSON object, was: {type(value).__name__}")
        yield DataRow(value, row, where, path.name)


def read_json_rows(path: Path, *, field: str) -> Iterator[DataRow]:
    """The objects of a ``.json`` or ``.json.xz`` file, which holds a list or an object with a list in ``field``.

    Raises:
        DataError: if the file cannot be read, or holds something else.
    """
    try:
        value = json.loads("".join(_lines(path)))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"data file {path} should be JSON, could not be parsed: {error}") from error
    if isinstance(value, list):
        value = {field: value}
    if not isinstance(value, dict):
        raise DataError(f"data file {path} should be a list or an object, was: {type(value).__name__}")
    rows = DataRow(value, 0, str(path), path.name).objects(field)
    yield from (replace(one, row=row) for row, one in enumerate(rows))


def _lines(path: Path) -> Iterator[str]:
    if path.exists() and not path.is_file():
        raise DataError(f"data file {path} should be a file, is a folder, a pipe or a device")
    try:
        with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
            yield from file
    except FileNotFoundError as error:
        raise DataError(f"data file {path} does not exist; --data should name the file, plain or .xz") from error
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise DataError(f"data file {path} should be readable UTF-8 text, plain or .xz: {error}") from error


_Answer = TypeVar("_Answer")


def select_rows(
    rows: Iterable[DataRow], read: Callable[[DataRow], Sequence[_Answer] | str], *, several_files: bool = False
) -> tuple[tuple[_Answer, ...], tuple[SkippedRow, ...]]:
    """The answers that ``read`` returns, in order, and the rows for which it returns a reason to skip them instead."""
    answers: list[_Answer] = []
    skipped: list[SkippedRow] = []
    for row in rows:
        found = read(row)
        if isinstance(found, str):
            skipped.append(SkippedRow(row.row, found, row.file if several_files else None))
        else:
            answers += found
    return tuple(answers), tuple(skipped)


def select_from_files(
    path: Path, name: str, read: Callable[[DataRow], Sequence[_Answer] | str]
) -> tuple[tuple[_Answer, ...], tuple[SkippedRow, ...]]:
    """As ``select_rows`` of all rows of ``data_files(path, name)``.

    Raises:
        DataError: if a file cannot be read, or the directory has none.
    """
    files = data_files(path, name)
    return select_rows(chain.from_iterable(map(read_rows, files)), read, several_files=len(files) > 1)


def data_files(path: Path, name: str) -> list[Path]:
    """The files of a data set: ``path`` itself, or of a directory the ``.jsonl`` and ``.jsonl.xz`` files in it.

    Of these only the ones whose names begin with ``name`` are taken, if there are any, in the order of their names. An
    ``.xz`` file beside its plain file is left out.

    Raises:
        DataError: if the directory has no such file.
    """
    if not path.is_dir():
        return [path]
    found = {file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.xz"))}
    files = sorted(file for file in found if file.suffix != ".xz" or file.with_suffix("") not in found)
    own = [file for file in files if file.name.startswith(name)]
    if not files:
        raise DataError(f"--data {path} should be a file or a directory with {name}*.jsonl or .jsonl.xz, has none")
    return own or files
