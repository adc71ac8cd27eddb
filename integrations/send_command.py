"""Send what an audit found of each answer, as scores, to the trace store that its log came from.

Scores have ids, and no texts unless asked for. Each store is reached by its product's own client and its variables.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, ClassVar, TextIO
from uuid import NAMESPACE_URL, UUID, uuid5

from tqdm import tqdm

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import (
    AuditedAnswer,
    AuditedLogs,
    EvidenceRow,
    answer_of_rows,
    evidence_rows,
    without_texts,
)
from attribeam.report.messages import Messages, as_private_as, print_lines
from attribeam.schemas import RowSource, SpanEvidence, Support
from attribeam.schemas.errors import ExitCode, RunError, UsageError
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

    The ``id`` is the same for the same settings of the audit, answer and metric, so that a score can be sent twice.
    ``at`` is when the answer was given, else when the audit began; ``span_id`` is None for the trace itself; ``value``
    lies in [0, 1]; ``position`` is that of the document among those of the span, from 0.
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

    Raises ``RunError`` if a file of the audit cannot be read.
    """
    started = datetime.fromisoformat(audit.manifest.started_at)
    rows = chain.from_iterable(map(evidence_rows, audit.evidence_batches()))
    for source, group in groupby(rows, key=lambda row: (row["source_file"], row["source_row"])):
        spans = list(group)
        answer = answer_of_rows(RowSource(*source), spans)
        yield _scores(spans[0], answer if texts else without_texts(answer), audit.manifest.configuration, started)


def verdict_of(spans: tuple[SpanEvidence, ...]) -> str:
    """The worst verdict of an answer's claims; of an answer without any, its kind, such as "refusal"."""
    supports = {span.support for span in spans if span.is_claim}
    worst = next((verdict for verdict in reversed(VERDICTS) if verdict in supports), None)
    return str(worst or (Support.NOT_CALIBRATED if supports else spans[0].answer_kind))


def numbers_of(spans: tuple[SpanEvidence, ...]) -> dict[str, float]:
    """An answer's risk, and the unsupported as a share of its claims with a verdict, each if there is one."""
    counts = Counter(span.support for span in spans if span.is_claim and span.support in VERDICTS)
    share = counts[Support.UNSUPPORTED] / counts.total() if counts else None
    numbers = {RISK: spans[0].answer_risk, UNSUPPORTED_SHARE: share}
    return {name: value for name, value in numbers.items() if value is not None}


def explanation(spans: tuple[SpanEvidence, ...]) -> str | None:
    """The unsupported claims with their reasons, one a line; None where there is none."""
    claims = [span for span in spans if span.is_claim and span.support is Support.UNSUPPORTED]
    lines = [f"unsupported: {span.text}{f' ({span.why})' if span.why else ''}" for span in claims[:_MOST_CLAIMS]]
    if len(claims) > _MOST_CLAIMS:
        lines.append(f"and {len(claims) - _MOST_CLAIMS} more")
    return "\n".join(lines)[:_MOST_CHARS] or None


def _scores(row: EvidenceRow, answer: AuditedAnswer, configuration: str, started: datetime) -> AnswerScores:
    trace_id, span_id = (None if row.get(name) is None else str(row[name]) for name in ("trace_id", "span_id"))
    if not trace_id:
        return AnswerScores(answer.record_id, None, None, ())
    at, spans = answer.answered_at or started, answer.spans

    def score(name: str, span_id: str | None, position: int | None = None, **said: object) -> Score:
        identity = (configuration, trace_id, answer.record_id, name, span_id, position)
        own = uuid5(NAMESPACE, "\n".join(map(str, identity)))
        return Score(own, name, str(trace_id), span_id, at, position=position, **said)  # type: ignore[arg-type]

    used = {index for span in spans for index, sum_ in enumerate(span.passage_scores) if sum_ > 0}
    documents = {(doc["span_id"], doc["position"]): doc["passage_index"] in used for doc in row.get(RETRIEVALS) or ()}
    scores = (
        score(VERDICT, span_id, label=verdict_of(spans), explanation=explanation(spans)),
        *(score(name, span_id, value=value) for name, value in numbers_of(spans).items()),
        *(
            score(DOCUMENT_USED, span, position, value=float(is_used), label="used" if is_used else "unused")
            for (span, position), is_used in documents.items()
        ),
    )
    return AnswerScores(answer.record_id, trace_id, span_id, scores)


