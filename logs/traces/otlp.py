"""OTLP JSON, as OpenTelemetry's collector and SDKs write it: an envelope of resources, scopes and spans."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attribeam.logs.traces.json_values import parsed
from attribeam.logs.traces.trace_records import Record

_EVENT = "gen_ai.client.inference.operation.details"
"""The event that may carry a span's messages in the place of its attributes."""
_RESULT_EVENTS = ("db.query.result", "db.search.result")
"""Events of OpenLLMetry, one for each document that a vector store found."""
_DOCUMENTS = "gen_ai.retrieval.documents"
_INTEGER = re.compile(r"-?[0-9]{1,20}")


def is_envelope(record: Record) -> bool:
    """True where a record holds spans of several resources."""
    return "resourceSpans" in record or "resource_spans" in record


def flat_spans(record: Record) -> Iterator[dict[str, object]]:
    """The spans of an envelope: ids, times and status under one name each, and attributes as plain values."""
    for resource in _items(record, "resourceSpans", "resource_spans"):
        for scope in _items(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for span in _items(scope, "spans"):
                yield flat_span(span)


def flat_span(span: Record) -> dict[str, object]:
    """One span of OTLP."""
    attributes = whole_attributes(span)
    return {
        "trace_id": _either(span, "traceId", "trace_id"),
        "span_id": _either(span, "spanId", "span_id"),
        "parent_id": _either(span, "parentSpanId", "parent_span_id"),
        "name": span.get("name"),
        "start_time": _either(span, "startTimeUnixNano", "start_time_unix_nano"),
        "end_time": _either(span, "endTimeUnixNano", "end_time_unix_nano"),
        "status": span.get("status"),
        "attributes": attributes,
    }


def whole_attributes(span: Record) -> dict[str, object]:
    """The attributes of a span, with what its events say of messages, and of the results of a vector store."""
    found: dict[str, object] = {}
    results = []
    for event in _items(span, "events"):
        own = attributes_of(event.get("attributes"))
        name = str(event.get("name"))
        if name == _EVENT:
            found.update(own)
        elif name in _RESULT_EVENTS:
            results.append({key.removeprefix(f"{name}."): one for key, one in own.items()})
    if results:
        found[_DOCUMENTS] = [{**one, "metadata": one.get("metadata") or one.get("entity")} for one in results]
    return found | attributes_of(parsed(span.get("attributes")))


def attributes_of(value: object) -> dict[str, object]:
    """Attributes as an object, whether they are a list of keys and values or an object already."""
    if isinstance(value, dict):
        return dict(value)
    found: dict[str, object] = {}
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict) and isinstance(one.get("key"), str):
            found[one["key"]] = _plain(one.get("value"))
    return found


def _plain(value: object) -> object:
    """An OTLP value as JSON."""
    if not isinstance(value, dict):
        return value
    for name, one in value.items():
        kind = name.replace("_", "").lower()
        if kind == "intvalue" and isinstance(one, str):
            return int(one) if _INTEGER.fullmatch(one) else one
        if kind == "arrayvalue":
            return [_plain(item) for item in _listed(one)]
        if kind == "kvlistvalue":
            return attributes_of(_listed(one))
        if kind in ("stringvalue", "intvalue", "doublevalue", "boolvalue", "bytesvalue"):
            return one
    return None


def _listed(value: object) -> list[object]:
    values = value.get("values") if isinstance(value, dict) else None
    return values if isinstance(values, list) else []


def _items(record: Record, *names: str) -> Iterator[Record]:
    for name in names:
        items = record.get(name)
        if isinstance(items, list):
            yield from (one for one in items if isinstance(one, dict))
            return


def _either(record: Record, *names: str) -> object:
    return next((record[name] for name in names if record.get(name) is not None), None)
