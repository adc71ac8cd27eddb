"""The metrics of one audit, under the names used in ``metrics.json`` and ``--fail-if``.

Most come from the run manifest, the others from sums over all evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import VERDICTS, Reason, SpanKind, Support
from attribeam.schemas.run_manifest import RunManifest

_SUMMED_COLUMNS = ("span_kind", "support", "evidence_mass", "evidence_isolated", "unmatched_values")


@dataclass(frozen=True, slots=True)
class EvidenceTotals:
    """Sums over evidence records.

    Attributes:
        spans: target spans by (span kind, support).
        evidence_mass: sum of the spans' evidence masses, None if no span has one.
        unmatched_spans: spans with at least one unmatched value.
        isolated_spans: spans whose whole evidence was isolated.
    """

    spans: Mapping[tuple[str, str], int]
    evidence_mass: float | None
    unmatched_spans: int
    isolated_spans: int

    @property
    def span_count(self) -> int:
        """Number of target spans."""
        return sum(self.spans.values())


def sum_evidence(audit: AuditDirectory) -> EvidenceTotals:
    """Sum up the evidence in one pass over five columns, in small batches.

    Raises:
        RunError: if a file cannot be read.
    """
    return _sum_batches(audit.evidence_batches(_SUMMED_COLUMNS))


def _sum_batches(batches: Iterable[pa.RecordBatch]) -> EvidenceTotals:
    spans: Counter[tuple[str, str]] = Counter()
    mass: float | None = None
    unmatched = isolated = 0
    for batch in batches:
        spans.update(zip(batch["span_kind"].to_pylist(), batch["support"].to_pylist(), strict=True))
        of_batch = pc.sum(batch["evidence_mass"]).as_py()
        mass = mass if of_batch is None else (mass or 0.0) + of_batch
        isolated += pc.sum(batch["evidence_isolated"]).as_py() or 0
        unmatched += pc.sum(pc.greater(pc.list_value_length(batch["unmatched_values"]), 0)).as_py() or 0
    return EvidenceTotals(dict(sorted(spans.items())), mass, unmatched, isolated)


Value = float | None


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The outcome of one run: its manifest, and the sums over its evidence if it is done.

    Attributes:
        evidence: None if the run did not finish or its evidence is not on this machine.
    """

    manifest: RunManifest
    evidence: EvidenceTotals | None = None

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

    def dead_letters(self, reason: Reason) -> int:
        """Rows refused for one reason, at any stage."""
        return sum(one.rows for one in self.manifest.counts.dead_letters if one.reason == reason)

    def spans(self, support: Support) -> int:
        """Target spans of one support."""
        return self.manifest.counts.spans.get(support, 0)

    def spans_of_kind(self, kind: SpanKind, support: Support | None = None) -> int | None:
        """Target spans of one kind, of one support or all."""
        if self.evidence is None:
            return None
        wanted = list(VERDICTS) if support is None else [support]
        return sum(self.evidence.spans.get((kind, one), 0) for one in wanted)


_ValueOf = Callable[[RunMetrics], Value]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of an audit.

    Attributes:
        unit: "rows", "spans", "tokens", "share" (0 to 1), "seconds" or "rows/s".
        of_run: describes the last run, not the audit, so the same command gives another value next time.
        of_evidence: needs the sums over the evidence.
    """

    name: str
    unit: str
    meaning: str
    value: _ValueOf
    of_run: bool = False
    of_evidence: bool = False


def share(part: float | None, whole: float | None) -> Value:
    """``part / whole``; None if there is no whole."""
    return part / whole if part is not None and whole else None


def _row_metrics() -> Iterator[Metric]:
    yield Metric("rows", "rows", "rows read", lambda run: run.manifest.counts.rows)
    yield Metric("audited_rows", "rows", "rows audited", lambda run: run.manifest.counts.audited)
    yield Metric("dead_letters", "rows", "rows refused", lambda run: run.manifest.counts.dead_lettered)
    yield Metric(
        "dead_letter_share", "share", "dead letters among the rows read",
        lambda run: share(run.manifest.counts.dead_lettered, run.manifest.counts.rows),
    )  # fmt: skip
    for reason in Reason:
        yield Metric(f"dead_letters.{reason}", "rows", f"rows refused for the reason {reason}", _dead_letters(reason))


def _span_metrics() -> Iterator[Metric]:
    yield Metric("spans", "spans", "target spans", lambda run: run.manifest.counts.span_count)
    for support in VERDICTS:
        yield Metric(f"{support}_spans", "spans", f"{support} spans", _spans(support))
    for support in VERDICTS:
        yield Metric(f"{support}_share", "share", f"{support} spans among all spans", _support_share(support))
        for kind in SpanKind:
            name, meaning = f"{support}_share.{kind}", f"{support} spans among those of the kind {kind}"
            yield Metric(name, "share", meaning, _kind_share(kind, support), of_evidence=True)


def _dead_letters(reason: Reason) -> _ValueOf:
    return lambda run: run.dead_letters(reason)


def _spans(support: Support) -> _ValueOf:
    return lambda run: run.spans(support)


def _support_share(support: Support) -> _ValueOf:
    return lambda run: share(run.spans(support), run.manifest.counts.span_count)


def _kind_share(kind: SpanKind, support: Support) -> _ValueOf:
    return lambda run: share(run.spans_of_kind(kind, support), run.spans_of_kind(kind))


def _evidence_metrics() -> Iterator[Metric]:
    def unmatched(run: RunMetrics) -> Value:
        return None if run.evidence is None else run.evidence.unmatched_spans

    def unmatched_share(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.unmatched_spans, run.evidence.span_count)

    def isolated(run: RunMetrics) -> Value:
        return None if run.evidence is None else run.evidence.isolated_spans

    def isolated_share(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.isolated_spans, run.evidence.span_count)

    def mass_mean(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.evidence_mass, run.evidence.span_count)

    yield Metric("unmatched_spans", "spans", "spans with an unmatched value", unmatched, of_evidence=True)
    yield Metric(
        "unmatched_share", "share", "spans with an unmatched value among all spans", unmatched_share, of_evidence=True
    )
    yield Metric(
        "isolated_spans", "spans", "spans of which the isolation filter left nothing", isolated, of_evidence=True
    )
    yield Metric("isolated_share", "share", "those spans among all spans", isolated_share, of_evidence=True)
    yield Metric("evidence_mass_mean", "share", "mean evidence mass of the spans", mass_mean, of_evidence=True)


def _run_metrics() -> Iterator[Metric]:
    def rows_per_second(run: RunMetrics) -> Value:
        return run.manifest.rows_per_second or None

    loading = "part of it before the first row: planning, loading the models"
    speed = "rows per second that the last run audited itself, without loading"
    yield Metric("tokens", "tokens", "tokens of the audited rows", lambda run: run.manifest.counts.tokens)
    yield Metric("seconds", "seconds", "duration of the last run", lambda run: run.manifest.seconds, of_run=True)
    yield Metric("load_seconds", "seconds", loading, lambda run: run.manifest.load_seconds, of_run=True)
    yield Metric("rows_per_second", "rows/s", speed, rows_per_second, of_run=True)


METRICS = {metric.name: metric for metric in (*_row_metrics(), *_span_metrics(), *_evidence_metrics(), *_run_metrics())}
