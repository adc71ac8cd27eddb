"""RAGTruth: answers of six models to three tasks, with the characters that a person found unsupported.

The answers were made from passages, an article or the record of a business; all become passages here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from pathlib import Path

from attribeam.evaluation.datasets.dataset_file import DataRow, read_rows, select_rows
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset, UnsupportedRange

_PASSAGE = re.compile(r"^passage (\d+):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RagTruthSource:
    """One source: its task (``QA``, ``Summary`` or ``Data2txt``), its question or an empty string, and its passages."""

    task: str
    question: str
    passages: tuple[Passage, ...]


def read_source(row: DataRow) -> RagTruthSource:
    """The source of one line of ``source_info.jsonl``.

    ``source_info`` is one of three kinds:

    - A string, which becomes one passage.
    - An object with ``passages``: a list of strings, or one string in which each passage begins with ``passage N:`` on
      a line of its own.
    - Another object, such as that of a business. Each item of a list of objects becomes a passage whose title is the
      list's name and the item's number; everything else forms the first passage. Every value becomes a line
      ``name: value``.

    Raises:
        DataError: if the row has another form.
    """
    task, found = row.text("task_type"), row.fields.get("source_info")
    if isinstance(found, str):
        return RagTruthSource(task, "", (Passage(text=found, passage_id="1"),))
    if not isinstance(found, dict):
        raise row.error("source_info", f"should be a string or an object, was: {type(found).__name__}")
    inner = DataRow(found, row.row, f"{row.where}, source_info")
    question = inner.optional_text("question") or ""
    if "passages" in found:
        return RagTruthSource(task, question, _numbered(inner))
    return RagTruthSource(task, question, tuple(_record_passages(found)))


def _numbered(inner: DataRow) -> tuple[Passage, ...]:
    if isinstance(inner.fields["passages"], list):
        texts = inner.texts("passages")
        return tuple(Passage(text=text, passage_id=str(number)) for number, text in enumerate(texts, start=1))
    whole = inner.text("passages")
    marks = list(_PASSAGE.finditer(whole))
    if not marks or whole[: marks[0].start()].strip():
        return (Passage(text=whole, passage_id="1"),)
    ends = [*(mark.start() for mark in marks[1:]), len(whole)]
    return tuple(
        Passage(text=whole[mark.end() : end].strip(), passage_id=mark.group(1))
        for mark, end in zip(marks, ends, strict=True)
    )


def _record_passages(record: Mapping[str, object]) -> Iterator[Passage]:
    lists = {name: value for name, value in record.items() if _is_list_of_objects(value)}
    rest = {name: value for name, value in record.items() if name not in lists}
    if rest:
        yield Passage(text="\n".join(_lines(rest, "")), passage_id="record")
    for name, items in lists.items():
        if isinstance(items, list):
            for number, item in enumerate(items, start=1):
                yield Passage(text="\n".join(_lines(item, "")), title=f"{name} {number}", passage_id=f"{name} {number}")


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _lines(record: Mapping[str, object], path: str) -> Iterator[str]:
    """One line per value; the names of nested objects precede those of their members."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{path}{name} ")
        else:
            yield f"{path}{name}: {value if isinstance(value, str) else dumps(value, ensure_ascii=False)}"


def load_ragtruth(path: Path) -> JudgedDataset:
    """The answers of a directory with RAGTruth's ``response.jsonl`` and ``source_info.jsonl``, each plain or ``.xz``.

    Rows are skipped if the answer is empty (``empty_answer``), if the source is missing (``no_source``) or has no text
    (``no_passages``), or if a label lies outside the answer (``label_out_of_range``) or does not match its text
    (``label_text_differs``).

    Raises:
        DataError: if a file cannot be read, or a row is not in RAGTruth's format.
    """
    sources = {row.text("source_id"): read_source(row) for row in read_rows(_file(path, "source_info"))}
    responses = _file(path, "response")
    return JudgedDataset(*select_rows(read_rows(responses), lambda row: _judged(row, sources, responses)))


def _file(directory: Path, name: str) -> Path:
    for file in (directory / f"{name}.jsonl", directory / f"{name}.jsonl.xz"):
        if file.is_file():
            return file
    raise DataError(
        f"--data {directory} should be a directory with response.jsonl and source_info.jsonl, has no {name}.jsonl"
    )


def _judged(row: DataRow, sources: Mapping[str, RagTruthSource], file: Path) -> JudgedAnswer | str:
    """The answer, or the reason why its row is skipped."""
    answer, source = row.text("response"), sources.get(row.text("source_id"))
    labels = row.objects("labels")
    if not answer.strip():
        return "empty_answer"
    if source is None:
        return "no_source"
    if not any(passage.text.strip() for passage in source.passages):
        return "no_passages"
    for label in labels:
        start, end = label.integer("start"), label.integer("end")
        if not 0 <= start < end <= len(answer):
            return "label_out_of_range"
        if label.text("text") != answer[start:end]:
            return "label_text_differs"
    record = QARecord(
        record_id=row.text("id"),
        question=source.question,
        passages=source.passages,
        answer=answer,
        source=RowSource(file.name, row.row),
        generator=row.optional_text("model"),
    )
    unsupported = tuple(sorted((_unsupported(label) for label in labels), key=lambda one: one.chars))
    return JudgedAnswer(record, unsupported, group=source.task, split=row.optional_text("split"))


def _unsupported(label: DataRow) -> UnsupportedRange:
    return UnsupportedRange(CharRange(label.integer("start"), label.integer("end")), label.text("label_type"))
