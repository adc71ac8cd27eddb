"""What a run records: its manifest from start to end, then metrics, judged gates and page."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam import __version__
from attribeam.pipeline.chunks.configuration import package_versions, plain_settings
from attribeam.pipeline.chunks.input_plan import InputPlan
from attribeam.pipeline.chunks.output_directory import REPORT_PAGE, OutputDirectory, replace_status, write_atomically
from attribeam.pipeline.measures.evidence_totals import sum_evidence
from attribeam.pipeline.measures.metrics import RunMetrics
from attribeam.pipeline.measures.metrics_export import metric_families, send_metrics, write_metrics
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


def make_run_manifest(
    *,
    status: RunStatus,
    settings: AuditSettings,
    options: RunOptions,
    plan: InputPlan,
    models: Mapping[str, str],
    configuration: str,
    clock: RunClock,
    finished: Mapping[str, ChunkManifest],
    earlier_rows: int,
) -> RunManifest:
    """The manifest of a run with its ``finished`` chunks; ``earlier_rows`` of their rows it did not audit itself."""
    seconds = clock.seconds
    counts = sum_counts(one.counts for one in finished.values())
    own_rows = max(0, counts.rows - earlier_rows)
    return RunManifest(
        status=status,
        attribeam_version=__version__,
        runner=options.runner,
        started_at=clock.started_at,
        seconds=round(seconds, 3),
        load_seconds=round(clock.load_seconds, 3),
        rows_per_second=round(own_rows / max(seconds - clock.load_seconds, 0.001), 3),
        configuration=configuration,
        inputs=with_row_notes(plan.inputs, finished.values()),
        options={**plain_settings(settings), "run": options.given()},
        models=dict(models),
        versions=package_versions(),
        counts=counts,
        chunks=tuple(sorted(finished)),
        stages=sum_stage_seconds(one.stages for one in finished.values()),
        cut_passages=cut_passages(merge_samples(one.passage_sample for one in finished.values())),
    )


def with_row_notes(inputs: Iterable[InputFile], chunks: Iterable[ChunkManifest]) -> tuple[InputFile, ...]:
    """The inputs with what their chunks tell of rows behind their own notes."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for chunk in chunks:
        found[chunk.source_file].update({one.note: one.rows for one in chunk.notes})
    return tuple(
        replace(one, notes=(*one.notes, *(ReadingNote(note, rows) for note, rows in sorted(found[one.path].items()))))
        for one in inputs
    )


class RunRecord:
    """Keeps the manifest of one local run up to date."""

    def __init__(
        self,
        directory: OutputDirectory,
        *,
        settings: AuditSettings,
        options: RunOptions,
        plan: InputPlan,
        models: Mapping[str, str],
        configuration: str,
        clock: RunClock,
        earlier_rows: int,
    ) -> None:
        self.earlier_rows = earlier_rows
        self._directory = directory
        self._settings = settings
        self._options = options
        self._plan = plan
        self._models = models
        self._configuration = configuration
        self._clock = clock

    def write(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> RunManifest:
        """Write and return the current manifest; for a run that failed or was interrupted, write the metrics too."""
        manifest = self._manifest(status, finished)
        write_atomically(self._directory.run_manifest, manifest.to_json())
        if status in (RunStatus.FAILED, RunStatus.INTERRUPTED):
            write_metrics(self._directory.root, RunMetrics(manifest))
        return manifest

    def write_end(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> None:
        """Like ``write``, for a run that ends early; on a full disk it only changes the status in place."""
        try:
            self.write(status, finished)
        except OSError:
            with suppress(OSError, ValueError):
                replace_status(self._directory.run_manifest, status)

    def _manifest(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> RunManifest:
        return make_run_manifest(
            status=status,
            settings=self._settings,
            options=self._options,
            plan=self._plan,
            models=self._models,
            configuration=self._configuration,
            clock=self._clock,
            finished=finished,
            earlier_rows=self.earlier_rows,
        )


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


def finish_local_run(root: Path, manifest: RunManifest, options: RunOptions) -> FinishedRun:
    """Sum up the evidence, judge the gates, write the metrics and the page, even if an earlier run did all rows.

    Raises:
        RunError: if the evidence cannot be read or the page cannot be written.
        OSError: if the metrics cannot be written.
    """
    try:
        metrics = RunMetrics(manifest, sum_evidence(AuditDirectory.open(root)))
        finished = FinishedRun(metrics, judge_gates(options.gates, metrics))
        write_metrics(root, metrics, finished.verdicts)
        if options.report:
            _write_report_page(root)
    except RunError as error:
        raise RunError(f"the audit is done, but its evidence cannot be summed up: {error}") from error
    return finished


def _write_report_page(root: Path) -> None:
    from attribeam.report.html_page import write_html_report

    write_html_report(root, root / REPORT_PAGE)
