"""Rebuilds audited answers, each with its spans, from their evidence rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa

from attribeam.schemas import (
    AnswerKind,
    CharRange,
    ClaimKind,
    EvidencePiece,
    RowSource,
    SpanEvidence,
    SpanKind,
    Support,
    SupportedHow,
    TokenEvidence,
    UnsupportedReason,
    evidence_schema,
)
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
        spans=tuple(_span(row) for row in rows),
        extra_columns=tuple((name, value) for name, value in first.items() if name not in _OWN),
    )


def _span(row: EvidenceRow) -> SpanEvidence:
    return SpanEvidence(
        span_index=row["span_index"],
        span_kind=SpanKind(row["span_kind"]),
        chars=_range(row),
        text=row["text"],
        atomic_fact=tuple(_range(one) for one in row["atomic_fact"]),
        evidence=tuple(_piece(one) for one in row["evidence"]),
        passage_scores=tuple(row["passage_scores"]),
        top_passage_index=row["top_passage_index"],
        top_passage_id=row["top_passage_id"],
        margin=row["margin"],
        evidence_mass=row["evidence_mass"],
        evidence_isolated=row["evidence_isolated"],
        support=Support(row["support"]),
        unmatched_values=tuple(row["unmatched_values"]),
        sentence_cut=row["sentence_cut"],
        claim_kind=ClaimKind(row["claim_kind"]),
        claim_index=row["claim_index"],
        support_score=row["support_score"],
        answer_kind=AnswerKind(row["answer_kind"]),
        answer_risk=row["answer_risk"],
        unsupported_words=tuple(_range(one) for one in row["unsupported_words"]),
        reason=None if row["reason"] is None else UnsupportedReason(row["reason"]),
        expected=row["expected"],
        how=None if row["how"] is None else SupportedHow(row["how"]),
        evidence_agrees=row["evidence_agrees"],
        cited_passages=tuple(row["cited_passages"]),
        citation_agrees=row["citation_agrees"],
        token_evidence=_tokens(row["token_evidence"]),
    )


def _piece(row: EvidenceRow) -> EvidencePiece:
    return EvidencePiece(
        passage_index=row["passage_index"],
        passage_id=row["passage_id"],
        in_title=row["in_title"],
        chars=_range(row),
        text=row["text"],
        score=row["score"],
    )


def _tokens(rows: Sequence[EvidenceRow] | None) -> tuple[TokenEvidence, ...] | None:
    if rows is None:
        return None
    return tuple(TokenEvidence(one["passage_index"], one["in_title"], _range(one), one["score"]) for one in rows)


def _range(row: EvidenceRow) -> CharRange:
    return CharRange(row["char_start"], row["char_end"])
