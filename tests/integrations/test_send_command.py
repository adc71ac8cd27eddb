"""``attribeam send``, of an audit of three answers: which scores go out, once each, and what is said of the others."""

import base64
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from uuid import UUID

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from tests.report.made_audit import made_audit, no_claim, told_spans

from attribeam.integrations import send_command
from attribeam.integrations.send_command import OpenTelemetry, Score, answer_scores
from attribeam.logs.traces.trace_log import log_schema
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import AnswerKind, ClaimKind
from attribeam.schemas.errors import ExitCode

TRACES = ("5b8efff798038103d269b633813fc60c", "5b8efff798038103d269b633813fc60d", None)
SPANS = ("eee19b7ec3c1b174", "eee19b7ec3c1b175", None)
RETRIEVER = "eee19b7ec3c1b176"


def sendable_audit(folder):
    """An answer of two claims, of which one is unsupported; a refusal; and an answer without ids."""
    quoted, other_value = told_spans()
    refusal = no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL, passage_scores=(0.0, 0.0), evidence=())
    spans = {0: tuple(replace(one, answer_risk=0.875) for one in (quoted, other_value)), 1: (refusal,)}
    fields = [one for one in log_schema(of_traces=True) if one.name in ("trace_id", "span_id", "retrievals")]
    return made_audit(folder, spans=spans, change=_with_ids, extra_fields=fields).root


def _with_ids(record):
    row = record.source.source_row
    places = [{"span_id": RETRIEVER, "position": 1 - index, "passage_index": index} for index in (0, 1)]
    ids = (("trace_id", TRACES[row]), ("span_id", SPANS[row]), ("retrievals", places if row == 0 else []))
    return replace(record, extra_columns=ids)