class Target:
    """A trace store; ``address_variables`` say where, ``needs_span`` says that it takes no trace's id."""

    address_variables: ClassVar[tuple[str, ...]]
    needs_span: ClassVar[bool] = False

    def send(self, scores: Sequence[Score]) -> None:
        """Send all; what was sent before is replaced where the store knows ids.

        Raises ``Exception`` what the client raises, or a ValueError where the store refuses a score.
        """
        raise NotImplementedError


class OpenTelemetry(Target):
    """Events ``gen_ai.evaluation.result`` by OTLP over HTTP, in the context of the span that they are about."""

    address_variables = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk.resources import Resource

        self._exporter = OTLPLogExporter()
        self._resource = Resource.create()

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``; a store of events does not know ids, so each has its own as an attribute."""
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        records = [ReadableLogRecord(_event(score), self._resource) for score in scores]
        if self._exporter.export(records) is not LogRecordExportResult.SUCCESS:
            raise ConnectionError("the collector did not take the events; the exporter's message says why")


def _event(score: Score) -> Any:
    from opentelemetry._logs import LogRecord
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    said = {
        "gen_ai.evaluation.name": score.name,
        "gen_ai.evaluation.score.value": score.value,
        "gen_ai.evaluation.score.label": score.label,
        "gen_ai.evaluation.explanation": score.explanation,
        "attribeam.score.id": str(score.id),
        "attribeam.document.position": score.position,
    }
    ids = int(score.trace_id, 16), int(score.span_id or "0", 16)
    if ids[0] >> 128 or ids[1] >> 64:
        raise ValueError(
            f"ids of a trace and a span should have 16 and 8 bytes, were: {score.trace_id}, {score.span_id}"
        )
    span = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return LogRecord(
        timestamp=int(score.at.timestamp() * 1e6) * 1000,
        context=set_span_in_context(NonRecordingSpan(span)),
        attributes={name: value for name, value in said.items() if value is not None},
        event_name="gen_ai.evaluation.result",
    )


class Langfuse(Target):
    """Scores on observations and traces; the same id and time replace a score that is there."""

    address_variables = ("LANGFUSE_BASE_URL", "LANGFUSE_HOST")

    def __init__(self) -> None:
        from langfuse.api import LangfuseAPI

        keys = [os.environ.get(name) for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")]
        if not all(keys):
            raise UsageError("--to langfuse needs the variables LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY")
        where = next(filter(None, map(os.environ.get, self.address_variables)), "https://cloud.langfuse.com")
        self._client = LangfuseAPI(base_url=where, username=keys[0], password=keys[1])

    def send(self, scores: Sequence[Score]) -> None:
        from langfuse.api import CreateScoreRequest

        requests = [
            CreateScoreRequest(
                id=str(score.id),
                name=score.name,
                trace_id=score.trace_id,
                observation_id=score.span_id,
                value=score.label if score.value is None else score.value,
                data_type="CATEGORICAL" if score.value is None else "NUMERIC" if score.label is None else "BOOLEAN",
                comment=score.explanation,
                metadata=None if score.position is None else {"document_position": score.position},
                timestamp=score.at,
            )
            for score in scores
        ]
        if errors := getattr(self._client.scores.create(request=requests), "errors", None):
            raise ValueError(f"{len(errors)} scores were refused, the first: {errors[0].message}")


_MLFLOW_ID = "attribeam.score_id"


class MLflow(Target):
    """Feedback on traces: of an answer on the trace itself, of a document on the span that retrieved it."""

    address_variables = ("MLFLOW_TRACKING_URI",)

    def __init__(self) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient()

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``; MLflow makes ids of its own, so a score with our id is looked for and replaced."""
        import mlflow
        from mlflow.entities import AssessmentSource, Feedback

        for trace_id in dict.fromkeys(score.trace_id for score in scores):
            assessments = self._client.get_trace(trace_id, display=False).info.assessments
            known = {(assessment.metadata or {}).get(_MLFLOW_ID): assessment for assessment in assessments}
            for score in (score for score in scores if score.trace_id == trace_id):
                is_document = score.position is not None
                value: Any = score.label if score.value is None else score.value
                feedback = Feedback(
                    name=score.name,
                    value=value if score.label is None or score.value is None else bool(value),
                    rationale=score.explanation,
                    source=AssessmentSource("CODE", "attribeam"),
                    span_id=score.span_id if is_document else None,
                    metadata={_MLFLOW_ID: str(score.id)}
                    | ({"document_position": str(score.position)} if is_document else {}),
                )
                old = known.get(str(score.id))
                if old is None:
                    mlflow.log_assessment(trace_id, feedback)
                else:
                    mlflow.update_assessment(trace_id, old.assessment_id, feedback)


