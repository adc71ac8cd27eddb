"""The same story in every format comes to the same row, by an import and by an audit's own reader."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import (
    EXPORTS,
    MODEL,
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
