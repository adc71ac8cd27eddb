"""Langfuse exports: observations (enriched or legacy) and legacy traces, in snake or camel case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attribeam.logs.traces.json_values import first_of, microseconds, parsed, text_or_none
from attribeam.logs.traces.trace_records import Record, Role, Span, fault
from attribeam.schemas import Reason

_ROLES = {
    "GENERATION": Role.MODEL,
    "RETRIEVER": Role.RETRIEVER,
    "TOOL": Role.TOOL,
    "SPAN": Role.CHAIN,
    "AGENT": Role.CHAIN,
    "CHAIN": Role.CHAIN,
}
_TRACE = ("trace_id", "traceId")
_START = ("start_time", "startTime")
_PARENT = ("parent_observation_id", "parentObservationId")
_IS_ROOT = ("is_root_observation", "isRootObservation", "is_app_root", "isAppRoot")


@dataclass(frozen=True, slots=True)
class Langfuse:
    """One observation per record, or one trace, perhaps with its observations; scores and manifests are no spans."""

    wrappers: tuple[str, ...] = ("data", "traces")

    def spans(self, record: Record) -> Iterable[Span]:
        """See ``SpanFormat``."""
        if "value" in record and "type" not in record:
            return []  # a score
        if "type" in record or first_of(record, _TRACE) is not None:
            return [_observation(record, None)]
        if "timestamp" in record or "input" in record or "observations" in record:
            return _trace(record)
        return [] if "files" in record else [_observation(record, None)]


def _trace(record: Record) -> Iterator[Span]:
    trace_id = text_or_none(record.get("id"))
    if trace_id is None:
        raise fault(Reason.MISSING_VALUE, "id", "trace should have an id, has none; export the field")
    yield Span(
        trace_id=trace_id,
        span_id=f"trace {trace_id}",
        parent_id=None,
        role=Role.CHAIN,
        name=text_or_none(record.get("name")) or "",
        kind="TRACE",
        started_at=microseconds(record.get("timestamp")),
        input=parsed(record.get("input")),
        output=parsed(record.get("output")),
        metadata=parsed(record.get("metadata")),
        session_id=text_or_none(first_of(record, ("session_id", "sessionId"))),
        is_trace=True,
    )
    observations = parsed(record.get("observations"))
    for one in observations if isinstance(observations, list) else ():
        if isinstance(one, dict):
            yield _observation(one, trace_id)


def _observation(record: Record, trace_id: str | None) -> Span:
    trace_id = trace_id or text_or_none(first_of(record, _TRACE))
    if trace_id is None:
        raise fault(Reason.MISSING_VALUE, "trace_id", "observation should have a trace_id, has none; export the field")
    parent_id = text_or_none(first_of(record, _PARENT))
    kind = (text_or_none(record.get("type")) or "").upper()
    name = text_or_none(record.get("name")) or ""
    return Span(
        trace_id=trace_id,
        span_id=text_or_none(record.get("id")),
        parent_id=parent_id,
        role=_role(kind, name),
        name=name,
        kind=kind,
        started_at=microseconds(first_of(record, _START)),
        ended_at=microseconds(first_of(record, ("end_time", "endTime"))),
        input=parsed(_content(record.get("input"))),
        output=parsed(_content(record.get("output"))),
        metadata=parsed(record.get("metadata")),
        model=text_or_none(first_of(record, ("provided_model_name", "providedModelName", "model"))),
        session_id=text_or_none(first_of(record, ("session_id", "sessionId"))),
        failed=record.get("level") == "ERROR",
        is_root=bool(parent_id) and str(first_of(record, _IS_ROOT)).lower() in ("true", "1"),
    )


def _role(kind: str, name: str) -> Role:
    """By the type; spans of older SDKs have none of their own for retrieval, so there the name tells."""
    if kind in ("SPAN", "RETRIEVER") and "rerank" in name.lower():
        return Role.RERANKER
    if kind == "SPAN" and "retriev" in name.lower():
        return Role.RETRIEVER
    return _ROLES.get(kind, Role.OTHER)


def _content(value: object) -> object:
    """An empty text is how the export writes that there is none."""
    return None if value == "" else value
