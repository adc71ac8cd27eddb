"""The local run: plans chunks, loads models, hands chunks to workers, commits and reconciles; and ``--dry-run``."""

from __future__ import annotations

import math
import shutil
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from attribeam.logs.rows import RowRange
from attribeam.pipeline.audit_options import LOCAL, RunOptions
from attribeam.pipeline.chunk_store import ChunkAttempt
from attribeam.pipeline.console import print_outcome, readable_duration
from attribeam.pipeline.input_plan import (
    CheckedFile,
    Chunk,
    InputCheck,
    ReusedAudit,
    check_input,
    check_input_unchanged,
    make_plan,
    part_of,
)
from attribeam.pipeline.metrics import FinishedRun
from attribeam.pipeline.model_workers import plan_model_workers, with_auto_dtype
from attribeam.pipeline.output_directory import OutputDirectory
from attribeam.pipeline.run_record import RunClock, RunRecord, end_status, finish_run
from attribeam.pipeline.worker_pool import RowIsolation, WorkerPool, start_first_worker
from attribeam.pipeline.worker_process import (
    ModelsLoaded,
    RowsFinished,
    RunRows,
    Worker,
    WorkerDied,
    describe_failure,
    describe_rows,
)
from attribeam.report.messages import ConsoleKind, event_line, print_lines
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest
from attribeam.transforms.audit_settings import AuditSettings, output_schemas

_DEATHS_OF_A_SUSPECT = 2
_MOST_IDLE_DEATHS = 3
_SAMPLE_RANGES = 4
_RANGE_ROWS = 10


def run_local(settings: AuditSettings, options: RunOptions) -> FinishedRun:
    """Audit the input into the output directory, resuming an earlier run of the same command.

    Raises ``UsageError`` if the input or the output directory cannot be used; nothing was written; ``RunError`` if a
    worker failed or rows do not reconcile; finished chunks stay.
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
            record = RunRecord(check, plan, settings, options, models=models, root=root, clock=clock)
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
    _reported: Counter[Worker] = field(default_factory=Counter)
    _deaths: Counter[str] = field(default_factory=Counter)
    _suspects: list[Chunk] = field(default_factory=list)
    _idle_deaths: int = 0

    def run(self, first: Worker) -> Mapping[str, ChunkManifest]:
        """Run all unfinished chunks, and return all. ``first`` has its models loaded.

        Raises ``RunError`` if a worker failed, or finished chunks were removed meanwhile.
        """
        self.directory.remove_attempts()
        self._waiting.extend(self.record.missing)
        progress, finished = self.record.progress, self.record.finished
        progress.start(total=self.record.plan.row_count, finished=self.record.earlier_rows)
        self._assign_chunk(first)
        workers = self.pool.worker_count(self.record.options, self.record.models)
        for _ in range(min(workers - 1, len(self._waiting))):
            self.pool.start()
        while self._running or self._waiting:
            progress.advance(0)
            for worker, message in self.pool.messages():
                self._handle_message(worker, message)
        if self._suspects:
            self._audit_suspects()
        if self.pool.models is not None and (share := self.pool.models.waiting_share) is not None:
            progress.note(f"model workers waited for rows {share:.1%} of the time")
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

    def _handle_message(self, worker: Worker, message: object) -> None:
        chunk = self._running.get(worker)
        if isinstance(message, ModelsLoaded):
            self._assign_chunk(worker)
        elif isinstance(message, RowsFinished):
            self._reported[worker] += message.count
            self.record.progress.advance(message.count)
        elif isinstance(message, ChunkAttempt):
            self._commit(self._running.pop(worker), message, reported=self._reported.pop(worker, 0))
            self._assign_chunk(worker)
        elif not isinstance(message, WorkerDied):
            when = "while the models were loaded" if chunk is None else f"at {describe_rows(chunk.rows)}"
            raise RunError(describe_failure(message, when))
        elif chunk is not None:
            self._try_again(worker, chunk, message)
        elif self._waiting:
            self._replace_idle_worker(message)

    def _assign_chunk(self, worker: Worker) -> None:
        if self._waiting:
            chunk = self._running[worker] = self._waiting.popleft()
            folder = self.directory.attempts / f"{chunk.name}-{uuid4().hex}"
            worker.send(RunRows(chunk.rows, self.record.schemas, str(folder)))

    def _commit(self, chunk: Chunk, attempt: ChunkAttempt, *, reported: int = 0) -> None:
        check_input_unchanged(chunk.rows)
        self.record.finished[chunk.name] = self.record.store.commit(chunk, attempt)
        shutil.rmtree(attempt.folder)
        self.record.progress.advance(chunk.rows.row_count - reported)

    def _try_again(self, worker: Worker, chunk: Chunk, death: WorkerDied) -> None:
        """Retry the chunk on which a process died; after a second death, set it aside until the others are finished."""
        del self._running[worker]
        self.record.progress.advance(-self._reported.pop(worker, 0))
        self._deaths[chunk.name] += 1
        plan = "they will be tried alone when all others are finished"
        if self._deaths[chunk.name] < _DEATHS_OF_A_SUSPECT:
            plan = "trying them again"
            self._waiting.appendleft(chunk)
        else:
            self._suspects.append(chunk)
        self.record.progress.note(f"{death.who} ended by {death.how} at {describe_rows(chunk.rows)}; {plan}")
        if worker in self.pool.workers:
            self._assign_chunk(worker)
        elif self._waiting:
            self.pool.start()

    def _replace_idle_worker(self, death: WorkerDied) -> None:
        """A worker ended without rows: another takes its place, a few times; then others, if any, do its work."""
        self._idle_deaths += 1
        plan = "the others go on without it; try fewer --workers"
        if self._idle_deaths <= _MOST_IDLE_DEATHS:
            plan = "another takes its place"
            self.pool.start()
        elif not self.pool.workers:
            raise RunError(describe_failure(death, "before it had any rows, as others did"))
        self.record.progress.note(f"a worker process ended by {death.how} before it had any rows; {plan}")

    def _audit_suspects(self) -> None:
        """Audit the chunks that were set aside, after the other workers have freed their memory."""
        self.pool.kill_workers()
        isolation = RowIsolation(self.pool, self.record.schemas, self.directory.attempts)
        for chunk in self._suspects:
            self._commit(chunk, isolation.audit(chunk.rows))
            for row, how in isolation.fatal_rows.items():
                ended = f"row {row} of {chunk.rows.file!r} ended its worker ({how})"
                self.record.progress.note(f"{ended} and became a dead letter")


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

    Raises ``UsageError`` if the input, the output directory or an earlier audit cannot be used; ``RunError`` if the
    models cannot be loaded or the sample fails.
    """
    check = check_input(options.input, settings, table_version=options.table_version)
    settings, plan, earlier = check.settings, None, None
    if options.runner == LOCAL:
        if options.output:
            directory = OutputDirectory(Path(options.output))
            directory.check()
            earlier = directory.earlier_manifest()
        settings, options = with_auto_dtype(settings, options, earlier)
        plan = plan_model_workers(settings, options)
    pool = WorkerPool(settings, verbose=options.verbose, models=plan)
    started = time.monotonic()
    try:
        worker, models = start_first_worker(pool)
        load_seconds = time.monotonic() - started
        schemas = output_schemas(settings, models, check.extra_fields)
        ranges = _sample_ranges(check.files)
        single = [part_of(rows, rows.row_start, rows.row_start + 1) for rows in ranges[:1]]
        attempts: list[ChunkAttempt] = []
        with TemporaryDirectory(prefix="attribeam-") as folder:
            for number, rows in enumerate([*single, *ranges, *single]):
                outcome = pool.run(worker, RunRows(rows, schemas, f"{folder}/{number}"))
                if isinstance(outcome, WorkerDied):
                    raise RunError(describe_failure(outcome, f"at {describe_rows(rows)}"))
                attempts.append(outcome)
    finally:
        pool.kill()
    workers = pool.worker_count(options, models) if plan is None else plan.cpu_workers
    estimate = _estimate(check, attempts, options, load_seconds, workers, len(plan.devices) if plan else 0)
    machine = options.console is ConsoleKind.JSON
    print_lines(*([event_line("estimate", **asdict(estimate))] if machine else _estimate_lines(estimate)))


