"""Audited answers: rebuilt from their evidence rows, each with its spans, and with the texts of its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.schemas import (
    AnswerKind,
    CharRange,
    ClaimKind,
    EvidencePiece,
    QARecord,
    RowSource,
    SpanEvidence,
    Support,
    evidence_schema,
)
from attribeam.schemas.evidence_record import span_of_row
from attribeam.schemas.qa_record import RETRIEVALS

_OWN = frozenset({*evidence_schema().names, RETRIEVALS})
"""What is no extra column to readers; places of retrievals are for ``attribeam send``."""
_NO_PYTHON_VALUE = (ValueError, KeyError, OverflowError)
EvidenceRow = Mapping[str, Any]
"""One row as ``evidence_rows`` gives it: the fields of ``attribeam.schemas.evidence_schema``, then extra columns."""


@dataclass(frozen=True, slots=True)
class AuditedAnswer:
    """One audited row of a log; ``spans`` ascend by index, ``extra_columns`` are those of the evidence."""

    record_id: str
    source: RowSource
    answered_at: datetime | None
    generator: str | None
    spans: tuple[SpanEvidence, ...]
    extra_columns: tuple[tuple[str, object], ...] = ()

    @property
    def kind(self) -> AnswerKind:
        """What the answer is as a whole."""
        return self.spans[0].answer_kind

    @property
    def not_judged(self) -> tuple[ClaimKind, ...]:
        """Why some of its spans cannot be judged: each reason once, the most frequent first."""
        reasons = Counter(span.claim_kind for span in self.spans if span.support is Support.NOT_JUDGED)
        return tuple(reason for reason, _ in reasons.most_common())


def audited_answers(evidence: pa.Table) -> Iterator[AuditedAnswer]:
    """The answers of an evidence table whose rows ascend by file, row and span."""
    for (file, row), rows in groupby(evidence_rows(evidence), key=lambda one: (one["source_file"], one["source_row"])):
        yield answer_of_rows(RowSource(file, row), list(rows))


def evidence_rows(evidence: pa.Table | pa.RecordBatch) -> list[EvidenceRow]:
    """The rows as Python values, and Arrow's text of a value that Python lacks.

    Such are moments beyond the year 9999, unknown time zones, and nanoseconds where there is no pandas.
    """
    names = evidence.schema.names
    columns = [_python_values(evidence.column(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except _NO_PYTHON_VALUE:
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [_value_or_text(chunk, index) for chunk in chunks for index in range(len(chunk))]


def _value_or_text(column: pa.Array, index: int) -> Any:
    try:
        return column[index].as_py()
    except _NO_PYTHON_VALUE:
        return " ".join(column.slice(index, 1).to_string().split()).removeprefix("[ ").removesuffix(" ]")


def answer_of_rows(source: RowSource, rows: Sequence[EvidenceRow]) -> AuditedAnswer:
    """The answer that ``rows`` describe: at least one row, ascending by span."""
    first = rows[0]
    return AuditedAnswer(
        record_id=first["record_id"],
        source=source,
        answered_at=first["answered_at"],
        generator=first["generator"],
        spans=tuple(map(span_of_row, rows)),
        extra_columns=tuple((name, value) for name, value in first.items() if name not in _OWN),
    )


_UNKNOWN_VALUE = "(not written)"


def with_texts(answer: AuditedAnswer, record: QARecord | None = None) -> AuditedAnswer:
    """The answer with a text for every span and piece: its own, that of ``record``, or where it stands.

    A span's text is empty only where the audit wrote none. Values that no passage has can be counted, not read.
    """
    if all(span.text for span in answer.spans):
        return answer
    return replace(answer, spans=tuple(_with_texts(span, record) for span in answer.spans))


def without_texts(answer: AuditedAnswer) -> AuditedAnswer:
    """The answer as if its audit had written no texts: with the places of its spans and pieces."""
    hidden = (
        replace(span, expected=None, unmatched_values=("",) * len(span.unmatched_values)) for span in answer.spans
    )
    return replace(answer, spans=tuple(_with_texts(span, None) for span in hidden))


def _with_texts(span: SpanEvidence, record: QARecord | None) -> SpanEvidence:
    return replace(
        span,
        text=_text(span.chars, None if record is None else record.answer),
        evidence=tuple(replace(piece, text=_piece_text(piece, record)) for piece in span.evidence),
        unmatched_values=tuple(value or _UNKNOWN_VALUE for value in span.unmatched_values),
    )


def _piece_text(piece: EvidencePiece, record: QARecord | None) -> str:
    if record is None:
        return _text(piece.chars, None)
    passage = record.passages[piece.passage_index]
    return _text(piece.chars, (passage.title or "") if piece.in_title else passage.text)


def _text(chars: CharRange, text: str | None) -> str:
    return f"characters {chars.char_start} to {chars.char_end}" if text is None else chars.of(text)


_MAX_TEXT_CHARS = 400_000
_MAX_VALUE_CHARS = 200
_MAX_ANSWER_CHARS = 20_000
DEAD_LETTERS_PER_REASON = 50


@dataclass(frozen=True, slots=True)
class AnswerRisk:
    """One audited answer and its risk, 0 to 1; None where it cannot be judged."""

    source: RowSource
    risk: float | None


@dataclass(frozen=True, slots=True)
class EmbeddedAnswer:
    """One answer of the worklist.

    Attributes:
        risk: 0 to 1; None where the answer cannot be judged.
        texts: question, passages and answer; None if the log is missing or changed, or if they are too long.
    """

    answer: AuditedAnswer
    risk: float | None
    texts: QARecord | None

    @property
    def extra_columns(self) -> tuple[tuple[str, str], ...]:
        """(column, value as text) of the extra columns that have a value; a long text is cut."""
        columns = self.answer.extra_columns
        return tuple((name, str(value)[:_MAX_VALUE_CHARS]) for name, value in columns if value is not None)


def embedded_answers(
    audit: AuditDirectory, logs: AuditedLogs, riskiest: Sequence[AnswerRisk]
) -> Iterator[EmbeddedAnswer]:
    """The answers of ``riskiest``, in that order.

    Texts of a row are left out if they have more than 400,000 characters in all.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    sources = frozenset(one.source for one in riskiest)
    rows = _rows_by_answer(audit, sources)
    texts = {one.source: one for one in logs.answers(sources) if _text_length(one) <= _MAX_TEXT_CHARS}
    for one in riskiest:
        answer = answer_of_rows(one.source, sorted(rows[one.source], key=lambda row: int(row["span_index"])))
        text = texts.get(one.source)
        yield EmbeddedAnswer(with_texts(answer, text), one.risk, text)


