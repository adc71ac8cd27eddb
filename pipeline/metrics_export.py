"""Metrics for monitoring systems: families of labelled gauges, in files and through OpenTelemetry.

The audit's directory holds ``metrics.json`` and ``metrics.prom``, which is in Prometheus text format for the textfile
collector of node_exporter. OpenTelemetry's own library sends the metrics once, without a background thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from attribeam.logs.privacy import check_masked, redacting
from attribeam.pipeline.metrics import GateVerdict, RunMetrics, Value, failed_gate_lines
from attribeam.report.messages import TEXT_MESSAGES, Messages
from attribeam.schemas import VERDICTS, AnswerKind, Reason, SpanKind, Support, SupportedHow, UnsupportedReason
from attribeam.schemas.errors import ExitCode, UsageError
from attribeam.schemas.run_manifest import RunStatus

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader


_MODELS = ("model", "model_revision", "parser", "method")


class Unit(StrEnum):
    """Units in the notation of OpenTelemetry (UCUM); names of ratios and seconds end in ``_ratio`` and ``_seconds``."""

    NONE = ""
    RATIO = "1"
    SECONDS = "s"
    ROWS = "{row}"
    SPANS = "{span}"
    CLAIMS = "{claim}"
    TOKENS = "{token}"
    SPEED = "{row}/s"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value with its labels; None if there is no value, such as a share of nothing."""

    value: Value
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name. All are gauges, because each run reports the current state."""

    name: str
    unit: Unit
    meaning: str
    samples: tuple[Sample, ...]

    @property
    def known_samples(self) -> tuple[Sample, ...]:
        """The samples that have a value."""
        return tuple(sample for sample in self.samples if sample.value is not None)


_SINGLE = (
    ("rows", Unit.ROWS, "rows", "Rows read by the audit."),
    ("audited_rows", Unit.ROWS, "audited_rows", "Rows audited."),
    ("dead_letter_ratio", Unit.RATIO, "dead_letter_share", "Dead letters among the rows read."),
    ("tokens", Unit.TOKENS, "tokens", "Tokens of the audited rows."),
    ("claims", Unit.CLAIMS, "claims", "Claims."),
    ("not_judged_ratio", Unit.RATIO, "not_judged_share", "Spans that cannot be judged among these and the claims."),
    ("unmatched_spans", Unit.CLAIMS, "unmatched_spans", "Claims with an unmatched value."),
    ("unmatched_span_ratio", Unit.RATIO, "unmatched_share", "Claims with an unmatched value among all claims."),
    ("cited_claims", Unit.CLAIMS, "cited_claims", "Claims for which the answer cites a passage."),
    ("cited_claim_ratio", Unit.RATIO, "cited_share", "Claims for which the answer cites a passage among all claims."),
    (
        "citation_agreement_ratio", Unit.RATIO, "citation_agreement",
        "Claims whose evidence lies in a cited passage among those with a citation.",
    ),
    (
        "evidence_agreement_ratio", Unit.RATIO, "evidence_agreement",
        "Claims whose evidence lies where the passages have their words, among those whose words they have.",
    ),
    ("isolated_spans", Unit.CLAIMS, "isolated_spans", "Claims whose whole evidence was isolated."),
    ("isolated_span_ratio", Unit.RATIO, "isolated_share", "Claims whose whole evidence was isolated among all claims."),
    ("evidence_mass_mean_ratio", Unit.RATIO, "evidence_mass_mean", "Mean evidence mass of the claims."),
    ("answer_risk_mean_ratio", Unit.RATIO, "mean_answer_risk", "Mean risk of the answers."),
    ("answers_at_risk_ratio", Unit.RATIO, "answers_at_risk", "Answers at risk among those that have a risk."),
    ("run_duration_seconds", Unit.SECONDS, "seconds", "Duration of the last run."),
    ("run_load_duration_seconds", Unit.SECONDS, "load_seconds", "Part of the duration before the first row."),
    ("rows_per_second", Unit.SPEED, "rows_per_second", "Rows per second audited by the last run, without loading."),
)  # fmt: skip
"""The families of one sample each: name, unit, metric and meaning."""


def metric_families(metrics: RunMetrics, verdicts: Sequence[GateVerdict]) -> Iterator[Family]:
    """All families; labelled ones have a sample for each label, even if it is zero."""
    for name, unit, metric, meaning in _SINGLE:
        yield Family(name, unit, meaning, (Sample(metrics.value(metric)),))
    for name, unit, meaning, samples in _labelled(metrics):
        yield Family(name, unit, meaning, tuple(samples))
    gates = tuple(Sample(float(verdict.failed), (("gate", str(verdict.gate)),)) for verdict in verdicts)
    yield Family("quality_gate_failed", Unit.NONE, "1 if the gate of --fail-if failed, else 0.", gates)


def _labelled(metrics: RunMetrics) -> Iterator[tuple[str, Unit, str, Iterable[Sample]]]:
    """Name, unit, meaning and samples of the other families."""

    def by(label: str, members: Iterable[str], value: Callable[[Any], Value]) -> list[Sample]:
        return [Sample(value(member), ((label, member),)) for member in members]

    manifest = metrics.manifest
    yield "dead_letters", Unit.ROWS, "Rows refused, by reason.", by("reason", Reason, metrics.dead_letters)
    spans = by("support", Support, metrics.claims)
    yield "spans", Unit.CLAIMS, "Claims by support, and spans that claim nothing or cannot be judged.", spans
    shares = by("support", VERDICTS, lambda support: metrics.value(f"{support}_share"))
    yield "span_ratio", Unit.RATIO, "Claims of one support among all claims.", shares
    reasons = by("reason", UnsupportedReason, lambda reason: metrics.value(f"unsupported_spans.{reason}"))
    yield "unsupported_claims", Unit.CLAIMS, "Unsupported claims, by reason.", reasons
    hows = by("how", SupportedHow, lambda how: metrics.value(f"supported_spans.{how}"))
    yield "supported_claims", Unit.CLAIMS, "Supported claims, by how the passages support them.", hows
    kinds = [
        Sample(metrics.spans_of_kind(kind, support), (("span_kind", kind), ("support", support)))
        for kind in SpanKind
        for support in VERDICTS
    ]
    yield "kind_spans", Unit.SPANS, "Target spans, by kind and support.", kinds
    yield "answers", Unit.ROWS, "Audited rows, by kind of answer.", by("answer_kind", AnswerKind, metrics.answers)
    start, end = "Start of the last run, in seconds since 1970.", "End of the last run, in seconds since 1970."
    yield "run_start_timestamp_seconds", Unit.SECONDS, start, [Sample(metrics.started)]
    yield "run_end_timestamp_seconds", Unit.SECONDS, end, [Sample(metrics.ended)]
    ends = [status for status in RunStatus if status is not RunStatus.RUNNING]
    status = by("status", ends, lambda end: float(manifest.status is end))
    yield "run_status", Unit.NONE, "1 for how the last run ended, else 0.", status
    models = tuple((name, manifest.models.get(name, "")) for name in _MODELS)
    labels = (("version", manifest.attribeam_version), ("runner", manifest.runner), *models)
    yield "audit_info", Unit.NONE, "Version and models of the audit; always 1.", [Sample(1, labels)]


def prometheus_text(metrics: RunMetrics, verdicts: Sequence[GateVerdict]) -> str:
    """All families with HELP and TYPE; families without a value are left out."""
    lines: list[str] = []
    for family in metric_families(metrics, verdicts):
        name = f"attribeam_{family.name}"
        if family.known_samples:
            lines += [f"# HELP {name} {_escaped(family.meaning)}", f"# TYPE {name} gauge"]
        for sample in family.known_samples:
            labels = ",".join(
                '{}="{}"'.format(label, _escaped(text).replace('"', r"\"")) for label, text in sample.labels
            )
            lines.append(f"{name}{f'{{{labels}}}' if labels else ''} {sample.value!r}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def metrics_json(metrics: RunMetrics, verdicts: Sequence[GateVerdict] = ()) -> str:
    """The fields of ``metrics_fields`` as JSON text."""
    fields = metrics_fields(metrics, verdicts)
    return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def metrics_fields(metrics: RunMetrics, verdicts: Sequence[GateVerdict] = ()) -> dict[str, object]:
    """All metrics by name, None for those without a value, and the judged gates.

    Raises ``LeakError`` if a group is named by what the audit masks.
    """
    manifest, evidence = metrics.manifest, metrics.evidence
    groups = {
        share.column: [{"value": group.value, **asdict(group.counts)} for group in share.groups]
        for share in (() if evidence is None else evidence.groups)
        if any(group.value is not None for group in share.groups)  # it has values, and not too many
    }
    answered_at = None if evidence is None else evidence.answered_at
    check_masked("metrics.json, in its groups,", groups, redacting(manifest.options.get("privacy")), given=())
    return {
        "schema_version": manifest.schema_version,
        "status": manifest.status,
        "started_at": manifest.started_at,
        "ended_at": datetime.fromtimestamp(metrics.ended, UTC).isoformat(timespec="seconds"),
        "answered_at": None if answered_at is None else answered_at.isoformat(),
        "metrics": metrics.values(),
        "standard_errors": metrics.standard_errors(),
        "groups": groups,
        "cut_passages": None if manifest.cut_passages is None else asdict(manifest.cut_passages),
        "quality_gates": [{**asdict(item.gate), "value": item.value, "failed": item.failed} for item in verdicts],
    }


OTEL_INSTALL_HINT = "pip install 'attribeam[otel]'"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def choose_exporters(
    environment: Mapping[str, str] = os.environ, messages: Messages = TEXT_MESSAGES
) -> tuple[MetricExporter, ...]:
    """Exporters, if the environment wants them: ``OTEL_*`` names an endpoint or an exporter.

    If the library is missing, one line on standard error says so. Raises ``UsageError`` if the environment names an
    exporter that there is not.
    """
    named = environment.get("OTEL_METRICS_EXPORTER", "")
    refused = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or named == "none"
    if refused or not (named or any(environment.get(name) for name in _ENDPOINTS)):
        return ()
    if find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None:
        return tuple(_make_exporter(name.strip(), environment) for name in (named or "otlp").split(","))
    messages.say(f"OTEL_* variables are set, but no metrics will be sent: {OTEL_INSTALL_HINT}")
    return ()


def send_metrics(families: Iterable[Family], exporters: Sequence[MetricExporter], *, version: str) -> bool:
    """Hand all metrics to each exporter once; returns False if one could not send them.

    Without exporters it does nothing and does not need OpenTelemetry's library.
    """
    if not exporters:
        return True
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult

    kept, is_sent = tuple(families), True
    for exporter in exporters:
        reader = InMemoryMetricReader()
        record_gauges(kept, reader, version=version)
        data = reader.get_metrics_data()
        is_sent &= data is not None and exporter.export(data) is MetricExportResult.SUCCESS
        exporter.shutdown()
    return is_sent


def record_gauges(families: Iterable[Family], reader: MetricReader, *, version: str) -> None:
    """Set one gauge per family, with the labels as attributes; ``OTEL_*`` may name another service than "attribeam"."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    resource = Resource.create({"service.name": "attribeam"}).merge(OTELResourceDetector().detect())
    meter = MeterProvider([reader], resource, shutdown_on_exit=False).get_meter("attribeam", version)
    for family in families:
        gauge = meter.create_gauge(f"attribeam.{family.name}", family.unit, family.meaning)
        for sample in family.known_samples:
            gauge.set(cast(float, sample.value), dict(sample.labels))