@contextmanager
def loopback_server(answer):
    """A server's address; ``answer`` gets path, body and the header Authorization, and gives status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = answer(self.path, body, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class RefusedError(Exception):
    """As an HTTP client raises it."""

    def __init__(self, status_code, message="no such trace"):
        super().__init__(message)
        self.status_code = status_code


def refusing(error):
    raise error


class Store:
    """Keeps scores by their ids; ``refuse`` may raise."""

    address_variables = ("STORE_URL",)
    needs_span = False

    def __init__(self, refuse=lambda _: None):
        self.kept = {}
        self.requests = []
        self.refuse = refuse

    def send(self, scores):
        self.requests.append(len(scores))
        for one in scores:
            self.refuse(one)
        self.kept.update({str(one.id): one for one in scores})


@pytest.fixture
def audit(tmp_path, monkeypatch):
    monkeypatch.setattr(send_command.time, "sleep", lambda _: None)
    return sendable_audit(tmp_path)


@pytest.fixture
def store(monkeypatch):
    made = Store()
    monkeypatch.setitem(send_command.TARGETS, "otel", Store)
    monkeypatch.setattr(send_command, "target_named", lambda _: made)
    return made


def send(audit, *options):
    return main(["send", str(audit), "--to", "otel", *options])


def test_answer_gets_verdict_risk_share_and_the_use_of_its_documents(audit):
    told, refused, foreign = answer_scores(AuditDirectory.open(audit), texts=False)
    place = "unsupported: characters 37 to 44 (other value)"
    assert [(one.name, one.span_id, one.position, one.value, one.label, one.explanation) for one in told.scores] == [
        ("attribeam_verdict", SPANS[0], None, None, "unsupported", place),
        ("attribeam_risk", SPANS[0], None, 0.875, None, None),
        ("attribeam_unsupported_share", SPANS[0], None, 0.5, None, None),
        ("attribeam_document_used", RETRIEVER, 1, 1.0, "used", None),
        ("attribeam_document_used", RETRIEVER, 0, 1.0, "used", None),
    ]
    assert [(one.name, one.label, one.value) for one in refused.scores] == [("attribeam_verdict", "refusal", None)]
    assert {one.trace_id for one in (*told.scores, *refused.scores)} == {*TRACES[:2]}
    assert foreign.scores == ()
    assert len({one.id for one in told.scores}) == 5


def test_texts_go_out_only_when_they_are_asked_for(audit, store):
    assert send(audit) == ExitCode.DONE
    assert "cars" not in repr(store.kept)
    assert "twelve" not in repr(store.kept)
    assert send(audit, "--with-texts") == ExitCode.DONE
    explanations = [one.explanation for one in store.kept.values() if one.label == "unsupported"]
    assert explanations == ["unsupported: 40 cars (other value — evidence says: twelve)"]


def test_sending_twice_leaves_one_and_another_address_gets_the_scores_too(audit, store, capsys, monkeypatch):
    assert send(audit) == ExitCode.DONE
    first, requests = dict(store.kept), list(store.requests)
    assert capsys.readouterr().out == "3 answers: 2 sent to otel, 1 without ids\n"
    assert send(audit) == ExitCode.DONE
    assert capsys.readouterr().out == "3 answers: 0 sent to otel, 2 sent before, 1 without ids\n"
    (audit / "sent.txt").unlink()
    assert send(audit) == ExitCode.DONE
    assert (store.kept, store.requests) == (first, requests * 2)
    monkeypatch.setenv("STORE_URL", "http://elsewhere")
    assert send(audit) == ExitCode.DONE
    assert store.requests == [6, 6, 6]


def test_dry_run_counts_and_sends_nothing(audit, store, capsys):
    assert send(audit, "--dry-run") == ExitCode.DONE
    out, said = capsys.readouterr()
    assert out == "3 answers: 2 would be sent to otel, 1 without ids\n"
    assert "1 answers have no id in the trace store and were not sent, such as ferry-2" in said
    assert store.requests == []
    assert not (audit / "sent.txt").exists()


def test_refused_answer_is_named_and_kept_and_the_others_are_sent(audit, store, capsys):
    store.refuse = lambda score: refusing(RefusedError(404)) if score.trace_id == TRACES[0] else None
    assert send(audit) == ExitCode.FAILED
    assert {one.trace_id for one in store.kept.values()} == {TRACES[1]}
    out, said = capsys.readouterr()
    assert out == "3 answers: 1 sent to otel, 1 failed, 1 without ids\n"
    assert "RefusedError: no such trace" in said
    (line,) = (audit / "send_failures.jsonl").read_text().splitlines()
    assert json.loads(line) == {"record_id": "ferry-0", "trace_id": TRACES[0], "error": "RefusedError: no such trace"}
    store.refuse = lambda _: None
    assert send(audit) == ExitCode.DONE
    assert {one.trace_id for one in store.kept.values()} == {*TRACES[:2]}
    assert not (audit / "send_failures.jsonl").exists()


@pytest.mark.parametrize("error", [RefusedError(503), RefusedError(429), ConnectionError("reset")])
def test_faults_that_pass_are_tried_again(error, audit, store):
    faults = iter([error, error])
    store.refuse = lambda _: [refusing(fault) for fault in faults]
    assert send(audit) == ExitCode.DONE
    assert len(store.requests) == 3


@pytest.mark.parametrize(
    ("error", "tries"), [(ConnectionError("http://ada:pw@host is down"), 4), (RefusedError(401), 1)]
)
def test_store_that_takes_nothing_ends_the_command(error, tries, audit, store, monkeypatch, capsys):
    monkeypatch.setattr(send_command, "BATCH_ANSWERS", 1)
    store.refuse = lambda _: refusing(error)
    assert send(audit) == ExitCode.FAILED
    assert len(store.requests) == tries
    said = capsys.readouterr().err
    assert "0 answers are sent, start the same command again" in said
    assert "ada" not in said


def test_keys_stay_out_of_messages_and_files(audit, store, monkeypatch, capsys):
    monkeypatch.setenv("STORE_SECRET_KEY", "sk-hush")
    store.refuse = lambda _: refusing(RefusedError(400, "header Bearer sk-hush is none"))
    assert send(audit) == ExitCode.FAILED
    written = [path.read_bytes() for path in audit.rglob("*") if path.is_file()]
    assert "sk-hush" not in "".join(capsys.readouterr())
    assert not any(b"sk-hush" in one for one in written)


def test_audit_without_ids_is_refused(tmp_path, store, capsys):
    assert send(made_audit(tmp_path).root) == ExitCode.BAD_USAGE
    assert "--extra-columns trace_id,span_id" in capsys.readouterr().err
    assert store.requests == []


def test_texts_of_an_audit_without_texts_are_refused(audit, store, capsys):
    path = audit / "run_manifest.json"
    manifest = json.loads(path.read_text())
    manifest["options"]["privacy"] = {"no_texts": True}
    path.write_text(json.dumps(manifest))
    assert send(audit, "--with-texts") == ExitCode.BAD_USAGE
    assert "--with-texts: the audit was made with --no-texts; leave it out" in capsys.readouterr().err
    assert store.requests == []


def test_missing_client_names_the_extra(audit, monkeypatch, capsys):
    missing = ModuleNotFoundError("no", name="mlflow")
    monkeypatch.setitem(send_command.TARGETS, "mlflow", lambda: refusing(missing))
    assert main(["send", str(audit), "--to", "mlflow"]) == ExitCode.BAD_USAGE
    assert "pip install 'attribeam[mlflow]'" in capsys.readouterr().err


_STARTED = datetime(2026, 11, 19, 2, tzinfo=UTC)


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
    own = {name.removeprefix("gen_ai.evaluation."): one.string_value for name, one in found[0].items()}
    del own["attribeam.score.id"]
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
