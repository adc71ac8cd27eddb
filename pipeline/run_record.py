"""What a run records: its manifest from start to end, then metrics, judged gates and page."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from attribeam import __version__
from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.chunk_store import ChunkStore
from attribeam.pipeline.console import choose_progress
from attribeam.pipeline.input_plan import Chunk, InputCheck, InputPlan
from attribeam.pipeline.metrics import (
    FinishedRun,
    GateVerdict,
    RunMetrics,
    judge_gates,
    metrics_json,
    prometheus_text,
    sum_evidence,
)
from attribeam.pipeline.output_directory import METRICS_JSON, METRICS_PROM, REPORT_PAGE
from attribeam.report.audit_directory import RUN_MANIFEST, AuditDirectory
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import (
    ChunkManifest,
    InputFile,
    ReadingNote,
    RunManifest,
    RunStatus,
    cut_passages,
    merge_samples,
    sum_counts,
    sum_stage_seconds,
)
from attribeam.transforms.audit_settings import (
    AuditSettings,
    configuration_hash,
    output_schemas,
    package_versions,
    plain_settings,
)


class RunClock:
    """When a run started, how long it has been running, and what of that was loading, which does not count."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._started = time.monotonic()
        self.load_seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started


def with_row_notes(inputs: Iterable[InputFile], chunks: Iterable[ChunkManifest]) -> tuple[InputFile, ...]:
    """The inputs, each with the notes of its chunks behind its own."""
    notes: dict[str, Counter[str]] = defaultdict(Counter)
    for chunk in chunks:
        notes[chunk.source_file].update({note.note: note.rows for note in chunk.notes})
    of_rows = {path: tuple(ReadingNote(*item) for item in sorted(counts.items())) for path, counts in notes.items()}
    return tuple(replace(file, notes=(*file.notes, *of_rows.get(file.path, ()))) for file in inputs)


