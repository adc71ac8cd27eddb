"""What an audit says of each answer, as scores that a trace store keeps: with ids, without texts unless asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from uuid import NAMESPACE_URL, UUID, uuid5

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, EvidenceRow, answer_of_rows, evidence_rows, without_texts
from attribeam.schemas import RowSource, SpanEvidence, Support
from attribeam.schemas.evidence_record import VERDICTS
from attribeam.schemas.qa_record import RETRIEVALS

VERDICT, RISK, UNSUPPORTED_SHARE, DOCUMENT_USED = (
    "attribeam_verdict", "attribeam_risk", "attribeam_unsupported_share", "attribeam_document_used",
)  # fmt: skip
NAMESPACE = uuid5(NAMESPACE_URL, "attribeam")
_MOST_CLAIMS, _MOST_CHARS = 20, 5000
"""The most unsupported claims of an explanation, and its most code points."""


@dataclass(frozen=True, slots=True)
class Score:
    """One score on a trace, on a span of it, or on a document that a span retrieved.

    Attributes:
        id: the same for the same settings of the audit, answer and metric, so that it can be sent twice.
        name: the metric.
        at: when the answer was given, else when the audit began.
        span_id: None for the trace itself.
        value: a number from 0 to 1, None where there is none.
        label: a verdict, "used" or "unused"; None where there is only a number.
        position: that of the document among those of the span, from 0; None for an answer.
    """

    id: UUID
    name: str
    trace_id: str
    span_id: str | None
    at: datetime
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """The scores of one answer; none where its log had no ids of a trace store."""

    record_id: str
    trace_id: str | None
    span_id: str | None
    scores: tuple[Score, ...]


def answer_scores(audit: AuditDirectory, *, texts: bool) -> Iterator[AnswerScores]:
    """The scores of every answer, in the order of the log; memory use stays constant.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    started = datetime.fromisoformat(audit.manifest.started_at)
    rows = chain.from_iterable(map(evidence_rows, audit.evidence_batches()))
    for (file, row), found in groupby(rows, key=lambda one: (one["source_file"], one["source_row"])):
        spans = list(found)
        answer = answer_of_rows(RowSource(file, row), spans)
        yield _scores(spans[0], answer if texts else without_texts(answer), audit.manifest.configuration, started)


def verdict_of(spans: tuple[SpanEvidence, ...]) -> str:
    """The worst verdict of an answer's claims; of an answer without any, its kind, such as "refusal"."""
    found = {span.support for span in spans if span.is_claim}
    worst = next((one for one in reversed(VERDICTS) if one in found), None)
    return str(worst or (Support.NOT_CALIBRATED if found else spans[0].answer_kind))


def unsupported_share(spans: tuple[SpanEvidence, ...]) -> float | None:
    """Unsupported claims as a share of those with a verdict; None where there is none."""
    counts = Counter(span.support for span in spans if span.is_claim and span.support in VERDICTS)
    return counts[Support.UNSUPPORTED] / counts.total() if counts else None


def explanation(spans: tuple[SpanEvidence, ...]) -> str | None:
    """The unsupported claims with their reasons, one a line; None where there is none."""
    found = [span for span in spans if span.is_claim and span.support is Support.UNSUPPORTED]
    lines = [f"unsupported: {span.text}{f' ({span.why})' if span.why else ''}" for span in found[:_MOST_CLAIMS]]
    more = [f"and {len(found) - _MOST_CLAIMS} more"] if len(found) > _MOST_CLAIMS else []
    return "\n".join((*lines, *more))[:_MOST_CHARS] or None


def _scores(row: EvidenceRow, answer: AuditedAnswer, configuration: str, started: datetime) -> AnswerScores:
    trace_id, span_id = (None if row.get(name) is None else str(row[name]) for name in ("trace_id", "span_id"))
    if not trace_id:
        return AnswerScores(answer.record_id, None, None, ())
    at, spans = answer.answered_at or started, answer.spans

    def score(name: str, span_id: str | None, position: int | None = None, **said: object) -> Score:
        place = (configuration, trace_id, answer.record_id, name, span_id, position)
        own = uuid5(NAMESPACE, "\n".join(map(str, place)))
        return Score(own, name, str(trace_id), span_id, at, position=position, **said)  # type: ignore[arg-type]

    numbers = {RISK: spans[0].answer_risk, UNSUPPORTED_SHARE: unsupported_share(spans)}
    used = {index for span in spans for index, one in enumerate(span.passage_scores) if one > 0}
    places = {(one["span_id"], one["position"]): one["passage_index"] in used for one in row.get(RETRIEVALS) or ()}
    scores = (
        score(VERDICT, span_id, label=verdict_of(spans), explanation=explanation(spans)),
        *(score(name, span_id, value=value) for name, value in numbers.items() if value is not None),
        *(
            score(DOCUMENT_USED, span, position, value=float(is_used), label="used" if is_used else "unused")
            for (span, position), is_used in places.items()
        ),
    )
    return AnswerScores(answer.record_id, trace_id, span_id, scores)
