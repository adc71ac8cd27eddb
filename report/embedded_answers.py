"""The answers that the page carries: the riskiest ones, with their spans, evidence and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from report.answer_risk import AnswerRisk
from report.answers import AnswerLogs, LoggedAnswer
from report.audit_directory import AuditDirectory
from schemas import RowSource

_LONGEST_TEXTS = 400_000
_LONGEST_VALUE = 200

EvidenceRow = dict[str, object]
"""One evidence record as ``pyarrow`` gives it, keys and types as in ``schemas.evidence_schema``."""


@dataclass(frozen=True, slots=True)
class EmbeddedAnswer:
    """One answer of the worklist.

    Attributes:
        spans: its evidence records by ``span_index``, at least one.
        texts: question, passages and answer; None where the log is gone or changed, or where they are too long.
        extra: (column, value as text) of the extra columns that have a value.
    """

    source: RowSource
    risk: float
    spans: tuple[EvidenceRow, ...]
    texts: LoggedAnswer | None
    extra: tuple[tuple[str, str], ...]


def embedded_answers(
    audit: AuditDirectory, logs: AnswerLogs, riskiest: Sequence[AnswerRisk]
) -> Iterator[EmbeddedAnswer]:
    """The answers of ``riskiest`` in that order.

    Texts of more than 400,000 characters in one row are left out.

    Raises:
        ReportError: if a file of the audit cannot be read.
    """
    sources = frozenset(one.source for one in riskiest)
    spans = _spans_by_answer(audit, sources)
    texts = {one.source: one for one in logs.answers(sources) if _length(one) <= _LONGEST_TEXTS}
    names = [field.name for field in audit.extra_fields]
    for one in riskiest:
        rows = sorted(spans[one.source], key=lambda row: int(str(row["span_index"])))
        yield EmbeddedAnswer(one.source, one.risk, tuple(rows), texts.get(one.source), _extra(rows[0], names))


def _spans_by_answer(audit: AuditDirectory, sources: frozenset[RowSource]) -> dict[RowSource, list[EvidenceRow]]:
    spans: dict[RowSource, list[EvidenceRow]] = {}
    if not sources:
        return spans
    files = pa.array(sorted({one.source_file for one in sources}))
    rows = pa.array(sorted({one.source_row for one in sources}), pa.int64())
    where = ds.field("source_row").isin(rows) & ds.field("source_file").isin(files)
    for batch in audit.evidence_batches(where=where):
        for row in batch.to_pylist():
            source = RowSource(row["source_file"], row["source_row"])
            if source in sources:
                spans.setdefault(source, []).append(row)
    return spans


def _length(answer: LoggedAnswer) -> int:
    passages = sum(len(one.text) + len(one.title or "") for one in answer.passages)
    return passages + len(answer.question) + len(answer.answer)


def _extra(row: EvidenceRow, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(row[name])[:_LONGEST_VALUE]) for name in names if row[name] is not None)
