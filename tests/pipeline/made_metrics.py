"""Manifests and sums of audits that never ran."""

from dataclasses import replace

from attribeam.pipeline.metrics import EvidenceTotals, RiskTotals, RunMetrics
from attribeam.schemas.run_manifest import AuditCounts, DeadLetterCount, RunManifest, RunStatus

SPANS = {
    ("facts", "supported"): 70, ("facts", "unsupported"): 10, ("mentions", "supported"): 15, ("mentions", "weak"): 5,
}  # fmt: skip


def made_metrics(*, status=RunStatus.DONE, parser="tiny"):
    """100 claims in 154 spans of 37 audited rows; 3 rows were refused, two of them for one reason at two stages."""
    places = ("attribute", "empty_answer"), ("validate", "empty_answer"), ("validate", "no_passages")
    letters = tuple(DeadLetterCount(stage, reason, 1) for stage, reason in places)
    claims = {"supported": 85, "unsupported": 10, "weak": 5, "no_claim": 4, "not_judged": 25}
    counts = AuditCounts(
        40, 37, letters, spans=claims | {"supported": 110}, tokens=9000, claims=claims,
        not_judged={"code": 5, "language": 20}, answers={"answer": 29, "refusal": 6, "partial": 2},
    )  # fmt: skip
    risks = RiskTotals(answers=20, risk=5.0, at_risk=3)
    totals = EvidenceTotals(SPANS, claims=100, evidence_mass=62.5, unmatched_spans=8, isolated_spans=5, risks=risks)
    return RunMetrics(made_manifest(counts, status=status, parser=parser), totals)


def metrics_of_nothing():
    totals = EvidenceTotals({}, claims=0, evidence_mass=None, unmatched_spans=0, isolated_spans=0)
    return RunMetrics(made_manifest(AuditCounts()), totals)


def made_manifest(counts, *, parser="tiny", **changed):
    """A manifest of a local run of 20 s, of which 4 s were loading; ``changed`` are other fields of it."""
    made = RunManifest(
        status=RunStatus.DONE, attribeam_version="0.1.0", runner="local", started_at="2026-11-19T02:00:00+00:00",
        seconds=20.0, load_seconds=4.0, rows_per_second=2.5 if counts.rows else 0.0, configuration="", inputs=(),
        options={}, models={"model": "tiny", "parser": parser}, versions={}, counts=counts,
    )  # fmt: skip
    return replace(made, **changed)
