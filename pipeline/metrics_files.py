"""``metrics.json`` and ``metrics.prom`` in an audit's directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from pipeline.metrics import RunMetrics
from pipeline.metrics_prometheus import prometheus_text
from pipeline.output_directory import write_atomically
from pipeline.quality_gates import GateVerdict

METRICS_JSON = "metrics.json"
METRICS_PROM = "metrics.prom"


def write_metrics(root: Path, metrics: RunMetrics, verdicts: Sequence[GateVerdict] = ()) -> None:
    """Write both files so that a reader sees the old or the whole new one.

    Raises:
        OSError: if they cannot be written.
    """
    write_atomically(root / METRICS_JSON, metrics_json(metrics, verdicts))
    write_atomically(root / METRICS_PROM, prometheus_text(metrics, verdicts))


def metrics_json(metrics: RunMetrics, verdicts: Sequence[GateVerdict] = ()) -> str:
    """All metrics by name, null where one has no value, and the judged gates."""
    manifest = metrics.manifest
    fields = {
        "schema_version": manifest.schema_version,
        "status": manifest.status,
        "started_at": manifest.started_at,
        "ended_at": datetime.fromtimestamp(metrics.ended, UTC).isoformat(timespec="seconds"),
        "metrics": metrics.values(),
        "quality_gates": [_gate(verdict) for verdict in verdicts],
    }
    return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _gate(verdict: GateVerdict) -> dict[str, object]:
    return {**asdict(verdict.gate), "value": verdict.value, "failed": verdict.failed}
