"""Round trips with real servers: traces in, exported, imported, audited, scores back, read and compared.

They need the packages mlflow, arize-phoenix and arize-phoenix-client, which are too large for the extra ``dev``.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from importlib.metadata import distributions

import pytest

from attribeam.integrations.send_command import answer_scores
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import ExitCode

QUESTION = "When does the ferry to Aln leave?"
DOCUMENTS = {
    "pier-1": "The ferry to Aln leaves the east pier at noon and carries twelve cars.",
    "pier-2": "The bakery on the market square sells rye bread.",
}
ANSWER = "The ferry to Aln leaves the east pier at noon. It carries forty horses to Brunn every Monday."
pytestmark = pytest.mark.filterwarnings("default")  # of other people's servers and clients
_INSTALLED = {one.name for one in distributions()}


def needs(package):
    return pytest.mark.skipif(package not in _INSTALLED, reason=f"{package} is not installed")


@contextmanager
def server(command, address, log, **variables):
    """A server that answers at ``address``, until the context is left."""
    with (
        log.open("wb") as file,
        subprocess.Popen([sys.executable, "-m", *command], stdout=file, stderr=file, env={**os.environ, **variables})
        as process,
    ):  # fmt: skip
        try:
            for _ in range(240):
                assert process.poll() is None, log.read_text()
                try:
                    urllib.request.urlopen(address, timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield
        finally:
            process.terminate()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def sent_scores(kind, export, folder):
    """Import, audit and send an export, twice; the scores that should have arrived."""
    log, audit = folder / "logs.parquet", folder / "audit"
    name = {"openinference": "phoenix"}.get(kind, kind)
    assert main(["import", kind, "--data", str(export), "--output", str(log)]) == ExitCode.DONE
    assert main(["audit", "--input", str(log), "--output", str(audit), "--workers", "1"]) == ExitCode.DONE
    for _ in range(2):
        assert main(["send", str(audit), "--to", name, "--with-texts"]) == ExitCode.DONE
        (audit / "sent.txt").unlink()
    (answer,) = answer_scores(AuditDirectory.open(audit), texts=True)
    assert [one.name.removeprefix("attribeam_") for one in answer.scores] == [
        "verdict", "risk", "unsupported_share", "document_used", "document_used",
    ]  # fmt: skip
    assert "forty horses" in str(answer.scores[0].explanation)
    return list(answer.scores)


@needs("mlflow")
def test_mlflow_shows_what_was_sent_once(tmp_path, monkeypatch):
    address, store = f"http://127.0.0.1:{free_port()}", f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    import mlflow

    port = address.rpartition(":")[2]
    command = ["mlflow", "server", "--backend-store-uri", store, "--port", port, "--workers", "1"]
    command += ["--artifacts-destination", str(tmp_path / "artifacts")]
    with server(command, f"{address}/health", tmp_path / "log.txt"):
        with mlflow.start_span("rag", span_type="CHAIN") as root:
            root.set_inputs({"question": QUESTION})
            with mlflow.start_span("find", span_type="RETRIEVER") as found:
                found.set_outputs([{"page_content": text, "id": one} for one, text in DOCUMENTS.items()])
            root.set_outputs({"answer": ANSWER})
        mlflow.flush_trace_async_logging()
        export = tmp_path / "traces.jsonl"
        export.write_text(mlflow.get_trace(root.trace_id).to_json())
        expected = sent_scores("mlflow", export, tmp_path)
        there = mlflow.get_trace(root.trace_id).info.assessments
    assert {(one.name, one.metadata["attribeam.score_id"], one.value, one.rationale) for one in there} == {
        (one.name, str(one.id), _mlflow_value(one), one.explanation) for one in expected
    }
    assert {one.span_id for one in there if one.name == "attribeam_document_used"} == {found.span_id}
    assert len(there) == len(expected)


def _mlflow_value(score):
    return score.label if score.value is None else score.value if score.label is None else bool(score.value)


_DOCUMENT_EVALUATIONS = """{ projects { edges { node { spans(first: 9) { edges { node {
    spanId documentEvaluations { documentPosition name score label } } } } } } } }"""


@needs("arize-phoenix")
def test_phoenix_shows_what_was_sent_once(tmp_path, monkeypatch):
    port, other = free_port(), free_port()
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", address)
    from phoenix.client import Client

    variables = {"PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"), "PHOENIX_HOST": "127.0.0.1"}
    ports = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(other)}
    command = ["phoenix.server.main", "serve"]
    log = tmp_path / "log.txt"
    with server(command, f"{address}/healthz", log, **variables, **ports, PHOENIX_TELEMETRY_ENABLED="false"):
        root, retriever = _openinference_spans(f"{address}/v1/traces")
        client = Client()
        spans = _until_there(client, 2)
        export = tmp_path / "spans.jsonl"
        export.write_text("".join(f"{json.dumps(one)}\n" for one in spans))
        expected = sent_scores("openinference", export, tmp_path)
        there = client.spans.get_span_annotations(span_ids=[root], project_identifier="default")
        body = json.dumps({"query": _DOCUMENT_EVALUATIONS}).encode()
        request = urllib.request.Request(f"{address}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            (project,) = json.load(answer)["data"]["projects"]["edges"]
    assert {(one["name"], one["identifier"], *_result(one["result"])) for one in there} == {
        (one.name, str(one.id), one.value, one.label, one.explanation) for one in expected if one.position is None
    }
    assert len(there) == 3
    (documents,) = (
        one["node"]["documentEvaluations"]
        for one in project["node"]["spans"]["edges"]
        if one["node"]["spanId"] == retriever
    )
    assert sorted((one["documentPosition"], one["name"], one["score"], one["label"]) for one in documents) == sorted(
        (one.position, one.name, one.value, one.label) for one in expected if one.position is not None
    )


def _result(result):
    return result.get("score"), result.get("label"), result.get("explanation")


def _openinference_spans(address):
    """Send a trace as OpenInference instruments it; the ids of its root and of its retriever's span."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(address)))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("rag") as root:
        root.set_attributes({"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER})
        with tracer.start_as_current_span("find") as found:
            found.set_attribute("openinference.span.kind", "RETRIEVER")
            for place, (one, text) in enumerate(DOCUMENTS.items()):
                found.set_attribute(f"retrieval.documents.{place}.document.id", one)
                found.set_attribute(f"retrieval.documents.{place}.document.content", text)
    provider.shutdown()
    return f"{root.get_span_context().span_id:016x}", f"{found.get_span_context().span_id:016x}"


def _until_there(client, count):
    """The spans of the server, which writes them a moment after it took them."""
    for _ in range(60):
        spans = client.spans.get_spans(project_identifier="default")
        if len(spans) == count:
            return spans
        time.sleep(0.5)
    raise AssertionError(f"{count} spans were expected, there are {len(spans)}")
