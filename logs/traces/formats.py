"""The formats of trace stores: for each, how a record opens to its spans, and a table of where their members stand."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from attribeam.logs.traces import (
    Record,
    at,
    first_of,
    is_nothing,
    microseconds,
    nested,
    object_of,
    objects_in,
    opened_text,
    otlp_attributes,
    parsed,
    text_or_none,
)
from attribeam.logs.traces.assembly import Role, Span
from attribeam.logs.traces.documents import Document, document_of, documents_of
from attribeam.logs.traces.rows import ResponseRows, Rows
from attribeam.schemas import Reason, RowFault

_USUAL_PATHS = {
    **{name: name for name in ("name", "kind", "input", "output", "metadata", "model", "session_id", "is_root")},
    "trace_id": "context.trace_id trace_id traceId",
    "span_id": "context.span_id span_id spanId",
    "parent_id": "parent_id parent_span_id parentSpanId",
    "started_at": "start_time_unix_nano start_time_ns start_time startTimeUnixNano",
    "ended_at": "end_time_unix_nano end_time_ns end_time endTimeUnixNano timeUnixNano",
    "status": "status_code status",
}
_OWN_IDS = {name: name for name in ("trace_id", "span_id", "parent_id")}
_ERRORS = (2, "2", "ERROR", "error", "STATUS_CODE_ERROR", "StatusCode.ERROR")
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class SpanFormat:
    """A format whose records are spans, or traces with their spans.

    Attributes:
        opened: gives a record for each span in a record of an export; none for one of another kind, such as a score.
        wrappers: keys of an object that is no record itself, but has a list of them.
        no_trace_id: what is wrong with a span that names no trace.
        paths: dotted paths to the members of a span, the first that leads to a value counts, where they are not
            ``_USUAL_PATHS``. What ``opened`` says of ``role``, ``documents`` and ``inputs_reranked`` counts as it is.
        roles: by the kind of a span, which ``kind_case`` spells as the store does.
        other_role: of all other kinds.
        named_roles: kinds of spans, what their name may hold, and the role that this says.
    """

    opened: Callable[[Record], Iterable[Record]]
    wrappers: tuple[str, ...]
    no_trace_id: str
    paths: Mapping[str, str]
    roles: Mapping[str, Role]
    other_role: Role = Role.OTHER
    named_roles: tuple[tuple[tuple[str, ...], str, Role], ...] = ()
    kind_case: Callable[[str], str] = str.upper

    def spans(self, record: Record) -> Iterator[Span | RowFault]:
        """The spans of a record, none where it is of another kind, and the fault of each that is faulty in its place.

        A ``RowFault`` that is raised is that of the record; each names the field.
        """
        for span in self.opened(record):
            try:
                yield self._span(span)
            except RowFault as error:
                yield error

    def _span(self, record: Record) -> Span:
        def value(member: str) -> object:
            found = [at(record, *path) for path in _paths(self.paths.get(member, _USUAL_PATHS[member]))]
            return next((content for content in found if not is_nothing(content)), None)

        def text(member: str) -> str | None:
            return text_or_none(value(member))

        trace_id, parent_id, status = text("trace_id"), text("parent_id"), value("status")
        if trace_id is None:
            raise RowFault(Reason.MISSING_VALUE, self.no_trace_id, column="trace_id")
        if isinstance(status, dict):
            status = first_of(status, ("status_code", "code"))
        role, documents, reranked = map(record.get, ("role", "documents", "inputs_reranked"))  # ours, or the record's
        kind, name = self.kind_case(text("kind") or ""), text("name") or ""
        named = (role for kinds, word, role in self.named_roles if kind in kinds and word in name.lower())
        plain: dict[str, Any] = {member: text(member) for member in ("span_id", "model", "session_id")}
        plain |= {member: microseconds(value(member)) for member in ("started_at", "ended_at")}
        return Span(
            **plain,
            trace_id=trace_id,
            parent_id=parent_id,
            role=role if isinstance(role, Role) else next(named, self.roles.get(kind, self.other_role)),
            name=name,
            kind=kind,
            documents=documents if isinstance(documents, tuple) else None,
            inputs_reranked=reranked if isinstance(reranked, tuple) else (),
            metadata=parsed(value("metadata")),
            input=value("input"),
            output=value("output"),
            failed=status in _ERRORS,
            is_trace=record.get("is_trace") is True,
            is_root=bool(parent_id) and str(value("is_root")).lower() in ("true", "1"),
        )


@cache
def _paths(paths: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(path.split(".")) for path in paths.split())


def _roles(**kinds: str) -> dict[str, Role]:
    """The roles by the kinds of spans, which stand under the names of their roles."""
    return {kind: Role[role] for role, names in kinds.items() for kind in names.split()}


def _langfuse_spans(record: Record) -> Iterator[Record]:
    """An observation (enriched or legacy), or a legacy trace, perhaps with its observations."""
    if "value" in record and "type" not in record:
        return  # a score
    is_observation = "type" in record or first_of(record, ("trace_id", "traceId")) is not None
    if not is_observation and not record.keys().isdisjoint(("timestamp", "input", "observations")):
        trace_id = text_or_none(record.get("id"))
        if trace_id is None:
            raise RowFault(Reason.MISSING_VALUE, "trace should have an id, has none; export the field", column="id")
        kept = {name: value for name, value in record.items() if name not in ("model", "level", "end_time", "endTime")}
        sides = {side: parsed(record.get(side)) for side in ("input", "output")}
        own = {"id": f"trace {trace_id}", "trace_id": trace_id, "type": "TRACE", "start_time": record.get("timestamp")}
        yield {**kept, **own, **sides, "is_trace": True}
        yield from (_observation({**item, "trace_id": trace_id}) for item in objects_in(record.get("observations")))
    elif is_observation or "files" not in record:
        yield _observation(record)


def _observation(record: Record) -> Record:
    """An observation with what it was given and gave; an empty text is how the export writes that there is none."""
    given, gave = (None if record.get(side) == "" else parsed(record.get(side)) for side in ("input", "output"))
    return {**record, "input": _only_argument(given), "output": gave}


LANGFUSE = SpanFormat(
    opened=_langfuse_spans,
    wrappers=("data", "traces"),
    no_trace_id="observation should have a trace_id, has none; export the field",
    paths={
        "trace_id": "trace_id traceId",
        "span_id": "id",
        "parent_id": "parent_observation_id parentObservationId",
        "kind": "type",
        "started_at": "start_time startTime",
        "ended_at": "end_time endTime",
        "model": "provided_model_name providedModelName model",
        "session_id": "session_id sessionId",
        "status": "level",
        "is_root": "is_root_observation isRootObservation is_app_root isAppRoot",
    },
    roles=_roles(CHAIN="TRACE SPAN AGENT CHAIN", MODEL="GENERATION", RETRIEVER="RETRIEVER", TOOL="TOOL"),
    named_roles=((("SPAN", "RETRIEVER"), "rerank", Role.RERANKER), (("SPAN",), "retriev", Role.RETRIEVER)),
)


def _langsmith_runs(
    record: Record, trace_id: str | None = None, parent_id: str | None = None, depth: int = 0
) -> Iterator[Record]:
    """A run, and its children where it holds them. ``dotted_order`` names its trace and its parents, too."""
    order = [part.rpartition("Z")[2] for part in str(record.get("dotted_order") or "").split(".") if "Z" in part]
    span_id = text_or_none(first_of(record, ("id", "run_id"))) or next(reversed(order), None)
    parents = parsed(record.get("parent_run_ids"))
    last_parent = text_or_none(parents[-1]) if isinstance(parents, list) and parents else None
    parent_id = text_or_none(record.get("parent_run_id")) or last_parent or parent_id or next(iter(order[-2:-1]), None)
    trace_id = text_or_none(record.get("trace_id")) or trace_id or (span_id if parent_id is None else None)
    trace_id = trace_id or next(iter(order), None)
    yield {
        **record,
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_id": parent_id,
        "input": parsed(record.get("inputs")),
        "output": parsed(record.get("outputs")),
        "metadata": parsed(at(parsed(record.get("extra")), "metadata")) or parsed(record.get("metadata")),
        "status": "error" if record.get("error") else record.get("status"),
    }
    for run in objects_in(record.get("child_runs")) if depth < _DEEPEST else ():
        yield from _langsmith_runs(run, trace_id, span_id, depth + 1)


LANGSMITH = SpanFormat(
    opened=_langsmith_runs,
    wrappers=("runs", "data", "items"),
    no_trace_id="run should have a trace_id, has none; export the field",
    paths={
        **_OWN_IDS,
        "kind": "run_type",
        "model": "metadata.ls_model_name",
        # session_id of a run is the project's
        "session_id": "metadata.thread_id metadata.session_id metadata.conversation_id thread_id",
        "status": "status",
    },
    roles=_roles(CHAIN="chain", MODEL="llm", RETRIEVER="retriever", TOOL="tool"),
    named_roles=((("retriever", "chain"), "rerank", Role.RERANKER),),
    kind_case=str.lower,
)


def _mlflow_spans(record: Record) -> Iterator[Record]:
    """The spans of ``Trace.to_json()``, ``traces.json``, or rows of ``search_traces``; never truncated previews.

    Attributes are JSON texts; the schema is MLflow's second, third or fourth.
    """
    record = {**record, **object_of(record.get("trace"))}
    info = object_of(record.get("info") or record.get("trace_info")) or record
    data = parsed(record.get("data"))
    spans = parsed(data.get("spans") if isinstance(data, dict) else record.get("spans"))
    ids = (first_of(source, ("trace_id", "request_id")) for source in (info, record))
    trace_id = next(filter(None, map(text_or_none, ids)), None)
    if trace_id is None:
        raise RowFault(Reason.MISSING_VALUE, MLFLOW.no_trace_id, column="trace_id")
    if not isinstance(spans, list) or not spans:
        message = "trace should have spans, has none; export it with them, as search_traces(include_spans=True) does"
        raise RowFault(Reason.INCOMPLETE_TRACE, message, column="spans")
    session = object_of(info.get("trace_metadata") or info.get("request_metadata")).get("mlflow.trace.session")
    for span in objects_in(spans):
        own = {name: parsed(value) for name, value in object_of(span.get("attributes")).items()}
        given, gave = own.get("mlflow.spanInputs"), own.get("mlflow.spanOutputs")
        yield {
            **span,
            "trace_id": trace_id,
            "span_id": _shown_id(at(span, "context", "span_id") or span.get("span_id")),
            "parent_id": _shown_id(span.get("parent_span_id") or span.get("parent_id")),
            "kind": text_or_none(own.get("mlflow.spanType")) or span.get("span_type"),
            "input": parsed(span.get("inputs")) if given is None else given,
            "output": parsed(span.get("outputs")) if gave is None else gave,
            "metadata": {name: value for name, value in own.items() if not name.startswith("mlflow.span")},
            "model": own.get("mlflow.llm.model") or own.get("mlflow.chat.model"),
            "session_id": session,
        }


def _shown_id(value: object) -> object:
    """A span's id as MLflow shows it and takes it, in hex: the JSON of its third and fourth schema has base64."""
    return b64decode(value).hex() if isinstance(value, str) and _BASE64_ID.fullmatch(value) else value


