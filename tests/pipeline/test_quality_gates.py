"""Quality gates, metrics through OpenTelemetry, and what docs/nightly.md says of both."""

import argparse
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    NumberDataPoint,
)
from tests.attribution.tiny_models import save_tiny_model
from tests.pipeline.audit_process import AuditProcess, log_rows, read_all, write_log
from tests.pipeline.made_metrics import made_manifest, made_metrics, metrics_of_nothing
from tests.pipeline.test_metrics import samples
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.pipeline import metrics_export
from attribeam.pipeline.command_line import main
from attribeam.pipeline.metrics import QualityGate, failed_gate_lines, judge_gates, quality_gate
from attribeam.pipeline.metrics_export import (
    FinishedRun,
    choose_exporters,
    metric_families,
    record_gauges,
    send_metrics,
)
from attribeam.schemas.errors import UsageError
from attribeam.schemas.evidence_record import claim_rows
from attribeam.schemas.run_manifest import AuditCounts, RunManifest


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("unsupported_share > 0.05", QualityGate("unsupported_share", ">", 0.05)),
        ("  rows<1 ", QualityGate("rows", "<", 1)),
        ("dead_letters.out_of_memory >= 1", QualityGate("dead_letters.out_of_memory", ">=", 1)),
        ("supported_share.facts <= .9", QualityGate("supported_share.facts", "<=", 0.9)),
    ],
)
def test_a_gate_is_a_name_an_operator_and_a_number(text, gate):
    assert quality_gate(text) == gate


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("unsupported > 0.05", "unsupported_share"), ("pressure > 0.05", "unknown metric 'pressure'"),
        ("seconds > 60", "cannot be a quality gate"), ("rows == 5", "as operator, was: '=='"),
        ("unsupported_share > nan", "finite"), ("rows > 1e999", "finite"),
        ("unsupported_share > 5", "share from 0 to 1"), ("unsupported_share", "NAME OP NUMBER"),
        ("rows > 5 and spans > 5", "NAME OP NUMBER"), ("", "NAME OP NUMBER"),
    ],
)  # fmt: skip
def test_what_is_no_gate_is_refused_and_told_why(text, complaint):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        quality_gate(text)
    assert complaint in str(refused.value)


def test_a_gate_on_spans_that_are_not_chosen_is_refused(tmp_path, capsys):
    given_options = ["--input", "x", "--output", str(tmp_path / "out"), "--spans", "facts"]
    assert main(["audit", *given_options, "--fail-if", "unsupported_share.words > 0.2"]) == 2
    assert "no spans of the kind 'words'" in capsys.readouterr().err


def test_every_failed_gate_is_named_with_value_and_limit_and_no_other():
    gates = [
        quality_gate(text)
        for text in ("unsupported_share > 0.05", "unsupported_share > 0.1", "audited_rows < 100", "rows < 1")
    ]
    verdicts = judge_gates(gates, made_metrics())
    assert [verdict.failed for verdict in verdicts] == [True, False, True, False]
    assert list(failed_gate_lines(verdicts)) == [
        "quality gate failed: unsupported_share > 0.05: unsupported_share is 0.1, the limit is 0.05",
        "quality gate failed: audited_rows < 100: audited_rows is 37, the limit is 100",
    ]


def test_a_share_of_nothing_fails_its_gate_and_says_so():
    (verdict,) = judge_gates([quality_gate("unsupported_share > 0.05")], metrics_of_nothing())
    assert verdict.failed
    assert "has no value" in next(failed_gate_lines([verdict]))


@pytest.mark.parametrize(("text", "code"), [("rows < 1", 0), ("rows < 100", 3)])
def test_a_failed_gate_has_an_exit_code_of_its_own(text, code, capsys):
    metrics = made_metrics()
    assert FinishedRun(metrics, judge_gates([quality_gate(text)], metrics)).report(()) == code
    assert ("attribeam audit: quality gate failed" in capsys.readouterr().err) == (code == 3)


