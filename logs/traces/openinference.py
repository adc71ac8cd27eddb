"""OpenInference spans, as Arize Phoenix exports them: attributes flattened or nested, rows of a data frame, or OTLP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from attribeam.logs.traces.csv_rows import opened_text
from attribeam.logs.traces.documents import document_of
from attribeam.logs.traces.json_values import at, first_of, microseconds, nested, parsed, text_or_none
from attribeam.logs.traces.otlp import flat_spans, is_envelope
from attribeam.logs.traces.trace_records import Document, Record, Role, Span, fault
from attribeam.schemas import Reason

_ROLES = {
    "CHAIN": Role.CHAIN,
    "AGENT": Role.CHAIN,
    "UNKNOWN": Role.CHAIN,
    "LLM": Role.MODEL,
    "RETRIEVER": Role.RETRIEVER,
    "RERANKER": Role.RERANKER,
    "TOOL": Role.TOOL,
}


@dataclass(frozen=True, slots=True)
class OpenInference:
    """One span per record, or OTLP's envelope of many."""

    wrappers: tuple[str, ...] = ("data", "spans")

    def spans(self, record: Record) -> Iterable[Span]:
        """See ``SpanFormat``."""
        if is_envelope(record):
            return [openinference_span(one) for one in flat_spans(record)]
        return [openinference_span(record)]


def openinference_span(record: Record) -> Span:
    """The span of a record whose attributes follow OpenInference.

    Raises:
        RowFault: if it has no trace id.
    """
    whole = opened(record)
    attributes = at(whole, "attributes")
    attributes = attributes if isinstance(attributes, dict) else whole
    kind = text_or_none(at(attributes, "openinference", "span", "kind")) or text_or_none(whole.get("span_kind")) or ""
    role = _ROLES.get(kind.upper(), Role.CHAIN if kind == "" or kind.startswith("SPAN_KIND") else Role.OTHER)
    given, gave = _value(attributes, "input"), _value(attributes, "output")
    if role is Role.MODEL:
        given = at(attributes, "llm", "input_messages") or given
        gave = at(attributes, "llm", "output_messages") or gave
    return Span(
        trace_id=trace_id_of(whole),
        span_id=_id(whole, "span_id"),
        parent_id=text_or_none(first_of(whole, ("parent_id", "parent_span_id", "parentSpanId"))),
        role=role,
        name=text_or_none(whole.get("name")) or "",
        kind=kind.upper(),
        started_at=microseconds(first_of(whole, ("start_time", "startTimeUnixNano"))),
        ended_at=microseconds(first_of(whole, ("end_time", "endTimeUnixNano"))),
        input=None if role is Role.OTHER else given,
        output=None if role is Role.OTHER else gave,
        documents=_documents(attributes, role),
        inputs_reranked=_listed(at(attributes, "reranker", "input_documents")) if role is Role.RERANKER else (),
        metadata=parsed(at(attributes, "metadata")),
        model=text_or_none(at(attributes, "llm", "model_name")),
        session_id=text_or_none(at(attributes, "session", "id")),
        failed=has_failed(whole),
    )


def opened(record: Record) -> dict[str, object]:
    """A span with dotted names opened; attributes and context may be JSON texts, as in a table."""
    return nested({name: _opened_cell(name, one) for name, one in record.items()})


def _opened_cell(name: str, value: object) -> object:
    """A cell of a table: lists of objects and objects stand there as JSON or as Python prints them."""
    if name in ("attributes", "context"):
        return opened_text(value)
    if not name.startswith("attributes.") or name.endswith((".input.value", ".output.value")):
        return value
    found = opened_text(value)
    return (
        found
        if isinstance(found, dict) or (isinstance(found, list) and all(isinstance(one, dict) for one in found))
        else value
    )


def trace_id_of(whole: Record) -> str:
    """The trace of a span.

    Raises:
        RowFault: if it names none.
    """
    found = _id(whole, "trace_id") or text_or_none(whole.get("traceId"))
    if found is None or not found.strip("0x"):
        raise fault(
            Reason.MISSING_VALUE, "trace_id", "span should name its trace in context.trace_id or trace_id, names none"
        )
    return found


def _id(whole: Record, name: str) -> str | None:
    return text_or_none(at(whole, "context", name)) or text_or_none(whole.get(name))


def _value(attributes: Mapping[str, object], side: str) -> object:
    """What a span was given or gave. Its MIME type says whether a text is JSON; without one, its first character."""
    found = at(attributes, side)
    if not isinstance(found, dict):
        return parsed(found)
    value, mime = found.get("value"), found.get("mime_type")
    if isinstance(value, str) and mime in (None, "", "application/json", "JSON", "json"):
        return parsed(value)
    return value if value is not None else found.get("")


def _documents(attributes: Mapping[str, object], role: Role) -> tuple[Document, ...] | None:
    """The documents that a retriever or reranker logged as such; None where it has none, so that output tells."""
    if role is Role.RERANKER:
        return _listed(at(attributes, "reranker", "output_documents")) or None
    if role is Role.RETRIEVER:
        return _listed(at(attributes, "retrieval", "documents")) or None
    return None


def _listed(value: object) -> tuple[Document, ...]:
    return tuple(_each(parsed(value)))


def _each(value: object) -> Iterator[Document]:
    for one in value if isinstance(value, list) else ():
        found = document_of(one)
        if found is not None:
            yield found


def has_failed(whole: Record) -> bool:
    """True where a span's status is an error."""
    status = first_of(whole, ("status_code", "status"))
    code = first_of(status, ("status_code", "code")) if isinstance(status, dict) else status
    return code in (2, "2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR")
