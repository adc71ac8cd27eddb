"""One small story as every trace store would export it, and as providers and frameworks answer it."""

import copy
import csv
import io
import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.import_run import import_exports, letters_path
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import TraceOptions

QUESTION = "Who lit the lamp at Brigg Point?"
ANSWER = "Ada Thorne lit it, in 1874."
PASSAGES = (("brigg-1", "Ada Thorne lit the lamp in 1874."), ("brigg-2", "The keeper lived in the tower."))
MODEL = "writer-2"
ROW = {
    "question": QUESTION,
    "passages": [{"passage_id": one, "title": None, "text": text} for one, text in PASSAGES],
    "answer": ANSWER,
}
_NANOSECONDS = 1_795_168_800_000_000_000


def moment(second):
    return f"2026-11-20T10:00:0{second}+00:00"


def write_lines(path, records):
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")
    return str(path)


def lines_of(records):
    return "\n".join(map(json.dumps, records)).encode()


def csv_of(records):
    """The records as CSV; lists and objects as Python prints them."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(dict.fromkeys(name for one in records for name in one)))
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue().encode()


def parquet_of(records):
    file = io.BytesIO()
    names = dict.fromkeys(name for one in records for name in one)
    pq.write_table(pa.Table.from_pylist([{name: one.get(name) for name in names} for one in records]), file)
    return file.getvalue()


def opened(content):
    return lambda: nullcontext(io.BytesIO(content))


def imported(kind, *paths, output, options=None):
    summary = import_exports(LOG_KINDS[kind], list(paths), output, options or TraceOptions())
    letters = letters_path(output)
    return summary, rows_of(output), rows_of(letters) if letters.exists() else []


def imported_row(kind, records, folder, *, options=None):
    """The only row of the log that an import makes of these records; both lie in ``folder``."""
    path = write_lines(folder / "export.jsonl", records)
    _, (row,), _ = imported(kind, path, output=folder / "log.parquet", options=options)
    return row


def rows_of(path):
    return pq.read_table(path).to_pylist()


def text_of(row):
    return {name: row[name] for name in ROW}


def phoenix_span(span_id, parent, kind, second, **attributes):
    """A span as Phoenix gives it: attributes under dotted names."""
    return {
        "name": kind.lower(), "context": {"trace_id": "trace-1", "span_id": span_id}, "span_kind": kind,
        "parent_id": parent, "start_time": moment(second), "end_time": moment(second + 1), "status_code": "OK",
        "status_message": "", "attributes": {"openinference.span.kind": kind, **attributes}, "events": [],
    }  # fmt: skip


def phoenix_documents(prefix):
    found = {}
    for index, (passage_id, text) in enumerate(PASSAGES):
        place = f"{prefix}.{index}.document"
        found |= {f"{place}.id": passage_id, f"{place}.content": text, f"{place}.score": 0.9 - index / 10}
        found[f"{place}.metadata"] = json.dumps({"page": index})
    return found


def openinference():
    """A chain, its retriever and its model, the last one first."""
    asked = {"input.value": QUESTION, "input.mime_type": "text/plain"}
    said = {"output.value": json.dumps({"answer": ANSWER}), "output.mime_type": "application/json"}
    return [
        phoenix_span("c", "a", "LLM", 2, **{"llm.model_name": MODEL, "output.value": "not the chain's answer"}),
        phoenix_span("b", "a", "RETRIEVER", 1, **{"input.value": "lamp", **phoenix_documents("retrieval.documents")}),
        phoenix_span("a", None, "CHAIN", 0, **asked, **said),
    ]


def langfuse():
    """Enriched observations: free JSON as texts, an empty parent at the top."""
    documents = [{"id": one, "page_content": text} for one, text in PASSAGES]
    model = langfuse_observation("c", "a", "GENERATION", 2, [{"role": "user", "content": "..."}], {"content": "no"})
    return [
        langfuse_observation("a", "", "SPAN", 0, {"query": QUESTION}, {"answer": ANSWER}),
        langfuse_observation("b", "a", "RETRIEVER", 1, "lamp", documents),
        {**model, "provided_model_name": MODEL},
        {"id": "score-1", "trace_id": "trace-1", "name": "helpful", "value": 1, "data_type": "NUMERIC"},
    ]


def langfuse_observation(one, parent, kind, second, given, gave, trace="trace-1"):
    given, gave = (value if isinstance(value, str) else json.dumps(value) for value in (given, gave))
    start, end = (f"2026-11-20 10:00:0{moment}.000000" for moment in (second, second + 1))
    return {
        "id": one, "trace_id": trace, "project_id": "p", "type": kind, "parent_observation_id": parent,
        "start_time": start, "end_time": end, "name": kind.lower(), "metadata": {}, "level": "DEFAULT",
        "input": given, "output": gave, "provided_model_name": "", "session_id": "talk-7",
    }  # fmt: skip


def otlp(*, texts=True):
    """One envelope of OTLP; ``texts`` logs the documents' texts beside their ids and scores."""
    documents = [{"id": one, "score": 0.5} | ({"content": text} if texts else {}) for one, text in PASSAGES]
    asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]
    messages = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
    spans = [
        otlp_span("03", "01", "chat", 2, {**messages, "gen_ai.request.model": MODEL}),
        otlp_span("02", "01", "retrieval", 1, {"gen_ai.retrieval.documents": json.dumps(documents)}),
        otlp_span("01", "", None, 0, {"http.request.method": "POST"}),
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "rag"}}]}
    return [{"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "own"}, "spans": spans}]}]}]


def otlp_span(one, parent, operation, second, texts):
    names = {**texts, **({"gen_ai.operation.name": operation} if operation else {})}
    start, end = (str(_NANOSECONDS + moment * 10**9) for moment in (second, second + 1))
    return {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"00000000000000{one}",
        "parentSpanId": f"00000000000000{parent}" if parent else "", "name": operation or "POST /ask", "kind": 1,
        "startTimeUnixNano": start, "endTimeUnixNano": end, "status": {},
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in names.items()],
    }  # fmt: skip


def mlflow():
    """A trace as ``Trace.to_json`` writes it; its previews are cut off."""
    documents = [{"page_content": text, "metadata": {"doc_uri": "brigg.txt"}, "id": one} for one, text in PASSAGES]
    spans = [
        mlflow_span("01", None, "CHAIN", 0, {"question": QUESTION}, ANSWER),
        mlflow_span("02", "01", "RETRIEVER", 1, {"query": "lamp"}, documents),
        mlflow_span("03", "01", "CHAT_MODEL", 2, {"messages": []}, {"choices": []}, {"mlflow.llm.model": MODEL}),
    ]
    previews = {"request_preview": QUESTION[:5], "response_preview": ANSWER[:5]}
    info = {"trace_id": "tr-1", **previews, "trace_metadata": {"mlflow.trace.session": "talk-7"}}
    return [{"info": info, "data": {"spans": spans}}]


def mlflow_span(one, parent, kind, second, given, gave, more=None):
    """A span of MLflow's third schema: values of attributes are JSON texts."""
    values = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": gave, **(more or {})}
    start, end = (_NANOSECONDS + moment * 10**9 for moment in (second, second + 1))
    return {
        "trace_id": "AAAB", "span_id": one, "parent_span_id": parent, "name": kind.lower(),
        "start_time_unix_nano": start, "end_time_unix_nano": end, "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {name: json.dumps(value) for name, value in values.items()}, "events": [],
    }  # fmt: skip


def langsmith():
    """Runs as ``list_runs`` gives them."""
    documents = [{"page_content": text, "type": "Document", "metadata": {"id": one}} for one, text in PASSAGES]
    said = {"generations": [[{"text": "no", "message": {"kwargs": {"content": "no"}}}]]}
    return [
        langsmith_run("a", None, "chain", 0, {"input": QUESTION}, {"output": ANSWER}),
        langsmith_run("b", "a", "retriever", 1, {"query": "lamp"}, {"documents": documents}),
        {**langsmith_run("c", "a", "llm", 2, {"messages": []}, said), "extra": {"metadata": {"ls_model_name": MODEL}}},
    ]


def langsmith_run(one, parent, kind, second, given, gave):
    return {
        "id": one, "trace_id": "a", "parent_run_id": parent, "run_type": kind, "name": kind,
        "start_time": moment(second), "end_time": moment(second + 1), "inputs": given, "outputs": gave, "error": None,
        "session_id": "project", "extra": {},
    }  # fmt: skip


def ragas():
    ids, texts = map(list, zip(*PASSAGES, strict=True))
    contexts = {"retrieved_contexts": texts, "retrieved_context_ids": ids}
    return [{"user_input": QUESTION, **contexts, "response": ANSWER, "reference": "Ada Thorne"}]


def plain():
    documents = [{"id": one, "text": text} for one, text in PASSAGES]
    return [{"id": 7, "question": QUESTION, "contexts": documents, "answer": ANSWER, "model": MODEL}]


EXPORTS = {
    "ragas": ragas, "openinference": openinference, "langfuse": langfuse, "otel-genai": otlp, "mlflow": mlflow,
    "langsmith": langsmith, "jsonl": plain,
}  # fmt: skip
SPAN_FORMATS = [name for name in EXPORTS if name not in ("ragas", "jsonl")]


def mixed_spans(folder):
    """Three traces: one whole, one without passages, one line that is no JSON, and one whole."""
    first, last = openinference(), openinference()
    for span in last:
        span["context"]["trace_id"] = "trace-2"
    bare = [phoenix_span("x", None, "CHAIN", 0, **{"input.value": "Hello?", "output.value": "Hello."})]
    bare[0]["context"] = {"trace_id": "trace-bare", "span_id": "x"}
    path = Path(write_lines(folder / "spans.jsonl", [*first[:1], *bare]))
    with path.open("a") as file:
        file.write("{broken\n" + "".join(json.dumps(one) + "\n" for one in [*last, *first[1:]]))
    return str(path)


AGENT_TALK = [
    {"content": "Good day", "type": "human"}, {"content": "Ask me.", "type": "ai"},
    {"content": QUESTION, "type": "human"},
    {"content": "Wait.", "type": "ai", "tool_calls": [{"name": "search", "args": {"query": "lamp"}}]},
    {"content": PASSAGES[0][1], "type": "tool"}, {"content": ANSWER, "type": "ai"},
]  # fmt: skip
TURNS = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "What is it?"},
    {"role": "user", "content": QUESTION},
]
_LINES = [
    json.loads(line) for line in Path(__file__).with_name("responses.jsonl").read_text(encoding="utf-8").splitlines()
]
RECORDS = {
    name: tuple(one["record"] for one in _LINES if one["preset"] == name)
    for name in dict.fromkeys(one["preset"] for one in _LINES)
}
"""Records of each provider by the name of its preset."""


def logged(preset, number=0):
    return copy.deepcopy(RECORDS[preset][number])


openai, anthropic, gemini, bedrock = (partial(logged, name) for name in [*RECORDS][:4])
azure, cohere, llamaindex = (partial(logged, name) for name in ("azure-on-your-data", "cohere", "llamaindex-response"))
trulens, haystack_replies = partial(logged, "trulens"), partial(logged, "haystack", 1)
