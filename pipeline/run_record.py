"""``run_manifest.json`` of a local run, written when it starts and when it ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from pipeline.configuration import plain_settings, versions
from pipeline.input_plan import InputPlan
from pipeline.metrics import RunMetrics
from pipeline.metrics_files import write_metrics
from pipeline.output_directory import OutputDirectory, write_atomically
from pipeline.run_options import RunOptions
from pipeline.version import ATTRIBEAM_VERSION
from schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    RunManifest,
    RunStatus,
    StageSeconds,
    sum_counts,
    sum_stage_seconds,
)
from transforms.audit_settings import AuditSettings


class RunClock:
    """When a run started and how long it lasts."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._started = time.monotonic()
        self.load_seconds = 0.0

    def rows_begin(self) -> None:
        """What comes from now on counts for rows/s; what was before is loading."""
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
    counts: AuditCounts,
    own_rows: int,
    chunks: tuple[str, ...] = (),
    stages: tuple[StageSeconds, ...] = (),
) -> RunManifest:
    """The manifest of a run that did ``own_rows`` of the counted rows itself."""
    seconds = clock.seconds
    return RunManifest(
        status=status,
        attribeam_version=ATTRIBEAM_VERSION,
        runner=options.runner,
        started_at=clock.started_at,
        seconds=round(seconds, 3),
        load_seconds=round(clock.load_seconds, 3),
        rows_per_second=round(own_rows / (seconds - clock.load_seconds), 3) if own_rows else 0.0,
        configuration=configuration,
        inputs=plan.inputs,
        options={**plain_settings(settings), "run": asdict(options)},
        models=dict(models),
        versions=versions(),
        counts=counts,
        chunks=chunks,
        stages=stages,
    )


class RunRecord:
    """The manifest of one local run as it goes along."""

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
        """Write the manifest as things stand, and return it; the metrics of a run that did not finish as well."""
        manifest = self._manifest(status, finished)
        write_atomically(self._directory.run_manifest, manifest.to_json())
        if status in (RunStatus.FAILED, RunStatus.INTERRUPTED):
            write_metrics(self._directory.root, RunMetrics(manifest))
        return manifest

    def _manifest(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> RunManifest:
        counts = sum_counts(manifest.counts for manifest in finished.values())
        return make_run_manifest(
            status=status,
            settings=self._settings,
            options=self._options,
            plan=self._plan,
            models=self._models,
            configuration=self._configuration,
            clock=self._clock,
            counts=counts,
            own_rows=counts.rows - self.earlier_rows,
            chunks=tuple(sorted(finished)),
            stages=sum_stage_seconds(manifest.stages for manifest in finished.values()),
        )
