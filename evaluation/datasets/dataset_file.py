"""Labelled answers, and JSON rows from a file, checked field by field.

Errors name file, row and field; a row that cannot be used is skipped with a reason.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError


@dataclass(frozen=True, slots=True, order=True)
class PassageRange:
    """Characters of one passage's text: what a person marked as a span's source, or what a method found."""

    passage_index: int
    chars: CharRange


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """One answer and where each of its target spans, one or more, comes from.

    ``gold_passages`` are the passages that count as right for each span, at least one, and ``gold_evidence`` the marked
    source characters; ``citations`` are what the answer itself cites, in its order, and may not exist. Each is empty
    where the data set has none.

    Raises:
        ValueError: if a span has no gold passage, or one that the record does not have.
    """

    record: QARecord
    gold_passages: tuple[frozenset[int], ...] = ()
    gold_evidence: tuple[tuple[PassageRange, ...], ...] = ()
    citations: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        spans, passages = len(self.spans), len(self.record.passages)
        if not spans:
            raise ValueError("a labelled answer should have target spans, has none")
        for name in ("gold_passages", "gold_evidence", "citations"):
            labels = len(getattr(self, name))
            if labels not in (0, spans):
                raise ValueError(f"{name} should be given for all {spans} spans, was for {labels}")
        for gold in self.gold_passages:
            if not gold or min(gold) < 0 or max(gold) >= passages:
                raise ValueError(f"gold passages should lie in [0, {passages}), were: {sorted(gold)}")

    @property
    def spans(self) -> tuple[CharRange, ...]:
        return self.record.target_spans or ()


@dataclass(frozen=True, slots=True)
class UnsupportedRange:
    """Characters of an answer that its passages do not support, and in which way; ``kind`` is None if unknown."""

    chars: CharRange
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer and what people found unsupported in it.

    Attributes:
        unsupported: ranges that a person marked, which may overlap; None where the answer was judged as a whole.
        judged: the ranges that the person looked at; None for the whole answer.
        group: part of the data set, such as a task.
        answer_supported: whether the passages support all of the answer; None where only ranges say so.
        faithfulness: the mean grade that people gave, larger for better; None where they gave none.
        error_kinds: in which ways an answer that was judged as a whole is unsupported; empty if unknown.

    Raises:
        ValueError: if a range ends beyond the answer, or if neither ranges nor a judgement are given.
    """

    record: QARecord
    unsupported: tuple[UnsupportedRange, ...] | None
    judged: tuple[CharRange, ...] | None = None
    group: str | None = None
    split: str | None = None
    answer_supported: bool | None = None
    faithfulness: float | None = None
    error_kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        length = len(self.record.answer)
        if any(marked.chars.char_end > length for marked in self.unsupported or ()):
            raise ValueError(f"unsupported ranges should end within the answer's {length} code points")
        if self.unsupported is None and self.answer_supported is None:
            raise ValueError("a judged answer should have unsupported ranges or answer_supported, has neither")

    @property
    def is_supported(self) -> bool:
        """Whether people found all of it supported: as they judged the whole answer, else by their ranges."""
        return not self.unsupported if self.answer_supported is None else self.answer_supported


