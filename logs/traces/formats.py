"""The formats of trace stores: for each, how a record opens to its spans, and a table of where their members stand."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
from attribeam.logs.traces.documents import Document, documents_of
from attribeam.logs.traces.rows import ResponseRows, Rows
from attribeam.schemas import Reason, RowFault

_USUAL_PATHS = {
    **{name: name for name in ("name", "kind", "input", "output", "metadata", "model", "session_id", "is_root")},
    "trace_id": "context/trace_id trace_id traceId",
    "span_id": "context/span_id span_id spanId",
    "parent_id": "parent_id parent_span_id parentSpanId",
    "started_at": "start_time_unix_nano start_time_ns start_time startTimeUnixNano",
    "ended_at": "end_time_unix_nano end_time_ns end_time endTimeUnixNano timeUnixNano",
    "status": "status_code status",
    "documents": "",
    "inputs_reranked": "",
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
        paths: keys on the way to the members of a span, the first way that leads to a value counts, where they are not
            ``_USUAL_PATHS``. JSON in texts is opened. An empty key leads to what ``nested`` sets there, or to a text.
        roles: by the kind of a span, which ``kind_case`` spells as the store does.
        other_role: of all other kinds, unless ``opened`` says the ``role``.
        named_roles: kinds of spans, what their name may hold, and the role that this says.
        role_paths: ways that count before the others in spans of a role.
    """

    opened: Callable[[Record], Iterable[Record]]
    wrappers: tuple[str, ...]
    no_trace_id: str
    paths: Mapping[str, str]
    roles: Mapping[str, Role]
    other_role: Role = Role.OTHER
    named_roles: tuple[tuple[tuple[str, ...], str, Role], ...] = ()
    kind_case: Callable[[str], str] = str.upper
    role_paths: Mapping[Role, Mapping[str, str]] = field(default_factory=dict)

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
        own: Mapping[str, str] = {}

        def value(member: str, read: Callable[[object], object] = lambda content: content) -> object:
            for path in _paths(f"{own.get(member, '')} {self.paths.get(member, _USUAL_PATHS[member])}"):
                content: object = record
                for key in path:
                    is_own = key == "" and not isinstance(content, dict)
                    content = content if is_own else object_of(content).get(key)
                if not is_nothing(content) and content != [] and (found := read(content)) is not None:
                    return found
            return None

        def text(member: str) -> str | None:
            return text_or_none(value(member, text_or_none))

        def opened(member: str) -> object:
            content = parsed(value(member))
            return None if is_nothing(content) else content

        def documents(member: str) -> tuple[Document, ...] | None:
            content = opened_text(opened(member))
            return None if isinstance(content, str) else documents_of(content) or None

        kind, name = self.kind_case(text("kind") or ""), text("name") or ""
        named = (role for kinds, word, role in self.named_roles if kind in kinds and word in name.lower())
        role = next(named, self.roles.get(kind, record.get("role") or self.other_role))
        role = role if isinstance(role, Role) else self.other_role
        own = self.role_paths.get(role, own)
        trace_id, parent_id, status = text("trace_id"), text("parent_id"), value("status")
        if trace_id is None:
            raise RowFault(Reason.MISSING_VALUE, self.no_trace_id, column="trace_id")
        if isinstance(status, dict):
            status = first_of(status, ("status_code", "code"))
        plain: dict[str, Any] = {member: text(member) for member in ("span_id", "model", "session_id")}
        plain |= {member: microseconds(value(member)) for member in ("started_at", "ended_at")}
        return Span(
            **plain,
            trace_id=trace_id,
            parent_id=parent_id,
            role=role,
            name=name,
            kind=kind,
            documents=documents("documents"),
            inputs_reranked=documents("inputs_reranked") or (),
            metadata=opened("metadata"),
            input=_only_argument(opened("input")),
            output=opened("output"),
            failed=status in _ERRORS,
            is_trace=record.get("is_trace") is True,
            is_root=bool(parent_id) and str(value("is_root")).lower() in ("true", "1"),
        )


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


@cache
def _paths(paths: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(path.split("/")) for path in paths.split())


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
        own = {"id": f"trace {trace_id}", "trace_id": trace_id, "type": "TRACE", "start_time": record.get("timestamp")}
        yield {**kept, **own, "is_trace": True}
        yield from ({**item, "trace_id": trace_id} for item in objects_in(record.get("observations")))
    elif is_observation or "files" not in record:
        yield record


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
        "status": "error" if record.get("error") else record.get("status"),
    }
    for run in objects_in(record.get("child_runs")) if depth < _DEEPEST else ():
        yield from _langsmith_runs(run, trace_id, span_id, depth + 1)


