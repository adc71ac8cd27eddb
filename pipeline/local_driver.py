"""The local run: plans chunks, loads models, hands chunks to workers, commits and reconciles."""

from __future__ import annotations

import math
import shutil
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from attribeam.logs.rows import RowRange
from attribeam.pipeline.audit_options import LOCAL, RunOptions
from attribeam.pipeline.chunk_store import ChunkAttempt
from attribeam.pipeline.console import Progress, print_outcome, readable_duration
from attribeam.pipeline.devices import plan_model_workers, with_auto_dtype
from attribeam.pipeline.input_plan import CheckedFile, Chunk, InputCheck, check_input, check_input_unchanged, make_plan
from attribeam.pipeline.metrics_export import FinishedRun
from attribeam.pipeline.output_directory import OutputDirectory
from attribeam.pipeline.reused_evidence import ReusedAudit
from attribeam.pipeline.run_record import RunClock, RunRecord, end_status, finish_run
from attribeam.pipeline.worker_pool import RowIsolation, WorkerPool, start_first_worker
from attribeam.pipeline.worker_process import (
    ModelsLoaded,
    RowsFinished,
    RunRows,
    Worker,
    WorkerDied,
    describe_death,
    describe_failure,
    describe_rows,
)
from attribeam.report.messages import ConsoleKind, event_line, print_lines
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest
from attribeam.transforms.audit_settings import AuditSettings, output_schemas

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
    workers = None if options.reuse else plan_model_workers(settings, options)
    check = check_input(options.input, settings, table_version=options.table_version)
    directory = OutputDirectory(Path(options.output))
    with directory.locked():
        settings, options = with_auto_dtype(check.settings, options, directory.earlier_manifest())
        pool = WorkerPool(settings, verbose=options.verbose, models=workers)
        try:
            plan = make_plan(check, rows_per_chunk=options.rows_per_chunk)
            if options.reuse is not None:
                pool.reused = ReusedAudit.checked(options.reuse, settings, plan.inputs)
            first, models = start_first_worker(pool)
            root = str(directory.root)
            record = RunRecord.planned(check, plan, settings, options, models=models, root=root, clock=clock)
            run = _ChunkRun(record, pool, directory)
            manifest = record.run(lambda: run.run(first), run.give_up)
            pool.finish()
        except UsageError:  # nothing was changed
            raise
        except BaseException as error:
            directory.end_running(end_status(error))
            raise
        finally:
            pool.kill()
        directory.remove_working_folders()
        finished = finish_run(record, manifest)
    print_outcome(finished, options, earlier_rows=record.earlier_rows)
    return finished


@dataclass(eq=False)
class _ChunkRun:
    """Hands chunks to workers and commits the results."""

    record: RunRecord
    pool: WorkerPool
    directory: OutputDirectory
    _waiting: deque[Chunk] = field(default_factory=deque)
    _running: dict[Worker, Chunk] = field(default_factory=dict)
    _reported: dict[Worker, int] = field(default_factory=dict)
    _deaths: Counter[str] = field(default_factory=Counter)
    _suspects: list[Chunk] = field(default_factory=list)
    _idle_deaths: int = 0

    def run(self, first: Worker) -> Mapping[str, ChunkManifest]:
        """Run all unfinished chunks, and return all. ``first`` has its models loaded.

        Raises:
            RunError: if a worker failed, or finished chunks were removed meanwhile.
        """
        self.directory.remove_attempts()
        self._waiting.extend(self.record.missing)
        self.progress.start(total=self.record.plan.row_count, finished=self.record.earlier_rows)
        self._assign_chunk(first)
        workers = self.pool.worker_count(self.record.options, self.record.models)
        for _ in range(min(workers - 1, len(self._waiting))):
            self.pool.start()
        while self._running or self._waiting:
            self.progress.advance(0)
            for worker, message in self.pool.messages(timeout=_TICK_SECONDS):
                self._handle_message(worker, message)
        self._audit_suspects()
        if self.pool.models is not None and (share := self.pool.models.waiting_share) is not None:
            self.progress.note(f"model workers waited for rows {share:.1%} of the time")
        finished = self.record.finished
        if lost := self.record.store.lost(finished):
            raise RunError(
                f"{len(lost)} of {len(finished)} finished chunks, first {lost[0]}, were removed or replaced "
                "meanwhile; does another machine write to this --output? End one of the runs, then start the command "
                "again."
            )
        return finished

    def give_up(self) -> Mapping[str, ChunkManifest]:
        """End all workers, and remove their unfinished files, which may have filled the disk."""
        self.pool.kill()
        self.directory.remove_attempts()
        return self.record.finished

    @property
    def progress(self) -> Progress:
        """Where the user sees how far it is."""
        return self.record.progress

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
        self.record.finished[chunk.name] = self.record.store.commit(chunk, attempt)
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
        isolation = RowIsolation(self.pool, self.record.schemas, self.directory.attempts)
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
            worker.send(RunRows(chunk.rows, self.record.schemas, str(folder)))

    def _check_models(self, message: ModelsLoaded) -> None:
        if dict(message.models) != dict(self.record.models):
            raise RunError("the models' files changed while the audit started; start the same command again")

    def _describe_work(self, worker: Worker) -> str:
        chunk = self._running.get(worker)
        return "while the models were loaded" if chunk is None else describe_rows(chunk.rows)