_BASE64_ID = re.compile("[A-Za-z0-9+/]{11}=")
MLFLOW = SpanFormat(
    opened=_mlflow_spans,
    wrappers=("traces", "data"),
    no_trace_id="trace should have a trace_id or request_id, has none",
    paths=_OWN_IDS,
    roles=_roles(MODEL="LLM CHAT_MODEL", RETRIEVER="RETRIEVER", RERANKER="RERANKER", TOOL="TOOL")
    | _roles(OTHER="EMBEDDING PARSER MEMORY GUARDRAIL EVALUATOR"),
    other_role=Role.CHAIN,
)


_NO_TRACE_ID = "span should name its trace in context.trace_id or trace_id, names none; export it as OTLP JSON"
_MESSAGES_EVENT = "gen_ai.client.inference.operation.details"
"""The event that may carry a span's messages in the place of its attributes."""
_SPOKEN_EVENTS = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_SPOKEN_EVENTS["gen_ai.choice"] = "assistant"
"""Events of conventions up to 1.36, one for each message, and by whom."""
_RESULT_EVENTS = ("db.query.result", "db.search.result")
"""Events of OpenLLMetry, one for each document that a vector store found."""
_OTLP_LISTS = (
    ("resourceSpans", "resource_spans", "batches", "resourceLogs"),
    ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs"),
    ("spans", "logRecords"),
)


