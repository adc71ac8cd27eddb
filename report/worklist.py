"""Gathers the answers that a person should read first, with their texts, and some dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from attribeam.report.answer_ranking import AnswerRisk
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, EvidenceRow, answer_of_rows, evidence_rows
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.privacy import with_texts
from attribeam.schemas import QARecord, RowSource

_MAX_TEXT_CHARS = 400_000
_MAX_VALUE_CHARS = 200


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
    spans = spans_by_answer(audit, sources)
    texts = {one.source: one for one in logs.answers(sources) if _text_length(one) <= _MAX_TEXT_CHARS}
    for one in riskiest:
        rows = sorted(spans[one.source], key=lambda row: int(row["span_index"]))
        text = texts.get(one.source)
        yield EmbeddedAnswer(with_texts(answer_of_rows(one.source, rows), text), one.risk, text)


def spans_by_answer(audit: AuditDirectory, sources: frozenset[RowSource]) -> dict[RowSource, list[EvidenceRow]]:
    """The rows of the evidence of some answers.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    spans: dict[RowSource, list[EvidenceRow]] = {}
    if not sources:
        return spans
    files = pa.array(sorted({one.source_file for one in sources}))
    rows = pa.array(sorted({one.source_row for one in sources}), pa.int64())
    where = ds.field("source_row").isin(rows) & ds.field("source_file").isin(files)
    for batch in audit.evidence_batches(where=where):
        for row in evidence_rows(batch):
            source = RowSource(row["source_file"], row["source_row"])
            if source in sources:
                spans.setdefault(source, []).append(row)
    return spans


def _text_length(answer: QARecord) -> int:
    passages = sum(len(one.text) + len(one.title or "") for one in answer.passages)
    return passages + len(answer.question) + len(answer.answer)


DEAD_LETTERS_PER_REASON = 50
_MAX_ANSWER_CHARS = 20_000


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
