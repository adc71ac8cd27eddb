"""The local run: plans chunks, loads models, hands chunks to workers, commits and reconciles."""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from attribeam.pipeline.chunks.chunk_store import ChunkStore, damage_notes
from attribeam.pipeline.chunks.configuration import (
    OutputSchemas,
    configuration_hash,
    models_of_done_run,
    output_schemas,
)
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
)
from attribeam.pipeline.failures import describe_death, describe_failure, describe_rows
from attribeam.pipeline.interruption import interrupted_once
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.options.devices import plan_model_workers
from attribeam.pipeline.outcome.console import print_outcome
from attribeam.pipeline.outcome.run_record import FinishedRun, RunClock, RunRecord, end_status, finish_run
from attribeam.pipeline.progress import Progress, choose_progress
from attribeam.pipeline.workers.auto_dtype import with_auto_dtype
from attribeam.pipeline.workers.row_isolation import RowIsolation
from attribeam.pipeline.workers.worker_pool import Worker, WorkerPool, start_first_worker
from attribeam.pipeline.workers.worker_process import has_gpu
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest, RunManifest, RunStatus
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
        pool = WorkerPool(settings, verbose=options.verbose, models=plan)
        try:
            manifest, record = _audit(settings, options, check, directory, pool, clock)
        except UsageError:  # nothing was changed
            raise
        except BaseException as error:
            directory.end_running(end_status(error))
            raise
        finally:
            pool.kill()
        directory.remove_working_folders()
        finished = finish_run(AuditDirectory.open(directory.root), manifest, options, record.put)
    print_outcome(finished, options, earlier_rows=record.earlier_rows)
    return finished


def _audit(
    settings: AuditSettings,
    options: RunOptions,
    check: InputCheck,
    directory: OutputDirectory,
    pool: WorkerPool,
    clock: RunClock,
) -> tuple[RunManifest, RunRecord]:
    """Run the audit in its locked directory; returns the last manifest, and what has written it."""
    plan = make_plan(check, rows_per_chunk=options.rows_per_chunk)
    progress = choose_progress(quiet=options.quiet, console=options.console)
    first, models = (
        None,
        None if options.overwrite or has_gpu() else models_of_done_run(settings, directory.earlier_manifest()),
    )
    while True:
        if models is None:
            first, models = start_first_worker(pool)
        store = ChunkStore(str(directory.root), configuration_hash(settings, models, check.extra_fields))
        finished, damaged = ({}, []) if options.overwrite else store.fitting(plan.chunks)
        if first is not None or len(finished) == len(plan.chunks):
            break
        models = None  # there are rows to audit
    for note in (*plan.notes, *damage_notes(damaged, finished)):
        progress.note(note)
    record = RunRecord(
        settings=settings,
        options=options,
        plan=plan,
        models=models,
        configuration=store.configuration,
        clock=clock,
        earlier_rows=sum(manifest.counts.rows for manifest in finished.values()),
        put=store.put,
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
    return manifest, record


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
        """Run all unfinished chunks. ``first`` has its models loaded; it is None if all chunks are finished."""
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
        if self.pool.service is not None and (share := self.pool.service.waiting_share) is not None:
            self.progress.note(f"model workers waited for rows {share:.1%} of the time")

    def _handle_message(self, worker: Worker, message: object) -> None:
        if isinstance(message, ModelsLoaded):
            self._check_models(message)
            self._assign_chunk(worker)
        elif isinstance(message, RowsFinished):
            self._reported[worker] = self._reported.get(worker, 0) + message.count
            self.progress.advance(message.count)
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
        shutil.rmtree(attempt.folder)
        self.progress.advance(chunk.rows.row_count - reported)

    def _replace_worker(self, worker: Worker, death: WorkerDied) -> None:
        """Retry the chunk on which a process died; after a second death, set it aside until the others are finished."""
        chunk = self._running.pop(worker)
        self.progress.advance(-self._reported.pop(worker, 0))
        self._deaths[chunk.name] += 1
        retried = self._deaths[chunk.name] < _DEATHS_OF_A_SUSPECT
        plan = "trying them again" if retried else "they will be tried alone when all others are finished"
        self.progress.note(f"{death.who} ended by {death.how} {describe_rows(chunk.rows)}; {plan}")
        if retried:
            self._waiting.appendleft(chunk)
        else:
            self._suspects.append(chunk)
        if worker in self.pool:
            self._assign_chunk(worker)
        elif self._waiting:
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
            raise RunError(describe_death(death, "before it had any rows, as others did"))
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
        run.directory.remove_attempts()
        run.store.keep_only(run.finished)
        if len(run.finished) < len(run.plan.chunks):
            run.store.remove_results()
        run.run(first, workers=workers)
        record.check_reconciled(run.finished)
        if lost := run.store.lost(run.finished):
            raise RunError(
                f"{len(lost)} of {len(run.finished)} finished chunks, first {lost[0]}, were removed or replaced "
                "meanwhile; does another machine write to this --output? End one of the runs, then start the command "
                "again."
            )
        return record.write(RunStatus.DONE, run.finished)
    except BaseException as error:
        run.pool.kill()
        run.directory.remove_attempts()  # they may have filled the disk
        with suppress(OSError):  # on a full disk, the status is changed in place
            record.write(end_status(error), run.finished)
        raise
    finally:
        run.progress.close()