Answer = TypeVar("Answer", bound=LabelledAnswer | JudgedAnswer)


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row left out of the evaluation, and why; ``row`` is 0-based within its file, named if the data has several."""

    row: int
    reason: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset(Generic[Answer]):
    """All usable answers of a data set, in its order, and the rows that were left out."""

    answers: tuple[Answer, ...]
    skipped: tuple[SkippedRow, ...] = ()

    def first(self, count: int) -> Dataset[Answer]:
        """The first ``count`` answers, at least one, with the rows skipped before the last of them."""
        if count >= len(self.answers):
            return self
        last = self.answers[count - 1].record.source  # several files are read in the order of their names
        end = (last.source_file, last.source_row)
        before = tuple(skip for skip in self.skipped if (skip.file or last.source_file, skip.row) < end)
        return Dataset(self.answers[:count], before)


LabelledDataset = Dataset[LabelledAnswer]
JudgedDataset = Dataset[JudgedAnswer]


def dataset_of(outcomes: Iterable[Answer | SkippedRow]) -> Dataset[Answer]:
    """The answers and the skipped rows among ``outcomes``, each in their order."""
    every = [*outcomes]
    answers: list[Answer] = [outcome for outcome in every if not isinstance(outcome, SkippedRow)]
    return Dataset(tuple(answers), tuple(outcome for outcome in every if isinstance(outcome, SkippedRow)))


def of_split(dataset: JudgedDataset, split: str) -> JudgedDataset:
    """The answers of one split, or all if the data set has no such split."""
    chosen = tuple(answer for answer in dataset.answers if answer.split == split)
    return replace(dataset, answers=chosen or dataset.answers)


_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class DataRow:
    """One line of a data file, or an object inside it; its methods read a field and check its type.

    ``row`` is the 0-based number of the line, and ``where`` names file, line and place for error messages.

    Raises:
        DataError: by all methods for one field, if it is missing or of another type; None stands for optional ones.
    """

    fields: Mapping[str, object]
    row: int
    where: str
    file: str = ""

    @property
    def source(self) -> RowSource:
        return RowSource(self.file, self.row)

    def text(self, field: str) -> str:
        return self._typed(field, str, "a string")

    def integer(self, field: str) -> int:
        return self._typed(field, int, "a whole number")

    def boolean(self, field: str) -> bool:
        return self._typed(field, bool, "true or false")

    def optional_boolean(self, field: str) -> bool | None:
        return None if self.fields.get(field) is None else self.boolean(field)

    def optional_number(self, field: str) -> float | None:
        return None if self.fields.get(field) is None else self._typed(field, (int, float), "a number")

    def optional_text(self, field: str) -> str | None:
        return None if self.fields.get(field) is None else self.text(field)

    def texts(self, field: str) -> list[str]:
        return self._items(field, "strings", lambda value: isinstance(value, str))

    def integers(self, field: str) -> list[int]:
        return self._items(field, "whole numbers", lambda value: type(value) is int)

    def ranges(self, field: str) -> list[tuple[int, int]]:
        """The field's list of [start, end] pairs."""

        def is_pair(value: object) -> bool:
            return isinstance(value, list) and [*map(type, value)] == [int, int]

        return [(start, end) for start, end in self._items(field, "[start, end] pairs", is_pair)]

    def objects(self, field: str) -> list[DataRow]:
        values = self._items(field, "objects", lambda value: isinstance(value, dict))
        return [replace(self, fields=value, where=f"{self.where}, {field}[{i}]") for i, value in enumerate(values)]

    def inner(self, field: str) -> DataRow:
        value = self.fields.get(field)
        if not isinstance(value, dict):
            raise self.error(field, f"should be an object, was: {type(value).__name__}; is it another kind of export?")
        return replace(self, fields=value, where=f"{self.where}, {field}")

    def passage(self, passage_id: str | None = None) -> Passage:
        """The passage with the row's ``text`` and its ``title``, if it has one."""
        return Passage(self.text("text"), self.optional_text("title") or None, passage_id)

    def char_range(self, length: int) -> CharRange:
        """The range from ``char_start`` to ``char_end``, which must lie within ``length`` code points."""
        start, end = self.integer("char_start"), self.integer("char_end")
        if not 0 <= start < end <= length:
            should = f"should satisfy 0 <= char_start < char_end <= {length}, was: [{start}, {end})"
            raise self.error("char_start", should)
        return CharRange(start, end)

    def error(self, field: str, problem: str) -> DataError:
        """The error to raise for a faulty field."""
        return DataError(f"{self.where}: field {field!r} {problem}")

    def _items(self, field: str, what: str, is_item: Callable[[object], bool]) -> list[Any]:
        values = self._typed(field, list, f"a list of {what}")
        if not all(map(is_item, values)):
            raise self.error(field, f"should be a list of {what}, contains something else")
        return values

    def _typed(self, field: str, kind: type[_Value] | tuple[type[_Value], ...], expected: str) -> _Value:
        if field not in self.fields:
            raise self.error(field, f"should be {expected}, is missing; the row has: {sorted(self.fields)}")
        value = self.fields[field]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(field, f"should be {expected}, was: {type(value).__name__}")
        return value


def read_rows(path: Path) -> Iterator[DataRow]:
    """The objects of a ``.jsonl`` or ``.jsonl.xz`` file, one per line; empty lines are skipped.

    Raises ``DataError`` if the file cannot be read, or a line is not a JSON object.
    """
    lines = ((number, line) for number, line in enumerate(_lines(path), start=1) if line.strip())
    for row, (number, line) in enumerate(lines):
        where = f"{path}, line {number}"
        value = _json(line, f"{where}: should be one JSON object")
        if not isinstance(value, dict):
            raise DataError(f"{where}: should be one JSON object, was: {type(value).__name__}")
        yield DataRow(value, row, where, path.name)


def _json(text: str, should: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{should}, could not be parsed: {error}") from error


def read_json_rows(path: Path, *, field: str) -> Iterator[DataRow]:
    """As ``read_rows`` of a ``.json`` or ``.json.xz`` file, which holds a list, or an object with one in ``field``."""
    value = _json("".join(_lines(path)), f"data file {path} should be JSON")
    if isinstance(value, list):
        value = {field: value}
    if not isinstance(value, dict):
        raise DataError(f"data file {path} should be a list or an object, was: {type(value).__name__}")
    rows = DataRow(value, 0, str(path), path.name).objects(field)
    yield from (replace(item, row=row) for row, item in enumerate(rows))


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


def select_rows(
    rows: Iterable[DataRow], read: Callable[[DataRow], Sequence[Answer] | str], *, several_files: bool = False
) -> Dataset[Answer]:
    """The answers that ``read`` returns, in order, and the rows for which it returns a reason to skip them instead."""

    pairs = ((row, read(row)) for row in rows)
    return dataset_of(
        each
        for row, said in pairs
        for each in (
            [SkippedRow(row.row, said, row.file if several_files else None)] if isinstance(said, str) else said
        )
    )


def select_from_files(path: Path, name: str, read: Callable[[DataRow], Sequence[Answer] | str]) -> Dataset[Answer]:
    """As ``select_rows`` of all rows of ``data_files(path, name)``."""
    files = data_files(path, name)
    return select_rows(chain.from_iterable(map(read_rows, files)), read, several_files=len(files) > 1)


def data_files(path: Path, name: str) -> list[Path]:
    """The files of a data set: ``path`` itself, or of a directory its ``.jsonl`` and ``.jsonl.xz`` files by name.

    Only those whose names begin with ``name`` are taken, if there are any. An ``.xz`` file beside its plain file is
    left out. Raises ``DataError`` if the directory has no such file.
    """
    if not path.is_dir():
        return [path]
    entries = {file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.xz"))}
    files = sorted(file for file in entries if file.suffix != ".xz" or file.with_suffix("") not in entries)
    if not files:
        raise DataError(f"--data {path} should be a file or a directory with {name}*.jsonl or .jsonl.xz, has none")
    return [file for file in files if file.name.startswith(name)] or files