class RunRecord:
    """One planned run, and its manifest from start to end.

    Attributes:
        finished: the committed chunks by name: at first those that need not be done again.
        earlier_rows: rows that earlier runs finished.
    """

    def __init__(
        self,
        check: InputCheck,
        plan: InputPlan,
        settings: AuditSettings,
        options: RunOptions,
        *,
        models: Mapping[str, str],
        root: str,
        clock: RunClock,
    ) -> None:
        """The run of a plan in the output ``root``, once its models were loaded; says what is done again.

        Digests of files in an object store are not compared: it checks them itself. Changes nothing. Raises
        ``UsageError`` if there are finished chunks that the run would remove; ``OSError`` if the output cannot be read.
        """
        self.settings, self.options, self.plan, self.models, self.clock = settings, options, plan, models, clock
        self.progress = choose_progress(quiet=options.quiet, console=options.console)
        self.store = ChunkStore(root, configuration_hash(settings, models, check.extra_fields))
        self.finished: dict[str, ChunkManifest] = {}
        damaged: list[str] = []
        if not options.overwrite:
            self.finished, damaged = self.store.fitting(plan.chunks, digests="://" not in root)
        self.earlier_rows = sum(chunk.counts.rows for chunk in self.finished.values())
        for note in plan.notes:
            self.progress.note(note)
        if damaged:
            self.progress.note(
                f"files are damaged or missing in {len(damaged)} of {len(damaged) + len(self.finished)} finished "
                f"chunks, first in {damaged[0]}; these chunks are audited again"
            )
        clock.load_seconds = clock.seconds
        self.schemas = output_schemas(settings, models, check.extra_fields)

    @property
    def missing(self) -> list[Chunk]:
        """The chunks that are not committed yet, in order."""
        return [chunk for chunk in self.plan.chunks if chunk.name not in self.finished]

    def run(
        self, audit: Callable[[], Mapping[str, ChunkManifest]], give_up: Callable[[], Mapping[str, ChunkManifest]]
    ) -> RunManifest:
        """Remove all chunks but the finished ones, ``audit`` the others, and keep the status in the run manifest.

        It says "running" before anything is removed, and then how the run ended. ``audit`` returns all chunks; after an
        error, ``give_up`` ends what still runs, and returns those that are committed. Raises ``RunError`` if rows do
        not reconcile; ``OSError`` if the output cannot be written.
        """
        try:
            self.write(RunStatus.RUNNING, self.finished)
            self.store.keep_only(self.finished)
            if self.missing:
                self.store.remove_results()
            finished = audit()
            counts, rows = sum_counts(chunk.counts for chunk in finished.values()), self.plan.row_count
            if not (counts.is_reconciled and counts.rows == rows):
                raise RunError(
                    f"the run does not reconcile: the input has {rows} rows, {counts.audited} were audited and "
                    f"{counts.dead_lettered} became dead letters; was the input changed meanwhile? Start the command "
                    "again."
                )
            return self.write(RunStatus.DONE, finished)
        except BaseException as error:
            with suppress(OSError):
                self.write(end_status(error), give_up())
            raise
        finally:
            self.progress.close()

    def write(self, status: RunStatus, finished: Mapping[str, ChunkManifest]) -> RunManifest:
        """Write and return the manifest of a run with its ``finished`` chunks; where it ended early, the metrics too.

        Raises ``OSError`` if they cannot be written.
        """
        seconds, load_seconds = self.clock.seconds, self.clock.load_seconds
        counts = sum_counts(chunk.counts for chunk in finished.values())
        own_rows = max(0, counts.rows - self.earlier_rows)
        manifest = RunManifest(
            status=status,
            attribeam_version=__version__,
            runner=self.options.runner,
            started_at=self.clock.started_at,
            seconds=round(seconds, 3),
            load_seconds=round(load_seconds, 3),
            rows_per_second=round(own_rows / max(seconds - load_seconds, 0.001), 3),
            configuration=self.store.configuration,
            inputs=with_row_notes(self.plan.inputs, finished.values()),
            options={**plain_settings(self.settings), "run": self.options.given()},
            models=dict(self.models),
            versions=package_versions(),
            counts=counts,
            chunks=tuple(sorted(finished)),
            stages=sum_stage_seconds(chunk.stages for chunk in finished.values()),
            cut_passages=cut_passages(merge_samples(chunk.passage_sample for chunk in finished.values())),
        )
        self.store.put(RUN_MANIFEST, manifest.to_json())
        if status in (RunStatus.FAILED, RunStatus.INTERRUPTED):
            _put_metrics(self.store.put, RunMetrics(manifest))
        return manifest


def end_status(error: BaseException) -> RunStatus:
    """How a run ended because of an error."""
    return RunStatus.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunStatus.FAILED


def finish_run(record: RunRecord, manifest: RunManifest) -> FinishedRun:
    """Sum up the evidence, judge the gates, write the metrics and the page, even if an earlier run did all rows.

    Raises ``RunError`` if the evidence cannot be read or the page cannot be written; ``OSError`` if the metrics cannot
    be written.
    """
    from attribeam.report.html_page import html_page, write_html_report

    audit, options, put = AuditDirectory.open(record.store.root, record.store.storage), record.options, record.store.put
    try:
        metrics = RunMetrics(manifest, sum_evidence(audit))
        finished = FinishedRun(metrics, judge_gates(options.gates, metrics))
        _put_metrics(put, metrics, finished.verdicts)
        if options.report and "://" in audit.root:
            put(REPORT_PAGE, html_page(audit))
        elif options.report:
            write_html_report(audit, Path(audit.root) / REPORT_PAGE)
    except RunError as error:
        raise RunError(f"the audit is done, but its evidence cannot be summed up: {error}") from error
    return finished


def _put_metrics(put: Callable[[str, str], None], metrics: RunMetrics, verdicts: tuple[GateVerdict, ...] = ()) -> None:
    put(METRICS_JSON, metrics_json(metrics, verdicts))
    put(METRICS_PROM, prometheus_text(metrics, verdicts))
