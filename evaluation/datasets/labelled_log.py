"""QA logs in our own input format with labels, loaded for each of the three measures that use labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from attribeam.evaluation.datasets.dataset_file import (
    DataRow,
    JudgedAnswer,
    JudgedDataset,
    LabelledAnswer,
    LabelledDataset,
    PassageRange,
    SkippedRow,
    UnsupportedRange,
)
from attribeam.logs.columns import LogOptions, columns_like
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow
from attribeam.schemas import CharRange, QARecord
from attribeam.schemas.errors import DataError
from attribeam.schemas.qa_record import (
    ANSWER_SUPPORTED,
    ERROR_KINDS,
    FAITHFULNESS,
    LABEL_GROUP,
    SPAN_LABELS,
    UNSUPPORTED_SPANS,
)

_Label = tuple[CharRange, DataRow]
_Answer = TypeVar("_Answer", LabelledAnswer, JudgedAnswer)
_DEFAULT_OPTIONS = LogOptions()
_LABEL_COLUMNS = (SPAN_LABELS, UNSUPPORTED_SPANS, LABEL_GROUP, ANSWER_SUPPORTED, FAITHFULNESS, ERROR_KINDS, "split")


def load_log(path: Path, options: LogOptions = _DEFAULT_OPTIONS) -> LabelledDataset:
    """The answers with gold passages; spans without one are left out, and rows without any (``no_gold_passage``).

    Gold evidence is only used if all remaining spans of all rows have some. Rows that an audit would refuse are skipped
    with the reason of their dead letter, such as ``empty_answer``.

    Raises:
        DataError: if the file cannot be read, or if its labels are missing or broken. The functions below raise it
            likewise.
    """
    answers, skipped = _read(path, options, (SPAN_LABELS,), _with_gold)
    if not all(answer.gold_evidence for answer in answers):
        answers = tuple(replace(answer, gold_evidence=()) for answer in answers)
    return LabelledDataset(answers, skipped)


def load_cited_log(path: Path, options: LogOptions = _DEFAULT_OPTIONS) -> LabelledDataset:
    """The answers with the citations of their spans; rows without citations are skipped (``no_citation``)."""
    return LabelledDataset(*_read(path, options, (SPAN_LABELS,), _with_citations))


def load_judged_log(path: Path, options: LogOptions = _DEFAULT_OPTIONS) -> JudgedDataset:
    """The answers of which people said what is unsupported.

    They did so by ``unsupported_spans``, the spans' ``supported`` or ``answer_supported``. Rows in which all of these
    are null are skipped (``not_judged``).
    """
    return JudgedDataset(*_read(path, options, (UNSUPPORTED_SPANS, SPAN_LABELS, ANSWER_SUPPORTED), _judged))


def _read(
    path: Path, options: LogOptions, needed: tuple[str, ...], label: Callable[[DataRow, QARecord], _Answer | str]
) -> tuple[tuple[_Answer, ...], tuple[SkippedRow, ...]]:
    """The answers that ``label`` returns for records and their labels, and the rows for which it returns a reason."""
    answers: list[_Answer] = []
    skipped: list[SkippedRow] = []
    for outcome in _labelled_log(path, options, needed).outcomes():
        row = outcome.source.source_row
        if isinstance(outcome, FaultyRow):
            found: _Answer | str = str(outcome.fault.reason)
        else:
            labels = DataRow(dict(outcome.extra_columns), row, f"{path}, row {row}")
            found = label(labels, replace(outcome, extra_columns=()))
        if isinstance(found, str):
            skipped.append(SkippedRow(row, found))
        else:
            answers.append(found)
    return tuple(answers), tuple(skipped)


def _labelled_log(path: Path, options: LogOptions, needed: tuple[str, ...]) -> QALog:
    """The log, with its label columns as extra columns."""
    log = QALog(str(path), options)
    names = log.check().column_names
    if not any(name in names for name in needed):
        raise DataError(
            f"data file {path} should have labels in a column {' or '.join(needed)}, "
            f"{columns_like(needed[0], names)}; see 'Labels' in docs/schema.md"
        )
    return replace(log, options=replace(options, extra_columns=tuple(one for one in _LABEL_COLUMNS if one in names)))


def _labels(row: DataRow, record: QARecord) -> list[_Label]:
    """The target spans with their labels, empty if there are none."""
    if row.fields.get(SPAN_LABELS) is None:
        return []
    labels, spans = row.objects(SPAN_LABELS), record.target_spans or ()
    if len(labels) != len(spans):
        raise row.error(SPAN_LABELS, f"should have one item for each of {len(spans)} target spans, has {len(labels)}")
    return list(zip(spans, labels, strict=True))


def _with_gold(row: DataRow, record: QARecord) -> LabelledAnswer | str:
    labels, count = _labels(row, record), len(record.passages)
    kept = [(span, gold, label) for span, label in labels if (gold := _gold_passages(label, count))]
    if not kept:
        return "no_gold_passage"
    evidence = tuple(_gold_evidence(label, record) for _, _, label in kept)
    return LabelledAnswer(
        replace(record, target_spans=tuple(span for span, _, _ in kept)),
        gold_passages=tuple(frozenset(gold) for _, gold, _ in kept),
        gold_evidence=evidence if all(evidence) else (),
    )


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
        length = len(record.answer)
        ranges = [
            UnsupportedRange(char_range(one, length), one.optional_text("kind"))
            for one in row.objects(UNSUPPORTED_SPANS)
        ]
        unsupported = tuple(sorted(ranges, key=lambda one: one.chars))
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


def _gold_passages(label: DataRow, count: int) -> list[int]:
    if label.fields.get("gold_passages") is None:
        return []
    numbers = label.integers("gold_passages")
    if any(not 0 <= number < count for number in numbers):
        should = f"should be 0-based numbers below the row's {count} passages, was: {numbers}"
        raise label.error("gold_passages", should)
    return numbers


def _gold_evidence(label: DataRow, record: QARecord) -> tuple[PassageRange, ...]:
    if label.fields.get("gold_evidence") is None:
        return ()
    found = set()
    for one in label.objects("gold_evidence"):
        index = one.integer("passage_index")
        if not 0 <= index < len(record.passages):
            raise one.error("passage_index", f"should be below the row's {len(record.passages)} passages, was: {index}")
        found.add(PassageRange(index, char_range(one, len(record.passages[index].text))))
    return tuple(sorted(found))


def char_range(item: DataRow, length: int) -> CharRange:
    """The range ``char_start`` to ``char_end`` of an object, which must lie within ``length`` code points."""
    start, end = item.integer("char_start"), item.integer("char_end")
    if not 0 <= start < end <= length:
        raise item.error("char_start", f"should satisfy 0 <= char_start < char_end <= {length}, was: [{start}, {end})")
    return CharRange(start, end)
