"""The metrics as families of labelled gauges, the form in which monitoring systems take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.metrics import RunMetrics, Value
from pipeline.quality_gates import GateVerdict
from schemas import Reason, SpanKind, Support
from schemas.run_manifest import RunStatus

_MODELS = ("model", "model_revision", "parser", "method")


class Unit(StrEnum):
    """Units in the notation of OpenTelemetry (UCUM); a name ends in ``_ratio`` or ``_seconds`` where it has one."""

    NONE = ""
    RATIO = "1"
    SECONDS = "s"
    ROWS = "{row}"
    SPANS = "{span}"
    TOKENS = "{token}"
    SPEED = "{row}/s"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value with its labels; None where it has no value, such as a share of nothing."""

    value: Value
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name; all are gauges, because each run states anew how things are."""

    name: str
    unit: Unit
    meaning: str
    samples: tuple[Sample, ...]

    @property
    def known(self) -> tuple[Sample, ...]:
        """The samples that have a value."""
        return tuple(sample for sample in self.samples if sample.value is not None)


def families(metrics: RunMetrics, verdicts: Sequence[GateVerdict]) -> Iterator[Family]:
    """All families; labelled ones have a sample for each label, be it zero."""
    yield from _rows(metrics)
    yield from _spans(metrics)
    yield from _run(metrics)
    gates = tuple(Sample(float(one.failed), (("gate", str(one.gate)),)) for one in verdicts)
    yield Family("quality_gate_failed", Unit.NONE, "1 where the gate of --fail-if has failed, else 0.", gates)


def _rows(metrics: RunMetrics) -> Iterator[Family]:
    letters = tuple(Sample(metrics.dead_letters(reason), (("reason", reason),)) for reason in Reason)
    share = "Dead letters among the rows read."
    yield _single(metrics, "rows", Unit.ROWS, "rows", "Rows read by the audit.")
    yield _single(metrics, "audited_rows", Unit.ROWS, "audited_rows", "Rows audited.")
    yield Family("dead_letters", Unit.ROWS, "Rows refused, by reason.", letters)
    yield _single(metrics, "dead_letter_ratio", Unit.RATIO, "dead_letter_share", share)
    yield _single(metrics, "tokens", Unit.TOKENS, "tokens", "Tokens of the audited rows.")


def _spans(metrics: RunMetrics) -> Iterator[Family]:
    spans = tuple(Sample(metrics.spans(support), _support(support)) for support in Support)
    shares = tuple(Sample(metrics.value(f"{support}_share"), _support(support)) for support in Support)
    kinds = tuple(
        Sample(metrics.spans_of_kind(kind, support), (("span_kind", kind), *_support(support)))
        for kind in SpanKind
        for support in Support
    )
    unmatched = "Spans with an unmatched value"
    yield Family("spans", Unit.SPANS, "Target spans, by support.", spans)
    yield Family("span_ratio", Unit.RATIO, "Spans of one support among all spans.", shares)
    yield Family("kind_spans", Unit.SPANS, "Target spans, by kind and support.", kinds)
    yield _single(metrics, "unmatched_spans", Unit.SPANS, "unmatched_spans", f"{unmatched}.")
    yield _single(metrics, "unmatched_span_ratio", Unit.RATIO, "unmatched_share", f"{unmatched} among all spans.")
    mean = "Mean evidence mass of the spans."
    yield _single(metrics, "evidence_mass_mean_ratio", Unit.RATIO, "evidence_mass_mean", mean)


def _run(metrics: RunMetrics) -> Iterator[Family]:
    started, ended = (Sample(metrics.started),), (Sample(metrics.ended),)
    speed = "Rows audited by the last run a second after loading."
    yield _single(metrics, "run_duration_seconds", Unit.SECONDS, "seconds", "Duration of the last run.")
    yield _single(
        metrics, "run_load_duration_seconds", Unit.SECONDS, "load_seconds", "Part of it before the first row."
    )
    yield _single(metrics, "rows_per_second", Unit.SPEED, "rows_per_second", speed)
    yield Family("run_start_timestamp_seconds", Unit.SECONDS, "Start of the last run, in seconds since 1970.", started)
    yield Family("run_end_timestamp_seconds", Unit.SECONDS, "End of the last run, in seconds since 1970.", ended)
    yield Family("run_status", Unit.NONE, "1 for how the last run ended, else 0.", _statuses(metrics))
    yield Family("audit_info", Unit.NONE, "Version and models of the audit; always 1.", (Sample(1, _info(metrics)),))


def _statuses(metrics: RunMetrics) -> tuple[Sample, ...]:
    ends = [status for status in RunStatus if status is not RunStatus.RUNNING]
    return tuple(Sample(float(metrics.manifest.status is status), (("status", status),)) for status in ends)


def _info(metrics: RunMetrics) -> tuple[tuple[str, str], ...]:
    manifest = metrics.manifest
    models = tuple((name, manifest.models.get(name, "")) for name in _MODELS)
    return (("version", manifest.attribeam_version), ("runner", manifest.runner), *models)


def _support(support: Support) -> tuple[tuple[str, str], ...]:
    return (("support", support),)


def _single(metrics: RunMetrics, name: str, unit: Unit, metric: str, meaning: str) -> Family:
    return Family(name, unit, meaning, (Sample(metrics.value(metric)),))
