"""Spans that people marked in Label Studio or Argilla 2, or on an audit's page.

An export names the row of each task. The texts come from the logs of the tasks, or from the audited ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from attribeam.evaluation.datasets.dataset_file import (
    DataRow,
    JudgedAnswer,
    JudgedDataset,
    SkippedRow,
    UnsupportedRange,
    read_json_rows,
)
from attribeam.logs.qa_log import QALog
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedLogs, audited_answers
from attribeam.report.labelling import ANSWER, LABELS, QUESTION, Mark, marks_by_answer, read_marks
from attribeam.schemas import CharRange, QARecord, Support
from attribeam.schemas.errors import DataError

_NOT_MARKED, _NOT_IN_LOG, _ANSWER_CHANGED = "not_marked", "not_in_log", "answer_changed"
_OUT_OF_RANGE, _NO_VERDICT = "span_out_of_range", "no_verdict"
_ARGILLA_RESPONSES, _ARGILLA_STATUS = f"{QUESTION}.responses", f"{QUESTION}.responses.status"
_SUBMITTED = "submitted"

_Mark: TypeAlias = tuple[CharRange, str]


@dataclass(frozen=True, slots=True)
class MarkedTask:
    """One task of an export: the row it is of, its text as people saw it, and what all of them marked."""

    row: int
    record_id: str
    source_row: int
    answer: str
    marks: tuple[_Mark, ...]


def label_studio_tasks(path: Path) -> Iterator[MarkedTask | SkippedRow]:
    """The tasks of a Label Studio export in the format JSON; one without a finished annotation is skipped.

    Raises:
        DataError: if the file is no such export, or a label is none of the task's.
    """
    for task in read_json_rows(path, field="tasks"):
        data = task.inner("data")
        done = [one for one in task.objects("annotations") if one.optional_boolean("was_cancelled") is not True]
        regions = [region for one in done for region in one.objects("result") if _is_region(region)]
        yield _task(task.row, data, data, [_label_studio_mark(one, data.text(ANSWER)) for one in regions])


def argilla_records(path: Path) -> Iterator[MarkedTask | SkippedRow]:
    """The records of an Argilla export; one without a submitted response is skipped.

    ``records.to_list(flatten=True)`` says which responses are submitted. ``records.to_json`` does not, so there every
    response counts.

    Raises:
        DataError: as ``label_studio_tasks``.
    """
    for record in read_json_rows(path, field="records"):
        if _ARGILLA_RESPONSES in record.fields or f"{QUESTION}.suggestion" in record.fields:
            spans, place, texts = _flat_spans(record), record, record
        else:
            spans = _nested_spans(record)
            place, texts = record.inner("metadata"), record.inner("fields")
        yield _task(record.row, place, texts, [_argilla_mark(span) for span in spans])


def _nested_spans(record: DataRow) -> list[DataRow]:
    responses = record.inner("responses")
    given = responses.objects(QUESTION) if QUESTION in responses.fields else []
    done = [one for one in given if one.fields.get("status") in (None, _SUBMITTED)]
    return [span for one in done for span in one.objects("value")]


def _flat_spans(record: DataRow) -> list[DataRow]:
    """The spans of the submitted responses; null stands where a record has none."""
    values, statuses = (record.fields.get(name) or [] for name in (_ARGILLA_RESPONSES, _ARGILLA_STATUS))
    if not isinstance(values, list) or not isinstance(statuses, list) or len(values) != len(statuses):
        raise record.error(_ARGILLA_RESPONSES, f"should be a list with as many items as {_ARGILLA_STATUS!r}")
    responses = [
        DataRow({"value": value}, record.row, f"{record.where}, {_ARGILLA_RESPONSES}[{number}]")
        for number, (value, status) in enumerate(zip(values, statuses, strict=True))
        if status == _SUBMITTED
    ]
    return [span for one in responses for span in one.objects("value")]


LABELLING_TOOLS: Mapping[str, Callable[[Path], Iterator[MarkedTask | SkippedRow]]] = {
    "label-studio": label_studio_tasks,
    "argilla": argilla_records,
}


def load_marked_spans(tasks: Iterable[MarkedTask | SkippedRow], logs: Sequence[QALog]) -> JudgedDataset:
    """The answers that people marked, with the marked ranges as target spans.

    Where several people marked one range, it has a verdict if all of them gave it the same label; ``weak`` is none.

    Raises:
        DataError: if a log cannot be read, or two of them have the same row with the same id.
    """
    given = list(tasks)
    skipped = [one for one in given if isinstance(one, SkippedRow)]
    marked = {(one.record_id, one.source_row): one for one in given if isinstance(one, MarkedTask)}
    records = _records(frozenset(marked), logs)
    answers: list[JudgedAnswer] = []
    for key, task in marked.items():
        found = _judged(records[key], task) if key in records else _NOT_IN_LOG
        if isinstance(found, str):
            skipped.append(SkippedRow(task.row, found))
        else:
            answers.append(found)
    repeated = {one.row for one in given if isinstance(one, MarkedTask)} - {one.row for one in marked.values()}
    skipped += [SkippedRow(row, "duplicate_record_id") for row in sorted(repeated)]
    return JudgedDataset(tuple(answers), tuple(skipped))


def _records(keys: frozenset[tuple[str, int]], logs: Sequence[QALog]) -> dict[tuple[str, int], QARecord]:
    rows = sorted({row for _, row in keys})
    found: dict[tuple[str, int], QARecord] = {}
    for log in logs:
        count = log.check().row_count
        for outcome in log.outcomes([row for row in rows if row < count]):
            key = (outcome.record_id or "", outcome.source.source_row)
            if not isinstance(outcome, QARecord) or key not in keys:
                continue
            if key in found:
                raise DataError(
                    f"--log should have record {key[0]!r} once, both {found[key].source.source_file!r} and "
                    f"{log.path!r} have it in row {key[1]}; import the labels of each log by themselves"
                )
            found[key] = outcome
    return found


def _judged(record: QARecord, task: MarkedTask) -> JudgedAnswer | str:
    length = len(record.answer)
    if len(task.answer) != length:
        return _ANSWER_CHANGED
    if any(chars.char_end > length for chars, _ in task.marks):
        return _OUT_OF_RANGE
    labels: dict[CharRange, set[str]] = {}
    for chars, label in task.marks:
        labels.setdefault(chars, set()).add(label)
    spans = tuple(sorted(labels))
    judged = tuple(one for one in spans if labels[one] in ({Support.SUPPORTED}, {Support.UNSUPPORTED}))
    if not judged:
        return _NO_VERDICT
    unsupported = tuple(UnsupportedRange(one) for one in judged if labels[one] == {Support.UNSUPPORTED})
    return JudgedAnswer(replace(record, target_spans=spans), unsupported, judged)


def _task(row: int, place: DataRow, texts: DataRow, marks: Sequence[_Mark | None]) -> MarkedTask | SkippedRow:
    if not marks:
        return SkippedRow(row, _NOT_MARKED)
    whole = tuple(mark for mark in marks if mark is not None)
    if len(whole) < len(marks):
        return SkippedRow(row, _OUT_OF_RANGE)
    return MarkedTask(row, place.text("record_id"), place.integer("source_row"), texts.text(ANSWER), whole)


def _is_region(region: DataRow) -> bool:
    return (region.fields.get("type"), region.fields.get("from_name")) == ("labels", QUESTION)


def _label_studio_mark(region: DataRow, answer: str) -> _Mark | None:
    """The region's range in code points; None where its own text stands at none of the places it may mean.

    Older versions of Label Studio count UTF-16 units, so the text that they save decides.
    """
    value = region.inner("value")
    start, end = _offset(value, "start"), _offset(value, "end")
    text = value.optional_text("text")
    for chars in (_range(start, end), _range(_code_points(answer, start), _code_points(answer, end))):
        if chars is not None and (text is None or _same(chars.of(answer), text)):
            return chars, _label(value, value.texts("labels"))
    return None


def _argilla_mark(span: DataRow) -> _Mark | None:
    chars = _range(span.integer("start"), span.integer("end"))
    return None if chars is None else (chars, _label(span, [span.text("label")]))


def _label(row: DataRow, labels: Sequence[str]) -> str:
    if len(labels) != 1 or labels[0] not in LABELS:
        raise row.error("label", f"should be one of {', '.join(LABELS)}, was: {', '.join(labels) or 'none'}")
    return labels[0]


def _offset(value: DataRow, field: str) -> int:
    """Label Studio writes whole numbers; some versions write them as texts."""
    text = value.fields.get(field)
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else value.integer(field)


def _range(start: int, end: int) -> CharRange | None:
    return CharRange(start, end) if 0 <= start < end else None


def _code_points(text: str, units: int) -> int:
    """The code points in the first ``units`` UTF-16 units of a text."""
    return len(text.encode("utf-16-le")[: 2 * max(units, 0)].decode("utf-16-le", errors="replace"))


def _same(one: str, other: str) -> bool:
    """Equal but for white space, which Label Studio trims and writes in its own way."""
    return "".join(one.split()) == "".join(other.replace("\\n", "").split())


def load_marks(path: Path, audit: AuditDirectory) -> JudgedDataset:
    """The answers of ``audit`` that the marks in ``path`` speak of.

    Marked claims are the ranges that people looked at; a mark on the whole answer says whether all of it is supported.
    Answers that the audit or its logs do not have any more are skipped (``not_in_audit``, ``text_gone``).

    Raises:
        DataError: if the marks cannot be read, or a claim ends beyond its answer.
        RunError: if a file of the audit cannot be read.
    """
    marks = read_marks([path]).marks
    audited = audited_answers(audit.evidence_of(sorted({mark.record_id for mark in marks})))
    by_answer = marks_by_answer(marks, ((one.record_id, one.source) for one in audited))
    records = {one.source: one for one in AuditedLogs.of(audit).answers(frozenset(by_answer))}
    answers = tuple(_judged_answer(records[one], found, path) for one, found in by_answer.items() if one in records)
    kept = {mark for found in by_answer.values() for mark in found}
    unknown = {(mark.record_id, mark.source) for mark in marks if mark not in kept}
    gone = tuple(SkippedRow(one.source_row, "text_gone", one.source_file) for one in by_answer if one not in records)
    return JudgedDataset(answers, (*gone, *(SkippedRow(-1, "not_in_audit") for _ in unknown)))


def _judged_answer(record: QARecord, marks: Sequence[Mark], path: Path) -> JudgedAnswer:
    length = len(record.answer)
    claims = [(one.chars, one.supported) for one in marks if one.chars is not None]
    if any(chars.char_end > length for chars, _ in claims):
        raise DataError(
            f"marks file {path}: a claim of {record.record_id!r} ends beyond its answer's {length} characters; the "
            "marks are of another version of the log"
        )
    whole = next((one.supported for one in marks if one.chars is None), None)
    judged = tuple(sorted(chars for chars, _ in claims)) or None
    unsupported = tuple(UnsupportedRange(chars) for chars, supported in sorted(claims) if not supported)
    return JudgedAnswer(
        replace(record, target_spans=judged, extra_columns=()),
        unsupported if claims else None,
        judged,
        answer_supported=whole,
    )