class Phoenix(Target):
    """Annotations of spans, and of the documents that a retriever's span has."""

    address_variables = ("PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_BASE_URL", "PHOENIX_HOST", "PHOENIX_PORT")
    needs_span = True

    def __init__(self) -> None:
        from phoenix.client import Client

        self._spans = Client().spans

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``; Phoenix keeps one annotation of a name and identifier on a span, of a name on a document."""
        spans: list[Any] = []
        documents: list[Any] = []
        for score in scores:
            said = {"score": score.value, "label": score.label, "explanation": score.explanation}
            result = {name: value for name, value in said.items() if value is not None}
            body = {"name": score.name, "annotator_kind": "CODE", "span_id": score.span_id, "result": result}
            if score.position is None:
                spans.append(body | {"identifier": str(score.id)})
            else:
                documents.append(body | {"document_position": score.position})
        if spans:
            self._spans.log_span_annotations(span_annotations=spans, sync=True)
        if documents:
            self._spans.log_document_annotations(document_annotations=documents, sync=True)


TARGETS: dict[str, type[Target]] = {
    "otel": OpenTelemetry, "langfuse": Langfuse, "mlflow": MLflow, "phoenix": Phoenix,
}  # fmt: skip


def target_named(name: str) -> Target:
    """The target, with its client; ``UsageError`` if its client is not installed, or a key is missing."""
    try:
        return TARGETS[name]()
    except ModuleNotFoundError as error:
        raise UsageError(f"--to {name} needs its client, {error.name}: pip install 'attribeam[{name}]'") from error


_MESSAGES = Messages("attribeam send")
SENT, FAILURES = "sent.txt", "send_failures.jsonl"
BATCH_ANSWERS = 50
_WAITS = (1.0, 4.0, 16.0)
"""Seconds before each further try."""
_FOR_A_TIME, _NO_ENTRY = (408, 425, 429), (401, 403)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|HEADERS|AUTH", re.IGNORECASE)
_SHOWN_IDS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("audit", type=Path, metavar="AUDIT", help="the output directory of attribeam audit")
    add("--to", choices=[*TARGETS], required=True, help="the store; its client's own variables say where, and the keys")
    add("--with-texts", action="store_true", help="send texts of unsupported claims, too, not only where they stand")
    add("--dry-run", action="store_true", help="count what would be sent, and send nothing")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Send the scores of all answers that were not sent yet; ``FAILED`` if the store refused some of them.

    Raises ``UsageError`` if there is no such audit, no answer has ids, the audit wrote no texts, or a client is
    missing; ``RunError`` if something cannot be read or written, or the store cannot be reached.
    """
    if "://" in str(arguments.audit):
        raise UsageError(f"AUDIT should be a local directory, was: {arguments.audit}; copy it here first")
    audit = AuditDirectory.open(arguments.audit)
    if arguments.with_texts and (hidden := AuditedLogs.of(audit).hidden):
        raise UsageError(f"--with-texts: {hidden.partition(';')[0]}; leave it out")
    if not {"trace_id", "span_id"} <= set(audit.evidence_schema.names):
        raise UsageError(
            f"{audit.root} should have the columns trace_id and span_id, has none; attribeam import keeps them, and "
            "--extra-columns trace_id,span_id carries those of a log of your own"
        )
    target = None if arguments.dry_run else target_named(arguments.to)
    answers = answer_scores(audit, texts=arguments.with_texts)
    with as_private_as([audit.root]):
        sending = Sending(arguments.to, Path(audit.root), target)
        sending.send_all(tqdm(answers, desc="send", total=audit.counts.audited, unit="answer", disable=None))
    print_lines(sending.summary())
    _MESSAGES.say(*sending.notes(), *([audit.incomplete] if audit.incomplete else []))
    return ExitCode.FAILED if sending.failures else ExitCode.DONE


