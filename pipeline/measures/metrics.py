"""The metrics of one audit, under the names used in ``metrics.json`` and ``--fail-if``.

Most come from the run manifest, the others from sums over all evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from math import sqrt

from attribeam.pipeline.measures.evidence_totals import EvidenceTotals, RiskTotals
from attribeam.schemas import VERDICTS, AnswerKind, Reason, SpanKind, Support, SupportedHow, UnsupportedReason
from attribeam.schemas.run_manifest import RunManifest

Value = float | None


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The outcome of one run: its manifest, and the sums over its evidence if it is done.

    Attributes:
        evidence: None if the run did not finish.
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

    def standard_errors(self) -> dict[str, float]:
        """How far a metric lies from its true value by chance, where that is known: its standard error by name."""
        found = {name: metric.error(self) for name, metric in METRICS.items() if metric.error is not None}
        return {name: error for name, error in found.items() if error is not None}

    def dead_letters(self, reason: Reason) -> int:
        """Rows refused for one reason, at any stage."""
        return sum(one.rows for one in self.manifest.counts.dead_letters if one.reason == reason)

    def claims(self, support: Support) -> int:
        """Claims of one support, and spans that claim nothing or cannot be judged."""
        return self.manifest.counts.claims.get(support, 0)

    def claims_because(self, reason: UnsupportedReason) -> int | None:
        """Unsupported claims with one reason."""
        return None if self.evidence is None else self.evidence.reasons.get(reason, 0)

    def claims_supported(self, how: SupportedHow) -> int | None:
        """Supported claims that the passages support in one way."""
        return None if self.evidence is None else self.evidence.hows.get(how, 0)

    def answers(self, kind: AnswerKind) -> int:
        """Audited rows of one kind."""
        return self.manifest.counts.answers.get(kind, 0)

    def spans_of_kind(self, kind: SpanKind, support: Support | None = None) -> int | None:
        """Target spans of one kind, claims or within one, of one support or all that have a verdict."""
        if self.evidence is None:
            return None
        wanted = list(VERDICTS) if support is None else [support]
        return sum(self.evidence.spans.get((kind, one), 0) for one in wanted)


_ValueOf = Callable[[RunMetrics], Value]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of an audit.

    Attributes:
        unit: "rows", "claims", "spans", "tokens", "share" (0 to 1), "seconds" or "rows/s".
        of_run: describes the last run, not the audit, so the same command gives another value next time.
        error: its standard error, if one can be told.
    """

    name: str
    unit: str
    meaning: str
    value: _ValueOf
    of_run: bool = False
    error: _ValueOf | None = None


def share(part: float | None, whole: float | None) -> Value:
    """``part / whole``; None if there is no whole."""
    return part / whole if part is not None and whole else None


def _share_error(part: int, whole: int) -> Value:
    """The standard error of a share of things that do not depend on each other."""
    return sqrt(part * (whole - part) / whole) / whole if whole else None


def _row_metrics() -> Iterator[Metric]:
    yield Metric("rows", "rows", "rows read", lambda run: run.manifest.counts.rows)
    yield Metric("audited_rows", "rows", "rows audited", lambda run: run.manifest.counts.audited)
    yield Metric("dead_letters", "rows", "rows refused", lambda run: run.manifest.counts.dead_lettered)
    yield Metric(
        "dead_letter_share", "share", "dead letters among the rows read",
        lambda run: share(run.manifest.counts.dead_lettered, run.manifest.counts.rows),
        error=lambda run: _share_error(run.manifest.counts.dead_lettered, run.manifest.counts.rows),
    )  # fmt: skip
    for reason in Reason:
        yield Metric(f"dead_letters.{reason}", "rows", f"rows refused for the reason {reason}", _dead_letters(reason))


def _claim_metrics() -> Iterator[Metric]:
    yield Metric("spans", "spans", "target spans, those within a claim too", lambda run: run.manifest.counts.span_count)
    yield Metric("claims", "claims", "claims", lambda run: run.manifest.counts.claim_count)
    for support in VERDICTS:
        yield Metric(f"{support}_spans", "claims", f"{support} claims", _claims(support))
    for reason in UnsupportedReason:
        because = f"unsupported claims with the reason {reason}"
        yield Metric(f"unsupported_spans.{reason}", "claims", because, _because(reason))
    for how in SupportedHow:
        yield Metric(f"supported_spans.{how}", "claims", f"supported claims that are {how}", _supported(how))
    yield Metric(
        "not_calibrated_spans", "claims", "claims that no verdict is made for", _claims(Support.NOT_CALIBRATED)
    )
    yield Metric("no_claim_spans", "spans", "spans that claim nothing", _claims(Support.NO_CLAIM))
    yield Metric("not_judged_spans", "spans", "spans that cannot be judged", _claims(Support.NOT_JUDGED))
    yield Metric(
        "not_judged_share", "share", "spans that cannot be judged among these and the claims", _not_judged_share
    )
    for support in VERDICTS:
        yield Metric(
            f"{support}_share", "share", f"{support} claims among all claims", _support_share(support),
            error=_support_error(support),
        )  # fmt: skip
        for kind in SpanKind:
            name, meaning = f"{support}_share.{kind}", f"{support} spans among those of the kind {kind}"
            yield Metric(name, "share", meaning, _kind_share(kind, support))
    same = "the same as unsupported_share"
    yield Metric("unsupported_claims_share", "share", same, _support_share(Support.UNSUPPORTED))