_SAMPLE_RANGES = 4
_RANGE_ROWS = 10


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the whole input will need, estimated from a sample of its rows."""

    files: int
    rows: int
    sampled_rows: int
    sampled_dead_letters: int
    spans: float
    tokens: float
    output_bytes: float
    load_seconds: float
    audit_seconds: float
    workers: int
    model_workers: int = 0


def run_dry(settings: AuditSettings, options: RunOptions) -> None:
    """Check input and output directory, audit a sample in a temporary folder, print an estimate.

    Raises:
        UsageError: if the input, the output directory or an earlier audit cannot be used.
        RunError: if the models cannot be loaded or the sample fails.
    """
    check = check_input(options.input, settings, table_version=options.table_version)
    settings = check.settings
    if options.runner == LOCAL:
        earlier = None
        if options.output:
            directory = OutputDirectory(Path(options.output))
            directory.check()
            earlier = directory.earlier_manifest()
        settings, options = with_auto_dtype(settings, options, earlier)
    estimate = _estimate(check, settings, options)
    machine = options.console is ConsoleKind.JSON
    print_lines(*([event_line("estimate", **asdict(estimate))] if machine else estimate_lines(estimate)))


def sample_ranges(files: Sequence[CheckedFile]) -> list[RowRange]:
    """Up to four short ranges spread evenly over all rows, each within a file; all rows if there are few."""
    total = sum(file.row_count for file in files)
    if total <= _SAMPLE_RANGES * _RANGE_ROWS:
        return [RowRange(file.path, 0, file.row_count) for file in files if file.row_count]
    ends = [*accumulate(file.row_count for file in files)]
    starts = [place * (total - _RANGE_ROWS) // (_SAMPLE_RANGES - 1) for place in range(_SAMPLE_RANGES)]
    found = []
    for start in starts:
        file = files[number := bisect_right(ends, start)]
        row = start - (ends[number] - file.row_count)
        found.append(RowRange(file.path, row, min(row + _RANGE_ROWS, file.row_count)))
    return found


def estimate_lines(estimate: Estimate) -> list[str]:
    """The estimate in aligned lines."""
    rate = estimate.rows / estimate.audit_seconds if estimate.audit_seconds else 0.0
    workers = f"{estimate.workers} worker{'s' if estimate.workers > 1 else ''}"
    if estimate.model_workers:
        workers += f", {estimate.model_workers} model worker{'s' if estimate.model_workers > 1 else ''}"
    return [
        "Dry run: nothing was written. Estimates (~) are from a short sample.",
        "",
        f"files           {estimate.files:>14,}",
        f"rows            {estimate.rows:>14,}",
        f"sampled rows    {estimate.sampled_rows:>14,}   of them {estimate.sampled_dead_letters:,} dead letters",
        f"target spans   ~{_rounded(estimate.spans):>14,}",
        f"tokens         ~{_rounded(estimate.tokens):>14,}",
        f"output         ~{_rounded(estimate.output_bytes / 1000):>14,} kB",
        f"time           ~{readable_duration(estimate.audit_seconds):>14}   with {workers} ({rate:.1f} rows/s), "
        f"after {readable_duration(estimate.load_seconds)} of loading",
    ]


def _estimate(check: InputCheck, settings: AuditSettings, options: RunOptions) -> Estimate:
    plan = plan_model_workers(settings, options) if options.runner == LOCAL else None
    pool = WorkerPool(settings, verbose=options.verbose, models=plan)
    started = time.monotonic()
    try:
        worker, models = start_first_worker(pool)
        load_seconds = time.monotonic() - started
        schemas = output_schemas(settings, models, check.extra_fields)
        ranges = sample_ranges(check.files)
        single = [replace(one, row_end=one.row_start + 1) for one in ranges[:1]]
        with TemporaryDirectory(prefix="attribeam-") as folder:
            runs = [
                RunRows(rows, schemas, f"{folder}/{number}") for number, rows in enumerate([*single, *ranges, *single])
            ]
            attempts = [_attempt(pool, worker, run) for run in runs]
    finally:
        pool.kill()
    workers = pool.worker_count(options, models) if plan is None else plan.cpu_workers
    sample = attempts[1:-1]  # the first row only warmed up, the last one shows the fixed cost of a chunk
    return _extrapolate(check, sample, attempts[-1:], options, load_seconds, workers, len(plan.devices) if plan else 0)


def _attempt(pool: WorkerPool, worker: Worker, run: RunRows) -> ChunkAttempt:
    """What a worker makes of some rows.

    Raises:
        RunError: if it fails.
    """
    outcome = pool.run(worker, run)
    if isinstance(outcome, WorkerDied):
        raise RunError(describe_failure(outcome, describe_rows(run.rows)))
    return outcome


def _extrapolate(
    check: InputCheck,
    sample: Sequence[ChunkAttempt],
    single: Sequence[ChunkAttempt],
    options: RunOptions,
    load_seconds: float,
    workers: int,
    model_workers: int,
) -> Estimate:
    """The estimate; with ``model_workers``, these and the workers are as slow together as the slower of the two."""
    sampled = sum(one.counts.rows for one in sample)
    scale = check.row_count / sampled if sampled else 0.0
    chunks = sum(math.ceil(file.row_count / options.rows_per_chunk) for file in check.files)
    chunk_seconds, chunk_bytes = sum(one.seconds for one in single), sum(map(_output_bytes, single))
    row_seconds = sum(max(0.0, one.seconds - chunk_seconds) for one in sample) * scale
    row_bytes = sum(max(0, _output_bytes(one) - chunk_bytes) for one in sample) * scale
    attributing = (stage.wall_seconds for one in sample for stage in one.stages if stage.stage == "attribute")
    model_seconds = sum(attributing) * scale if model_workers else 0.0
    workers = max(1, min(workers, chunks))
    own_seconds = (max(0.0, row_seconds - model_seconds) + chunks * chunk_seconds) / workers
    return Estimate(
        files=len(check.files),
        rows=check.row_count,
        sampled_rows=sampled,
        sampled_dead_letters=sum(one.counts.dead_lettered for one in sample),
        spans=sum(one.counts.span_count for one in sample) * scale,
        tokens=sum(one.counts.tokens or 0 for one in sample) * scale,
        output_bytes=row_bytes + chunks * chunk_bytes,
        load_seconds=load_seconds,
        audit_seconds=max(own_seconds, model_seconds / max(1, model_workers)),
        workers=workers,
        model_workers=model_workers,
    )


def _output_bytes(attempt: ChunkAttempt) -> int:
    return attempt.evidence.size_bytes + attempt.dead_letters.size_bytes


def _rounded(value: float) -> int:
    """Round to two significant digits, since a sample is no more precise."""
    return int(round(value, 1 - math.floor(math.log10(value)))) if value >= 1 else round(value)
