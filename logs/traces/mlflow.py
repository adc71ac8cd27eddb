"""MLflow traces: ``Trace.to_json()``, ``traces.json``, or rows of ``search_traces``; never their truncated previews."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attribeam.logs.traces.json_values import at, first_of, microseconds, parsed, text_or_none
from attribeam.logs.traces.trace_records import Record, Role, Span, fault
from attribeam.schemas import Reason

_ROLES = {
    "LLM": Role.MODEL,
    "CHAT_MODEL": Role.MODEL,
    "RETRIEVER": Role.RETRIEVER,
    "RERANKER": Role.RERANKER,
    "TOOL": Role.TOOL,
    "EMBEDDING": Role.OTHER,
    "PARSER": Role.OTHER,
    "MEMORY": Role.OTHER,
    "GUARDRAIL": Role.OTHER,
    "EVALUATOR": Role.OTHER,
}
_IDS = ("trace_id", "request_id")


@dataclass(frozen=True, slots=True)
class MlflowTraces:
    """One trace per record, with its spans."""

    wrappers: tuple[str, ...] = ("traces", "data")

    def spans(self, record: Record) -> Iterable[Span]:
        """See ``SpanFormat``."""
        whole = parsed(record.get("trace"))
        if isinstance(whole, dict):
            record = {**record, **whole}
        info = parsed(record.get("info") or record.get("trace_info"))
        info = info if isinstance(info, dict) else record
        data = parsed(record.get("data"))
        spans = parsed(at(data, "spans") if isinstance(data, dict) else record.get("spans"))
        trace_id = text_or_none(first_of(info, _IDS)) or text_or_none(first_of(record, _IDS))
        if trace_id is None:
            raise fault(Reason.MISSING_VALUE, "trace_id", "trace should have a trace_id or request_id, has none")
        if not isinstance(spans, list) or not spans:
            raise fault(
                Reason.INCOMPLETE_TRACE,
                "spans",
                "trace should have spans, has none; export it with them, as search_traces(include_spans=True) does",
            )
        return _spans(trace_id, info, spans)


def _spans(trace_id: str, info: Record, spans: list[object]) -> Iterator[Span]:
    metadata = parsed(info.get("trace_metadata") or info.get("request_metadata"))
    session = text_or_none(metadata.get("mlflow.trace.session")) if isinstance(metadata, dict) else None
    for one in spans:
        if isinstance(one, dict):
            yield _span(trace_id, one, session)


def _span(trace_id: str, record: Record, session: str | None) -> Span:
    """A span in the second, third or fourth version of MLflow's schema; its attributes are JSON texts."""
    attributes = parsed(record.get("attributes"))
    attributes = attributes if isinstance(attributes, dict) else {}
    kind = text_or_none(parsed(attributes.get("mlflow.spanType"))) or text_or_none(record.get("span_type")) or ""
    given, gave = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    status = record.get("status")
    code = status.get("code") if isinstance(status, dict) else record.get("status_code") or status
    model = parsed(attributes.get("mlflow.llm.model") or attributes.get("mlflow.chat.model"))
    return Span(
        trace_id=trace_id,
        span_id=text_or_none(at(record, "context", "span_id") or record.get("span_id")),
        parent_id=text_or_none(record.get("parent_id") or record.get("parent_span_id")),
        role=_ROLES.get(kind.upper(), Role.CHAIN),
        name=text_or_none(record.get("name")) or "",
        kind=kind.upper(),
        started_at=microseconds(first_of(record, ("start_time_unix_nano", "start_time_ns", "start_time"))),
        ended_at=microseconds(first_of(record, ("end_time_unix_nano", "end_time_ns", "end_time"))),
        input=parsed(record.get("inputs") if given is None else given),
        output=parsed(record.get("outputs") if gave is None else gave),
        metadata={name: parsed(value) for name, value in attributes.items() if not name.startswith("mlflow.span")},
        model=text_or_none(model),
        session_id=session,
        failed=code in ("ERROR", "STATUS_CODE_ERROR", 2),
    )
