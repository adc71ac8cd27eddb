"""What each client sends over the wire, read by the models of its own product."""

import base64
import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from tests.integrations.sendable_audit import RETRIEVER, SPANS, TRACES, loopback_server, sendable_audit

from attribeam.integrations import send_command
from attribeam.integrations.send_command import OpenTelemetry, Score
from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode

_STARTED = datetime(2026, 11, 19, 2, tzinfo=UTC)


@pytest.fixture
def audit(tmp_path, monkeypatch):
    monkeypatch.setattr(send_command.time, "sleep", lambda _: None)
    return sendable_audit(tmp_path)


def test_opentelemetry_gets_evaluation_results_in_the_context_of_their_spans(audit, monkeypatch):
    requests = []

    def answer(path, body, _):
        requests.append((path, body))
        return 200, b""

    with loopback_server(answer) as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        assert main(["send", str(audit), "--to", "otel"]) == ExitCode.DONE
    ((path, body),) = requests
    assert path == "/v1/logs"
    ((scope,),) = (one.scope_logs for one in ExportLogsServiceRequest.FromString(body).resource_logs)
    assert {one.event_name for one in scope.log_records} == {"gen_ai.evaluation.result"}
    assert {one.time_unix_nano for one in scope.log_records} == {int(_STARTED.timestamp()) * 10**9}
    spans = [(one.trace_id.hex(), one.span_id.hex()) for one in scope.log_records]
    assert spans == [(TRACES[0], SPANS[0])] * 3 + [(TRACES[0], RETRIEVER)] * 2 + [(TRACES[1], SPANS[1])]
    found = [{one.key: one.value for one in record.attributes} for record in scope.log_records]
    own = {
        name.removeprefix("gen_ai.evaluation."): one.string_value or one.double_value
        for name, one in found[0].items()
        if name != "attribeam.score.id"
    }
    text = "unsupported: characters 37 to 44 (other value)"
    assert own == {"name": "attribeam_verdict", "score.label": "unsupported", "explanation": text}
    assert found[1]["gen_ai.evaluation.score.value"].double_value == 0.875
    assert [one["attribeam.document.position"].int_value for one in found[3:5]] == [1, 0]
    assert len({one["attribeam.score.id"].string_value for one in found}) == 6


@pytest.mark.parametrize(("trace_id", "span_id"), [("f" * 33, "1"), ("1", "f" * 17), ("-1", None), ("tr-7", None)])
def test_opentelemetry_refuses_ids_that_are_none_of_its_own(trace_id, span_id):
    score = Score(UUID(int=1), "attribeam_risk", trace_id, span_id, _STARTED, value=0.5)
    with pytest.raises(ValueError, match=trace_id):
        OpenTelemetry().send([score])


def test_langfuse_gets_scores_that_its_own_models_accept(audit, monkeypatch):
    models = pytest.importorskip("langfuse.api.core.pydantic_utilities")
    from langfuse.api.scores import CreateScoresRequest

    scores = {}

    def answer(path, body, authorization):
        assert path == "/api/public/scores"
        assert base64.b64decode(authorization.removeprefix("Basic ")) == b"pk-1:sk-1"
        found = models.parse_obj_as(CreateScoresRequest, json.loads(body))
        refused = [one for one in found if one.trace_id == TRACES[1]]
        scores.update({one.id: one.model_dump() for one in found if one not in refused})
        if not refused:
            return 202, b'{"message": "Accepted"}'
        errors = [{"message": "no such trace"}] * len(refused)
        results = {"accepted": len(found) - len(refused), "rejected": len(refused), "errors": errors}
        return 207, json.dumps(results).encode()

    with loopback_server(answer) as address:
        monkeypatch.setenv("LANGFUSE_BASE_URL", address)
        assert main(["send", str(audit), "--to", "langfuse"]) == ExitCode.BAD_USAGE
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-1")
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-1")
        for _ in range(2):
            assert main(["send", str(audit), "--to", "langfuse"]) == ExitCode.FAILED
    names = ("name", "trace_id", "observation_id", "value", "data_type", "metadata", "timestamp")
    document = ("attribeam_document_used", TRACES[0], RETRIEVER, 1.0, "BOOLEAN")
    assert [tuple(one[name] for name in names) for one in scores.values()] == [
        ("attribeam_verdict", TRACES[0], SPANS[0], "unsupported", "CATEGORICAL", None, _STARTED),
        ("attribeam_risk", TRACES[0], SPANS[0], 0.875, "NUMERIC", None, _STARTED),
        ("attribeam_unsupported_share", TRACES[0], SPANS[0], 0.5, "NUMERIC", None, _STARTED),
        (*document, {"document_position": 1}, _STARTED),
        (*document, {"document_position": 0}, _STARTED),
    ]
    (failure,) = (audit / "send_failures.jsonl").read_text().splitlines()
    assert json.loads(failure)["trace_id"] == TRACES[1]
