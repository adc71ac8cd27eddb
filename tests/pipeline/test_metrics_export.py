"""Metrics through OpenTelemetry: gauges, exporters that the environment names, and what cannot be sent."""

import gzip
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
from tests.pipeline.made_metrics import made_metrics

from attribeam.pipeline import metrics as metrics_module
from attribeam.pipeline.metrics import (
    FinishedRun,
    choose_exporters,
    judge_gates,
    metric_families,
    quality_gate,
    record_gauges,
    send_metrics,
)
from attribeam.schemas.errors import UsageError


class KeepingExporter(MetricExporter):
    """Keeps what it is given, and says what it was told to."""

    def __init__(self, result):
        super().__init__()
        self.result = result
        self.names = []
        self.closed = False

    def export(self, metrics_data, *_, **__):
        self.names += [metric.name for metric in _metrics(metrics_data)]
        return self.result

    def force_flush(self, *_):
        return True

    def shutdown(self, *_, **__):
        self.closed = True


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
        metrics_module, "find_spec", lambda name: None if name.startswith("opentelemetry") else find_spec(name)
    )
    assert choose_exporters(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}) == ()
    assert "attribeam[otel]" in capsys.readouterr().err


def _metrics(data):
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def _recorded(reader):
    metrics = made_metrics()
    verdicts = judge_gates([quality_gate("weak_share > 0.01")], metrics)
    record_gauges(metric_families(metrics, verdicts), reader, version="0.1.0")
    return reader.get_metrics_data()


def _points(data):
    return {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): point.value
        for metric in _metrics(data)
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
    }
