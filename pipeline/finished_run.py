"""What follows a run that is done: its figures counted and written, its quality gates judged, its metrics sent."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.failures import AuditError
from pipeline.metrics import RunMetrics
from pipeline.metrics_evidence import sum_evidence
from pipeline.metrics_families import families
from pipeline.metrics_files import write_metrics
from pipeline.metrics_opentelemetry import send
from pipeline.quality_gates import EXIT_CODE, GateVerdict, failure_text, judge
from pipeline.run_options import RunOptions
from report.audit_directory import AuditDirectory
from report.failures import ReportError
from schemas.run_manifest import RunManifest

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter

REPORT_PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is done, with its judged gates."""

    metrics: RunMetrics
    verdicts: tuple[GateVerdict, ...]

    def tell(self, exporters: Sequence[MetricExporter]) -> int:
        """Send the metrics and name the failed gates on standard error; returns the exit code, 0 or 3."""
        version = self.metrics.manifest.attribeam_version
        if not send(families(self.metrics, self.verdicts), exporters, version=version):
            print("attribeam audit: the audit is done, but its metrics could not be sent, see OTEL_*", file=sys.stderr)
        for line in failure_text(self.verdicts):
            print(f"attribeam audit: {line}", file=sys.stderr)
        return EXIT_CODE if any(verdict.failed for verdict in self.verdicts) else 0


def finish_local_run(root: Path, manifest: RunManifest, options: RunOptions) -> FinishedRun:
    """Sum the evidence up, judge the gates, write both metrics files and the page; also if an earlier run did all rows.

    Raises:
        AuditError: if the evidence cannot be read, or the page not be written.
        OSError: if the metrics cannot be written.
    """
    try:
        metrics = RunMetrics(manifest, sum_evidence(AuditDirectory.open(root)))
        finished = FinishedRun(metrics, judge(options.gates, metrics))
        write_metrics(root, metrics, finished.verdicts)
        if options.report:
            _write_page(root)
    except ReportError as error:
        raise AuditError(f"the audit is done, but what it found cannot be summed up: {error}") from error
    return finished


def _write_page(root: Path) -> None:
    from report.html_report import write_html_report

    write_html_report(root, root / REPORT_PAGE)