def _make_exporter(name: str, environment: Mapping[str, str]) -> MetricExporter:
    """Make the exporter with a name of ``OTEL_METRICS_EXPORTER``; it reads its own ``OTEL_*`` variables.

    Raises ``UsageError`` if no installed package provides it.
    """
    if name == "otlp":
        protocol = next((environment[key] for key in _PROTOCOLS if environment.get(key)), "http/protobuf")
        name = f"otlp_proto_{protocol.partition('/')[0]}"
    from opentelemetry.sdk.metrics.export import MetricExporter

    for entry_point in entry_points(group="opentelemetry_metrics_exporter", name=name):
        exporter = entry_point.load()()
        if isinstance(exporter, MetricExporter):
            return exporter
    raise UsageError(f"OpenTelemetry has no metric exporter {name!r} here; install its package, or {OTEL_INSTALL_HINT}")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run with its judged gates."""

    metrics: RunMetrics
    verdicts: tuple[GateVerdict, ...]

    @property
    def exit_code(self) -> ExitCode:
        """``GATE_FAILED`` if a gate failed."""
        return ExitCode.GATE_FAILED if any(verdict.failed for verdict in self.verdicts) else ExitCode.DONE

    def report(self, exporters: Sequence[MetricExporter], messages: Messages = TEXT_MESSAGES) -> ExitCode:
        """Send the metrics and name the failed gates."""
        version = self.metrics.manifest.attribeam_version
        if not send_metrics(metric_families(self.metrics, self.verdicts), exporters, version=version):
            messages.say("the audit is done, but its metrics could not be sent, see OTEL_*")
        for line in failed_gate_lines(self.verdicts):
            messages.say(line, event="gate_failed")
        return self.exit_code
