"""Data sets in which people said whether the passages support an answer, or which of its characters they do not.

RAGTruth marks characters; its answers were made from passages, an article or the record of a business, which all become
passages. MTRAG's answers were graded by several people. Of SummEdits' and BUMP's summaries, many have an error that was
edited into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from statistics import fmean

from attribeam.evaluation.datasets.dataset_file import (
    DataRow,
    JudgedAnswer,
    JudgedDataset,
    UnsupportedRange,
    read_rows,
    select_from_files,
    select_rows,
)
from attribeam.schemas import CharRange, Passage, QARecord
from attribeam.schemas.errors import DataError

_PASSAGE = re.compile(r"^passage (\d+):", re.MULTILINE)
_Source = tuple[str, str, tuple[Passage, ...]]
"""The task (``QA``, ``Summary`` or ``Data2txt``), the question or an empty string, and the passages."""


def load_ragtruth(path: Path) -> JudgedDataset:
    """The answers of a directory with RAGTruth's ``response.jsonl`` and ``source_info.jsonl``, each plain or ``.xz``.

    Rows are skipped if the answer is empty (``empty_answer``), if the source is missing (``no_source``) or has no text
    (``no_passages``), or if a label lies outside the answer (``label_out_of_range``) or does not match its text
    (``label_text_differs``).

    Raises:
        DataError: if a file cannot be read, or a row is not in the format. The functions below raise it likewise.
    """
    sources = {row.text("source_id"): _source(row) for row in read_rows(_file(path, "source_info"))}
    responses = read_rows(_file(path, "response"))
    return JudgedDataset(*select_rows(responses, lambda row: _ragtruth_answer(row, sources)))


def _file(directory: Path, name: str) -> Path:
    for file in (directory / f"{name}.jsonl", directory / f"{name}.jsonl.xz"):
        if file.is_file():
            return file
    raise DataError(
        f"--data {directory} should be a directory with response.jsonl and source_info.jsonl, has no {name}.jsonl"
    )


def _source(row: DataRow) -> _Source:
    """The source of one line of ``source_info.jsonl``.

    ``source_info`` is one of three kinds:

    - A string, which becomes one passage.
    - An object with ``passages``: a list of strings, or one string in which each passage begins with ``passage N:`` on
      a line of its own.
    - Another object, such as that of a business. Each item of a list of objects becomes a passage whose title is the
      list's name and the item's number; everything else forms the first passage. Every value becomes a line
      ``name: value``.
    """
    task, found = row.text("task_type"), row.fields.get("source_info")
    if isinstance(found, str):
        return task, "", (Passage(found, passage_id="1"),)
    if not isinstance(found, dict):
        raise row.error("source_info", f"should be a string or an object, was: {type(found).__name__}")
    info = row.inner("source_info")
    passages = _numbered(info) if "passages" in found else _record_passages(found)
    return task, info.optional_text("question") or "", tuple(passages)


def _numbered(info: DataRow) -> Iterator[Passage]:
    if isinstance(info.fields["passages"], list):
        for number, text in enumerate(info.texts("passages"), start=1):
            yield Passage(text, passage_id=str(number))
        return
    whole = info.text("passages")
    marks = list(_PASSAGE.finditer(whole))
    if not marks or whole[: marks[0].start()].strip():
        yield Passage(whole, passage_id="1")
        return
    for mark, end in zip(marks, [*(mark.start() for mark in marks[1:]), len(whole)], strict=True):
        yield Passage(whole[mark.end() : end].strip(), passage_id=mark.group(1))


def _record_passages(record: Mapping[str, object]) -> Iterator[Passage]:
    lists: dict[str, list[Mapping[str, object]]] = {
        name: value
        for name, value in record.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    }
    rest = {name: value for name, value in record.items() if name not in lists}
    if rest:
        yield Passage("\n".join(_lines(rest, "")), passage_id="record")
    for name, items in lists.items():
        for number, item in enumerate(items, start=1):
            yield Passage("\n".join(_lines(item, "")), f"{name} {number}", f"{name} {number}")


def _lines(record: Mapping[str, object], path: str) -> Iterator[str]:
    """One line per value; the names of nested objects precede those of their members."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{path}{name} ")
        else:
            yield f"{path}{name}: {value if isinstance(value, str) else dumps(value, ensure_ascii=False)}"


def _ragtruth_answer(row: DataRow, sources: Mapping[str, _Source]) -> Sequence[JudgedAnswer] | str:
    answer, source = row.text("response"), sources.get(row.text("source_id"))
    labels = row.objects("labels")
    if not answer.strip():
        return "empty_answer"
    if source is None:
        return "no_source"
    task, question, passages = source
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    unsupported = []
    for label in labels:
        start, end = label.integer("start"), label.integer("end")
        if not 0 <= start < end <= len(answer):
            return "label_out_of_range"
        if label.text("text") != answer[start:end]:
            return "label_text_differs"
        unsupported.append(UnsupportedRange(CharRange(start, end), label.text("label_type")))
    unsupported.sort(key=lambda one: one.chars)
    model, split = row.optional_text("model"), row.optional_text("split")
    record = QARecord(row.text("id"), question, passages, answer, row.source, generator=model)
    return [JudgedAnswer(record, tuple(unsupported), group=task, split=split)]


