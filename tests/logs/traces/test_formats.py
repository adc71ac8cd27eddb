"""The same story in every format comes to the same row, by an import and by an audit's own reader."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import (
    ANSWER,
    EXPORTS,
    MODEL,
    PASSAGES,
    QUESTION,
    ROW,
    SPAN_FORMATS,
    imported,
    langfuse,
    langfuse_observation,
    langsmith,
    mlflow,
    openinference,
    otlp,
    text_of,
    write_lines,
)

from attribeam.logs.columns import LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.traces.prompt_parts import FROM_PROMPT
from attribeam.schemas import QARecord


@pytest.mark.parametrize("kind", EXPORTS)
def test_every_format_gives_the_same_row(kind: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.jsonl", EXPORTS[kind]())
    summary, (row,), letters = imported(kind, path, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
    assert (summary.read, summary.written, letters) == (1, 1, [])
    assert row["generator"] == (None if kind == "ragas" else MODEL)


@pytest.mark.parametrize("kind", [name for name in EXPORTS if name != "jsonl"])
def test_audit_reads_what_an_import_writes(kind: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "export.jsonl", EXPORTS[kind]())
    _, _, _ = imported(kind, path, output=tmp_path / "log.parquet")
    (direct,) = QALog(path, LogOptions(format=kind)).outcomes()
    (of_import,) = QALog(str(tmp_path / "log.parquet")).outcomes()
    assert isinstance(direct, QARecord)
    assert isinstance(of_import, QARecord)
    for name in ("record_id", "question", "passages", "answer", "answered_at", "generator"):
        assert getattr(direct, name) == getattr(of_import, name), name


def test_time_of_the_answer_is_the_end_of_the_root(tmp_path: Path) -> None:
    for kind in SPAN_FORMATS:
        path = write_lines(tmp_path / f"{kind}.jsonl", EXPORTS[kind]())
        _, (row,), _ = imported(kind, path, output=tmp_path / f"{kind}.parquet")
        assert str(row["answered_at"]).startswith("2026-11-20 10:00:01"), kind


def test_conversations_keep_their_id(tmp_path: Path) -> None:
    spans = openinference()
    spans[0]["attributes"]["session.id"] = "talk-7"  # type: ignore[index]
    runs = langsmith()
    runs[0]["extra"] = {"metadata": {"thread_id": "talk-7"}}
    for kind, records in (
        ("openinference", spans),
        ("langsmith", runs),
        ("langfuse", langfuse()),
        ("mlflow", mlflow()),
    ):
        path = write_lines(tmp_path / f"{kind}.jsonl", records)
        _, (row,), _ = imported(kind, path, output=tmp_path / f"{kind}.parquet")
        assert row["session_id"] == "talk-7", kind


def test_structured_otlp_values_are_read(tmp_path: Path) -> None:
    (envelope,) = otlp()
    spans = envelope["resourceSpans"][0]["scopeSpans"][0]["spans"]  # type: ignore[index]
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
    _, (row,), _ = imported(
        "otel-genai", write_lines(tmp_path / "a.jsonl", [envelope]), output=tmp_path / "log.parquet"
    )
    assert row["question"] == "Lit when?"


def test_contexts_that_stand_only_in_the_prompt_are_passages(tmp_path: Path) -> None:
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
        assert [one["text"] for one in row["passages"]] == [text for _, text in PASSAGES]  # type: ignore[attr-defined]
        assert summary.seen is not None
        assert +summary.seen.notes == {FROM_PROMPT: 1}


def test_time_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    root, *rest = langsmith()
    path = write_lines(tmp_path / "a.jsonl", [{**root, "end_time": "soon"}, *rest])
    summary, (row,), _ = imported("langsmith", path, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
    assert summary.seen is not None
    assert +summary.seen.notes == {"answered_at stays empty where end_time holds no time that can be read": 1}


@pytest.mark.parametrize("direct", [True, False])
def test_log_says_how_it_was_read(direct: bool, tmp_path: Path) -> None:
    (sample,) = EXPORTS["ragas"]()
    path = write_lines(tmp_path / "a.jsonl", [{**sample, "answer": "A gold one."}] * 2)
    log = QALog(path, LogOptions(format="ragas"))
    if not direct:
        imported("ragas", path, output=tmp_path / "log.parquet")
        log = QALog(str(tmp_path / "log.parquet"))
    (note,) = log.check().notes
    assert str(note) == "answer read from response, not from answer; --answer-path names another: 2 rows"


def test_arrow_files_of_a_hugging_face_data_set(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(EXPORTS["ragas"]())
    stream, whole = tmp_path / "data-00000-of-00002.arrow", tmp_path / "data-00001-of-00002.arrow"
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_file(whole, table.schema) as writer:
        writer.write_table(table)
    _, rows, _ = imported("ragas", str(stream), str(whole), output=tmp_path / "log.parquet")
    assert [text_of(row) for row in rows] == [ROW, ROW]
    assert len({row["record_id"] for row in rows}) == 2


Records = list[dict[str, Any]]


def _attributes(values: Mapping[str, object]) -> Records:
    return [{"key": key, "value": {"stringValue": str(value)}} for key, value in values.items()]


def _data_frame() -> Records:
    """Spans as Phoenix's data frame has them: one column per attribute, documents as lists of objects."""
    rows = []
    for span in openinference():
        attributes = span["attributes"]
        assert isinstance(attributes, dict)
        documents = [{"document.id": one["passage_id"], "document.content": one["text"]} for one in ROW["passages"]]
        is_retriever = span["span_kind"] == "RETRIEVER"
        rows.append(
            {
                **{
                    name: span[name]
                    for name in ("name", "span_kind", "parent_id", "start_time", "end_time", "status_code")
                },
                "context.trace_id": "trace-1",
                "context.span_id": span["context"]["span_id"],  # type: ignore[index]
                **{f"attributes.{name}": one for name, one in attributes.items() if "documents" not in name},
                **({"attributes.retrieval.documents": documents} if is_retriever else {}),
            }
        )
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _printed_frame() -> Records:
    """As ``to_csv`` writes it: lists stand as Python prints them."""
    talk = [{"message.role": "user", "message.content": "It's for the model."}]
    models = ({"attributes.llm.input_messages": talk if row["name"] == "llm" else None} for row in _data_frame())
    return [{**row, **model} for row, model in zip(_data_frame(), models, strict=True)]


