"""Labels of one's own logs: in columns of the log, as people marked spans in Label Studio or Argilla 2, or on a page.

An export of a labelling tool names the row of each task; the texts come from the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attribeam.evaluation.datasets.dataset_file import (
    Answer,
    DataRow,
    Dataset,
    JudgedAnswer,
    JudgedDataset,
    LabelledAnswer,
    LabelledDataset,
    PassageRange,
    SkippedRow,
    UnsupportedRange,
    dataset_of,
    read_json_rows,
)
from attribeam.logs.columns import LogOptions, columns_like
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedLogs, audited_answers
from attribeam.report.labelling import ANSWER, LABELS, QUESTION, Mark, marks_by_answer, read_marks
from attribeam.schemas import CharRange, QARecord, Support
from attribeam.schemas.errors import DataError
from attribeam.schemas.qa_record import (
    ANSWER_SUPPORTED,
    ERROR_KINDS,
    FAITHFULNESS,
    LABEL_GROUP,
    SPAN_LABELS,
    UNSUPPORTED_SPANS,
)

_DEFAULT_OPTIONS = LogOptions()
_SUPPORT = (UNSUPPORTED_SPANS, SPAN_LABELS, ANSWER_SUPPORTED)
_LABEL_COLUMNS = (SPAN_LABELS, UNSUPPORTED_SPANS, LABEL_GROUP, ANSWER_SUPPORTED, FAITHFULNESS, ERROR_KINDS, "split")


def load_log(path: Path, options: LogOptions = _DEFAULT_OPTIONS) -> LabelledDataset:
    """The answers with gold passages; spans without one are left out, and rows without any (``no_gold_passage``).

    Gold evidence is only used if all remaining spans of all rows have some. Rows that an audit would refuse are skipped
    with the reason of their dead letter, such as ``empty_answer``. Raises ``DataError`` if the file cannot be read, or
    if its labels are missing or broken. The functions below raise it likewise.
    """
    dataset = _read(path, options, (SPAN_LABELS,), _with_gold)
    if all(answer.gold_evidence for answer in dataset.answers):
        return dataset
    return replace(dataset, answers=tuple(replace(answer, gold_evidence=()) for answer in dataset.answers))


def load_cited_log(path: Path, options: LogOptions = _DEFAULT_OPTIONS) -> LabelledDataset:
    """The answers with the citations of their spans; rows without citations are skipped (``no_citation``)."""
    return _read(path, options, (SPAN_LABELS,), _with_citations)


def load_judged_log(path: Path, options: LogOptions = _DEFAULT_OPTIONS) -> JudgedDataset:
    """The answers of which people said what is unsupported.

    They did so by ``unsupported_spans``, the spans' ``supported`` or ``answer_supported``. Rows in which all of these
    are null are skipped (``not_judged``).
    """
    return _read(path, options, _SUPPORT, _judged)


def _read(
    path: Path, options: LogOptions, needed: tuple[str, ...], label: Callable[[DataRow, QARecord], Answer | str]
) -> Dataset[Answer]:
    """The answers that ``label`` returns for records and their labels, and the rows for which it returns a reason."""
    log = QALog(str(path), options)
    names = log.check().column_names
    if not any(name in names for name in needed):
        of_support = next((f"those in {name} are for --measure support; " for name in _SUPPORT if name in names), "")
        raise DataError(
            f"data file {path} should have labels in a column {' or '.join(needed)}, "
            f"{columns_like(needed[0], names)}; {of_support}see 'Labels' in docs/schema.md"
        )
    labels = tuple(name for name in _LABEL_COLUMNS if name in names)

    def outcomes() -> Iterator[Answer | SkippedRow]:
        for outcome in replace(log, options=replace(options, extra_columns=labels)).outcomes():
            row = outcome.source.source_row
            if isinstance(outcome, FaultyRow):
                yield SkippedRow(row, str(outcome.fault.reason))
            else:
                fields = DataRow(dict(outcome.extra_columns), row, f"{path}, row {row}")
                answer = label(fields, replace(outcome, extra_columns=()))
                yield SkippedRow(row, answer) if isinstance(answer, str) else answer

    return dataset_of(outcomes())


def _labels(row: DataRow, record: QARecord) -> list[tuple[CharRange, DataRow]]:
    """The target spans with their labels, empty if there are none."""
    if row.fields.get(SPAN_LABELS) is None:
        return []
    labels, spans = row.objects(SPAN_LABELS), record.target_spans or ()
    if len(labels) != len(spans):
        raise row.error(SPAN_LABELS, f"should have one item for each of {len(spans)} target spans, has {len(labels)}")
    return list(zip(spans, labels, strict=True))


def _with_gold(row: DataRow, record: QARecord) -> LabelledAnswer | str:
    labels, count = _labels(row, record), len(record.passages)
    kept = [(span, frozenset(gold), label) for span, label in labels if (gold := _gold_passages(label, count))]
    if not kept:
        return "no_gold_passage"
    spans, golds, kept_labels = zip(*kept, strict=True)
    evidence = tuple(_gold_evidence(label, record) for label in kept_labels)
    return LabelledAnswer(replace(record, target_spans=spans), golds, evidence if all(evidence) else ())


def _gold_passages(label: DataRow, count: int) -> list[int]:
    numbers = [] if label.fields.get("gold_passages") is None else label.integers("gold_passages")
    if any(not 0 <= number < count for number in numbers):
        should = f"should be 0-based numbers below the row's {count} passages, was: {numbers}"
        raise label.error("gold_passages", should)
    return numbers


def _gold_evidence(label: DataRow, record: QARecord) -> tuple[PassageRange, ...]:
    if label.fields.get("gold_evidence") is None:
        return ()
    ranges, count = set(), len(record.passages)
    for marked in label.objects("gold_evidence"):
        index = marked.integer("passage_index")
        if not 0 <= index < count:
            raise marked.error("passage_index", f"should be below the row's {count} passages, was: {index}")
        ranges.add(PassageRange(index, marked.char_range(len(record.passages[index].text))))
    return tuple(sorted(ranges))


def _with_citations(row: DataRow, record: QARecord) -> LabelledAnswer | str:
    kept = [(span, label) for span, label in _labels(row, record) if label.fields.get("cited_passages") is not None]
    if not kept:
        return "no_citation"
    return LabelledAnswer(
        replace(record, target_spans=tuple(span for span, _ in kept)),
        citations=tuple(tuple(label.integers("cited_passages")) for _, label in kept),
    )


def _judged(row: DataRow, record: QARecord) -> JudgedAnswer | str:
    group, split = row.optional_text(LABEL_GROUP), row.optional_text("split")
    whole = row.optional_boolean(ANSWER_SUPPORTED)
    verdicts = [(span, label.optional_boolean("supported")) for span, label in _labels(row, record)]
    said = [(span, supported) for span, supported in verdicts if supported is not None]
    judged: tuple[CharRange, ...] | None = None
    unsupported: tuple[UnsupportedRange, ...] | None = None
    if row.fields.get(UNSUPPORTED_SPANS) is not None:
        length, ranges = len(record.answer), row.objects(UNSUPPORTED_SPANS)
        marked = [UnsupportedRange(entry.char_range(length), entry.optional_text("kind")) for entry in ranges]
        unsupported = tuple(sorted(marked, key=lambda part: part.chars))
    elif said:
        judged = tuple(span for span, _ in said)
        unsupported = tuple(UnsupportedRange(span) for span, supported in said if not supported)
    elif whole is None:
        return "not_judged"
    return JudgedAnswer(
        replace(record, target_spans=judged),
        unsupported,
        judged,
        group,
        split,
        answer_supported=whole,
        faithfulness=row.optional_number(FAITHFULNESS),
        error_kinds=() if row.fields.get(ERROR_KINDS) is None else tuple(row.texts(ERROR_KINDS)),
    )


_ARGILLA_RESPONSES, _ARGILLA_STATUS = f"{QUESTION}.responses", f"{QUESTION}.responses.status"
_SUBMITTED = "submitted"
_Label = tuple[CharRange, str]


@dataclass(frozen=True, slots=True)
class MarkedTask:
    """One task of an export: the row it is of, its text as people saw it, and what all of them marked."""

    row: int
    record_id: str
    source_row: int
    answer: str
    marks: tuple[_Label, ...]


def label_studio_tasks(path: Path) -> Iterator[MarkedTask | SkippedRow]:
    """The tasks of a Label Studio export in the format JSON; one without a finished annotation is skipped.

    Raises ``DataError`` if the file is no such export, or a label is none of the task's.
    """
    for task in read_json_rows(path, field="tasks"):
        data = task.inner("data")
        done = [item for item in task.objects("annotations") if item.optional_boolean("was_cancelled") is not True]
        regions = [
            region
            for annotation in done
            for region in annotation.objects("result")
            if (region.fields.get("type"), region.fields.get("from_name")) == ("labels", QUESTION)
        ]
        yield _task(task.row, data, data, [_label_studio_mark(region, data.text(ANSWER)) for region in regions])


def argilla_records(path: Path) -> Iterator[MarkedTask | SkippedRow]:
    """The records of an Argilla export; one without a submitted response is skipped.

    ``records.to_list(flatten=True)`` says which responses are submitted. ``records.to_json`` does not, so there every
    response counts. Raises ``DataError`` as ``label_studio_tasks``.
    """
    for record in read_json_rows(path, field="records"):
        if _ARGILLA_RESPONSES in record.fields or f"{QUESTION}.suggestion" in record.fields:
            ids, texts, done = record, record, _flat_responses(record)
        else:
            responses = record.inner("responses")
            given = responses.objects(QUESTION) if QUESTION in responses.fields else []
            done = [response for response in given if response.fields.get("status") in (None, _SUBMITTED)]
            ids, texts = record.inner("metadata"), record.inner("fields")
        spans = [span for response in done for span in response.objects("value")]
        yield _task(record.row, ids, texts, [_argilla_mark(span) for span in spans])


def _flat_responses(record: DataRow) -> list[DataRow]:
    """The submitted responses; null stands where a record has none."""
    values, statuses = (record.fields.get(name) or [] for name in (_ARGILLA_RESPONSES, _ARGILLA_STATUS))
    if not isinstance(values, list) or not isinstance(statuses, list) or len(values) != len(statuses):
        raise record.error(_ARGILLA_RESPONSES, f"should be a list with as many items as {_ARGILLA_STATUS!r}")
    return [
        DataRow({"value": value}, record.row, f"{record.where}, {_ARGILLA_RESPONSES}[{number}]")
        for number, (value, status) in enumerate(zip(values, statuses, strict=True))
        if status == _SUBMITTED
    ]


LABELLING_TOOLS: Mapping[str, Callable[[Path], Iterator[MarkedTask | SkippedRow]]] = {
    "label-studio": label_studio_tasks,
    "argilla": argilla_records,
}


def load_marked_spans(tasks: Iterable[MarkedTask | SkippedRow], logs: Sequence[QALog]) -> JudgedDataset:
    """The answers that people marked, with the marked ranges as target spans.

    Where several people marked one range, it has a verdict if all of them gave it the same label; ``weak`` is none.
    Raises ``DataError`` if a log cannot be read, or two of them have the same row with the same id.
    """
    outcomes: list[JudgedAnswer | SkippedRow] = []
    marked: dict[tuple[str, int], MarkedTask] = {}
    rows: set[int] = set()
    for task in tasks:
        if isinstance(task, SkippedRow):
            outcomes.append(task)
        else:
            marked[task.record_id, task.source_row] = task
            rows.add(task.row)
    records = _records(frozenset(marked), logs)
    for key, task in marked.items():
        answer = _marked_answer(records[key], task) if key in records else "not_in_log"
        outcomes.append(SkippedRow(task.row, answer) if isinstance(answer, str) else answer)
    repeated = rows - {task.row for task in marked.values()}
    return dataset_of([*outcomes, *(SkippedRow(row, "duplicate_record_id") for row in sorted(repeated))])


def _records(keys: frozenset[tuple[str, int]], logs: Sequence[QALog]) -> dict[tuple[str, int], QARecord]:
    rows = sorted({row for _, row in keys})
    records: dict[tuple[str, int], QARecord] = {}
    for log in logs:
        count = log.check().row_count
        for outcome in log.outcomes([row for row in rows if row < count]):
            key = (outcome.record_id or "", outcome.source.source_row)
            if not isinstance(outcome, QARecord) or key not in keys:
                continue
            if key in records:
                raise DataError(
                    f"--log should have record {key[0]!r} once, both {records[key].source.source_file!r} and "
                    f"{log.path!r} have it in row {key[1]}; import the labels of each log by themselves"
                )
            records[key] = outcome
    return records


def _marked_answer(record: QARecord, task: MarkedTask) -> JudgedAnswer | str:
    length = len(record.answer)
    if len(task.answer) != length:
        return "answer_changed"
    if any(chars.char_end > length for chars, _ in task.marks):
        return "span_out_of_range"
    labels: dict[CharRange, set[str]] = {}
    for chars, label in sorted(task.marks):
        labels.setdefault(chars, set()).add(label)
    judged = tuple(span for span, own in labels.items() if own in ({Support.SUPPORTED}, {Support.UNSUPPORTED}))
    if not judged:
        return "no_verdict"
    unsupported = tuple(UnsupportedRange(span) for span in judged if labels[span] == {Support.UNSUPPORTED})
    return JudgedAnswer(replace(record, target_spans=tuple(labels)), unsupported, judged)


def _task(row: int, ids: DataRow, texts: DataRow, marks: Sequence[_Label | None]) -> MarkedTask | SkippedRow:
    if not marks:
        return SkippedRow(row, "not_marked")
    whole = tuple(mark for mark in marks if mark is not None)
    if len(whole) < len(marks):
        return SkippedRow(row, "span_out_of_range")
    return MarkedTask(row, ids.text("record_id"), ids.integer("source_row"), texts.text(ANSWER), whole)


def _label_studio_mark(region: DataRow, answer: str) -> _Label | None:
    """The region's range in code points; None where its own text stands at none of the places it may mean.

    Older versions of Label Studio count UTF-16 units, so the text that they save decides.
    """
    value = region.inner("value")
    start, end = _offset(value, "start"), _offset(value, "end")
    text = value.optional_text("text")
    for chars in (_range(start, end), _range(_code_points(answer, start), _code_points(answer, end))):
        # equal but for white space, which Label Studio trims and writes in its own way
        if chars and (text is None or _words(chars.of(answer)) == _words(text.replace("\\n", ""))):
            return chars, _label(value, value.texts("labels"))
    return None


def _argilla_mark(span: DataRow) -> _Label | None:
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


def _words(text: str) -> str:
    return "".join(text.split())


def load_marks(path: Path, audit: AuditDirectory) -> JudgedDataset:
    """The answers of ``audit`` that the marks in ``path`` speak of.

    Marked claims are the ranges that people looked at; a mark on the whole answer says whether all of it is supported.
    Answers that the audit or its logs do not have any more are skipped (``not_in_audit``, ``text_gone``). Raises
    ``DataError`` if the marks cannot be read, or a claim is not in its answer; ``RunError`` if a file of the audit
    cannot be read.
    """
    marks = read_marks([path]).marks
    audited = audited_answers(audit.evidence_of(sorted({mark.record_id for mark in marks})))
    by_answer = marks_by_answer(marks, ((answer.record_id, answer.source) for answer in audited))
    records = {record.source: record for record in AuditedLogs.of(audit).answers(frozenset(by_answer))}
    answers = tuple(
        _answer_of_marks(records[source], own, path) for source, own in by_answer.items() if source in records
    )
    gone = [source for source in by_answer if source not in records]
    kept = {mark for own in by_answer.values() for mark in own}
    unknown = {(mark.record_id, mark.source) for mark in marks if mark not in kept}
    skipped = [SkippedRow(source.source_row, "text_gone", source.source_file) for source in gone]
    return Dataset(answers, (*skipped, *(SkippedRow(-1, "not_in_audit") for _ in unknown)))


def _answer_of_marks(record: QARecord, marks: Sequence[Mark], path: Path) -> JudgedAnswer:
    length, placed = len(record.answer), [(mark.chars, mark) for mark in marks if mark.chars is not None]
    if any(chars.char_end > length or not mark.may_be_of(chars.of(record.answer)) for chars, mark in placed):
        raise DataError(
            f"marks file {path}: a marked claim of {record.record_id!r} does not stand in its answer of {length} "
            "characters; the marks are of another version of the log, or of other answers with the same ids"
        )
    claims = sorted((chars, mark.supported) for chars, mark in placed)
    judged = tuple(chars for chars, _ in claims) or None
    unsupported = tuple(UnsupportedRange(chars) for chars, supported in claims if not supported)
    return JudgedAnswer(
        replace(record, target_spans=judged, extra_columns=()),
        unsupported if claims else None,
        judged,
        answer_supported=next((mark.supported for mark in marks if mark.chars is None), None),
    )