def _opened_spans(record: Record) -> Iterator[dict[str, object]]:
    """The span of a record, or those of OTLP's envelope, with dotted names opened and attributes as one object.

    Attributes may be flattened or nested, or stand in columns or JSON texts of a table.
    """
    record = object_of(record.get("trace")) or record  # as Tempo answers
    spans: list[Record] = [record]
    if not record.keys().isdisjoint(_OTLP_LISTS[0]):
        for names in _OTLP_LISTS:
            lists = (next((items for name in names if isinstance(items := span.get(name), list)), ()) for span in spans)
            spans = [item for items in lists for item in items if isinstance(item, dict)]
        spans = [{**span, "attributes": _whole_attributes(span)} for span in spans]
        if "resourceLogs" in record:  # of which most are no messages
            spans = [span for span in spans if "gen_ai.output.messages" in object_of(span["attributes"])]
    for span in spans:
        whole = nested({name: _opened_cell(name, cell) for name, cell in span.items()})
        attributes = whole.get("attributes")
        trace_id = text_or_none(at(whole, "context", "trace_id") or whole.get("trace_id") or whole.get("traceId"))
        if trace_id is not None and not trace_id.strip("0x"):
            whole |= {"context": None, "trace_id": None, "traceId": None}
        yield {**whole, "attributes": attributes if isinstance(attributes, dict) else whole}


