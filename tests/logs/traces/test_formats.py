"""The same story in every format comes to the same row, by an import and by an audit's own reader."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

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


@pytest.mark.parametrize("kind", SPAN_FORMATS)
def test_order_of_spans_and_files_does_not_matter(kind: str, tmp_path: Path) -> None:
    records = EXPORTS[kind]()
    if len(records) == 1:
        pytest.skip("one record holds the whole trace")
    paths = [write_lines(tmp_path / f"{part}.jsonl", [one]) for part, one in enumerate(reversed(records))]
    _, (row,), _ = imported(kind, *paths, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


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


def _rows_of_data_frame() -> list[dict[str, object]]:
    """Spans as Phoenix's data frame has them: one column per attribute, documents as lists of objects."""
    rows = []
    for span in openinference():
        attributes = span["attributes"]
        assert isinstance(attributes, dict)
        documents = [
            {"document.id": attributes.get(f"retrieval.documents.{index}.document.id"),
             "document.content": attributes.get(f"retrieval.documents.{index}.document.content")}
            for index in range(2) if f"retrieval.documents.{index}.document.id" in attributes
        ]  # fmt: skip
        flat = {f"attributes.{name}": one for name, one in attributes.items() if "document." not in name}
        context = {f"context.{name}": one for name, one in span["context"].items()}  # type: ignore[attr-defined]
        rest = {name: one for name, one in span.items() if name not in ("attributes", "context", "events")}
        rows.append({**rest, **context, **flat, "attributes.retrieval.documents": documents or None})
    return rows


