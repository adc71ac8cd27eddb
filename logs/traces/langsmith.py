"""LangSmith runs: ``list_runs``, bulk exports, and runs that hold their children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attribeam.logs.traces.json_values import at, first_of, microseconds, parsed, text_or_none
from attribeam.logs.traces.trace_records import Record, Role, Span, fault
from attribeam.schemas import Reason

_ROLES = {
    "llm": Role.MODEL,
    "retriever": Role.RETRIEVER,
    "tool": Role.TOOL,
    "chain": Role.CHAIN,
}
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class LangsmithRuns:
    """One run per record."""

    wrappers: tuple[str, ...] = ("runs", "data", "items")

    def spans(self, record: Record) -> Iterable[Span]:
        """See ``SpanFormat``."""
        return _with_children(record, None, None, 0)


def _with_children(record: Record, trace_id: str | None, parent_id: str | None, depth: int) -> Iterator[Span]:
    own = _span(record, trace_id, parent_id)
    yield own
    children = parsed(record.get("child_runs"))
    for one in children if isinstance(children, list) and depth < _DEEPEST else ():
        if isinstance(one, dict):
            yield from _with_children(one, own.trace_id, own.span_id, depth + 1)


def _span(record: Record, trace_id: str | None, parent_id: str | None) -> Span:
    order = [one.rpartition("Z")[2] for one in str(record.get("dotted_order") or "").split(".") if "Z" in one]
    span_id = text_or_none(first_of(record, ("id", "run_id"))) or (order[-1] if order else None)
    parent_id = text_or_none(record.get("parent_run_id")) or _last(record.get("parent_run_ids")) or parent_id
    parent_id = parent_id or (order[-2] if len(order) > 1 else None)
    found = text_or_none(record.get("trace_id")) or trace_id or (span_id if parent_id is None else None)
    found = found or (order[0] if order else None)
    if found is None:
        raise fault(Reason.MISSING_VALUE, "trace_id", "run should have a trace_id, has none; export the field")
    extra = parsed(record.get("extra"))
    metadata = parsed(at(extra, "metadata")) or parsed(record.get("metadata"))
    kind = (text_or_none(record.get("run_type")) or "").lower()
    name = text_or_none(record.get("name")) or ""
    is_reranker = kind in ("retriever", "chain") and "rerank" in name.lower()
    return Span(
        trace_id=found,
        span_id=span_id,
        parent_id=parent_id,
        role=Role.RERANKER if is_reranker else _ROLES.get(kind, Role.OTHER),
        name=name,
        kind=kind,
        started_at=microseconds(record.get("start_time")),
        ended_at=microseconds(record.get("end_time")),
        input=parsed(record.get("inputs")),
        output=parsed(record.get("outputs")),
        metadata=metadata,
        model=text_or_none(at(metadata, "ls_model_name")),
        session_id=text_or_none(_thread(record, metadata)),
        failed=record.get("status") == "error" or bool(record.get("error")),
    )


def _thread(record: Record, metadata: object) -> object:
    """The conversation; ``session_id`` of a run is the project's, that of its metadata the conversation's."""
    names = ("thread_id", "session_id", "conversation_id")
    found = first_of(metadata, names) if isinstance(metadata, dict) else None
    return record.get("thread_id") if found is None else found


def _last(ids: object) -> str | None:
    ids = parsed(ids)
    return text_or_none(ids[-1]) if isinstance(ids, list) and ids else None