def _opened_cell(name: str, value: object) -> object:
    """A cell of a table: lists of objects and objects stand there as JSON or as Python prints them."""
    if name in ("attributes", "context"):
        return opened_text(value)
    is_text = not name.startswith("attributes.") or name.endswith((".input.value", ".output.value"))
    opened = value if is_text else opened_text(value)
    items = opened if isinstance(opened, list) else [opened]
    return opened if all(isinstance(item, dict) for item in items) else value


def _whole_attributes(span: Record) -> dict[str, object]:
    """The attributes of a span, with what its events say of messages, and of the results of a vector store."""
    whole: dict[str, object] = {}
    messages: dict[str, list[Record]] = {}
    documents = []
    for event in objects_in(span.get("events")):
        own, name = otlp_attributes(event.get("attributes")), str(event.get("name"))
        if name == _MESSAGES_EVENT:
            whole.update(own)
        elif name in _SPOKEN_EVENTS:
            said = {**own, **object_of(own.get("gen_ai.event.content"))}
            content = parsed(first_of({**said, **object_of(said.get("message"))}, ("content", "message")))
            side = f"gen_ai.{'output' if name == 'gen_ai.choice' else 'input'}.messages"
            messages.setdefault(side, []).append({"role": _SPOKEN_EVENTS[name], "content": content})
        elif name in _RESULT_EVENTS:
            result = {key.removeprefix(f"{name}."): value for key, value in own.items()}
            documents.append({**result, "metadata": result.get("metadata") or result.get("entity")})
    if documents:
        whole["gen_ai.retrieval.documents"] = documents
    return messages | whole | otlp_attributes(parsed(span.get("attributes")))


def _openinference_spans(record: Record) -> Iterator[Record]:
    """Spans as Arize Phoenix exports them: attributes flattened or nested, rows of a data frame, or OTLP."""
    for whole in _opened_spans(record):
        attributes = object_of(whole["attributes"])
        named = at(attributes, "openinference", "span", "kind")
        kind = (text_or_none(named) or text_or_none(whole.get("span_kind")) or "").upper()
        role = OPENINFERENCE.roles.get(kind, Role.CHAIN if kind.startswith("SPAN_KIND") else Role.OTHER)
        given, gave = _openinference_value(attributes, "input"), _openinference_value(attributes, "output")
        if role is Role.MODEL:
            given = at(attributes, "llm", "input_messages") or given
            gave = at(attributes, "llm", "output_messages") or gave
        listed = {Role.RETRIEVER: ("retrieval", "documents"), Role.RERANKER: ("reranker", "output_documents")}
        ranked = at(attributes, "reranker", "input_documents") if role is Role.RERANKER else None
        yield {
            **whole,
            "kind": kind,
            "role": role,
            "input": None if role is Role.OTHER else given,
            "output": None if role is Role.OTHER else gave,
            "documents": _listed_documents(at(attributes, *listed[role])) or None if role in listed else None,
            "inputs_reranked": _listed_documents(ranked),
        }


def _openinference_value(attributes: Record, side: str) -> object:
    """What a span was given or gave. Its MIME type says whether a text is JSON; without one, its first character."""
    content = at(attributes, side)
    if not isinstance(content, dict):
        return parsed(content)
    value = content.get("value")
    is_json = content.get("mime_type") in (None, "", "application/json", "JSON", "json")
    return content.get("") if value is None else parsed(value) if is_json else value


def _listed_documents(value: object) -> tuple[Document, ...]:
    value = parsed(value)
    return tuple(filter(None, map(document_of, value))) if isinstance(value, list) else ()