def _sample_ranges(files: Sequence[CheckedFile]) -> list[RowRange]:
    """Up to four short ranges spread evenly over all rows, each within a file; all rows if there are few."""
    total = sum(file.row_count for file in files)
    if total <= _SAMPLE_RANGES * _RANGE_ROWS:
        return [RowRange(file.path, 0, file.row_count) for file in files if file.row_count]
    ends = [*accumulate(file.row_count for file in files)]
    ranges = []
    for index in range(_SAMPLE_RANGES):
        start = index * (total - _RANGE_ROWS) // (_SAMPLE_RANGES - 1)
        file = files[number := bisect_right(ends, start)]
        row = start - (ends[number] - file.row_count)
        ranges.append(RowRange(file.path, row, min(row + _RANGE_ROWS, file.row_count)))
    return ranges


def _estimate(
    check: InputCheck,
    attempts: Sequence[ChunkAttempt],
    options: RunOptions,
    load_seconds: float,
    workers: int,
    model_workers: int,
) -> Estimate:
    """The first attempt, of one row, only warmed the worker up; the last one shows the fixed cost of a chunk.

    With ``model_workers``, these and the workers are as slow together as the slower of the two.
    """
    sample, single = attempts[1:-1], attempts[-1:]
    sampled = sum(attempt.counts.rows for attempt in sample)
    scale = check.row_count / sampled if sampled else 0.0
    chunks = sum(math.ceil(file.row_count / options.rows_per_chunk) for file in check.files)
    sizes = {attempt.folder: attempt.evidence.size_bytes + attempt.dead_letters.size_bytes for attempt in attempts}
    chunk_seconds = sum(attempt.seconds for attempt in single)
    chunk_bytes = sum(sizes[attempt.folder] for attempt in single)
    row_seconds = sum(max(0.0, attempt.seconds - chunk_seconds) for attempt in sample) * scale
    row_bytes = sum(max(0, sizes[attempt.folder] - chunk_bytes) for attempt in sample) * scale
    attributing = (part.wall_seconds for attempt in sample for part in attempt.stages if part.stage == "attribute")
    model_seconds = sum(attributing) * scale if model_workers else 0.0
    workers = max(1, min(workers, chunks))
    own_seconds = (max(0.0, row_seconds - model_seconds) + chunks * chunk_seconds) / workers
    return Estimate(
        files=len(check.files),
        rows=check.row_count,
        sampled_rows=sampled,
        sampled_dead_letters=sum(attempt.counts.dead_lettered for attempt in sample),
        spans=sum(attempt.counts.span_count for attempt in sample) * scale,
        tokens=sum(attempt.counts.tokens or 0 for attempt in sample) * scale,
        output_bytes=row_bytes + chunks * chunk_bytes,
        load_seconds=load_seconds,
        audit_seconds=max(own_seconds, model_seconds / max(1, model_workers)),
        workers=workers,
        model_workers=model_workers,
    )


def _estimate_lines(estimate: Estimate) -> list[str]:
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


def _rounded(value: float) -> int:
    """Round to two significant digits, since a sample is no more precise."""
    return int(round(value, 1 - math.floor(math.log10(value)))) if value >= 1 else round(value)
