"""OpenTelemetry's conventions for generative AI (``gen_ai.*``), in OTLP JSON or one span per record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attribeam.logs.traces.documents import documents_of
from attribeam.logs.traces.json_values import at, first_of, microseconds, parsed, text_or_none
from attribeam.logs.traces.openinference import has_failed, opened, trace_id_of
from attribeam.logs.traces.otlp import flat_spans, is_envelope, whole_attributes
from attribeam.logs.traces.trace_records import Record, Role, Span

_ROLES = {
    "chat": Role.MODEL,
    "generate_content": Role.MODEL,
    "text_completion": Role.MODEL,
    "retrieval": Role.RETRIEVER,
    "rerank": Role.RERANKER,
    "execute_tool": Role.TOOL,
    "embeddings": Role.OTHER,
    "create_agent": Role.OTHER,
}


@dataclass(frozen=True, slots=True)
class OtelGenAi:
    """OTLP's envelope of many spans, or one span per record."""

    wrappers: tuple[str, ...] = ("data", "spans")

    def spans(self, record: Record) -> Iterable[Span]:
        """See ``SpanFormat``."""
        if is_envelope(record):
            return [_span(one) for one in flat_spans(record)]
        return [_span({**record, "attributes": whole_attributes(record)})]


def _span(record: Record) -> Span:
    whole = opened(record)
    own = at(whole, "attributes", "gen_ai")
    own = own if isinstance(own, dict) else {}
    operation = text_or_none(at(own, "operation", "name")) or ""
    documents = documents_of(at(own, "retrieval", "documents"))
    role = _ROLES.get(operation, Role.CHAIN)
    if role is Role.CHAIN and documents is not None:
        role = Role.RETRIEVER
    given, gave = _given_and_gave(own, role)
    entity = at(whole, "attributes", "traceloop", "entity")
    given = _arguments(parsed(at(entity, "input"))) if given is None else given
    gave = parsed(at(entity, "output")) if gave is None else gave
    return Span(
        trace_id=trace_id_of(whole),
        span_id=text_or_none(at(whole, "context", "span_id") or whole.get("span_id") or whole.get("spanId")),
        parent_id=text_or_none(first_of(whole, ("parent_id", "parent_span_id", "parentSpanId"))),
        role=role,
        name=text_or_none(whole.get("name")) or "",
        kind=operation,
        started_at=microseconds(first_of(whole, ("start_time", "startTimeUnixNano", "start_time_unix_nano"))),
        ended_at=microseconds(first_of(whole, ("end_time", "endTimeUnixNano", "end_time_unix_nano"))),
        input=given,
        output=gave,
        documents=documents if role in (Role.RETRIEVER, Role.RERANKER) else None,
        metadata=at(whole, "attributes"),
        model=text_or_none(at(own, "response", "model") or at(own, "request", "model")),
        session_id=text_or_none(at(own, "conversation", "id")),
        failed=has_failed(whole),
    )


def _arguments(value: object) -> object:
    """What a function was given that OpenLLMetry traces: its only argument, or those with names."""
    if not isinstance(value, dict) or not value.keys() <= {"args", "kwargs"}:
        return value
    listed = value.get("args")
    return listed[0] if isinstance(listed, list) and len(listed) == 1 else value.get("kwargs")


def _given_and_gave(own: Mapping[str, object], role: Role) -> tuple[object, object]:
    """Messages stand in attributes as JSON texts or as they are; older conventions call them prompt and completion."""
    if role is Role.TOOL:
        call = at(own, "tool", "call")
        return parsed(at(call, "arguments")), parsed(at(call, "result"))
    if role in (Role.RETRIEVER, Role.RERANKER):
        return at(own, "retrieval", "query", "text"), None
    given = at(own, "input", "messages") or own.get("prompt")
    gave = at(own, "output", "messages") or own.get("completion")
    return parsed(given), parsed(gave)
