"""Exports that the real client libraries make; a library that is not installed skips its test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.logs.traces.exports import ANSWER, MODEL, PASSAGES, QUESTION, ROW, imported, langfuse, text_of, write_lines

trace_sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")


@pytest.fixture(name="tracer")
def make_tracer() -> Iterator[Any]:
    """A tracer whose spans lie in memory; ``tracer.spans`` gives those that have ended."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace_sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("own")
    tracer.spans = exporter.get_finished_spans
    yield tracer
    provider.shutdown()


def trace_openinference(tracer: Any) -> None:
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


def trace_genai(tracer: Any) -> None:
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


def console_lines(spans: Sequence[Any]) -> list[object]:
    """What the console exporter of the SDK prints."""
    return [json.loads(one.to_json()) for one in spans]


def otlp_message(spans: Sequence[Any]) -> dict[str, Any]:
    """The request of the OTLP exporter as protobuf's JSON, in which ids are base64."""
    encoder = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common.trace_encoder", reason="the OTLP exporter is not installed"
    )
    from google.protobuf.json_format import MessageToDict

    message: dict[str, Any] = MessageToDict(encoder.encode_spans(spans))
    return message


def test_openinference_spans_of_the_sdk(tracer: Any, tmp_path: Path) -> None:
    trace_openinference(tracer)
    for name, records in (("console", console_lines(tracer.spans())), ("otlp", [otlp_message(tracer.spans())])):
        path = write_lines(tmp_path / f"{name}.jsonl", records)
        _, (row,), _ = imported("openinference", path, output=tmp_path / f"{name}.parquet")
        assert text_of(row) == ROW, name
        assert row["generator"] == MODEL


def test_genai_spans_of_the_sdk(tracer: Any, tmp_path: Path) -> None:
    trace_genai(tracer)
    for name, records in (("console", console_lines(tracer.spans())), ("otlp", [otlp_message(tracer.spans())])):
        path = write_lines(tmp_path / f"{name}.jsonl", records)
        _, (row,), _ = imported("otel-genai", path, output=tmp_path / f"{name}.parquet")
        assert text_of(row) == ROW, name


def test_pretty_output_of_the_console_exporter(tracer: Any, tmp_path: Path) -> None:
    trace_openinference(tracer)
    (tmp_path / "a.json").write_text("\n".join(one.to_json() for one in tracer.spans()))
    _, (row,), _ = imported("openinference", str(tmp_path / "a.json"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_spans_of_mlflows_classes(tracer: Any, tmp_path: Path) -> None:
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
    _, (row,), _ = imported("mlflow", write_lines(tmp_path / "a.jsonl", [trace]), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_runs_of_langsmiths_client(tmp_path: Path) -> None:
    run_trees = pytest.importorskip("langsmith.run_trees", reason="langsmith is not installed")
    documents = [{"page_content": text, "type": "Document", "metadata": {"id": one}} for one, text in PASSAGES]
    root = run_trees.RunTree(name="ask", run_type="chain", inputs={"question": QUESTION})
    found = root.create_child(name="find", run_type="retriever", inputs={"query": "lamp"})
    found.end(outputs={"documents": documents})
    root.end(outputs={"answer": ANSWER})
    runs = [json.loads(json.dumps(one._get_dicts_safe(), default=str)) for one in (root, found)]
    _, (row,), _ = imported("langsmith", write_lines(tmp_path / "a.jsonl", runs), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW


def test_pages_of_langfuses_client(tmp_path: Path) -> None:
    """What ``client.api.observations.get_many`` returns, as its own models write it."""
    pytest.importorskip("langfuse", reason="langfuse is not installed")
    from langfuse.api.commons.types.observation_v2 import ObservationV2
    from langfuse.api.observations.types.observations_v2meta import ObservationsV2Meta
    from langfuse.api.observations.types.observations_v2response import ObservationsV2Response

    given = [{**row, "model": row.pop("provided_model_name") or None} for row in langfuse()[:3]]
    found = [ObservationV2(**row) for row in given]  # type: ignore[arg-type]
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


def test_data_set_that_ragas_and_datasets_wrote(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = [{"user_input": QUESTION, "retrieved_contexts": [text for _, text in PASSAGES], "response": ANSWER}]
    folder = tmp_path / "data"
    table = datasets.table.InMemoryTable(pa.Table.from_pylist(rows))
    datasets.Dataset(table, fingerprint="own").save_to_disk(folder)  # its own fingerprint pickles all of pyarrow
    (path,) = folder.glob("*.arrow")
    _, (row,), _ = imported("ragas", str(path), output=tmp_path / "log.parquet")
    assert text_of(row) == {**ROW, "passages": [{**one, "passage_id": None} for one in ROW["passages"]]}
