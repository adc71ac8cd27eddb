"""The metrics of one audit, under the names used in ``metrics.json``, the quality gates on them, and their export.

Most metrics come from the run manifest, the others from sums over all evidence, made in one pass over its columns. The
audit's directory holds ``metrics.json`` and ``metrics.prom``, which is in Prometheus text format for the textfile
collector of node_exporter. OpenTelemetry's own library sends the metrics once, without a background thread.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import accumulate, chain
from math import sqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.privacy import check_masked, redacting
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.messages import TEXT_MESSAGES, Messages
from attribeam.report.overview import AgreementTally, ShareBy, ShareTally
from attribeam.schemas import VERDICTS, AnswerKind, Reason, SpanKind, Support, SupportedHow, UnsupportedReason
from attribeam.schemas.errors import ExitCode, UsageError, did_you_mean
from attribeam.schemas.evidence_record import CLAIM_COLUMNS, claim_mask, claim_rows, judged_rows
from attribeam.schemas.run_manifest import AuditCounts, RunManifest, RunStatus

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader

Value = float | None
RISK_THRESHOLD = "answer_risk_threshold"
"""What the provenance of a verdict calls the risk from which an answer is at risk."""
_DEFAULT_RISK_THRESHOLD = 0.5
_SUMMED_COLUMNS = (
    *CLAIM_COLUMNS, "span_kind", "evidence_mass", "evidence_isolated", "unmatched_values", "answer_risk",
    "reason", "how", "evidence_agrees", "citation_agrees", "answered_at",
)  # fmt: skip
_COUNTED = 1 + len(VERDICTS)
"""What is counted of an answer: its claims, and those of each verdict."""


@dataclass(slots=True)
class RiskTotals:
    """The answers that have a risk, the sums of their risks and squares, and how many have at least the threshold."""

    answers: int = 0
    risk: float = 0.0
    at_risk: int = 0
    squared_risk: float = 0.0

    def add(self, firsts: pa.RecordBatch, threshold: float) -> None:
        """Add the risks of the answers that have these first spans."""
        known = pc.drop_null(firsts["answer_risk"]).cast(pa.float64())
        self.answers += len(known)
        self.risk += pc.sum(known).as_py() or 0.0
        self.at_risk += pc.sum(pc.greater_equal(known, threshold)).as_py() or 0
        self.squared_risk += pc.sum(pc.multiply(known, known)).as_py() or 0.0

    @property
    def mean_error(self) -> float | None:
        """The standard error of the mean risk; None for fewer than two answers."""
        if self.answers < 2:
            return None
        spread = max(self.squared_risk - self.risk**2 / self.answers, 0.0)
        return sqrt(spread / (self.answers - 1) / self.answers)


class AnswerTally:
    """Sums over answers for the standard error of shares of claims: claims of one answer are not independent.

    It adds up batches in which the rows of an answer follow each other, the first of index 0.

    Attributes:
        answers: those that have a claim.
        claims: float64 [_COUNTED], claims, and those of each verdict, in the order of ``VERDICTS``.
        products: float64 [_COUNTED, _COUNTED], sums over the answers of the products of these numbers.
    """

    def __init__(self) -> None:
        self.answers, self.claims, self.products = 0, np.zeros(_COUNTED), np.zeros((_COUNTED, _COUNTED))
        self._open = np.zeros((1, _COUNTED))

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch; its last answer may go on in the next."""
        answers = np.cumsum(_as_numpy(pc.equal(batch["span_index"], 0)))
        claims = _as_numpy(claim_mask(batch))
        masks = [claims, *(claims & _as_numpy(pc.equal(batch["support"], support.value)) for support in VERDICTS)]
        last = int(answers[-1]) if len(answers) else 0
        columns = [np.bincount(answers, weights=mask, minlength=last + 1) for mask in masks]
        counts = np.stack(columns, axis=1).astype(np.float64)
        counts[0] += self._open[0]
        self._sum(counts[:-1])
        self._open = counts[-1:]

    def finish(self) -> None:
        """Add the answer that is open; no batch goes on with it."""
        self._sum(self._open)
        self._open = np.zeros_like(self._open)

    def _sum(self, counts: npt.NDArray[np.float64]) -> None:
        self.answers += int(np.count_nonzero(counts[:, 0]))
        self.claims += counts.sum(axis=0)
        self.products += counts.T @ counts

    def share_error(self, support: Support) -> float | None:
        """The standard error of the share of one verdict among the claims, of answers drawn by chance.

        It is that of a ratio of two sums over answers (linearised); None for fewer than two answers.
        """
        if self.answers < 2:
            return None
        index = 1 + VERDICTS.index(support)
        part, whole = float(self.claims[index]), float(self.claims[0])
        own, both, all_claims = (float(self.products[pair]) for pair in ((index, index), (index, 0), (0, 0)))
        share = part / whole
        spread = max(own - 2 * share * both + share**2 * all_claims, 0.0)
        return sqrt(spread * self.answers / (self.answers - 1)) / whole