def test_data_frame_of_phoenix_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "spans.parquet"
    rows = _rows_of_data_frame()
    names = list(dict.fromkeys(name for row in rows for name in row))
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    _, (row,), _ = imported("openinference", str(path), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_data_frame_of_phoenix_in_csv_and_json(tmp_path: Path) -> None:
    rows = _rows_of_data_frame()
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (tmp_path / "spans.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(
            {name: json.dumps(one) if isinstance(one, list) else one for name, one in row.items()} for row in rows
        )
    (tmp_path / "spans.json").write_text(json.dumps(rows, indent=2))
    for name in ("spans.csv", "spans.json"):
        _, (row,), _ = imported("openinference", str(tmp_path / name), output=tmp_path / f"{name}.parquet")
        assert text_of(row) == ROW, name


def test_csv_of_a_data_frame_of_phoenix(tmp_path: Path) -> None:
    """As ``to_csv`` writes it: the index is named like a column, and lists stand as Python prints them."""
    rows = _rows_of_data_frame()
    names = list(dict.fromkeys(name for row in rows for name in row))
    talk = [{"message.role": "user", "message.content": "It's for the model."}]
    with (tmp_path / "spans.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["context.span_id", *names, "attributes.llm.input_messages"])
        for row in rows:
            model = talk if row["name"] == "llm" else None
            writer.writerow([row["context.span_id"], *(row.get(name) for name in names), model])
    _, (row,), _ = imported("openinference", str(tmp_path / "spans.csv"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_nested_attributes_are_the_same_as_flat_ones(tmp_path: Path) -> None:
    spans = openinference()
    documents = [{"document": {"id": one["passage_id"], "content": one["text"]}} for one in ROW["passages"]]
    spans[1]["attributes"] = {"openinference": {"span": {"kind": "RETRIEVER"}}, "retrieval": {"documents": documents}}
    _, (row,), _ = imported("openinference", write_lines(tmp_path / "a.jsonl", spans), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_openinference_comes_in_otlp_too(tmp_path: Path) -> None:
    spans = []
    for one in openinference():
        attributes = [{"key": k, "value": {"stringValue": str(v)}} for k, v in one["attributes"].items()]  # type: ignore[attr-defined]
        ids = {"traceId": "ab", "spanId": one["context"]["span_id"], "parentSpanId": one["parent_id"] or ""}  # type: ignore[index]
        spans.append({**ids, "name": one["name"], "attributes": attributes, "startTimeUnixNano": "1795168800000000000"})
    envelope = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    _, (row,), _ = imported(
        "openinference", write_lines(tmp_path / "a.jsonl", [envelope]), output=tmp_path / "log.parquet"
    )
    assert text_of(row) == ROW


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


def test_messages_in_an_event_of_the_span_are_read(tmp_path: Path) -> None:
    (envelope,) = otlp()
    span = envelope["resourceSpans"][0]["scopeSpans"][0]["spans"][0]  # type: ignore[index]
    messages = [one for one in span["attributes"] if one["key"].endswith("messages")]
    span["attributes"] = [one for one in span["attributes"] if one not in messages]
    span["events"] = [{"name": "gen_ai.client.inference.operation.details", "attributes": messages}]
    _, (row,), _ = imported(
        "otel-genai", write_lines(tmp_path / "a.jsonl", [envelope]), output=tmp_path / "log.parquet"
    )
    assert text_of(row) == ROW


@pytest.mark.parametrize("event", ["db.query.result", "db.search.result"])
def test_results_in_events_of_a_vector_store_are_passages(event: str, tmp_path: Path) -> None:
    """As OpenLLMetry logs them, with what a workflow was given and gave in texts of JSON."""
    (envelope,) = otlp()
    root, search, chat = sorted(envelope["resourceSpans"][0]["scopeSpans"][0]["spans"], key=lambda one: one["spanId"])  # type: ignore[index]
    root["attributes"] = otlp_attributes(
        {"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps({"args": [QUESTION], "kwargs": {}}),
         "traceloop.entity.output": json.dumps(ANSWER)}
    )  # fmt: skip
    search["attributes"] = otlp_attributes({"db.system": "chroma"})
    search["events"] = [
        {"name": event, "attributes": otlp_attributes({f"{event}.id": one, f"{event}.document": text})}
        for one, text in PASSAGES
    ]
    chat["attributes"] = otlp_attributes({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "..."})
    envelope = {"resourceSpans": [{"scopeSpans": [{"spans": [root, search, chat]}]}]}
    for name, records in (("otlp", [envelope]), ("spans", [root, search, chat])):
        path = write_lines(tmp_path / f"{name}.jsonl", records)
        _, (row,), _ = imported("otel-genai", path, output=tmp_path / f"{name}.parquet")
        assert text_of(row) == ROW, name


def otlp_attributes(values: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


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


def _with_run_ids(run: dict[str, object]) -> dict[str, object]:
    return {"run_id" if name == "id" else name: one for name, one in run.items()}


def _with_dotted_order(run: dict[str, object]) -> dict[str, object]:
    order = ".".join(f"20261120T100000000000Z{one}" for one in (*_ABOVE[str(run["id"])], run["id"]))
    return {name: one for name, one in run.items() if name not in ("id", "trace_id", "parent_run_id")} | {
        "dotted_order": order
    }


_ABOVE = {"a": (), "b": ("a", "d"), "c": ("a",), "d": ("a",)}


@pytest.mark.parametrize("named", [_with_run_ids, _with_dotted_order])
def test_documents_that_a_retriever_dropped_are_no_passages(
    named: Callable[[dict[str, object]], dict[str, object]], tmp_path: Path
) -> None:
    root, retriever, model = langsmith()
    kept = retriever["outputs"]
    dropped = [*kept["documents"], {"page_content": "A page on something else.", "metadata": {"id": "x"}}]  # type: ignore[index]
    compressing = {**retriever, "id": "d", "name": "compressing", "outputs": kept}
    inner = {**retriever, "parent_run_id": "d", "outputs": {"documents": dropped}}
    path = write_lines(tmp_path / "a.jsonl", [named(one) for one in (inner, root, compressing, model)])
    _, (row,), _ = imported("langsmith", path, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


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


def test_legacy_langfuse_trace_is_the_root_of_its_observations(tmp_path: Path) -> None:
    root, *rest = langfuse()
    trace = {
        "id": "trace-1",
        "timestamp": "2026-11-20 10:00:00.000000",
        "input": root["input"],
        "output": root["output"],
    }
    legacy = [{key: one for key, one in row.items() if key != "session_id"} for row in rest[:2]]
    paths = [write_lines(tmp_path / "observations.jsonl", legacy), write_lines(tmp_path / "traces.jsonl", [trace])]
    _, (row,), _ = imported("langfuse", *paths, output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_camel_case_of_langfuses_interface_is_read(tmp_path: Path) -> None:
    def camel(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(part.capitalize() for part in rest)

    rows = [{camel(name): one for name, one in row.items()} for row in langfuse()[:3]]
    (tmp_path / "a.json").write_text(json.dumps({"data": rows}))
    _, (row,), _ = imported("langfuse", str(tmp_path / "a.json"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


@pytest.mark.parametrize(("name", "value"), [("is_root_observation", True), ("isRootObservation", "true")])
def test_span_that_langfuse_calls_a_root_counts_before_the_request_around_it(
    name: str, value: object, tmp_path: Path
) -> None:
    root, *rest = langfuse()[:3]
    request = langfuse_observation("http", "", "SPAN", 0, {"method": "POST"}, {"status": 200})
    records = [{**request, name: value}, {**root, "parent_observation_id": "http", name: value}, *rest]
    _, (row,), _ = imported("langfuse", write_lines(tmp_path / "a.jsonl", records), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
    outside = [{**root, "parent_observation_id": "not exported", name: value}, *rest]
    _, (row,), _ = imported("langfuse", write_lines(tmp_path / "b.jsonl", outside), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_langfuse_csv_and_gzip(tmp_path: Path) -> None:
    rows = langfuse()[:3]
    path = tmp_path / "observations.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "metadata": "{}"} for row in rows)
    zipped = tmp_path / "observations.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    for one in (path, zipped):
        _, (row,), _ = imported("langfuse", str(one), output=tmp_path / "log.parquet")
        assert text_of(row) == ROW


def test_runs_that_hold_their_children(tmp_path: Path) -> None:
    root, *children = langsmith()
    (tmp_path / "a.json").write_text(json.dumps({"runs": [{**root, "trace_id": None, "child_runs": children}]}))
    _, (row,), _ = imported("langsmith", str(tmp_path / "a.json"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_bulk_export_of_langsmith_has_json_in_texts(tmp_path: Path) -> None:
    runs = [
        {
            **run,
            "inputs": json.dumps(run["inputs"]),
            "outputs": json.dumps(run["outputs"]),
            "extra": json.dumps(run["extra"]),
        }
        for run in langsmith()
    ]
    pq.write_table(pa.Table.from_pylist(runs), tmp_path / "runs.parquet")
    _, (row,), _ = imported("langsmith", str(tmp_path / "runs.parquet"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW
    assert row["generator"] == MODEL


def test_rows_of_mlflows_search_have_spans_or_the_whole_trace(tmp_path: Path) -> None:
    (trace,) = mlflow()
    spans = trace["data"]["spans"]  # type: ignore[index]
    previews = {"request": "Who", "response": "Ada", "request_preview": "Who", "response_preview": "Ada"}
    for number, row in enumerate(
        [{"trace_id": "tr-1", "spans": spans, **previews}, {"trace_id": "tr-1", "trace": json.dumps(trace), **previews}]
    ):
        path = write_lines(tmp_path / f"{number}.jsonl", [row])
        _, (found,), _ = imported("mlflow", path, output=tmp_path / "log.parquet")
        assert text_of(found) == ROW
        assert found["record_id"] == "tr-1"


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


def test_passages_in_json_text_of_a_parquet_column_are_read(tmp_path: Path) -> None:
    row = {"record_id": "a", "question": "q", "passages": json.dumps(ROW["passages"]), "answer": "It is."}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "texts.parquet")
    _, (found,), _ = imported("jsonl", str(tmp_path / "texts.parquet"), output=tmp_path / "log.parquet")
    assert found["passages"] == ROW["passages"]