def _answer_metrics() -> Iterator[Metric]:
    def risks(run: RunMetrics) -> RiskTotals:
        return RiskTotals() if run.evidence is None else run.evidence.risks

    def mean_risk(run: RunMetrics) -> Value:
        return share(risks(run).risk, risks(run).answers)

    def at_risk(run: RunMetrics) -> Value:
        return share(risks(run).at_risk, risks(run).answers)

    yield Metric("refusals", "rows", "answers that refuse and claim nothing", _answers(AnswerKind.REFUSAL))
    yield Metric(
        "partial_refusals", "rows", "answers that claim something and refuse something", _answers(AnswerKind.PARTIAL)
    )
    yield Metric(
        "mean_answer_risk", "share", "mean risk of the answers that have one", mean_risk,
        error=lambda run: risks(run).mean_error,
    )  # fmt: skip
    yield Metric(
        "answers_at_risk", "share", "answers at risk among those that have a risk", at_risk,
        error=lambda run: _share_error(risks(run).at_risk, risks(run).answers),
    )  # fmt: skip


def _dead_letters(reason: Reason) -> _ValueOf:
    return lambda run: run.dead_letters(reason)


def _claims(support: Support) -> _ValueOf:
    return lambda run: run.claims(support)


def _because(reason: UnsupportedReason) -> _ValueOf:
    return lambda run: run.claims_because(reason)


def _supported(how: SupportedHow) -> _ValueOf:
    return lambda run: run.claims_supported(how)


def _answers(kind: AnswerKind) -> _ValueOf:
    return lambda run: run.answers(kind)


def _not_judged_share(run: RunMetrics) -> Value:
    counts = run.manifest.counts
    return share(counts.not_judged_count, counts.not_judged_count + counts.claim_count)


def _support_share(support: Support) -> _ValueOf:
    return lambda run: share(run.claims(support), run.manifest.counts.claim_count)


def _support_error(support: Support) -> _ValueOf:
    return lambda run: None if run.evidence is None else run.evidence.answers.share_error(support)


def _kind_share(kind: SpanKind, support: Support) -> _ValueOf:
    return lambda run: share(run.spans_of_kind(kind, support), run.spans_of_kind(kind))


def _evidence_metrics() -> Iterator[Metric]:
    def unmatched(run: RunMetrics) -> Value:
        return None if run.evidence is None else run.evidence.unmatched_spans

    def unmatched_share(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.unmatched_spans, run.evidence.claims)

    def isolated(run: RunMetrics) -> Value:
        return None if run.evidence is None else run.evidence.isolated_spans

    def isolated_share(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.isolated_spans, run.evidence.claims)

    def mass_mean(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.evidence_mass, run.evidence.claims)

    def cited(run: RunMetrics) -> Value:
        return None if run.evidence is None else run.evidence.cited_claims

    def cited_share(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.cited_claims, run.evidence.claims)

    def agreement(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.agreeing_claims, run.evidence.cited_claims)

    def attended(run: RunMetrics) -> Value:
        return None if run.evidence is None else share(run.evidence.attended_claims, run.evidence.told_claims)

    agreeing = "claims whose best passages include a cited one, among the claims with a citation"
    yield Metric("cited_claims", "claims", "claims for which the answer cites a passage", cited)
    yield Metric("cited_share", "share", "those claims among all claims", cited_share)
    yield Metric("citation_agreement", "share", agreeing, agreement)
    where_told = "claims whose evidence lies where the passages have their words, among those whose words they have"
    yield Metric("evidence_agreement", "share", where_told, attended)
    yield Metric("unmatched_spans", "claims", "claims with an unmatched value", unmatched)
    yield Metric("unmatched_share", "share", "claims with an unmatched value among all claims", unmatched_share)
    yield Metric("isolated_spans", "claims", "claims of which the isolation filter left nothing", isolated)
    yield Metric("isolated_share", "share", "those claims among all claims", isolated_share)
    yield Metric("evidence_mass_mean", "share", "mean evidence mass of the claims", mass_mean)


def _run_metrics() -> Iterator[Metric]:
    def rows_per_second(run: RunMetrics) -> Value:
        return run.manifest.rows_per_second or None

    loading = "part of it before the first row: planning, loading the models"
    speed = "rows per second that the last run audited itself, without loading"
    yield Metric("tokens", "tokens", "tokens of the audited rows", lambda run: run.manifest.counts.tokens)
    yield Metric("seconds", "seconds", "duration of the last run", lambda run: run.manifest.seconds, of_run=True)
    yield Metric("load_seconds", "seconds", loading, lambda run: run.manifest.load_seconds, of_run=True)
    yield Metric("rows_per_second", "rows/s", speed, rows_per_second, of_run=True)


_ALL = (_row_metrics, _claim_metrics, _answer_metrics, _evidence_metrics, _run_metrics)
METRICS = {metric.name: metric for metrics in _ALL for metric in metrics()}