ROWS = 6
GATES = ("--fail-if", "dead_letter_share > 0.1", "--fail-if", "rows < 1", "--fail-if", "spans < 1000000")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Small models, and a log whose second row has no answer."""
    root = tmp_path_factory.mktemp("gates")
    rows = log_rows(ROWS)
    rows[1]["answer"] = None
    return AuditProcess(
        save_tiny_model(root / "model"), save_tiny_parser(root / "parser"), write_log(root / "log.parquet", rows)
    )


def test_gates_are_judged_on_a_new_audit_and_again_on_the_finished_one(audit, tmp_path, capfd):
    output = tmp_path / "out"
    for done_before, more in ((0, ("--no-report",)), (ROWS, ())):
        assert audit.run_here(output, "--workers", "1", *GATES, *more) == 3
        assert (output / "report.html").exists() == (not more)
        captured = capfd.readouterr()
        failed = [line for line in captured.err.splitlines() if "quality gate" in line]
        assert len(failed) == 2
        assert failed[0].endswith("dead_letter_share is 0.1666666667, the limit is 0.1")
        assert "spans < 1000000" in failed[1]
        assert ("were finished by an earlier run" in captured.out) == (done_before > 0)
        assert "metrics.prom" in captured.out
        _check_metrics(output)
    assert RunManifest.from_json((output / "run_manifest.json").read_text()).status == "done"


def _check_metrics(output):
    """Both files tell what the evidence holds."""
    fields = json.loads((output / "metrics.json").read_text())
    evidence = read_all(output / "evidence")
    assert fields["status"] == "done"
    assert fields["metrics"]["spans"] == evidence.num_rows
    assert fields["metrics"]["dead_letters.empty_answer"] == 1
    (batch,) = evidence.combine_chunks().to_batches()
    masses = claim_rows(batch)["evidence_mass"].to_pylist()
    assert fields["metrics"]["evidence_mass_mean"] == pytest.approx(sum(masses) / len(masses))
    assert [gate["failed"] for gate in fields["quality_gates"]] == [True, False, True]
    read = samples((output / "metrics.prom").read_text())
    assert read["attribeam_quality_gate_failed", (("gate", "dead_letter_share > 0.1"),)] == 1
    assert read["attribeam_dead_letters", (("reason", "empty_answer"),)] == 1


class KeepingExporter(MetricExporter):
    """Keeps what it is given, and says what it was told to."""

    def __init__(self, result):
        super().__init__()
        self.result = result
        self.names = []
        self.closed = False

    def export(self, metrics_data, *_, **__):
        """See ``MetricExporter``."""
        self.names += [metric.name for metric in _metrics(metrics_data)]
        return self.result

    def force_flush(self, *_):
        """See ``MetricExporter``."""
        return True

    def shutdown(self, *_, **__):
        """See ``MetricExporter``."""
        self.closed = True


def _metrics(data):
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def _recorded(reader):
    metrics = made_metrics()
    verdicts = judge_gates([quality_gate("weak_share > 0.01")], metrics)
    record_gauges(metric_families(metrics, verdicts), reader, version="0.1.0")
    data = reader.get_metrics_data()
    assert data is not None
    return data


def _points(data):
    return {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): point.value
        for metric in _metrics(data)
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
    }


def test_every_family_is_a_gauge_with_its_labels_as_attributes():
    points = _points(_recorded(InMemoryMetricReader()))
    assert points["attribeam.rows", ()] == 40
    assert points["attribeam.dead_letters", (("reason", "empty_answer"),)] == 2
    assert points["attribeam.kind_spans", (("span_kind", "facts"), ("support", "unsupported"))] == 10
    assert points["attribeam.run_duration_seconds", ()] == 20.0
    assert points["attribeam.quality_gate_failed", (("gate", "weak_share > 0.01"),)] == 1


def test_the_resource_is_named_by_the_environment_or_else_attribeam(monkeypatch):
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=harbour")
    attributes = _recorded(InMemoryMetricReader()).resource_metrics[0].resource.attributes
    assert (attributes["service.name"], attributes["team"]) == ("attribeam", "harbour")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    assert _recorded(InMemoryMetricReader()).resource_metrics[0].resource.attributes["service.name"] == "nightly"


@pytest.mark.parametrize("result", MetricExportResult)
def test_each_exporter_gets_all_metrics_once_and_is_closed(result):
    exporters = [KeepingExporter(result), KeepingExporter(MetricExportResult.SUCCESS)]
    sent = send_metrics(metric_families(made_metrics(), ()), exporters, version="0.1.0")
    assert sent == (result is MetricExportResult.SUCCESS)
    for exporter in exporters:
        assert exporter.closed
        assert exporter.names.count("attribeam.rows") == 1


def test_metrics_that_could_not_be_sent_are_told_and_do_not_fail_the_audit(capsys):
    assert FinishedRun(made_metrics(), ()).report([KeepingExporter(MetricExportResult.FAILURE)]) == 0
    assert "could not be sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"},
        {"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"},
    ],
)
def test_nothing_is_sent_unless_the_environment_asks(environment):
    assert choose_exporters(environment=environment) == ()


def test_the_environment_chooses_exporters_by_name():
    exporters = choose_exporters(environment={"OTEL_METRICS_EXPORTER": "console"})
    assert [type(exporter) for exporter in exporters] == [ConsoleMetricExporter]


def test_a_collector_receives_the_metrics_over_http(monkeypatch):
    with _Collector(("127.0.0.1", 0), _KeepBody) as collector:
        threading.Thread(target=collector.handle_request, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        assert send_metrics(metric_families(made_metrics(), ()), choose_exporters(), version="0.1.0")
    request = ExportMetricsServiceRequest.FromString(collector.body)
    (scope,) = request.resource_metrics[0].scope_metrics
    assert {"attribeam.rows", "attribeam.span_ratio"} <= {metric.name for metric in scope.metrics}


class _Collector(HTTPServer):
    """Keeps the body of one request."""

    body = b""


class _KeepBody(BaseHTTPRequestHandler):
    """Takes what is posted to the path of metrics."""

    def do_POST(self):
        """Keep the body, and say that all is well."""
        assert isinstance(self.server, _Collector)
        self.server.body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            self.server.body = gzip.decompress(self.server.body)
        self.send_response(200 if self.path == "/v1/metrics" else 404)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def test_an_exporter_that_is_not_installed_is_bad_usage():
    with pytest.raises(UsageError, match="'gull'"):
        choose_exporters(environment={"OTEL_METRICS_EXPORTER": "gull"})


def test_without_the_extra_a_line_says_that_nothing_is_sent(monkeypatch, capsys):
    monkeypatch.setattr(
        metrics_export, "find_spec", lambda name: None if name.startswith("opentelemetry") else find_spec(name)
    )
    assert choose_exporters(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}) == ()
    assert "attribeam[otel]" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["unsupported_shore > 0.05", "rows != 3", "weak_share < nan"])
def test_a_bad_gate_ends_with_exit_code_2_before_anything_starts(text, tmp_path, capsys):
    log = write_log(tmp_path / "log.parquet", log_rows(1))
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--input", str(log), "--output", str(tmp_path / "out"), "--fail-if", text])
    assert ended.value.code == 2
    assert "--fail-if" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_count_of_tokens_fails_its_gate():
    metrics = made_metrics()
    unknown = type(metrics)(made_manifest(AuditCounts(rows=1, audited=1, spans={"weak": 1}, tokens=None)))
    assert judge_gates([quality_gate("tokens > 5")], unknown)[0].failed