def _nested() -> Records:
    model, retriever, root = openinference()
    documents = [{"document": {"id": one, "content": text}} for one, text in PASSAGES]
    nested = {"openinference": {"span": {"kind": "RETRIEVER"}}, "retrieval": {"documents": documents}}
    return [model, {**retriever, "attributes": nested}, root]


def _openinference_otlp() -> Records:
    spans: Records = []
    for one in openinference():
        ids = {"traceId": "ab", "spanId": one["context"]["span_id"], "parentSpanId": one["parent_id"] or ""}  # type: ignore[index]
        own = _attributes(one["attributes"])  # type: ignore[arg-type]
        spans.append({**ids, "name": one["name"], "attributes": own, "startTimeUnixNano": "1795168800000000000"})
    return [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]


def _spans_of_otlp() -> Records:
    spans: Records = otlp()[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]  # type: ignore[index]
    return sorted(spans, key=lambda one: str(one["spanId"]))


def _messages_in_an_event() -> Records:
    root, search, chat = _spans_of_otlp()
    messages = [one for one in chat["attributes"] if one["key"].endswith("messages")]
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": messages}
    own = [one for one in chat["attributes"] if one not in messages]
    return [root, search, {**chat, "attributes": own, "events": [event]}]


def _events_of_a_vector_store(event: str) -> Records:
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


def _enveloped(spans: Records) -> Records:
    return [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]


def _legacy_trace() -> Records:
    root, *rest = langfuse()
    sides = {"input": root["input"], "output": root["output"]}
    trace = {"id": "trace-1", "timestamp": "2026-11-20 10:00:00.000000", **sides}
    return [*({key: one for key, one in row.items() if key != "session_id"} for row in rest[:2]), trace]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _marked_root(name: str, value: object, *, outside: bool) -> Records:
    """A span that Langfuse calls a root counts before the request around it."""
    root, *rest = langfuse()[:3]
    request = langfuse_observation("http", "", "SPAN", 0, {"method": "POST"}, {"status": 200})
    marked = {**root, "parent_observation_id": "not exported" if outside else "http", name: value}
    return [*([] if outside else [{**request, name: value}]), marked, *rest]


def _dropped(named: Callable[[dict[str, Any]], dict[str, Any]]) -> Records:
    """Documents that a compressing retriever dropped are no passages."""
    root, retriever, model = langsmith()
    kept: Any = retriever["outputs"]
    more = [*kept["documents"], {"page_content": "A page on something else.", "metadata": {"id": "x"}}]
    inner = {**retriever, "parent_run_id": "d", "outputs": {"documents": more}}
    return [named(one) for one in (inner, root, {**retriever, "id": "d", "name": "compressing"}, model)]


def _with_dotted_order(run: dict[str, Any]) -> dict[str, Any]:
    above = {"a": (), "b": ("a", "d"), "c": ("a",), "d": ("a",)}[run["id"]]
    order = ".".join(f"20261120T100000000000Z{one}" for one in (*above, run["id"]))
    return {name: one for name, one in run.items() if name not in ("id", "trace_id", "parent_run_id")} | {
        "dotted_order": order
    }


def _runs_with_children() -> Records:
    root, *children = langsmith()
    return [{"runs": [{**root, "trace_id": None, "child_runs": children}]}]