def _as_numpy(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    values: npt.NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return values


@dataclass(slots=True)
class EvidenceTotals:
    """Sums over evidence records.

    Attributes:
        spans: target spans by (span kind, support), those within a claim too.
        claims: claims, each counted once.
        evidence_mass: sum of the claims' evidence masses, None if no claim has one.
        unmatched_spans, isolated_spans: claims with an unmatched value, and those whose whole evidence was isolated.
        groups: claims with a verdict by the values of ``generator`` and of each carried column that can be grouped.
        citations: claims with a citation, and those whose best passages include a cited one.
        words: claims whose words some passage sentences have, and those with evidence there.
        reasons, hows: unsupported claims by ``reason``, supported ones by ``how``.
        answered_at: the hour (UTC) at which half of the answers that have a time were given; None where none has one.
    """

    spans: Mapping[tuple[str, str], int]
    claims: int
    evidence_mass: float | None
    unmatched_spans: int
    isolated_spans: int
    risks: RiskTotals = field(default_factory=RiskTotals)
    answers: AnswerTally = field(default_factory=AnswerTally)
    groups: tuple[ShareBy, ...] = field(default=())
    citations: AgreementTally = field(default_factory=partial(AgreementTally, "citation_agrees"))
    words: AgreementTally = field(default_factory=partial(AgreementTally, "evidence_agrees"))
    reasons: Mapping[str, int] = field(default_factory=dict)
    hows: Mapping[str, int] = field(default_factory=dict)
    answered_at: datetime | None = None


def sum_evidence(audit: AuditDirectory) -> EvidenceTotals:
    """Sum up the evidence in one pass over the columns that are needed, in small batches.

    Raises ``RunError`` if a file cannot be read.
    """
    threshold = float(audit.manifest.models.get(RISK_THRESHOLD, _DEFAULT_RISK_THRESHOLD))
    carried = [field.name for field in audit.extra_fields if ShareTally.can_group(field)]
    groups = [ShareTally(column) for column in ("generator", *carried)]
    spans: Counter[tuple[str, str]] = Counter()
    reasons, hows, hours = Counter[str](), Counter[str](), Counter[datetime]()
    totals = EvidenceTotals(spans, 0, None, 0, 0, reasons=reasons, hows=hows)
    for batch in audit.evidence_batches((*_SUMMED_COLUMNS, "generator", *carried)):
        spans.update(zip(batch["span_kind"].to_pylist(), batch["support"].to_pylist(), strict=True))
        totals.answers.add(batch)
        firsts = batch.filter(pc.equal(batch["span_index"], 0))
        totals.risks.add(firsts, threshold)
        hours.update(pc.floor_temporal(firsts["answered_at"].drop_null(), unit="hour").to_pylist())
        judged, of_claims = judged_rows(batch), claim_rows(batch)
        for tally in groups:
            tally.add(judged)
        totals.citations.add(of_claims)
        totals.words.add(of_claims)
        totals.claims += of_claims.num_rows
        mass = pc.sum(of_claims["evidence_mass"]).as_py()
        totals.evidence_mass = totals.evidence_mass if mass is None else (totals.evidence_mass or 0.0) + mass
        totals.isolated_spans += pc.sum(of_claims["evidence_isolated"]).as_py() or 0
        unmatched = pc.greater(pc.list_value_length(of_claims["unmatched_values"]), 0)
        totals.unmatched_spans += pc.sum(unmatched).as_py() or 0
        reasons.update(of_claims["reason"].drop_null().to_pylist())
        hows.update(of_claims["how"].drop_null().to_pylist())
    ordered = sorted(hours)
    middle = bisect_left([*accumulate(hours[hour] for hour in ordered)], hours.total() / 2)  # the earlier one of two
    totals.answered_at = ordered[middle] if ordered else None
    totals.groups = tuple(tally.result() for tally in groups)
    totals.answers.finish()
    return totals


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The outcome of one run: its manifest, and the sums over its evidence, None if the run did not finish."""

    manifest: RunManifest
    evidence: EvidenceTotals | None = None

    @property
    def counts(self) -> AuditCounts:
        """What became of the rows."""
        return self.manifest.counts

    @property
    def started(self) -> float:
        """Seconds since 1970 in UTC."""
        return datetime.fromisoformat(self.manifest.started_at).timestamp()

    @property
    def ended(self) -> float:
        """Seconds since 1970 in UTC."""
        return self.started + self.manifest.seconds

    def value(self, name: str) -> Value:
        """The value of one metric; None if it has none, such as a share of nothing."""
        return METRICS[name].value(self)

    def values(self) -> dict[str, Value]:
        """All metrics by name."""
        return {name: metric.value(self) for name, metric in METRICS.items()}

    def standard_errors(self) -> dict[str, float]:
        """How far a metric lies from its true value by chance, where that is known: its standard error by name."""
        errors = {name: metric.error(self) for name, metric in METRICS.items() if metric.error is not None}
        return {name: error for name, error in errors.items() if error is not None}

    def dead_letters(self, reason: Reason) -> int:
        """Rows refused for one reason, at any stage."""
        return sum(count.rows for count in self.counts.dead_letters if count.reason == reason)

    def claims(self, support: Support) -> int:
        """Claims of one support, and spans that claim nothing or cannot be judged."""
        return self.counts.claims.get(support, 0)

    def answers(self, kind: AnswerKind) -> int:
        """Audited rows of one kind."""
        return self.counts.answers.get(kind, 0)

    def spans_of_kind(self, kind: SpanKind, support: Support | None = None) -> int | None:
        """Target spans of one kind, claims or within one, of one support or all that have a verdict."""
        if self.evidence is None:
            return None
        return sum(self.evidence.spans.get((kind, label), 0) for label in (VERDICTS if support is None else (support,)))

    @property
    def risks(self) -> RiskTotals:
        """The totals of the answers' risks; empty where the run did not finish."""
        return RiskTotals() if self.evidence is None else self.evidence.risks


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


_ValueOf = Callable[[RunMetrics], Value]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of an audit; docs/nightly.md says what each is.

    Attributes:
        unit: that of a share, from 0 to 1, is ``RATIO``.
        of_run: describes the last run, not the audit, so the same command gives another value next time.
        error: its standard error, if one can be told.
    """

    name: str
    unit: Unit
    value: _ValueOf
    error: _ValueOf | None = None
    of_run: bool = False


def share(part: float | None, whole: float | None) -> Value:
    """``part / whole``; None if there is no whole."""
    return part / whole if part is not None and whole else None


def _share_error(part: int, whole: int) -> Value:
    """The standard error of a share of things that do not depend on each other."""
    return sqrt(part * (whole - part) / whole) / whole if whole else None


def _summed(value: Callable[[EvidenceTotals], Value]) -> _ValueOf:
    """A value of the sums over the evidence; None where there are none."""
    return lambda run: None if run.evidence is None else value(run.evidence)


def _counted(counts: str, value: str) -> _ValueOf:
    """How many claims have a value of ``reasons`` or ``hows``."""
    return _summed(lambda sums: getattr(sums, counts).get(value, 0))


def _claim_shares(support: Support) -> Iterator[Metric]:
    """The share of one verdict among all claims, and among the spans of each kind that have a verdict."""

    def of_kind(run: RunMetrics, kind: SpanKind) -> Value:
        return share(run.spans_of_kind(kind, support), run.spans_of_kind(kind))

    error = _summed(lambda sums: sums.answers.share_error(support))
    yield Metric(f"{support}_share", Unit.RATIO, lambda run: share(run.claims(support), run.counts.claim_count), error)
    yield from (Metric(f"{support}_share.{kind}", Unit.RATIO, partial(of_kind, kind=kind)) for kind in SpanKind)


_ALL = (
    Metric("rows", Unit.ROWS, lambda run: run.counts.rows),
    Metric("audited_rows", Unit.ROWS, lambda run: run.counts.audited),
    Metric("dead_letters", Unit.ROWS, lambda run: run.counts.dead_lettered),
    Metric(
        "dead_letter_share", Unit.RATIO, lambda run: share(run.counts.dead_lettered, run.counts.rows),
        lambda run: _share_error(run.counts.dead_lettered, run.counts.rows),
    ),
    *(Metric(f"dead_letters.{why}", Unit.ROWS, partial(RunMetrics.dead_letters, reason=why)) for why in Reason),
    Metric("spans", Unit.SPANS, lambda run: run.counts.span_count),
    Metric("claims", Unit.CLAIMS, lambda run: run.counts.claim_count),
    *(Metric(f"{of}_spans", Unit.CLAIMS, partial(RunMetrics.claims, support=of)) for of in VERDICTS),
    *(Metric(f"unsupported_spans.{why}", Unit.CLAIMS, _counted("reasons", why)) for why in UnsupportedReason),
    *(Metric(f"supported_spans.{how}", Unit.CLAIMS, _counted("hows", how)) for how in SupportedHow),
    Metric("not_calibrated_spans", Unit.CLAIMS, lambda run: run.claims(Support.NOT_CALIBRATED)),
    Metric("no_claim_spans", Unit.SPANS, lambda run: run.claims(Support.NO_CLAIM)),
    Metric("not_judged_spans", Unit.SPANS, lambda run: run.counts.not_judged_count),
    Metric(
        "not_judged_share", Unit.RATIO,
        lambda run: share(run.counts.not_judged_count, run.counts.not_judged_count + run.counts.claim_count),
    ),
    *chain.from_iterable(map(_claim_shares, VERDICTS)),
    Metric("unsupported_claims_share", Unit.RATIO, lambda run: run.value("unsupported_share")),
    Metric("refusals", Unit.ROWS, lambda run: run.answers(AnswerKind.REFUSAL)),
    Metric("partial_refusals", Unit.ROWS, lambda run: run.answers(AnswerKind.PARTIAL)),
    Metric(
        "mean_answer_risk", Unit.RATIO, lambda run: share(run.risks.risk, run.risks.answers),
        lambda run: run.risks.mean_error,
    ),
    Metric(
        "answers_at_risk", Unit.RATIO, lambda run: share(run.risks.at_risk, run.risks.answers),
        lambda run: _share_error(run.risks.at_risk, run.risks.answers),
    ),
    Metric("cited_claims", Unit.CLAIMS, _summed(lambda sums: sums.citations.told)),
    Metric("cited_share", Unit.RATIO, _summed(lambda sums: share(sums.citations.told, sums.claims))),
    Metric("citation_agreement", Unit.RATIO, _summed(lambda sums: share(sums.citations.agreeing, sums.citations.told))),
    Metric("evidence_agreement", Unit.RATIO, _summed(lambda sums: share(sums.words.agreeing, sums.words.told))),
    Metric("unmatched_spans", Unit.CLAIMS, _summed(lambda sums: sums.unmatched_spans)),
    Metric("unmatched_share", Unit.RATIO, _summed(lambda sums: share(sums.unmatched_spans, sums.claims))),
    Metric("isolated_spans", Unit.CLAIMS, _summed(lambda sums: sums.isolated_spans)),
    Metric("isolated_share", Unit.RATIO, _summed(lambda sums: share(sums.isolated_spans, sums.claims))),
    Metric("evidence_mass_mean", Unit.RATIO, _summed(lambda sums: share(sums.evidence_mass, sums.claims))),
    Metric("tokens", Unit.TOKENS, lambda run: run.counts.tokens),
    Metric("seconds", Unit.SECONDS, lambda run: run.manifest.seconds, of_run=True),
    Metric("load_seconds", Unit.SECONDS, lambda run: run.manifest.load_seconds, of_run=True),
    Metric("rows_per_second", Unit.SPEED, lambda run: run.manifest.rows_per_second or None, of_run=True),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _ALL}
GATE_NAMES = tuple(name for name, metric in METRICS.items() if not metric.of_run)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_GATE = re.compile(r"\s*([^\s<>=!]+)\s*([<>=!]+)\s*(\S+)\s*")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class QualityGate:
    """The audit fails if the metric compares to the limit as the operator says."""

    metric: str
    operator: str
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {_exact(self.limit)}"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """One judged gate; a gate whose metric has no value (None) has failed."""

    gate: QualityGate
    value: float | None
    failed: bool


def quality_gate(text: str) -> QualityGate:
    """Parse the gate of ``--fail-if TEXT``.

    Raises:
        argparse.ArgumentTypeError: if it is not NAME OP NUMBER, or can never be judged.
    """
    parts = _GATE.fullmatch(text)
    if parts is None:
        raise argparse.ArgumentTypeError(f"should be NAME OP NUMBER, such as 'unsupported_share > 0.05', was: {text!r}")
    name, relation, number = parts.groups()
    if name not in GATE_NAMES:
        hint = did_you_mean(name, GATE_NAMES, otherwise=f"there are: {', '.join(GATE_NAMES)}")
        of_run = f"{name!r} describes the run and not the answers, so it cannot be a quality gate"
        raise argparse.ArgumentTypeError(of_run if name in METRICS else f"unknown metric {name!r}; {hint}")
    if relation not in _OPERATORS:
        raise argparse.ArgumentTypeError(f"should have one of {' '.join(_OPERATORS)} as operator, was: {relation!r}")
    limit = float(number) if _NUMBER.fullmatch(number) else math.nan
    if not math.isfinite(limit):
        raise argparse.ArgumentTypeError(f"should end in a finite decimal number, such as 0.05, was: {number!r}")
    if METRICS[name].unit is Unit.RATIO and not 0 <= limit <= 1:
        raise argparse.ArgumentTypeError(f"{name} is a share from 0 to 1, its limit should be one too, was: {number}")
    return QualityGate(name, relation, limit)


def judge_gates(gates: Sequence[QualityGate], metrics: RunMetrics) -> tuple[GateVerdict, ...]:
    """One verdict per gate, in order."""
    values = [metrics.value(gate.metric) for gate in gates]
    return tuple(
        GateVerdict(gate, value, failed=value is None or _OPERATORS[gate.operator](value, gate.limit))
        for gate, value in zip(gates, values, strict=True)
    )


def check_gates(gates: Sequence[QualityGate], *, span_kinds: Collection[SpanKind]) -> None:
    """Refuse gates on metrics that this run will not have.

    Raises ``UsageError`` if one needs a kind of span that is not chosen.
    """
    for gate in gates:
        kind = gate.metric.partition("_share.")[2]
        if kind and SpanKind(kind) not in span_kinds:
            raise UsageError(f"--fail-if {str(gate)!r}: there will be no spans of the kind {kind!r}, see --spans")


def failed_gate_lines(verdicts: Sequence[GateVerdict]) -> Iterator[str]:
    """One line per failed gate, with value and limit."""
    for verdict in verdicts:
        if verdict.value is None:
            yield f"quality gate failed: {verdict.gate}: {verdict.gate.metric} has no value, there is nothing to count"
        elif verdict.failed:
            value, limit = f"{verdict.value:.10g}", _exact(verdict.gate.limit)
            yield f"quality gate failed: {verdict.gate}: {verdict.gate.metric} is {value}, the limit is {limit}"


def _exact(number: float) -> str:
    """The shortest text of this very number, so that different gates never look the same."""
    return repr(number).removesuffix(".0")


# Monitoring systems get families of labelled gauges, in files and through OpenTelemetry.

_MODELS = ("model", "model_revision", "parser", "method")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value with its labels; None, which no family keeps, if there is none, such as a share of nothing."""

    value: Value
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name that have a value. All are gauges, because each run reports the current state."""

    name: str
    unit: Unit
    meaning: str
    samples: tuple[Sample, ...]


_SINGLE = (
    ("rows", "rows", "Rows read by the audit."),
    ("audited_rows", "audited_rows", "Rows audited."),
    ("dead_letter_ratio", "dead_letter_share", "Dead letters among the rows read."),
    ("tokens", "tokens", "Tokens of the audited rows."),
    ("claims", "claims", "Claims."),
    ("not_judged_ratio", "not_judged_share", "Spans that cannot be judged among these and the claims."),
    ("unmatched_spans", "unmatched_spans", "Claims with an unmatched value."),
    ("unmatched_span_ratio", "unmatched_share", "Claims with an unmatched value among all claims."),
    ("cited_claims", "cited_claims", "Claims for which the answer cites a passage."),
    ("cited_claim_ratio", "cited_share", "Claims for which the answer cites a passage among all claims."),
    (
        "citation_agreement_ratio", "citation_agreement",
        "Claims whose evidence lies in a cited passage among those with a citation.",
    ),
    (
        "evidence_agreement_ratio", "evidence_agreement",
        "Claims whose evidence lies where the passages have their words, among those whose words they have.",
    ),
    ("isolated_spans", "isolated_spans", "Claims whose whole evidence was isolated."),
    ("isolated_span_ratio", "isolated_share", "Claims whose whole evidence was isolated among all claims."),
    ("evidence_mass_mean_ratio", "evidence_mass_mean", "Mean evidence mass of the claims."),
    ("answer_risk_mean_ratio", "mean_answer_risk", "Mean risk of the answers."),
    ("answers_at_risk_ratio", "answers_at_risk", "Answers at risk among those that have a risk."),
    ("run_duration_seconds", "seconds", "Duration of the last run."),
    ("run_load_duration_seconds", "load_seconds", "Part of the duration before the first row."),
    ("rows_per_second", "rows_per_second", "Rows per second audited by the last run, without loading."),
)  # fmt: skip
"""The families of one sample each: name, metric and meaning."""


def metric_families(metrics: RunMetrics, verdicts: Sequence[GateVerdict]) -> Iterator[Family]:
    """All families; labelled ones have a sample for each label, even if it is zero."""
    single = ((name, METRICS[of].unit, meaning, [Sample(metrics.value(of))]) for name, of, meaning in _SINGLE)
    for name, unit, meaning, samples in chain(single, _labelled(metrics)):
        yield Family(name, unit, meaning, tuple(sample for sample in samples if sample.value is not None))
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
        if family.samples:
            lines += [f"# HELP {name} {_escaped(family.meaning)}", f"# TYPE {name} gauge"]
        for sample in family.samples:
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
        for sample in family.samples:
            gauge.set(cast(float, sample.value), dict(sample.labels))


def _make_exporter(name: str, environment: Mapping[str, str]) -> MetricExporter:
    """Make the exporter with a name of ``OTEL_METRICS_EXPORTER``; it reads its own ``OTEL_*`` variables."""
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
