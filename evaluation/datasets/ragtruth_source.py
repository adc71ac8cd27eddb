"""What RAGTruth's answers were made from: passages, an article, or the record of a business, always as passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json import dumps

from evaluation.datasets.dataset_file import DataRow
from schemas import Passage

_PASSAGE = re.compile(r"^passage (\d+):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RagTruthSource:
    """One source: its task (``QA``, ``Summary`` or ``Data2txt``), its question, empty where there is none."""

    task: str
    question: str
    passages: tuple[Passage, ...]


def read_source(row: DataRow) -> RagTruthSource:
    """The source of one line of ``source_info.jsonl``.

    ``source_info`` may be a string, which is one passage; an object with ``passages``, a list of strings or one string
    in which each begins with ``passage N:`` on a line of its own; or another object, such as that of a business. Of
    the last kind each item of a list of objects is a passage of its own, with the list's name and the item's number as
    title, and all the rest is the first passage. Both have a line ``name: value`` for each value.

    Raises:
        DatasetError: if the row is not so.
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
    """One line a value; names of nested objects stand before those of their members."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{path}{name} ")
        else:
            yield f"{path}{name}: {value if isinstance(value, str) else dumps(value, ensure_ascii=False)}"
