"""The trace stores that scores can be sent to, each by its product's own client, which reads its own variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from attribeam.integrations.scores import Score
from attribeam.schemas.errors import UsageError


class Target:
    """A trace store; ``places`` are the variables that say where, ``needs_span`` says that it takes no trace's id."""

    places: ClassVar[tuple[str, ...]]
    needs_span: ClassVar[bool] = False

    def send(self, scores: Sequence[Score]) -> None:
        """Send all; what was sent before is replaced where the store knows ids.

        Raises:
            Exception: what the client raises, or a ValueError where the store refuses a score.
        """
        raise NotImplementedError


class OpenTelemetry(Target):
    """Events ``gen_ai.evaluation.result`` by OTLP over HTTP, in the context of the span that they are about."""

    places = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk.resources import Resource

        self._exporter = OTLPLogExporter()
        self._resource = Resource.create()

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``; a store of events does not know ids, so each has its own as an attribute."""
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        records = [ReadableLogRecord(_event(one), self._resource) for one in scores]
        if self._exporter.export(records) is not LogRecordExportResult.SUCCESS:
            raise ConnectionError("the collector did not take the events; the exporter's message says why")


def _event(score: Score) -> Any:
    from opentelemetry._logs import LogRecord
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    said = {
        "name": score.name,
        "score.value": score.value,
        "score.label": score.label,
        "explanation": score.explanation,
    }
    attributes: dict[str, Any] = {f"gen_ai.evaluation.{name}": one for name, one in said.items() if one is not None}
    attributes["attribeam.score.id"] = str(score.id)
    if score.position is not None:
        attributes["attribeam.document.position"] = score.position
    ids = int(score.trace_id, 16), int(score.span_id or "0", 16)
    if ids[0] >> 128 or ids[1] >> 64:
        raise ValueError(
            f"ids of a trace and a span should have 16 and 8 bytes, were: {score.trace_id}, {score.span_id}"
        )
    span = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    moment = int(score.at.timestamp() * 1e6) * 1000
    context = set_span_in_context(NonRecordingSpan(span))
    return LogRecord(timestamp=moment, context=context, attributes=attributes, event_name="gen_ai.evaluation.result")


class Langfuse(Target):
    """Scores on observations and traces; the same id and time replace a score that is there."""

    places = ("LANGFUSE_BASE_URL", "LANGFUSE_HOST")

    def __init__(self) -> None:
        from langfuse.api import LangfuseAPI

        keys = [os.environ.get(name) for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")]
        if not all(keys):
            raise UsageError("--to langfuse needs the variables LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY")
        where = next(filter(None, map(os.environ.get, self.places)), "https://cloud.langfuse.com")
        self._client = LangfuseAPI(base_url=where, username=keys[0], password=keys[1])

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``."""
        from langfuse.api import CreateScoreRequest

        found = self._client.scores.create(request=[CreateScoreRequest(**_langfuse_score(one)) for one in scores])
        if errors := getattr(found, "errors", None):
            raise ValueError(f"{len(errors)} scores were refused, the first: {errors[0].message}")


def _langfuse_score(score: Score) -> dict[str, Any]:
    is_label = score.value is None
    kind = "CATEGORICAL" if is_label else "NUMERIC" if score.label is None else "BOOLEAN"
    return {
        "id": str(score.id),
        "name": score.name,
        "trace_id": score.trace_id,
        "observation_id": score.span_id,
        "value": score.label if is_label else score.value,
        "data_type": kind,
        "comment": score.explanation,
        "metadata": None if score.position is None else {"document_position": score.position},
        "timestamp": score.at,
    }


class MLflow(Target):
    """Feedback on traces: of an answer on the trace itself, of a document on the span that retrieved it."""

    places = ("MLFLOW_TRACKING_URI",)

    def __init__(self) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient()

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``; MLflow makes ids of its own, so a score with our id is looked for and replaced."""
        import mlflow
        from mlflow.entities import AssessmentSource, Feedback

        for trace_id in dict.fromkeys(one.trace_id for one in scores):
            there = self._client.get_trace(trace_id, display=False).info.assessments
            known = {(one.metadata or {}).get(_MLFLOW_ID): one for one in there}
            for score in (one for one in scores if one.trace_id == trace_id):
                metadata = {_MLFLOW_ID: str(score.id)}
                if score.position is not None:
                    metadata["document_position"] = str(score.position)
                value: Any = score.label if score.value is None else score.value
                feedback = Feedback(
                    name=score.name,
                    value=value if score.label is None or score.value is None else bool(value),
                    rationale=score.explanation,
                    source=AssessmentSource("CODE", "attribeam"),
                    span_id=None if score.position is None else score.span_id,
                    metadata=metadata,
                )
                old = known.get(str(score.id))
                if old is None:
                    mlflow.log_assessment(trace_id, feedback)
                else:
                    mlflow.update_assessment(trace_id, old.assessment_id, feedback)


_MLFLOW_ID = "attribeam.score_id"


class Phoenix(Target):
    """Annotations of spans, and of the documents that a retriever's span has."""

    places = ("PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_BASE_URL", "PHOENIX_HOST", "PHOENIX_PORT")
    needs_span = True

    def __init__(self) -> None:
        from phoenix.client import Client

        self._spans = Client().spans

    def send(self, scores: Sequence[Score]) -> None:
        """See ``Target``; Phoenix keeps one annotation of a name and identifier on a span, of a name on a document."""
        found = [(one, _phoenix_annotation(one)) for one in scores]
        spans: list[Any] = [{**body, "identifier": str(one.id)} for one, body in found if one.position is None]
        documents: list[Any] = [
            {**body, "document_position": one.position} for one, body in found if one.position is not None
        ]
        if spans:
            self._spans.log_span_annotations(span_annotations=spans, sync=True)
        if documents:
            self._spans.log_document_annotations(document_annotations=documents, sync=True)


def _phoenix_annotation(score: Score) -> dict[str, object]:
    said = {"score": score.value, "label": score.label, "explanation": score.explanation}
    return {
        "name": score.name,
        "annotator_kind": "CODE",
        "span_id": score.span_id,
        "result": {name: one for name, one in said.items() if one is not None},
    }


TARGETS: dict[str, type[Target]] = {
    "otel": OpenTelemetry,
    "langfuse": Langfuse,
    "mlflow": MLflow,
    "phoenix": Phoenix,
}


def target_named(name: str) -> Target:
    """The target, with its client.

    Raises:
        UsageError: if its client is not installed, or a key is missing.
    """
    try:
        return TARGETS[name]()
    except ModuleNotFoundError as error:
        raise UsageError(f"--to {name} needs its client, {error.name}: pip install 'attribeam[{name}]'") from error
