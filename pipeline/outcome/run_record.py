"""What a run records: its manifest from start to end, then metrics, judged gates and page."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam import __version__
from attribeam.pipeline.chunks.configuration import package_versions, plain_settings
from attribeam.pipeline.chunks.input_plan import InputPlan
from attribeam.pipeline.chunks.output_directory import METRICS_JSON, METRICS_PROM, REPORT_PAGE
from attribeam.pipeline.measures.evidence_totals import sum_evidence
from attribeam.pipeline.measures.metrics import RunMetrics
from attribeam.pipeline.measures.metrics_export import metric_families, metrics_json, prometheus_text, send_metrics
from attribeam.pipeline.measures.quality_gates import GateVerdict, failed_gate_lines, judge_gates
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.messages import TEXT_MESSAGES, Messages
from attribeam.schemas.errors import ExitCode, RunError
from attribeam.schemas.passage_sample import cut_passages, merge_samples
from attribeam.schemas.run_manifest import (
    ChunkManifest,
    InputFile,
    ReadingNote,
    RunManifest,
    RunStatus,
    sum_counts,
    sum_stage_seconds,
)
from attribeam.transforms.audit_settings import AuditSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter


class RunClock:
    """When a run started and how long it has been running."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._started = time.monotonic()
        self.load_seconds = 0.0

    def mark_loaded(self) -> None:
        """Count the time until now as loading, which does not count for rows/s."""
        self.load_seconds = self.seconds

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started


def with_row_notes(inputs: Iterable[InputFile], chunks: Iterable[ChunkManifest]) -> tuple[InputFile, ...]:
    """The inputs with what their chunks tell of rows behind their own notes."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for chunk in chunks:
        found[chunk.source_file].update({one.note: one.rows for one in chunk.notes})
    return tuple(
        replace(one, notes=(*one.notes, *(ReadingNote(note, rows) for note, rows in sorted(found[one.path].items()))))
        for one in inputs
    )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Keeps the manifest of one run up to date.

    Attributes:
        put: replaces a file of the output, by its name, with a text.
        earlier_rows: rows that earlier runs finished.
    """

    settings: AuditSettings
    options: RunOptions
    plan: InputPlan
    models: Mapping[str, str]
    configuration: str
    clock: RunClock
    earlier_rows: int
    put: Callable[[str, str], None]

    def write(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> RunManifest:
        """Write and return the manifest of a run with its ``finished`` chunks; where it ended early, the metrics too.

        Raises:
            OSError: if they cannot be written.
        """
        manifest = self._manifest(status, finished)
        self.put(RUN_MANIFEST, manifest.to_json())
        if status in (RunStatus.FAILED, RunStatus.INTERRUPTED):
            _put_metrics(self.put, RunMetrics(manifest))
        return manifest

    def check_reconciled(self, finished: Mapping[str, ChunkManifest]) -> None:
        """Refuse chunks that do not hold every row of the input once.

        Raises:
            RunError: if so.
        """
        counts, rows = sum_counts(one.counts for one in finished.values()), self.plan.row_count
        if not (counts.is_reconciled and counts.rows == rows):
            raise RunError(
                f"the run does not reconcile: the input has {rows} rows, {counts.audited} were audited and "
                f"{counts.dead_lettered} became dead letters; was the input changed meanwhile? Start the command again."
            )

    def _manifest(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> RunManifest:
        seconds, load_seconds = self.clock.seconds, self.clock.load_seconds
        counts = sum_counts(one.counts for one in finished.values())
        own_rows = max(0, counts.rows - self.earlier_rows)
        return RunManifest(
            status=status,
            attribeam_version=__version__,
            runner=self.options.runner,
            started_at=self.clock.started_at,
            seconds=round(seconds, 3),
            load_seconds=round(load_seconds, 3),
            rows_per_second=round(own_rows / max(seconds - load_seconds, 0.001), 3),
            configuration=self.configuration,
            inputs=with_row_notes(self.plan.inputs, finished.values()),
            options={**plain_settings(self.settings), "run": self.options.given()},
            models=dict(self.models),
            versions=package_versions(),
            counts=counts,
            chunks=tuple(sorted(finished)),
            stages=sum_stage_seconds(one.stages for one in finished.values()),
            cut_passages=cut_passages(merge_samples(one.passage_sample for one in finished.values())),
        )


def end_status(error: BaseException) -> RunStatus:
    """How a run ended because of an error."""
    return RunStatus.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunStatus.FAILED


RUN_MANIFEST = "run_manifest.json"


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


def finish_run(
    audit: AuditDirectory, manifest: RunManifest, options: RunOptions, put: Callable[[str, str], None]
) -> FinishedRun:
    """Sum up the evidence, judge the gates, write the metrics and the page, even if an earlier run did all rows.

    Raises:
        RunError: if the evidence cannot be read or the page cannot be written.
        OSError: if the metrics cannot be written.
    """
    from attribeam.report.html_page import PageRequest, html_page, write_html_report

    try:
        metrics = RunMetrics(manifest, sum_evidence(audit))
        finished = FinishedRun(metrics, judge_gates(options.gates, metrics))
        _put_metrics(put, metrics, finished.verdicts)
        if options.report and "://" in audit.root:
            put(REPORT_PAGE, html_page(PageRequest(audit)))
        elif options.report:
            write_html_report(audit.root, Path(audit.root) / REPORT_PAGE)
    except RunError as error:
        raise RunError(f"the audit is done, but its evidence cannot be summed up: {error}") from error
    return finished


def _put_metrics(put: Callable[[str, str], None], metrics: RunMetrics, verdicts: tuple[GateVerdict, ...] = ()) -> None:
    put(METRICS_JSON, metrics_json(metrics, verdicts))
    put(METRICS_PROM, prometheus_text(metrics, verdicts))