OPENINFERENCE = SpanFormat(
    opened=_openinference_spans,
    wrappers=("data", "spans"),
    no_trace_id=_NO_TRACE_ID,
    paths={
        "metadata": "attributes.metadata",
        "model": "attributes.llm.model_name",
        "session_id": "attributes.session.id",
    },
    roles=_roles(CHAIN="CHAIN AGENT UNKNOWN", MODEL="LLM", RETRIEVER="RETRIEVER", RERANKER="RERANKER", TOOL="TOOL")
    | {"": Role.CHAIN},
)


def _otel_spans(record: Record) -> Iterator[Record]:
    """Spans with ``gen_ai.*`` attributes, in OTLP's envelope or one per record.

    Messages stand in attributes as JSON texts or as they are; older conventions call them prompt and completion.
    """
    if record.keys().isdisjoint(_OTLP_LISTS[0]):
        record = {**record, "attributes": _whole_attributes(record)}
    for whole in _opened_spans(record):
        own = object_of(at(whole, "attributes", "gen_ai"))
        operation = text_or_none(at(own, "operation", "name")) or ""
        documents = documents_of(at(own, "retrieval", "documents"))
        role = OTEL_GENAI.roles.get(operation, Role.CHAIN if documents is None else Role.RETRIEVER)
        retrieves = role in (Role.RETRIEVER, Role.RERANKER)
        if role is Role.TOOL:
            given, gave = at(own, "tool", "call", "arguments"), at(own, "tool", "call", "result")
        else:
            given = at(own, "input", "messages") or own.get("prompt")
            gave = at(own, "output", "messages") or own.get("completion")
        given, gave = (at(own, "retrieval", "query", "text"), None) if retrieves else (parsed(given), parsed(gave))
        if (instructions := parsed(own.get("system_instructions"))) and isinstance(given, list):
            given = [{"role": "system", "content": instructions}, *given]
        entity = at(whole, "attributes", "traceloop", "entity")
        yield {
            **whole,
            "kind": operation,
            "role": role,
            "input": _only_argument(parsed(at(entity, "input"))) if given is None else given,
            "output": parsed(at(entity, "output")) if gave is None else gave,
            "documents": documents if retrieves else None,
        }


def _only_argument(value: object) -> object:
    """What a function was given that a decorator traces: its only argument, those with names, or all of several."""
    if not isinstance(value, dict) or not value.keys() <= {"args", "kwargs"}:
        return value
    match value.get("args"):
        case [only]:
            return only
        case [_, *_]:
            return value
    return value.get("kwargs")


OTEL_GENAI = SpanFormat(
    opened=_otel_spans,
    wrappers=("data", "spans"),
    no_trace_id=_NO_TRACE_ID,
    paths={
        "metadata": "attributes",
        "model": "attributes.gen_ai.response.model attributes.gen_ai.request.model",
        "session_id": "attributes.gen_ai.conversation.id",
    },
    roles=_roles(MODEL="chat generate_content text_completion", RETRIEVER="retrieval", RERANKER="rerank")
    | _roles(TOOL="execute_tool", OTHER="embeddings create_agent"),
    other_role=Role.CHAIN,
    kind_case=str,
)


@dataclass(frozen=True, slots=True)
class LogKind:
    """A format by the name that ``attribeam import`` and ``--log-format`` know it by."""

    name: str
    format: SpanFormat | Rows
    suffix: str = "{.jsonl,.ndjson,.json,.csv,.tsv,.log,.parquet,.arrow}{,.gz}"
    takes_csv: bool = True

    @property
    def is_of_traces(self) -> bool:
        """Whether its rows are traces, which have ids in a trace store."""
        return isinstance(self.format, SpanFormat)


LOG_KINDS: Mapping[str, LogKind] = {
    kind.name: kind
    for kind in (
        LogKind("ragas", Rows()),
        LogKind("openinference", OPENINFERENCE),
        LogKind("langfuse", LANGFUSE),
        LogKind("otel-genai", OTEL_GENAI, takes_csv=False),
        LogKind("mlflow", MLFLOW),
        LogKind("langsmith", LANGSMITH),
        LogKind("jsonl", Rows()),
        LogKind("responses", ResponseRows()),
    )
}
"""By the names that ``attribeam import`` knows. ``--log-format jsonl`` is stricter, see ``logs/jsonl_log.py``."""