_THREADS = ("thread_id", "session_id", "conversation_id")
LANGSMITH = SpanFormat(
    opened=_langsmith_runs,
    wrappers=("runs", "data", "items"),
    no_trace_id="run should have a trace_id, has none; export the field",
    paths={
        **_OWN_IDS,
        "kind": "run_type",
        "input": "inputs",
        "output": "outputs",
        "metadata": "extra/metadata metadata",
        "model": "extra/metadata/ls_model_name metadata/ls_model_name",
        # session_id of a run is the project's
        "session_id": " ".join(f"{place}/{name}" for place in ("extra/metadata", "metadata") for name in _THREADS)
        + " thread_id",
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
        yield {
            **span,
            "attributes": own,
            "trace_id": trace_id,
            "span_id": _shown_id(at(span, "context", "span_id") or span.get("span_id")),
            "parent_id": _shown_id(span.get("parent_span_id") or span.get("parent_id")),
            "metadata": {name: value for name, value in own.items() if not name.startswith("mlflow.span")},
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
    paths={
        **_OWN_IDS,
        "kind": "attributes/mlflow.spanType span_type",
        "input": "attributes/mlflow.spanInputs inputs",
        "output": "attributes/mlflow.spanOutputs outputs",
        "model": "attributes/mlflow.llm.model attributes/mlflow.chat.model",
    },
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
    for span in spans:
        own = _whole_attributes(span)
        if "resourceLogs" in record and "gen_ai.output.messages" not in own:
            continue  # most are no messages
        is_own = own or span is not record or isinstance(span.get("attributes"), dict | list)
        cells = {**span, "attributes": own} if is_own else span
        whole = nested({name: _opened_cell(name, cell) for name, cell in cells.items()})
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


OPENINFERENCE = SpanFormat(
    opened=_opened_spans,
    wrappers=("data", "spans"),
    no_trace_id=_NO_TRACE_ID,
    paths={
        "kind": "attributes/openinference/span/kind span_kind",
        "input": "attributes/input/value attributes/input/",
        "output": "attributes/output/value attributes/output/",
        "metadata": "attributes/metadata",
        "model": "attributes/llm/model_name",
        "session_id": "attributes/session/id",
    },
    role_paths={
        Role.MODEL: {side: f"attributes/llm/{side}_messages" for side in ("input", "output")},
        Role.RETRIEVER: {"documents": "attributes/retrieval/documents"},
        Role.RERANKER: {
            "documents": "attributes/reranker/output_documents",
            "inputs_reranked": "attributes/reranker/input_documents",
        },
    },
    roles=_roles(CHAIN="CHAIN AGENT UNKNOWN", MODEL="LLM", RETRIEVER="RETRIEVER", RERANKER="RERANKER", TOOL="TOOL")
    | _roles(CHAIN="SPAN_KIND_INTERNAL SPAN_KIND_SERVER SPAN_KIND_CLIENT SPAN_KIND_PRODUCER SPAN_KIND_CONSUMER")
    | {"": Role.CHAIN},
)


def _otel_spans(record: Record) -> Iterator[Record]:
    """Spans with ``gen_ai.*`` attributes, in OTLP's envelope or one per record.

    Messages stand in attributes as JSON texts or as they are; older conventions call them prompt and completion.
    """
    for whole in _opened_spans({"attributes": {}, **record}):
        own = object_of(at(whole, "attributes", "gen_ai"))
        given = parsed(at(own, "input", "messages") or own.get("prompt"))
        if (instructions := parsed(own.get("system_instructions"))) and isinstance(given, list):
            given = [{"role": "system", "content": instructions}, *given]
        retrieves = documents_of(at(own, "retrieval", "documents")) is not None
        yield {**whole, "given": given, "role": Role.RETRIEVER if retrieves else None}


_CALL = "attributes/gen_ai/tool/call"
_OF_RETRIEVAL = {
    "input": "attributes/gen_ai/retrieval/query/text",
    "documents": "attributes/gen_ai/retrieval/documents",
}
OTEL_GENAI = SpanFormat(
    opened=_otel_spans,
    wrappers=("data", "spans"),
    no_trace_id=_NO_TRACE_ID,
    paths={
        "kind": "attributes/gen_ai/operation/name",
        "input": "given attributes/traceloop/entity/input",
        "output": "attributes/gen_ai/output/messages attributes/gen_ai/completion attributes/traceloop/entity/output",
        "metadata": "attributes",
        "model": "attributes/gen_ai/response/model attributes/gen_ai/request/model",
        "session_id": "attributes/gen_ai/conversation/id",
    },
    role_paths={
        Role.TOOL: {"input": f"{_CALL}/arguments", "output": f"{_CALL}/result"},
        **dict.fromkeys((Role.RETRIEVER, Role.RERANKER), _OF_RETRIEVAL),
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
