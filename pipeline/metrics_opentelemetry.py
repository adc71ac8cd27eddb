"""Sending the metrics of a finished audit through OpenTelemetry's own library, once, without a background thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from pipeline.failures import UsageError
from pipeline.metrics_families import Family

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader

INSTALL = "pip install 'attribeam[otel]'"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def exporters_wanted(*, asked: bool, environment: Mapping[str, str] = os.environ) -> tuple[MetricExporter, ...]:
    """Exporters for ``--otel`` (``asked``), or where ``OTEL_*`` names an endpoint or exporter; none where it says no.

    Where only the environment asks and the library is missing, one line on standard error says so.

    Raises:
        UsageError: if ``--otel`` was given and the environment says no, or what is needed is not installed.
    """
    named = environment.get("OTEL_METRICS_EXPORTER", "")
    refused = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or named == "none"
    if asked and refused:
        raise UsageError("--otel was given, but OTEL_SDK_DISABLED or OTEL_METRICS_EXPORTER says not to send metrics")
    if refused or not (asked or named or any(environment.get(name) for name in _ENDPOINTS)):
        return ()
    if find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None:
        return tuple(_make_exporter(name.strip(), environment) for name in (named or "otlp").split(","))
    if asked:
        raise UsageError(f"--otel needs OpenTelemetry's library, which is not installed: {INSTALL}")
    print(f"attribeam audit: OTEL_* variables are set, but no metrics will be sent: {INSTALL}", file=sys.stderr)
    return ()


def send(families: Iterable[Family], exporters: Sequence[MetricExporter], *, version: str) -> bool:
    """Hand all metrics to each exporter, once; False where one could not send them.

    Without exporters nothing is done, and OpenTelemetry's library need not be installed.
    """
    kept = tuple(families)
    results = [_export(kept, exporter, version=version) for exporter in exporters]
    return all(results)


def _export(families: Sequence[Family], exporter: MetricExporter, *, version: str) -> bool:
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult

    reader = InMemoryMetricReader()
    record(families, reader, version=version)
    data = reader.get_metrics_data()
    result = MetricExportResult.FAILURE if data is None else exporter.export(data)
    exporter.shutdown()
    return result is MetricExportResult.SUCCESS


def record(families: Iterable[Family], reader: MetricReader, *, version: str) -> None:
    """Set one gauge a family, with the labels as attributes; the resource is what ``OTEL_*`` says, or "attribeam"."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    resource = Resource.create({"service.name": "attribeam"}).merge(OTELResourceDetector().detect())
    meter = MeterProvider([reader], resource, shutdown_on_exit=False).get_meter("attribeam", version)
    for family in families:
        gauge = meter.create_gauge(f"attribeam.{family.name}", family.unit, family.meaning)
        for sample in family.known:
            gauge.set(cast(float, sample.value), dict(sample.labels))


def _make_exporter(name: str, environment: Mapping[str, str]) -> MetricExporter:
    """The exporter of one name of ``OTEL_METRICS_EXPORTER``; it reads its own ``OTEL_*`` variables.

    Raises:
        UsageError: if no installed package has it.
    """
    if name == "otlp":
        protocol = next((environment[one] for one in _PROTOCOLS if environment.get(one)), "http/protobuf")
        name = f"otlp_proto_{protocol.partition('/')[0]}"
    from opentelemetry.sdk.metrics.export import MetricExporter

    for found in entry_points(group="opentelemetry_metrics_exporter", name=name):
        exporter = found.load()()
        if isinstance(exporter, MetricExporter):
            return exporter
    raise UsageError(f"OpenTelemetry has no metric exporter {name!r} here; install its package, or {INSTALL}")