REFERENCE = "reference"
"""The ``model`` of answers that people wrote; they form a split of their own, those of models are ``test``."""

UNFAITHFUL_GRADE = 2.0
"""Answers with this mean grade or a lower one count as unsupported; grades are 1 to 4."""

_GRADES = ("1", "2", "3", "4")


def load_mtrag(path: Path) -> JudgedDataset:
    """The answers of an MTRAG ``.jsonl`` file, or of all such files of a directory.

    The question is the last turn of the conversation. ``faithfulness`` is the mean of the grades; who graded does not
    count. An answer with a mean of at most 2 is unsupported. Rows without an answer (``empty_answer``), without a
    passage that has text (``no_passages``: nothing was retrieved, so nothing can be compared) or without a grade
    (``not_judged``) are skipped.
    """
    return JudgedDataset(*select_from_files(path, "mtrag", _mtrag_answer))


def _mtrag_answer(row: DataRow) -> Sequence[JudgedAnswer] | str:
    answer, model, turns = row.text("answer"), row.text("model"), row.objects("conversation")
    grades = row.texts("faithfulness")
    if others := [grade for grade in grades if grade not in _GRADES]:
        raise row.error("faithfulness", f"should have grades from {_GRADES[0]} to {_GRADES[-1]}, has: {others[0]!r}")
    passages = tuple(one.passage(one.optional_text("passage_id")) for one in row.objects("passages"))
    if not turns or turns[-1].text("speaker") != "user":
        raise row.error("conversation", "should end with a turn of the user, does not")
    if not answer.strip():
        return "empty_answer"
    if not any(one.text.strip() for one in passages):
        return "no_passages"
    if not grades:
        return "not_judged"
    mean = fmean(map(int, grades))
    record = QARecord(row.text("id"), turns[-1].text("text"), passages, answer, row.source, generator=model)
    split = REFERENCE if model == REFERENCE else "test"
    return [JudgedAnswer(record, None, split=split, answer_supported=mean > UNFAITHFUL_GRADE, faithfulness=mean)]


def load_bump(path: Path) -> JudgedDataset:
    """The summaries of a BUMP ``.jsonl`` file, or of all such files of a directory: two of each row.

    The article is the passage. The edited summary is unsupported, of the kind ``corrected_error_type`` if the row has
    one, else ``error_type``. The reference summary is taken as supported, and counts once however many rows edit it;
    nobody checked that it is, and in task 1 some are not. The group is the name of the file. Rows with an empty article
    (``no_passages``) or summary (``empty_answer``) and those that repeat an article and its edited summary
    (``duplicate``) are skipped.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow) -> Sequence[JudgedAnswer] | str:
        article, reference, edited = (row.text(name) for name in ("article", "reference_summary", "edited_summary"))
        if not article.strip():
            return "no_passages"
        if not (reference.strip() and edited.strip()):
            return "empty_answer"
        if (article, edited) in seen:
            return "duplicate"
        task, number = row.file.split(".")[0], row.integer("id")
        kind = (row.optional_text("corrected_error_type") or row.text("error_type")).removesuffix(" Error")
        found = [_summary(f"{task}-{number}-edited", row, article, edited, task, [kind])]
        if (article, reference) not in seen:
            found.insert(0, _summary(f"{task}-{number}-reference", row, article, reference, task))
        seen.update([(article, reference), (article, edited)])
        return found

    return JudgedDataset(*select_from_files(path, "bump", read))


def load_summedits(path: Path) -> JudgedDataset:
    """The summaries of a SummEdits ``.jsonl`` file, or of all such files of a directory.

    The document is the passage, the summary the answer, and label 1 means supported. The group is the domain, which is
    the name of the file; the kinds of errors are the edits. Rows with an empty summary (``empty_answer``) or document
    (``no_passages``) are skipped, and so are those that repeat a document and its summary (``duplicate``).
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow) -> Sequence[JudgedAnswer] | str:
        document, summary = row.text("doc"), row.text("summary")
        if (document, summary) in seen:
            return "duplicate"
        seen.add((document, summary))
        label = row.integer("label")
        if label not in (0, 1):
            raise row.error("label", f"should be 0 or 1, was: {label}")
        if not summary.strip():
            return "empty_answer"
        if not document.strip():
            return "no_passages"
        domain = row.file.split(".")[0].removeprefix("summedits_")
        return [_summary(row.text("id"), row, document, summary, domain, None if label else row.texts("edit_types"))]

    return JudgedDataset(*select_from_files(path, "summedits", read))


def _summary(
    record_id: str, row: DataRow, document: str, summary: str, group: str, errors: Sequence[str] | None = None
) -> JudgedAnswer:
    """A summary of a document; None for the kinds of errors if it is supported."""
    record = QARecord(record_id, "", (Passage(document),), summary, row.source)
    return JudgedAnswer(record, None, group=group, answer_supported=errors is None, error_kinds=tuple(errors or ()))
