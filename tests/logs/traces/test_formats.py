"""The same story in every format, as providers answer it and as real client libraries write it, is the same row."""

import gzip
import json
import re
import sys

import pyarrow as pa
import pytest
from tests.logs.traces.exports import (
    ANSWER,
    EXPORTS,
    MODEL,
    PASSAGES,
    QUESTION,
    RECORDS,
    ROW,
    SPAN_FORMATS,
    TURNS,
    anthropic,
    azure,
    bedrock,
    cohere,
    csv_of,
    gemini,
    haystack_replies,
    imported,
    imported_row,
    langfuse,
    langfuse_observation,
    langsmith,
    llamaindex,
    mlflow,
    openai,
    openinference,
    otlp,
    parquet_of,
    text_of,
    trulens,
    write_lines,
)

from attribeam.logs.columns import LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.traces.assembly import Span
from attribeam.logs.traces.documents import FROM_PROMPT
from attribeam.logs.traces.formats import LOG_KINDS, MLFLOW
from attribeam.logs.traces.paths import PathSet, TraceOptions, compiled_path
from attribeam.schemas import QARecord, Reason
from attribeam.schemas.errors import RunError, UsageError


@pytest.mark.parametrize("kind", EXPORTS)
def test_every_format_gives_the_same_row_by_an_import_and_without_one(kind, tmp_path):
    path, output = write_lines(tmp_path / "export.jsonl", EXPORTS[kind]()), tmp_path / "log.parquet"
    summary, (row,), letters = imported(kind, path, output=output)
    assert text_of(row) == ROW
    assert (summary.read, summary.written, letters) == (1, 1, [])
    assert row["generator"] == (None if kind == "ragas" else MODEL)
    assert row["session_id"] == ("talk-7" if kind in ("langfuse", "mlflow") else None)
    end_of_the_root = "2026-11-20 10:00:01+00:00"
    assert str(row["answered_at"]) == (end_of_the_root if kind in SPAN_FORMATS else "None")
    if kind != "jsonl":
        (direct,), (of_import,) = QALog(path, LogOptions(format=kind)).outcomes(), QALog(str(output)).outcomes()
        for name in ("record_id", "question", "passages", "answer", "answered_at", "generator"):
            assert getattr(direct, name) == getattr(of_import, name), name


def test_conversations_keep_their_id(tmp_path):
    spans = openinference()
    spans[0]["attributes"]["session.id"] = "talk-7"
    runs = langsmith()
    runs[0]["extra"] = {"metadata": {"thread_id": "talk-7"}}
    for kind, records in (("openinference", spans), ("langsmith", runs)):
        assert imported_row(kind, records, tmp_path)["session_id"] == "talk-7", kind


def test_structured_otlp_values_are_read(tmp_path):
    (envelope,) = otlp()
    spans = envelope["resourceSpans"][0]["scopeSpans"][0]["spans"]
    fields = [
        {"key": "role", "value": {"stringValue": "user"}},
        {"key": "parts", "value": {"arrayValue": {"values": [{"kvlistValue": {"values": [
            {"key": "type", "value": {"stringValue": "text"}},
            {"key": "content", "value": {"stringValue": "Lit when?"}},
        ]}}]}}},
    ]  # fmt: skip
    messages = {"arrayValue": {"values": [{"kvlistValue": {"values": fields}}]}}
    attributes = [one for one in spans[0]["attributes"] if one["key"] != "gen_ai.input.messages"]
    spans[0]["attributes"] = [*attributes, {"key": "gen_ai.input.messages", "value": messages}]
    assert imported_row("otel-genai", [envelope], tmp_path)["question"] == "Lit when?"


def test_contexts_that_stand_only_in_the_prompt_are_passages(tmp_path):
    marked = "\n".join(f"[{number}] {text}" for number, (_, text) in enumerate(PASSAGES, start=1))
    prompt = f"Use the context.\n\nContext:\n{marked}\n\nQuestion: {QUESTION}"
    talk = [{"role": "user", "content": prompt}]
    inner = {**langfuse_observation("b", "a", "GENERATION", 1, talk, ANSWER), "provided_model_name": MODEL}
    for records in (
        [langfuse_observation("a", "", "SPAN", 0, {"query": QUESTION}, {"answer": ANSWER}), inner],
        [{**inner, "parent_observation_id": ""}],
    ):
        path = write_lines(tmp_path / "a.jsonl", records)
        summary, (row,), _ = imported("langfuse", path, output=tmp_path / "log.parquet")
        assert (row["question"], row["answer"]) == (QUESTION, ANSWER)
        assert [one["text"] for one in row["passages"]] == [text for _, text in PASSAGES]
        assert +summary.seen.notes == {FROM_PROMPT: 1}


def test_instructions_of_a_model_may_hold_the_passages(tmp_path):
    root, _, chat = _spans_of_otlp()
    told = [{"type": "text", "content": f"Answer from this.\n<context>\n{PASSAGES[0][1]}\n</context>"}]
    chat["attributes"] += _attributes({"gen_ai.system_instructions": json.dumps(told)})
    row = imported_row("otel-genai", _enveloped([root, chat]), tmp_path)
    assert (row["question"], [one["text"] for one in row["passages"]]) == (QUESTION, [PASSAGES[0][1]])