@dataclass
class Sending:
    """Sends answers in batches, and remembers beside the audit what the store has; without a ``target`` it counts."""

    name: str
    root: Path
    target: Target | None
    answers: int = 0
    sent: int = 0
    sent_before: int = 0
    without_ids: list[str] = field(default_factory=list)
    failures: list[tuple[AnswerScores, str]] = field(default_factory=list)

    def send_all(self, answers: Iterable[AnswerScores]) -> None:
        """Send what was not sent yet, and write what failed to ``send_failures.jsonl``.

        Raises ``RunError`` if the store cannot be reached, lets nobody in, or a file cannot be written.
        """
        try:
            known = set((self.root / SENT).read_text().split()) if (self.root / SENT).exists() else set()
            waiting = (answer for answer in answers if self._is_to_send(answer, known))
            if self.target is None:
                self.sent = sum(1 for _ in waiting)
                return
            with (self.root / SENT).open("a") as file:
                while batch := list(islice(waiting, BATCH_ANSWERS)):
                    self._send(self.target, batch, file)
            self._write_failures()
        except OSError as error:
            raise RunError(f"{self.root} cannot be written to: {error.strerror}") from error

    def summary(self) -> str:
        done = "would be sent" if self.target is None else "sent"
        counts = {"sent before": self.sent_before, "failed": len(self.failures), "without ids": len(self.without_ids)}
        more = "".join(f", {count} {what}" for what, count in counts.items() if count)
        return f"{self.answers} answers: {self.sent} {done} to {self.name}{more}"

    def notes(self) -> Iterator[str]:
        if self.without_ids:
            named = ", ".join(self.without_ids[:_SHOWN_IDS])
            yield f"{len(self.without_ids)} answers have no id in the trace store and were not sent, such as {named}"
        if self.failures:
            yield f"{len(self.failures)} failed, see {self.root / FAILURES}; the first: {self.failures[0][1]}"

    def _is_to_send(self, answer: AnswerScores, known: set[str]) -> bool:
        self.answers += 1
        if answer.trace_id is None or (answer.span_id is None and TARGETS[self.name].needs_span):
            self.without_ids.append(answer.record_id)
            return False
        is_sent = self._mark(answer) in known
        self.sent_before += is_sent
        return not is_sent

    def _mark(self, answer: AnswerScores) -> str:
        """A digest of what is sent and of where to, so that an answer with another verdict is sent again."""
        where = [os.environ.get(name, "") for name in TARGETS[self.name].address_variables]
        return str(uuid5(NAMESPACE, repr((self.name, where, answer.scores))))

    def _send(self, target: Target, answers: Sequence[AnswerScores], file: TextIO) -> None:
        """Send a batch; of one that the store refuses, each half alone, until it is known which answers it refuses."""
        try:
            _try(target, [score for answer in answers for score in answer.scores])
        except Exception as error:
            if _may_pass(error) or _status(error) in _NO_ENTRY:
                self._write_failures()
                raise RunError(
                    f"{self.name} does not take scores: {error_text(error)}; {self.sent} answers are sent, start "
                    "the same command again for the others"
                ) from error
            half = len(answers) // 2
            if half == 0:
                self.failures.append((answers[0], error_text(error)))
            for part in (answers[:half], answers[half:]) if half else ():
                self._send(target, part, file)
            return
        self.sent += len(answers)
        file.writelines(f"{self._mark(answer)}\n" for answer in answers)
        file.flush()

    def _write_failures(self) -> None:
        path = self.root / FAILURES
        path.unlink(missing_ok=True)
        if self.failures:
            rows = ({"record_id": ids.record_id, "trace_id": ids.trace_id, "error": why} for ids, why in self.failures)
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _try(target: Target, scores: Sequence[Score]) -> None:
    for wait in _WAITS:
        try:
            return target.send(scores)
        except Exception as error:
            if not _may_pass(error):
                raise
            time.sleep(wait)
    return target.send(scores)


def _status(error: BaseException) -> int | None:
    ask = getattr(error, "get_http_status_code", None)
    status = ask() if ask else getattr(getattr(error, "response", error), "status_code", None)
    return status if isinstance(status, int) else None


def _may_pass(error: BaseException) -> bool:
    """Whether another try may do: not for what the store understood and refused."""
    status = _status(error)
    if status is None:
        return not isinstance(error, ValueError | TypeError | LookupError)
    return status >= 500 or status in _FOR_A_TIME


def error_text(error: BaseException) -> str:
    """The error in one line, without what variables of keys hold and without the user of an address."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) > 3:
            text = text.replace(value, "***")
    return re.sub(r"//[^/@\s]+@", "//***@", text)[:500]