_SPANS: dict[str, Any] = mlflow()[0]["data"]  # type: ignore[assignment]
_PREVIEWS = {"request": "Who", "response": "Ada", "request_preview": "Who", "response_preview": "Ada"}
VARIANTS: dict[str, tuple[str, Records]] = {
    **{f"{kind}, last record first": (kind, EXPORTS[kind]()[::-1]) for kind in SPAN_FORMATS},
    "data frame of Phoenix": ("openinference", _data_frame()),
    "nested attributes": ("openinference", _nested()),
    "OpenInference in OTLP": ("openinference", _openinference_otlp()),
    "messages in an event": ("otel-genai", _messages_in_an_event()),
    **{
        f"{event}, {shape.__name__}": ("otel-genai", shape(_events_of_a_vector_store(event)))
        for event in ("db.query.result", "db.search.result")
        for shape in (list, _enveloped)
    },
    "legacy trace of Langfuse": ("langfuse", _legacy_trace()),
    "camel case of Langfuse": ("langfuse", [{_camel(k): one for k, one in row.items()} for row in langfuse()[:3]]),
    **{
        f"root of Langfuse by {name}, {outside}": ("langfuse", _marked_root(name, value, outside=outside))
        for name, value in (("is_root_observation", True), ("isRootObservation", "true"))
        for outside in (True, False)
    },
    "runs with run_id": ("langsmith", _dropped(lambda run: {"run_id" if k == "id" else k: v for k, v in run.items()})),
    "runs with dotted_order": ("langsmith", _dropped(_with_dotted_order)),
    "runs that hold their children": ("langsmith", _runs_with_children()),
    "bulk export of LangSmith": (
        "langsmith",
        [{k: json.dumps(one) if k in ("inputs", "outputs", "extra") else one for k, one in run.items()}
         for run in langsmith()],
    ),
    "MLflow's search with spans": ("mlflow", [{"trace_id": "tr-1", **_SPANS, **_PREVIEWS}]),
    "MLflow's search with a trace": ("mlflow", [{"trace_id": "tr-1", "trace": json.dumps(mlflow()[0]), **_PREVIEWS}]),
    "passages in a text": ("jsonl", [{**ROW, "passages": json.dumps(ROW["passages"])}]),
}  # fmt: skip


def _write_parquet(path: Path, records: Records) -> None:
    pq.write_table(pa.Table.from_pylist(records), path)


def _write_csv(path: Path, records: Records) -> None:
    """Lists and objects as Python prints them."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for one in records for name in one)))
        writer.writeheader()
        writer.writerows(records)


def _write_json_csv(path: Path, records: Records) -> None:
    _write_csv(path, [{k: json.dumps(v) if isinstance(v, list) else v for k, v in one.items()} for one in records])


def _write_zipped_csv(path: Path, records: Records) -> None:
    _write_csv(path, records)
    path.write_bytes(gzip.compress(path.read_bytes()))


def _write_list(path: Path, records: Records) -> None:
    path.write_text(json.dumps({"data": records}, indent=2))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_gives_the_same_row(name: str, tmp_path: Path) -> None:
    kind, records = VARIANTS[name]
    _, (row,), _ = imported(kind, write_lines(tmp_path / "a.jsonl", records), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
    if kind == "mlflow":
        assert row["record_id"] == "tr-1"


@pytest.mark.parametrize(
    ("kind", "records", "write"),
    [
        ("openinference", _data_frame(), _write_parquet),
        ("openinference", _data_frame(), _write_json_csv),
        ("openinference", _data_frame(), _write_list),
        ("openinference", _printed_frame(), _write_csv),
        ("langfuse", [{**row, "metadata": "{}"} for row in langfuse()[:3]], _write_csv),
        ("langfuse", [{**row, "metadata": "{}"} for row in langfuse()[:3]], _write_zipped_csv),
        ("langfuse", VARIANTS["camel case of Langfuse"][1], _write_list),
        ("langsmith", VARIANTS["bulk export of LangSmith"][1], _write_parquet),
        ("jsonl", VARIANTS["passages in a text"][1], _write_parquet),
    ],
)
def test_every_kind_of_file_gives_the_same_row(
    kind: str, records: Records, write: Callable[[Path, Records], None], tmp_path: Path
) -> None:
    write(tmp_path / "export", records)
    _, (row,), _ = imported(kind, str(tmp_path / "export"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


@pytest.mark.parametrize("kind", ["openinference", "langfuse", "langsmith"])
def test_spans_of_a_trace_may_lie_in_several_files(kind: str, tmp_path: Path) -> None:
    records = reversed(EXPORTS[kind]())
    paths = [write_lines(tmp_path / f"{part}.jsonl", [one]) for part, one in enumerate(records)]
    _, (row,), _ = imported(kind, *paths, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
