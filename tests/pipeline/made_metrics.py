"""Manifests and sums of audits that never ran."""

from __future__ import annotations

from attribeam.pipeline.metrics import EvidenceTotals, RunMetrics
from attribeam.schemas.run_manifest import AuditCounts, DeadLetterCount, RunManifest, RunStatus

SPANS = {
    ("facts", "supported"): 70,
    ("facts", "unsupported"): 10,
    ("mentions", "supported"): 15,
    ("mentions", "weak"): 5,
}


def made_metrics(*, status: RunStatus = RunStatus.DONE, parser: str = "tiny") -> RunMetrics:
    """100 spans of 37 audited rows; 3 rows were refused, two of them for one reason at two stages."""
    letters = (
        DeadLetterCount("attribute", "empty_answer", 1),
        DeadLetterCount("validate", "empty_answer", 1),
        DeadLetterCount("validate", "no_passages", 1),
    )
    counts = AuditCounts(40, 37, letters, {"supported": 85, "unsupported": 10, "weak": 5}, 9000)
    totals = EvidenceTotals(SPANS, evidence_mass=62.5, unmatched_spans=8, isolated_spans=5)
    return RunMetrics(made_manifest(counts, status=status, parser=parser), totals)


def metrics_of_nothing() -> RunMetrics:
    """An audit of a log without rows."""
    return RunMetrics(
        made_manifest(AuditCounts()), EvidenceTotals({}, evidence_mass=None, unmatched_spans=0, isolated_spans=0)
    )


def made_manifest(counts: AuditCounts, *, status: RunStatus = RunStatus.DONE, parser: str = "tiny") -> RunManifest:
    """A manifest of a local run of 20 s, of which 4 s were loading."""
    return RunManifest(
        status=status,
        attribeam_version="0.1.0",
        runner="local",
        started_at="2026-11-19T02:00:00+00:00",
        seconds=20.0,
        load_seconds=4.0,
        rows_per_second=2.5 if counts.rows else 0.0,
        configuration="",
        inputs=(),
        options={},
        models={"model": "tiny", "parser": parser},
        versions={},
        counts=counts,
    )