def _rows_by_answer(audit: AuditDirectory, sources: frozenset[RowSource]) -> dict[RowSource, list[EvidenceRow]]:
    found: dict[RowSource, list[EvidenceRow]] = {source: [] for source in sources}
    files = pa.array(sorted({one.source_file for one in sources}), pa.string())
    rows = pa.array(sorted({one.source_row for one in sources}), pa.int64())
    where = ds.field("source_row").isin(rows) & ds.field("source_file").isin(files)
    for batch in audit.evidence_batches(where=where) if sources else ():
        for row in evidence_rows(batch):
            source = RowSource(row["source_file"], row["source_row"])
            if source in sources:
                found[source].append(row)
    return found


def _text_length(answer: QARecord) -> int:
    passages = sum(len(one.text) + len(one.title or "") for one in answer.passages)
    return passages + len(answer.question) + len(answer.answer)


def embedded_dead_letters(audit: AuditDirectory) -> list[dict[str, object]]:
    """The first ``DEAD_LETTERS_PER_REASON`` dead letters of each reason, in the order of the input; answers are cut.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    taken: Counter[str] = Counter()
    letters: list[dict[str, object]] = []
    for batch in audit.dead_letter_batches():
        for row in batch.to_pylist():
            if taken[row["reason"]] < DEAD_LETTERS_PER_REASON:
                taken[row["reason"]] += 1
                if len(row["answer"] or "") > _MAX_ANSWER_CHARS:
                    row["answer"] = f"{row['answer'][:_MAX_ANSWER_CHARS]}…"
                letters.append(row)
    return letters