@pytest.mark.parametrize("trace_id", ["", "0" * 32, None])
def test_span_without_a_trace_leaves_the_others_of_its_batch(trace_id, tmp_path):
    spans = _spans_of_otlp()
    path = write_lines(tmp_path / "a.jsonl", _enveloped([spans[0], {**spans[1], "traceId": trace_id}, *spans[1:]]))
    summary, (row,), (letter,) = imported("otel-genai", path, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
    assert (letter["reason"], letter["column"], summary.seen.spans) == ("missing_value", "trace_id", 3)


@pytest.mark.parametrize("direct", [True, False])
def test_log_says_how_it_was_read(direct, tmp_path):
    (sample,) = EXPORTS["ragas"]()
    path = write_lines(tmp_path / "a.jsonl", [{**sample, "answer": "A gold one."}] * 2)
    log = QALog(path, LogOptions(format="ragas"))
    if not direct:
        imported("ragas", path, output=tmp_path / "log.parquet")
        log = QALog(str(tmp_path / "log.parquet"))
    (note,) = log.check().notes
    assert str(note) == "answer read from response, not from answer; --answer-path names another: 2 rows"


def _attributes(values):
    return [{"key": key, "value": {"stringValue": str(value)}} for key, value in values.items()]


def _data_frame():
    """Spans as Phoenix's data frame has them: one column per attribute, documents as lists of objects."""
    rows = []
    for span in openinference():
        attributes = span["attributes"]
        documents = [{"document.id": one["passage_id"], "document.content": one["text"]} for one in ROW["passages"]]
        is_retriever = span["span_kind"] == "RETRIEVER"
        own = ("name", "span_kind", "parent_id", "start_time", "end_time", "status_code")
        row = {name: span[name] for name in own} | {f"context.{name}": one for name, one in span["context"].items()}
        row |= {f"attributes.{name}": one for name, one in attributes.items() if "documents" not in name}
        rows.append(row | ({"attributes.retrieval.documents": documents} if is_retriever else {}))
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _printed_frame():
    """As ``to_csv`` writes it: lists stand as Python prints them."""
    talk = [{"message.role": "user", "message.content": "It's for the model."}]
    models = ({"attributes.llm.input_messages": talk if row["name"] == "llm" else None} for row in _data_frame())
    return [{**row, **model} for row, model in zip(_data_frame(), models, strict=True)]


def test_documents_that_numpy_printed_are_no_passage(tmp_path):
    rows = _data_frame()
    for row in rows:
        row["attributes.retrieval.documents"] = "[{'document.content': 'Ada lit it.'}\n {'document.content': 'Yes.'}]"
    with pytest.raises(RunError, match="no_passages"):
        imported("openinference", write_lines(tmp_path / "a.jsonl", rows), output=tmp_path / "log.parquet")


def _nested():
    model, retriever, root = openinference()
    documents = [{"document": {"id": one, "content": text}} for one, text in PASSAGES]
    nested = {"openinference": {"span": {"kind": "RETRIEVER"}}, "retrieval": {"documents": [None, *documents]}}
    own = {name: value for name, value in root["attributes"].items() if name != "openinference.span.kind"}
    whole = {**root, "span_kind": "SPAN_KIND_UNSPECIFIED", "attributes": own}
    return [model, {**retriever, "attributes": nested}, whole]


def _openinference_otlp():
    spans = []
    for one in openinference():
        ids = {"traceId": "ab", "spanId": one["context"]["span_id"], "parentSpanId": one["parent_id"] or ""}
        own = _attributes(one["attributes"])
        spans.append({**ids, "name": one["name"], "attributes": own, "startTimeUnixNano": "1795168800000000000"})
    return [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]


def _spans_of_otlp():
    spans = otlp()[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return sorted(spans, key=lambda one: str(one["spanId"]))


def _messages_in_an_event():
    root, search, chat = _spans_of_otlp()
    messages = [one for one in chat["attributes"] if one["key"].endswith("messages")]
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": messages}
    own = [one for one in chat["attributes"] if one not in messages]
    return [root, search, {**chat, "attributes": own, "events": [event]}]


def _events_of_a_vector_store(event):
    """As OpenLLMetry logs them, with what a workflow was given and gave in texts of JSON."""
    root, search, chat = _spans_of_otlp()
    asked, said = json.dumps({"args": [QUESTION], "kwargs": {}}), json.dumps(ANSWER)
    workflow = {"traceloop.entity.input": asked, "traceloop.entity.output": said}
    found = [
        {"name": event, "attributes": _attributes({f"{event}.id": one, f"{event}.document": text})}
        for one, text in PASSAGES
    ]
    return [
        {**root, "attributes": _attributes({"traceloop.span.kind": "workflow", **workflow})},
        {**search, "attributes": _attributes({"db.system": "chroma"}), "events": found},
        {**chat, "attributes": _attributes({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "..."})},
    ]


def _events_of_messages():
    """One event for each message, as conventions up to 1.36 have them."""
    root, search, chat = _spans_of_otlp()
    said = {"message": {"content": ANSWER}, "index": 0}
    events = [
        {"name": "gen_ai.user.message", "attributes": _attributes({"content": json.dumps([{"text": QUESTION}])})},
        {"name": "gen_ai.choice", "attributes": _attributes({"gen_ai.event.content": json.dumps(said)})},
    ]
    own = [one for one in chat["attributes"] if not one["key"].endswith("messages")]
    return [root, search, {**chat, "attributes": own, "events": events}]


def _enveloped(spans):
    return [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]


def _legacy_trace():
    root, *rest = langfuse()
    sides = {"input": root["input"], "output": root["output"]}
    trace = {"id": "trace-1", "timestamp": "2026-11-20 10:00:00.000000", **sides}
    return [*({key: one for key, one in row.items() if key != "session_id"} for row in rest[:2]), trace]


def _camel(name):
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _marked_root(name, value, *, outside):
    """A span that Langfuse calls a root counts before the request around it."""
    root, *rest = langfuse()[:3]
    request = langfuse_observation("http", "", "SPAN", 0, {"method": "POST"}, {"status": 200})
    marked = {**root, "parent_observation_id": "not exported" if outside else "http", name: value}
    return [*([] if outside else [{**request, name: value}]), marked, *rest]


def _dropped(named):
    """Documents that a compressing retriever dropped are no passages."""
    root, retriever, model = langsmith()
    kept = retriever["outputs"]
    more = [*kept["documents"], {"page_content": "A page on something else.", "metadata": {"id": "x"}}]
    inner = {**retriever, "parent_run_id": "d", "outputs": {"documents": more}}
    return [named(one) for one in (inner, root, {**retriever, "id": "d", "name": "compressing"}, model)]


def _with_dotted_order(run):
    above = {"a": (), "b": ("a", "d"), "c": ("a",), "d": ("a",)}[run["id"]]
    order = ".".join(f"20261120T100000000000Z{one}" for one in (*above, run["id"]))
    return {k: v for k, v in run.items() if k not in ("id", "trace_id", "parent_run_id")} | {"dotted_order": order}


def _log_records():
    (envelope,) = otlp()
    (scope,) = envelope["resourceSpans"][0]["scopeSpans"]
    chat = scope["spans"][0]
    log = {"traceId": chat["traceId"], "spanId": chat["spanId"], "attributes": chat["attributes"]}
    other = {"severityText": "INFO", "body": {"stringValue": "started"}, "attributes": []}
    spans = [{**scope, "spans": [{**chat, "attributes": []}, *scope["spans"][1:]]}]
    logs = [{"scopeLogs": [{"logRecords": [other, log]}]}]
    return [{"resourceSpans": [{"scopeSpans": spans}]}, {"resourceLogs": logs}]


def _runs_with_children():
    root, *children = langsmith()
    return [{"runs": [{**root, "trace_id": None, "child_runs": children}]}]


_SPANS = mlflow()[0]["data"]
_PREVIEWS = {"request": "Who", "response": "Ada", "request_preview": "Who", "response_preview": "Ada"}
VARIANTS = {
    **{f"{kind}, last record first": (kind, EXPORTS[kind]()[::-1]) for kind in SPAN_FORMATS},
    "data frame of Phoenix": ("openinference", _data_frame()), "nested attributes": ("openinference", _nested()),
    "OpenInference in OTLP": ("openinference", _openinference_otlp()),
    "batches of Tempo": ("otel-genai", [{"batches": otlp()[0]["resourceSpans"]}]),
    "answer of Tempo": ("otel-genai", [{"trace": otlp()[0]}]),
    "messages in an event": ("otel-genai", _messages_in_an_event()),
    "messages in log records": ("otel-genai", _log_records()),
    **{f"an event per message, {shape.__name__}": ("otel-genai", shape(_events_of_messages()))
        for shape in (list, _enveloped)},
    **{f"arguments of a function, {args}": ("langfuse", [{**langfuse()[0],
        "input": json.dumps({"args": args, "kwargs": {"query": QUESTION}})}, *langfuse()[1:]])
        for args in ([], [QUESTION])},
    **{f"{event}, {shape.__name__}": ("otel-genai", shape(_events_of_a_vector_store(event)))
        for event in ("db.query.result", "db.search.result") for shape in (list, _enveloped)},
    "legacy trace of Langfuse": ("langfuse", _legacy_trace()),
    "Langfuse with other members": ("langfuse", [{**row, "role": "x", "documents": [7], "inputs_reranked": 1}
        for row in langfuse()]),
    "camel case of Langfuse": ("langfuse", [{_camel(k): one for k, one in row.items()} for row in langfuse()[:3]]),
    **{f"root of Langfuse by {name}, {outside}": ("langfuse", _marked_root(name, value, outside=outside)) for name,
        value in (("is_root_observation", True), ("isRootObservation", "true")) for outside in (True, False)},
    "runs with run_id": ("langsmith", _dropped(lambda run: {"run_id" if k == "id" else k: v for k, v in run.items()})),
    "runs with dotted_order": ("langsmith", _dropped(_with_dotted_order)),
    "runs that hold their children": ("langsmith", _runs_with_children()),
    "bulk export of LangSmith": ("langsmith", [{k: json.dumps(one) if k in ("inputs", "outputs", "extra") else one
        for k, one in run.items()} for run in langsmith()]),
    "MLflow's search with spans": ("mlflow", [{"trace_id": "tr-1", **_SPANS, **_PREVIEWS}]),
    "MLflow's search with a trace": ("mlflow", [{"trace_id": "tr-1", "trace": json.dumps(mlflow()[0]), **_PREVIEWS}]),
    "passages in a text": ("jsonl", [{**ROW, "passages": json.dumps(ROW["passages"])}]),
}  # fmt: skip


def _json_csv(records):
    return csv_of([{k: json.dumps(v) if isinstance(v, list) else v for k, v in one.items()} for one in records])


def _zipped_csv(records):
    return gzip.compress(csv_of(records))


def _list(records):
    return json.dumps({"data": records}, indent=2).encode()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_gives_the_same_row(name, tmp_path):
    kind, records = VARIANTS[name]
    row = imported_row(kind, records, tmp_path)
    assert text_of(row) == ROW
    if kind == "mlflow":
        assert row["record_id"] == "tr-1"


@pytest.mark.parametrize(
    ("kind", "records", "made"),
    [
        ("openinference", _data_frame(), parquet_of),
        ("openinference", _data_frame(), _json_csv),
        ("openinference", _data_frame(), _list),
        ("openinference", _printed_frame(), csv_of),
        ("langfuse", [{**row, "metadata": "{}"} for row in langfuse()[:3]], csv_of),
        ("langfuse", [{**row, "metadata": "{}"} for row in langfuse()[:3]], _zipped_csv),
        ("langfuse", VARIANTS["camel case of Langfuse"][1], _list),
        ("langsmith", VARIANTS["bulk export of LangSmith"][1], parquet_of),
        ("jsonl", VARIANTS["passages in a text"][1], parquet_of),
    ],
)
def test_every_kind_of_file_gives_the_same_row(kind, records, made, tmp_path):
    (tmp_path / "export").write_bytes(made(records))
    _, (row,), _ = imported(kind, str(tmp_path / "export"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


@pytest.mark.parametrize("kind", ["openinference", "langfuse", "langsmith"])
def test_spans_of_a_trace_may_lie_in_several_files(kind, tmp_path):
    records = reversed(EXPORTS[kind]())
    paths = [write_lines(tmp_path / f"{part}.jsonl", [one]) for part, one in enumerate(records)]
    _, (row,), _ = imported(kind, *paths, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")

TEXTS = [text for _, text in PASSAGES]
CASES = [(name, record) for name, records in RECORDS.items() for record in records]
PAIRS = [record for _, record in CASES if {"request", "response"} <= record.keys()]


def row_of(record, **options):
    form = LOG_KINDS["responses"].format
    return form.row(record, TraceOptions(**options), PathSet())


def check_story(row):
    assert row.fault is None, str(row.fault)
    assert (row.question, row.answer) == (QUESTION, ANSWER)
    assert "\n".join(str(one.text) for one in row.passages) == "\n".join(TEXTS)


@pytest.mark.parametrize(("name", "record"), CASES, ids=[f"{index}-{name}" for index, (name, _) in enumerate(CASES)])
def test_record_is_read_alike_with_its_preset_and_without(name, record):
    check_story(row_of(record))
    assert row_of(record, preset=name) == row_of(record)
    assert row_of({"odd": None, **record}) == row_of(record)


def _http(one):
    return {"request": {"url": "/", "body": one["request"]}, "response": {"status_code": 200, "body": one["response"]}}


def _snake(one):
    """The keys as a client library in Python has them."""
    text = re.sub(r'(?<=[a-z0-9])[A-Z](?=\w*":)', lambda letter: f"_{letter[0].lower()}", json.dumps(one))
    return json.loads(text)


SHAPES = {
    "input-output": lambda one: {"input": one["request"], "output": one["response"]},
    "texts": lambda one: {"request_body": json.dumps(one["request"]), "response_body": json.dumps(one["response"])},
    "bodies": _http,
    "camel case": lambda one: {"requestBody": one["request"], "responseBody": one["response"]},
    "snake case": _snake,
    "question beside": lambda one: {"question": QUESTION, **one},
    "with more": lambda one: {"id": "a1", "timestamp": 1795168800, "user": "u", "latency_ms": 3, **one},
}


@pytest.mark.parametrize("shape", [*SHAPES])
@pytest.mark.parametrize("record", PAIRS)
def test_request_and_response_stand_under_any_usual_name(record, shape):
    check_story(row_of(SHAPES[shape](record)))


@pytest.mark.parametrize("name", ["question", "query", "prompt", "input", "user_input", "request"])
@pytest.mark.parametrize("record", [openai(), gemini(), bedrock(), azure(), llamaindex(), haystack_replies()])
def test_response_may_stand_beside_a_plain_question(record, name):
    check_story(row_of({name: QUESTION, "response": record.get("response") or record["outputs"]}))
    check_story(row_of({name: TURNS, "response": record.get("response") or record["outputs"]}))


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("record", [openai(), anthropic(), gemini(), bedrock(), azure(), cohere(), llamaindex()])
def test_response_alone_lacks_its_question(record, is_whole):
    row = row_of({"response": record["response"]} if is_whole else record["response"])
    assert (row.question, row.answer) == (None, ANSWER)
    assert (row.fault.reason, row.fault.column) == (Reason.MISSING_VALUE, "question")
    assert "--question-path" in str(row.fault)
    assert '{"request": ..., "response": ...}' in str(row.fault)


def test_provenance_is_kept():
    row = row_of(openai())
    assert (row.record_id, row.generator, row.answered_at) == ("resp_1", MODEL, 1_795_168_800_000_000)
    assert [(one.passage_id, one.title) for one in row.passages][:1] == [("brigg-1", "brigg-1.pdf")]
    batch = {"id": "batch_1", "custom_id": "mine", "error": None, "response": {"body": openai()["response"]}}
    assert row_of({"question": QUESTION, **batch}).record_id == "batch_1"
    assert row_of(bedrock()).session_id == "s1"


def _of(record, place, value):
    """A copy of a record with another value at a dotted place."""
    copy = json.loads(json.dumps(record))
    *steps, last = [int(step) if step.isdecimal() else step for step in place.split(".")]
    inner = copy
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return copy


SEARCHED = [
    {"role": "user", "content": QUESTION},
    {"type": "function_call", "name": "search", "arguments": "{}", "call_id": "1"},
    {"type": "function_call_output", "call_id": "1", "output": "\n".join(text for _, text in PASSAGES)},
]
SILENT = {"response": {"output": openai()["response"]["output"][2:]}}
WEB = [{"web": {"uri": "https://b.example/1", "title": "b.example"}}]
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
PDF = [{"type": "document", "title": "b.pdf", "source": SOURCE}, {"type": "text", "text": QUESTION}]


@pytest.mark.parametrize(
    ("record", "reason", "words"),
    [
        (_of(openai(), "response.output.1.results", None), Reason.NO_PASSAGES,
            r'include=\["file_search_call.results"\]'),
        (_of(openai(), "response.output", openai()["response"]["output"][2:]), Reason.NO_PASSAGES, "include="),
        (_of(anthropic(), "request", {"messages": TURNS}), Reason.NO_PASSAGES, "log the request"),
        (_of(gemini(), "response.candidates.0.groundingMetadata", {}), Reason.NO_PASSAGES, "groundingMetadata"),
        (_of(bedrock(), "response.citations", []), Reason.NO_PASSAGES, "cites none"),
        (_of(azure(), "response.choices.0.message.context", {"intent": "x"}), Reason.NO_PASSAGES, "citations"),
        (_of(llamaindex(), "response.source_nodes", []), None, ""),
        (_of(llamaindex(), "response.source_nodes", [{"node": 7}, {"node": [[]]}]), Reason.NO_PASSAGES, "source_nodes"),
        (_of(cohere(), "response.message.content", []), None, ""),
        (_of(trulens(), "calls", trulens()["calls"][1:]), Reason.NO_PASSAGES, "instrument"),
        (_of(openai(), "response.output.2.content", [{"type": "refusal", "refusal": "No."}]), Reason.EMPTY_ANSWER, ""),
        ({**RECORDS["chat"][1], "response": {"error": {"message": "Rate limit reached.", "type": "tokens"}}},
            Reason.EMPTY_ANSWER, ""),
        (_of(openai(), "request.input", SEARCHED) | SILENT, Reason.NO_PASSAGES, "--tool-outputs"),
    ],
)  # fmt: skip
def test_what_is_lacking_is_said_with_the_way_out(record, reason, words):
    row = row_of(record)
    assert row.fault is not None
    assert reason is None or row.fault.reason is reason
    assert re.search(words, str(row.fault))


@pytest.mark.parametrize(
    ("record", "passage_id"),
    [
        (_of(gemini(), "response.candidates.0.groundingMetadata.groundingChunks", WEB), "https://b.example/1"),
        (_of(anthropic(), "request.messages.0.content", PDF), "b.pdf"),
        (_of(bedrock(), "response.citations.1.retrievedReferences.1.content", {"type": "IMAGE"}), "s3://brigg/brigg-2"),
    ],
)
def test_passage_without_a_text_keeps_its_id_for_a_table_of_texts(record, passage_id, tmp_path):
    assert passage_id in [one.passage_id for one in row_of(record).passages if one.text is None]
    good = write_lines(tmp_path / "a.jsonl", [record, openai()])
    table = write_lines(tmp_path / "texts.jsonl", [{"passage_id": passage_id, "text": TEXTS[0]}])
    _, (row,), (letter,) = imported("responses", good, output=tmp_path / "log.parquet")
    assert row["record_id"] == "resp_1"
    assert letter["reason"] == "passage_text_missing"
    options = TraceOptions(passages_table=table)
    assert len(imported("responses", good, output=tmp_path / "log.parquet", options=options)[1]) == 2


PART = {"type": "input_text", "text": QUESTION}
MARKED = f"Answer from the context.\n\nContext:\n[1] {TEXTS[0]}\n[2] {TEXTS[1]}"
NODE = {"id_": "brigg-1", "text_resource": {"text": TEXTS[0], "mimetype": None}, "metadata": {}, "class_name": "Node"}
TALK = [*TURNS, {"role": "assistant", "content": ANSWER, "context": {"citations": [{"content": TEXTS[0], "id": "1"}]}}]
EVENTS = [{"type": "response.created", "response": {"id": "resp_1", "output": []}},
    {"type": "response.output_text.delta", "delta": ANSWER},
    {"type": "response.completed", "response": openai()["response"]}]  # fmt: skip
V1 = {"answer": ANSWER, "type": "generative", "context": None, "meta": {}}


@pytest.mark.parametrize(
    "record",
    [
        _of(openai(), "request.input", [*TURNS[:-1], {"role": "user", "content": [PART]}]),
        _of(openai(), "request.input", [{"type": "item_reference", "id": "m"}, TURNS[-1]]),
        _of(anthropic(), "request.messages.0.content.1.source.content", TEXTS[1]),
        _of(gemini(), "request.contents", QUESTION), _of(gemini(), "request.contents", [QUESTION]),
        _of(gemini(), "request.contents", [{"role": one["role"], "parts": [{"text": one["content"]}]}
            for one in TURNS]),
        _of(gemini(), "response.candidates.0.groundingMetadata.groundingChunks", [{"retrievedContext": {"uri": "u",
            "ragChunk": {"text": text, "pageSpan": {"firstPage": 1}}}} for text in TEXTS]),
        _of(gemini(), "response", [{"candidates": [{"content": {"parts": [{"text": part}]}, **more}]}
            for part, more in ((ANSWER[:9], {}), (ANSWER[9:], {"groundingMetadata": {"groundingChunks": [
                {"retrievedContext": {"text": text}} for text in TEXTS]}}))]),
        _of(openai(), "response", EVENTS),
        _of(openai(), "response", "".join(f"event: x\ndata: {json.dumps(one)}\n\n" for one in EVENTS)),
        _of(azure(), "response.choices.0.message.context", {"citations": [{"content": text} for text in TEXTS]}),
        {"query": QUESTION, "response": ANSWER, "context": TEXTS, "ground_truth": "Wrong."},
        {"query": TURNS, "response": [{"role": "assistant", "content": ANSWER}], "context": "\n".join(TEXTS)},
        {"conversation": {"messages": [*TALK[:-1], {**TALK[-1], "context": "\n".join(TEXTS)}]}},
        _of(cohere(), "request.documents", TEXTS),
        _of(cohere(), "request.documents", [{"data": json.dumps({"text": text})} for text in TEXTS]),
        _of(cohere(), "request.documents", [{"data": {"k": "v", "claim": text}} for text in TEXTS]),
        _of(cohere(), "request", {"messages": [*TURNS, {"role": "tool", "tool_call_id": "1",
            "content": [{"type": "document", "document": {"id": "1", "data": text}} for text in TEXTS]}]}),
        _of(llamaindex(), "response.source_nodes", [{"node": {**NODE, "text_resource": {"text": one}}}
            for one in TEXTS]),
        {"query": QUESTION, "response": ANSWER, "source_nodes": llamaindex()["response"]["source_nodes"]},
        {"query": QUESTION, "answers": [V1], "documents": [{"content": text, "id": text} for text in TEXTS]},
        {"data": {"retriever": {"query": QUESTION}}, "result": {"retriever": {"documents": [{"content": text}
            for text in TEXTS]}, "llm": {"replies": [ANSWER]}}},
        _of(anthropic(), "request", {"system": MARKED, "messages": TURNS}),
        _of(anthropic(), "request", {"messages": [{"role": "user", "content": f"{MARKED}\n\nQuestion: {QUESTION}"}]}),
        {**_of(anthropic(), "request", {"messages": TURNS}), "contexts": TEXTS},
        {"request": {"input": QUESTION, "instructions": MARKED},
            "response": {"output": openai()["response"]["output"][2:]}},
        {"request": {"contents": QUESTION, "systemInstruction": {"parts": [{"text": MARKED}]}},
            "response": _of(gemini(), "response.candidates.0.groundingMetadata", {})["response"]},
        _of(trulens(), "calls.0.rets", [{"page_content": text, "metadata": {}} for text in TEXTS]),
        _of(trulens(), "calls.0.rets", {"source_nodes": [{"node": {"text": text}} for text in TEXTS]}),
    ],
)  # fmt: skip
def test_other_spellings_of_the_same(record):
    check_story(row_of(record))


def test_passages_beside_the_question_count_before_those_of_the_system_prompt():
    marked = [{"role": "user", "content": f"{MARKED}\n\nQuestion: {QUESTION}"}]
    system = "Example:\nContext: The sky is blue.\nQuestion: What colour is it?\nAnswer: Blue."
    check_story(row_of(_of(anthropic(), "request", {"system": system, "messages": marked})))


def test_empty_text_of_a_node_is_no_missing_one():
    nodes = [{"node": {**NODE, "id_": f"n-{len(text)}", "text_resource": {"text": text}}} for text in (TEXTS[0], "")]
    row = row_of(_of(llamaindex(), "response.source_nodes", nodes))
    assert ([one.text for one in row.passages], row.fault) == ([TEXTS[0], ""], None)


def test_messages_of_one_response_are_not_glued_together():
    record = openai()
    record["response"]["output"] += record["response"]["output"][-1:]
    assert row_of(record).answer == f"{ANSWER}\n{ANSWER}"


def test_what_tools_said_in_a_request_are_passages_by_option():
    check_story(row_of(_of(openai(), "request.input", SEARCHED) | SILENT, tool_outputs=True))


def test_path_leads_to_one_of_several_arguments(tmp_path):
    root = {**langfuse()[0], "input": json.dumps({"args": ["talk-7", QUESTION], "kwargs": {"k": 4}})}
    options = TraceOptions(question_path="input.args[1]")
    assert text_of(imported_row("langfuse", [root, *langfuse()[1:]], tmp_path, options=options)) == ROW


def test_paths_are_searched_in_the_record_as_it_is_logged(tmp_path):
    record = {"askedFor": QUESTION, "response": gemini()["response"]}
    row = imported_row("responses", [record], tmp_path, options=TraceOptions(question_path="askedFor"))
    assert (row["question"], row["answer"]) == (QUESTION, ANSWER)


def test_audit_reads_responses_without_an_import(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [*(record for _, record in CASES), {"response": openai()["response"]}])
    *found, last = QALog(path, LogOptions(format="responses")).outcomes()
    assert len(found) == len(CASES)
    assert all(isinstance(one, QARecord) and one.answer == ANSWER for one in found)
    assert not isinstance(last, QARecord)


def test_missing_extra_is_named(monkeypatch, tmp_path):
    compiled_path.cache_clear()
    monkeypatch.setitem(sys.modules, "jmespath", None)
    path = write_lines(tmp_path / "a.jsonl", [openai()])
    with pytest.raises(UsageError, match=r"a log of responses needs the extra 'traces': pip install"):
        imported("responses", path, output=tmp_path / "log.parquet")


trace_sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")


@pytest.fixture(name="tracer")
def make_tracer():
    """A tracer whose spans lie in memory; ``tracer.spans`` gives those that have ended."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace_sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("own")
    tracer.spans = exporter.get_finished_spans
    yield tracer
    provider.shutdown()


def trace_openinference(tracer):
    """The story with the attributes of the library's own constants."""
    conventions = pytest.importorskip(
        "openinference.semconv.trace", reason="openinference-semantic-conventions is not installed"
    )
    names, kinds = conventions.SpanAttributes, conventions.OpenInferenceSpanKindValues
    kind = names.OPENINFERENCE_SPAN_KIND
    with tracer.start_as_current_span("ask") as root:
        root.set_attributes({kind: kinds.CHAIN.value, names.INPUT_VALUE: QUESTION, names.OUTPUT_VALUE: ANSWER})
        with tracer.start_as_current_span("find") as found:
            found.set_attributes({kind: kinds.RETRIEVER.value, names.INPUT_VALUE: "lamp"})
            for index, (passage_id, text) in enumerate(PASSAGES):
                place = f"{names.RETRIEVAL_DOCUMENTS}.{index}"
                found.set_attribute(f"{place}.{conventions.DocumentAttributes.DOCUMENT_ID}", passage_id)
                found.set_attribute(f"{place}.{conventions.DocumentAttributes.DOCUMENT_CONTENT}", text)
        with tracer.start_as_current_span("write") as model:
            model.set_attributes({kind: kinds.LLM.value, names.LLM_MODEL_NAME: MODEL})


def trace_genai(tracer):
    """The story with the attributes of the GenAI conventions."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names

    asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]
    documents = [{"id": one, "score": 0.5, "content": text} for one, text in PASSAGES]
    with tracer.start_as_current_span("POST /ask"):
        with tracer.start_as_current_span("retrieval") as found:
            found.set_attribute(names.GEN_AI_OPERATION_NAME, "retrieval")
            found.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))
        with tracer.start_as_current_span(f"chat {MODEL}") as model:
            model.set_attribute(names.GEN_AI_OPERATION_NAME, "chat")
            model.set_attribute(names.GEN_AI_REQUEST_MODEL, MODEL)
            model.set_attribute("gen_ai.input.messages", json.dumps(asked))
            model.set_attribute("gen_ai.output.messages", json.dumps(said))


def console_lines(spans):
    return [json.loads(one.to_json()) for one in spans]


def otlp_message(spans):
    """The request of the OTLP exporter as protobuf's JSON, in which ids are base64."""
    encoder = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common.trace_encoder", reason="the OTLP exporter is not installed"
    )
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(encoder.encode_spans(spans))


@pytest.mark.parametrize(("kind", "trace"), [("openinference", trace_openinference), ("otel-genai", trace_genai)])
def test_spans_of_the_sdk(kind, trace, tracer, tmp_path):
    trace(tracer)
    for name, records in (("console", console_lines(tracer.spans())), ("otlp", [otlp_message(tracer.spans())])):
        row = imported_row(kind, records, tmp_path)
        assert text_of(row) == ROW, name
        assert row["generator"] == MODEL


def test_spans_of_mlflows_classes(tracer, tmp_path):
    pytest.importorskip("mlflow", reason="mlflow or mlflow-tracing is not installed")
    from mlflow.entities import Document, LiveSpan

    with tracer.start_as_current_span("ask") as outer:
        root = LiveSpan(outer, "tr-1", "CHAIN")
        root.set_inputs({"question": QUESTION})
        with tracer.start_as_current_span("find") as inner:
            found = LiveSpan(inner, "tr-1", "RETRIEVER")
            found.set_outputs([Document(page_content=text, id=one) for one, text in PASSAGES])
        root.set_outputs(ANSWER)
    spans = [json.loads(json.dumps(one.to_dict())) for one in (found, root)]
    trace = {"info": {"trace_id": "tr-1"}, "data": {"spans": spans}}
    row = imported_row("mlflow", [trace], tmp_path)
    assert text_of(row) == ROW
    assert (row["span_id"], row["retrievals"][0]["span_id"]) == (root.span_id, found.span_id)


def test_ids_of_mlflows_spans_are_those_that_it_shows():
    ids = {"span_id": "tM2VQ+CJ60U=", "parent_span_id": "vsIvHCvJ2XM="}
    trace = {"trace_id": "tr-1", "spans": [{**ids, "name": "a"}, {"span_id": "b", "name": "b"}]}
    found = [(one.span_id, one.parent_id) for one in MLFLOW.spans(trace) if isinstance(one, Span)]
    assert found == [("b4cd9543e089eb45", "bec22f1c2bc9d973"), ("b", None)]


def test_runs_of_langsmiths_client(tmp_path):
    run_trees = pytest.importorskip("langsmith.run_trees", reason="langsmith is not installed")
    documents = [{"page_content": text, "type": "Document", "metadata": {"id": one}} for one, text in PASSAGES]
    root = run_trees.RunTree(name="ask", run_type="chain", inputs={"question": QUESTION})
    found = root.create_child(name="find", run_type="retriever", inputs={"query": "lamp"})
    found.end(outputs={"documents": documents})
    root.end(outputs={"answer": ANSWER})
    runs = [json.loads(json.dumps(one._get_dicts_safe(), default=str)) for one in (root, found)]
    assert text_of(imported_row("langsmith", runs, tmp_path)) == ROW


def test_pages_of_langfuses_client(tmp_path):
    """What ``client.api.observations.get_many`` returns, as its own models write it."""
    pytest.importorskip("langfuse", reason="langfuse is not installed")
    from langfuse.api.commons.types.observation_v2 import ObservationV2
    from langfuse.api.observations.types.observations_v2meta import ObservationsV2Meta
    from langfuse.api.observations.types.observations_v2response import ObservationsV2Response

    given = [{**row, "model": row.pop("provided_model_name") or None} for row in langfuse()[:3]]
    found = [ObservationV2(**row) for row in given]
    page = ObservationsV2Response(data=found, meta=ObservationsV2Meta())
    files = {
        "page.json": page.json(),
        "lines.jsonl": "".join(f"{one.json()}\n" for one in found),
        "snake.json": json.dumps([one.model_dump(mode="json") for one in found]),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        _, (row,), _ = imported("langfuse", str(tmp_path / name), output=tmp_path / f"{name}.parquet")
        assert text_of(row) == ROW, name
        assert row["generator"] == MODEL


def test_data_set_that_ragas_and_datasets_wrote(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = [{"user_input": QUESTION, "retrieved_contexts": [text for _, text in PASSAGES], "response": ANSWER}]
    folder = tmp_path / "data"
    table = datasets.table.InMemoryTable(pa.Table.from_pylist(rows))
    datasets.Dataset(table, fingerprint="own").save_to_disk(folder)  # its own fingerprint pickles all of pyarrow
    (path,) = folder.glob("*.arrow")
    _, (row,), _ = imported("ragas", str(path), output=tmp_path / "log.parquet")
    assert text_of(row) == {**ROW, "passages": [{**one, "passage_id": None} for one in ROW["passages"]]}
