"""The local run: plans chunks, loads models, hands chunks to workers, commits and reconciles."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from attribeam.pipeline.chunks.chunk_store import ChunkStore
from attribeam.pipeline.chunks.configuration import OutputSchemas, configuration_hash, output_schemas, package_versions
from attribeam.pipeline.chunks.finished_chunks import damage_notes
from attribeam.pipeline.chunks.input_plan import (
    Chunk,
    InputCheck,
    InputPlan,
    check_input,
    check_input_unchanged,
    make_plan,
)
from attribeam.pipeline.chunks.output_directory import OutputDirectory
from attribeam.pipeline.chunks.worker_messages import (
    ChunkAttempt,
    ModelsLoaded,
    RowsFinished,
    RunRows,
    WorkerDied,
    WorkerNote,
)
from attribeam.pipeline.failures import describe_death, describe_failure, describe_rows
from attribeam.pipeline.interruption import interrupted_once
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.options.devices import plan_model_workers
from attribeam.pipeline.outcome.console import print_outcome
from attribeam.pipeline.outcome.run_record import FinishedRun, RunClock, RunRecord, finish_local_run
from attribeam.pipeline.progress import Progress, choose_progress
from attribeam.pipeline.workers.auto_dtype import with_auto_dtype
from attribeam.pipeline.workers.model_service import ModelUse
from attribeam.pipeline.workers.row_isolation import RowIsolation
from attribeam.pipeline.workers.unchanged_models import are_unchanged
from attribeam.pipeline.workers.worker_pool import Worker, WorkerPool, open_pool, start_first_worker
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest, RunManifest, RunStatus, sum_counts
from attribeam.transforms.audit_settings import AuditSettings

_TICK_SECONDS = 1.0
_DEATHS_OF_A_SUSPECT = 2
_MOST_IDLE_DEATHS = 3


def run_local(settings: AuditSettings, options: RunOptions) -> FinishedRun:
    """Audit the input into the output directory, resuming an earlier run of the same command.

    Raises:
        UsageError: if the input or the output directory cannot be used; nothing was written.
        RunError: if a worker failed or rows do not reconcile; finished chunks stay.
    """
    clock = RunClock()
    plan = plan_model_workers(settings, options)
    check = check_input(options.input, settings, table_version=options.table_version)
    settings = check.settings
    directory = OutputDirectory(Path(options.output))
    with directory.locked(), interrupted_once():
        settings, options = with_auto_dtype(settings, options, directory.earlier_manifest())
        pool = open_pool(settings, options, plan)
        try:
            manifest, earlier_rows = _audit(settings, options, check, directory, pool, clock)
        except UsageError:  # nothing was changed
            raise
        except BaseException as error:
            directory.end_running(_end_status(error))
            raise
        finally:
            pool.kill()
        directory.remove_working_folders()
        finished = finish_local_run(directory.root, manifest, options)
    print_outcome(finished, options, earlier_rows=earlier_rows)
    return finished


def _audit(
    settings: AuditSettings,
    options: RunOptions,
    check: InputCheck,
    directory: OutputDirectory,
    pool: WorkerPool,
    clock: RunClock,
) -> tuple[RunManifest, int]:
    """Run the audit in its locked directory; returns the manifest and the number of rows that earlier runs finished."""
    plan = make_plan(check, rows_per_chunk=options.rows_per_chunk)
    progress = choose_progress(quiet=options.quiet, console=options.console)
    start = _finished_start(settings, options, check, plan, directory)
    if start is None or len(start.finished) < len(plan.chunks):
        start = _start(settings, options, check, plan, directory, start_first_worker(pool), start)
    first, models, store, finished = start.worker, start.models, start.store, start.finished
    store.keep_only(finished)
    for note in (*plan.notes, *damage_notes(store.damaged, finished)):
        progress.note(note)
    record = RunRecord(
        directory,
        settings=settings,
        options=options,
        plan=plan,
        models=models,
        configuration=store.configuration,
        clock=clock,
        earlier_rows=sum(manifest.counts.rows for manifest in finished.values()),
    )
    run = _ChunkRun(
        plan=plan,
        store=store,
        pool=pool,
        directory=directory,
        schemas=output_schemas(settings, models, check.extra_fields),
        models=models,
        progress=progress,
        finished=finished,
    )
    clock.mark_loaded()
    manifest = _run_with_record(run, first, record, workers=pool.worker_count(options, models))
    pool.finish()
    return manifest, record.earlier_rows


@dataclass(frozen=True, slots=True)
class _Start:
    """What a run starts with. ``worker`` has loaded ``models``; it is None if all chunks are finished."""

    worker: Worker | None
    models: Mapping[str, str]
    store: ChunkStore
    finished: dict[str, ChunkManifest]


def _finished_start(
    settings: AuditSettings, options: RunOptions, check: InputCheck, plan: InputPlan, directory: OutputDirectory
) -> _Start | None:
    """How to start after a run that was done, if files prove that the models are the same; else None."""
    earlier = directory.earlier_manifest()
    if options.overwrite or earlier is None or not directory.is_done():
        return None
    configuration = configuration_hash(settings, earlier.models, check.extra_fields)
    if (earlier.configuration, earlier.versions) != (configuration, package_versions()):
        return None
    if not are_unchanged(settings, earlier.models):
        return None
    store = ChunkStore(directory, configuration=configuration)
    return _Start(None, earlier.models, store, store.fitting(plan.chunks))


def _start(
    settings: AuditSettings,
    options: RunOptions,
    check: InputCheck,
    plan: InputPlan,
    directory: OutputDirectory,
    first: tuple[Worker, Mapping[str, str]],
    tried: _Start | None,
) -> _Start:
    """How to start with a worker that has loaded the models; keeps what was ``tried`` if they are the same."""
    worker, models = first
    if tried is not None and tried.models == models:
        return replace(tried, worker=worker)
    store = ChunkStore(directory, configuration=configuration_hash(settings, models, check.extra_fields))
    return _Start(worker, models, store, {} if options.overwrite else store.fitting(plan.chunks))


@dataclass(eq=False)
class _ChunkRun:
    """Hands chunks to workers and commits the results."""

    plan: InputPlan
    store: ChunkStore
    pool: WorkerPool
    directory: OutputDirectory
    schemas: OutputSchemas
    models: Mapping[str, str]
    progress: Progress
    finished: dict[str, ChunkManifest]
    _waiting: deque[Chunk] = field(default_factory=deque)
    _running: dict[Worker, Chunk] = field(default_factory=dict)
    _reported: dict[Worker, int] = field(default_factory=dict)
    _deaths: Counter[str] = field(default_factory=Counter)
    _suspects: list[Chunk] = field(default_factory=list)
    _idle_deaths: int = 0

    def run(self, first: Worker | None, *, workers: int) -> None:
        """Run all unfinished chunks. ``first`` has its models loaded, or is None if there is nothing to do."""
        self._waiting.extend(chunk for chunk in self.plan.chunks if chunk.name not in self.finished)
        rows = sum(manifest.counts.rows for manifest in self.finished.values())
        self.progress.start(total=self.plan.row_count, finished=rows)
        if first is not None:
            self._assign_chunk(first)
        for _ in range(min(workers - 1, len(self._waiting))):
            self.pool.start()
        while self._running or self._waiting:
            self.progress.advance(0)
            for worker, message in self.pool.messages(timeout=_TICK_SECONDS):
                self._handle_message(worker, message)
        self._audit_suspects()
        if self.pool.service is not None:
            self._tell_use(self.pool.service.use)

    def _tell_use(self, use: ModelUse) -> None:
        """Tell how busy the model workers were, if they had anything to do."""
        if use.worked:
            self.progress.note(
                f"model workers waited for rows {use.waiting_share:.1%} of the time; blocks of rows took up at most "
                f"{use.peak_bytes / 1e6:,.1f} MB"
            )

    def _handle_message(self, worker: Worker, message: object) -> None:
        if isinstance(message, ModelsLoaded):
            self._check_models(message)
            self._assign_chunk(worker)
        elif isinstance(message, RowsFinished):
            self._reported[worker] = self._reported.get(worker, 0) + message.count
            self.progress.advance(message.count)
        elif isinstance(message, WorkerNote):
            self.progress.note(message.text)
        elif isinstance(message, ChunkAttempt):
            self._commit(self._running.pop(worker), message, reported=self._reported.pop(worker, 0))
            self._assign_chunk(worker)
        elif isinstance(message, WorkerDied):
            self._replace_worker(worker, message) if worker in self._running else self._go_on_without(message)
        else:
            raise RunError(describe_failure(message, self._describe_work(worker)))

    def _commit(self, chunk: Chunk, attempt: ChunkAttempt, *, reported: int = 0) -> None:
        check_input_unchanged(chunk.rows)
        self.finished[chunk.name] = self.store.commit(chunk, attempt)
        self.progress.advance(chunk.rows.row_count - reported)

    def _replace_worker(self, worker: Worker, death: WorkerDied) -> None:
        """Retry the chunk of a dead worker; after a second death, set it aside until the others are finished."""
        chunk = self._running.pop(worker)
        self.progress.advance(-self._reported.pop(worker, 0))
        self._deaths[chunk.name] += 1
        retried = self._deaths[chunk.name] < _DEATHS_OF_A_SUSPECT
        plan = "trying them again" if retried else "they will be tried alone when all others are finished"
        self.progress.note(f"a worker process ended by {death.how} {describe_rows(chunk.rows)}; {plan}")
        if retried:
            self._waiting.appendleft(chunk)
        else:
            self._suspects.append(chunk)
        if self._waiting:
            self.pool.start()

    def _go_on_without(self, death: WorkerDied) -> None:
        """A worker has ended that had no rows: another takes its place, a few times; then the others do its work.

        Raises:
            RunError: if there are no others.
        """
        if not self._waiting:
            return
        self._idle_deaths += 1
        replaced = self._idle_deaths <= _MOST_IDLE_DEATHS
        if not replaced and self.pool.is_empty:
            raise RunError(describe_death(death.how, "before it had any rows, as others did"))
        plan = "another takes its place" if replaced else "the others go on without it; try fewer --workers"
        self.progress.note(f"a worker process ended by {death.how} before it had any rows; {plan}")
        if replaced:
            self.pool.start()

    def _audit_suspects(self) -> None:
        """Audit the chunks that were set aside, after the other workers have freed their memory."""
        if not self._suspects:
            return
        self.pool.kill_workers()
        isolation = RowIsolation(self.pool, self.schemas, self.directory.attempts)
        for chunk in self._suspects:
            self._commit(chunk, isolation.audit(chunk.rows))
            for row, how in isolation.fatal_rows.items():
                self.progress.note(
                    f"row {row} of {chunk.rows.file!r} ended its worker ({how}) and became a dead letter"
                )

    def _assign_chunk(self, worker: Worker) -> None:
        if self._waiting:
            chunk = self._running[worker] = self._waiting.popleft()
            folder = self.directory.attempts / f"{chunk.name}-{uuid4().hex}"
            worker.send(RunRows(chunk.rows, self.schemas, str(folder)))

    def _check_models(self, message: ModelsLoaded) -> None:
        if dict(message.models) != dict(self.models):
            raise RunError("the models' files changed while the audit started; start the same command again")

    def _describe_work(self, worker: Worker) -> str:
        chunk = self._running.get(worker)
        return "while the models were loaded" if chunk is None else describe_rows(chunk.rows)


def _run_with_record(run: _ChunkRun, first: Worker | None, record: RunRecord, *, workers: int) -> RunManifest:
    """Run the chunks, and keep the status in the run manifest: "running", then how the run ended.

    Raises:
        RunError: if a worker failed or rows do not reconcile.
        OSError: if the output cannot be written.
    """
    try:
        record.write(RunStatus.RUNNING, run.finished)
        if len(run.finished) < len(run.plan.chunks):
            run.directory.remove_results()
        run.run(first, workers=workers)
        _reconcile(run)
        return record.write(RunStatus.DONE, run.finished)
    except BaseException as error:
        run.pool.kill()
        run.directory.remove_attempts()  # they may have filled the disk
        record.write_end(_end_status(error), run.finished)
        raise
    finally:
        run.progress.close()


def _end_status(error: BaseException) -> RunStatus:
    return RunStatus.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunStatus.FAILED


def _reconcile(run: _ChunkRun) -> None:
    counts = sum_counts(manifest.counts for manifest in run.finished.values())
    if not (counts.is_reconciled and counts.rows == run.plan.row_count):
        raise RunError(
            f"the run does not reconcile: the input has {run.plan.row_count} rows, {counts.audited} were audited and "
            f"{counts.dead_lettered} became dead letters; was the input changed meanwhile? Start the command again."
        )
    if lost := run.store.lost(run.finished):
        raise RunError(
            f"{len(lost)} of {len(run.finished)} finished chunks, first {lost[0]}, were removed or replaced meanwhile; "
            "does another machine write to this --output? End one of the runs, then start the command again."
        )
