"""The worker processes of a run: the driver's pool of them, how it finds the rows that end one, and what one does.

A worker loads the models once, then audits chunk after chunk, each through all stages.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attribeam.attribution.methods.audit_row import audit_provenance
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunk_store import ChunkAttempt, read_attempt
from attribeam.pipeline.input_plan import ReusedAudit, ReusedEvidence, part_of
from attribeam.pipeline.model_workers import ModelWorkerDiedError, ModelWorkerPlan, ModelWorkers, RemoteModels
from attribeam.pipeline.worker_process import (
    MODEL_WORKER,
    ModelsLoaded,
    ModelWorkerDied,
    RowsFinished,
    RunRows,
    Worker,
    WorkerDied,
    WorkerFailed,
    describe_failure,
    describe_rows,
    explain_chunk_failure,
    is_out_of_memory,
    load_or_report,
    start_process,
)
from attribeam.schemas.errors import RunError, UsageError
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas, with_pinned_model
from attribeam.transforms.row_groups import RowGroup, take_stage_seconds, write_group
from attribeam.transforms.stages import BlockModel, audit_stages, read_rows, return_parser, take_parser

if TYPE_CHECKING:
    from attribeam.pipeline.audit_options import RunOptions

_END_SECONDS = 10
_TICK_SECONDS = 1.0
_ENOUGH_FATAL_ROWS = 3


class WorkerPool:
    """Starts workers, listens to all of them, and leaves none behind."""

    def __init__(self, settings: AuditSettings, *, verbose: bool, models: ModelWorkerPlan | None = None) -> None:
        """With ``models``, model workers hold the models, and end with the pool; ``reused`` stands for all models."""
        self.models = None if models is None else ModelWorkers(settings, models, verbose=verbose)
        self.reused: ReusedAudit | None = None
        self.workers: list[Worker] = []
        self._settings, self._verbose = settings, verbose
        self._loaded: ModelsLoaded | None = None

    def start(self) -> Worker:
        """Start one more process, whose first message is ``ModelsLoaded`` or ``WorkerFailed``.

        Raises ``RunError`` if the import server has ended.
        """
        if self.models is not None:
            self.models.start()
        request_socket = None if self.models is None else self.models.request_socket
        options: Any = {"settings": self._settings, "verbose": self._verbose, "name": "worker"}
        self.workers.append(start_process(serve, request_socket, self.reused, **options))
        return self.workers[-1]

    def messages(self) -> Iterator[tuple[Worker, object]]:
        """Messages of the workers; waits a second for the first one.

        Raises ``UsageError`` or ``RunError`` what the model workers have to say, see ``ModelWorkers.take``, and
        ``RunError`` if a worker has other models than the first one.
        """
        model_workers = () if self.models is None else self.models.running
        by_connection = {worker.connection: worker for worker in (*self.workers, *model_workers)}
        for ready in wait(list(by_connection), _TICK_SECONDS):
            worker = by_connection[ready]
            message = worker.receive()
            if self.models is not None and worker.who == MODEL_WORKER:
                self.models.take(worker, message)
                continue
            if self.models is not None and isinstance(message, ModelWorkerDied):
                message = self.models.death_of(message.pid)
            elif isinstance(message, WorkerDied):
                self.workers.remove(worker)
            elif isinstance(message, ModelsLoaded):
                self._loaded = self._loaded or message
                if message != self._loaded:
                    raise RunError("the models' files changed while the audit ran; start the same command again")
            yield worker, message

    def worker_count(self, options: RunOptions, models: Mapping[str, str]) -> int:
        """Number of worker processes: by default one per CPU, or a single one if it runs the model on a GPU."""
        if self.models is not None:
            return self.models.plan.workers
        runs_on_cpu = models["device"] == "cpu" or self.reused is not None
        return options.workers or (len(os.sched_getaffinity(0)) if runs_on_cpu else 1)

    def finish(self) -> None:
        """Let idle workers end, without waiting for those that still load; then ``kill``."""
        for worker in self.workers:
            if not worker.is_loaded:
                worker.process.kill()
            worker.connection.close()
        for worker in self.workers:
            worker.process.join(_END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End all workers and model workers at once."""
        self.kill_workers()
        if self.models is not None:
            self.models.kill()

    def kill_workers(self) -> None:
        """End all workers at once; nothing uncommitted counts."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.kill()
        self.workers.clear()

    def run(self, worker: Worker, job: RunRows) -> ChunkAttempt | WorkerDied:
        """Give one worker a job and wait for its end; all other workers must be idle.

        Raises ``RunError`` if the worker reports a failure.
        """
        worker.send(job)
        while True:
            for _, message in self.messages():
                if isinstance(message, ChunkAttempt | WorkerDied):
                    return message
                if not isinstance(message, RowsFinished):
                    raise RunError(describe_failure(message, f"at {describe_rows(job.rows)}"))


def start_first_worker(pool: WorkerPool) -> tuple[Worker, Mapping[str, str]]:
    """Start one worker and wait for its models; returns the worker and the models' provenance.

    Raises ``UsageError`` if they cannot be loaded as asked; ``RunError`` if they cannot be loaded this time.
    """
    worker = pool.start()
    while True:
        for _, message in pool.messages():
            if isinstance(message, ModelsLoaded):
                return worker, message.models
            kind = UsageError if isinstance(message, WorkerFailed) and message.is_usage else RunError
            raise kind(describe_failure(message, "while the models were loaded"))


@dataclass(eq=False)
class RowIsolation:
    """Audits chunks whose workers have died, with a single worker and all other memory free.

    First a chunk is audited whole once more, in case other workers had taken the memory. If the worker dies again, the
    chunk is bisected until every row that ends a worker on its own is found. Then the chunk is audited whole without
    these rows, so that all other records are the same as if the rows had been faulty from the start.

    Attributes:
        fatal_rows: rows of the last chunk that end a worker, or a model worker, and how it ended.
    """

    pool: WorkerPool
    schemas: OutputSchemas
    attempts: Path
    fatal_rows: dict[int, str] = field(default_factory=dict)
    _survivors: int = 0
    _worker: Worker | None = None

    def audit(self, rows: RowRange) -> ChunkAttempt:
        """Audit all ``rows``.

        Raises ``RunError`` if no single row is to blame, or so many rows that the cause must lie elsewhere.
        """
        self.fatal_rows, self._survivors = {}, 0
        while isinstance(outcome := self._run(rows), WorkerDied):
            before = len(self.fatal_rows)
            self._bisect(rows, outcome)
            if len(self.fatal_rows) == before:
                failure = describe_failure(outcome, f"at {describe_rows(rows)}")
                raise RunError(f"{failure} None of the rows does so on its own: try fewer --rows-per-chunk.")
        return outcome

    def _bisect(self, rows: RowRange, death: WorkerDied) -> None:
        """Find the fatal rows among those that have ended a process together."""
        if rows.row_count == 1:
            self.fatal_rows[rows.row_start] = death.how
            if len(self.fatal_rows) >= _ENOUGH_FATAL_ROWS and len(self.fatal_rows) > self._survivors:
                raise RunError(
                    f"{describe_failure(death, f'at {describe_rows(rows)}')} So did {len(self.fatal_rows) - 1} rows "
                    "before it, each on its own: the cause seems to lie outside the rows; --verbose may show it."
                )
            return
        middle = (rows.row_start + rows.row_end) // 2
        for start, end in ((rows.row_start, middle), (middle, rows.row_end)):
            part = part_of(rows, start, end)
            outcome = self._run(part)
            if isinstance(outcome, WorkerDied):
                self._bisect(part, outcome)
            else:
                self._survivors += part.row_count
                shutil.rmtree(outcome.folder)

    def _run(self, rows: RowRange) -> ChunkAttempt | WorkerDied:
        if self._worker is None or self._worker not in self.pool.workers:
            self._worker, _ = start_first_worker(self.pool)
        folder = self.attempts / f"isolation-{uuid4().hex}"
        fatal = {row: how for row, how in self.fatal_rows.items() if rows.row_start <= row < rows.row_end}
        return self.pool.run(self._worker, RunRows(rows, self.schemas, str(folder), fatal))


_REPORT_SECONDS = 0.5


def serve(
    connection: Connection,
    settings: AuditSettings,
    request_socket: socket | None = None,
    reused: ReusedAudit | None = None,
) -> None:
    """Load the models, then audit what the driver sends; the first failure is reported and ends the process.

    A lack of memory is not reported: the process should end by it, as by a kill, so that the rows are found that need
    too much. If rows end a model worker, which gets blocks through ``request_socket``, the driver is told and goes on.
    Raises ``EOFError`` or ``OSError`` when the driver closes its end of the pipe; ``MemoryError`` if rows need more
    memory than there is.
    """

    def load() -> tuple[BlockModel | None, dict[str, str]]:
        if request_socket is not None:
            remote = RemoteModels(request_socket, settings)
            return remote, load_models(settings, remote.models)
        if reused is not None:
            evidence = ReusedEvidence(reused)
            return evidence, load_models(settings, evidence.provenance(settings.method))
        return None, load_models(settings)

    if (loaded := load_or_report(connection, settings, load)) is None:
        return
    model, provenance = loaded
    connection.send(ModelsLoaded(provenance))
    if request_socket is not None:
        settings = with_pinned_model(settings, provenance)
    count, sent = 0, time.monotonic()

    def report(rows: int) -> None:
        """Tell at most twice per second how many rows have finished."""
        nonlocal count, sent
        count += rows
        if time.monotonic() - sent >= _REPORT_SECONDS:
            connection.send(RowsFinished(count))
            count, sent = 0, time.monotonic()

    while (job := connection.recv()) is not None:
        count, sent = 0, time.monotonic()
        try:
            attempt = run_chunk(
                job.rows,
                settings=settings,
                schemas=job.schemas,
                folder=Path(job.folder),
                on_rows=report,
                fatal_rows=job.fatal_rows,
                model=model,
            )
            connection.send(attempt)
        except ModelWorkerDiedError as error:
            shutil.rmtree(job.folder)
            connection.send(ModelWorkerDied(error.pid))
        except Exception as error:
            logging.info("a chunk failed", exc_info=True)
            if is_out_of_memory(error):
                raise MemoryError from error
            connection.send(WorkerFailed(explain_chunk_failure(error, job.rows, hides=settings.privacy.hides)))
            return


def load_models(settings: AuditSettings, elsewhere: Mapping[str, str] | None = None) -> dict[str, str]:
    """Load the parser and the method's models, which stay loaded for the stages; returns their provenance.

    ``elsewhere`` is the provenance of models that another process holds, or held in an earlier audit; then only the
    parser is loaded. Raises ``ModelLoadError`` if a model cannot be loaded; ``UsageError`` if the method cannot be
    used; ``FileNotFoundError`` or ``ValueError`` if the parser cannot be.
    """
    parser = take_parser(settings.parser)
    return_parser(settings.parser, parser)
    own = {"parser": parser.identity, "spacy_version": version("spacy")}
    if elsewhere is not None:
        return {**elsewhere, **own}
    method = resolve_method(settings.method)
    return {**audit_provenance(method, settings.method, load_audit_models(settings.models, method.needs)), **own}


def run_chunk(
    rows: RowRange,
    *,
    settings: AuditSettings,
    schemas: OutputSchemas,
    folder: Path,
    on_rows: Callable[[int], None],
    fatal_rows: Mapping[int, str] | None = None,
    model: BlockModel | None = None,
) -> ChunkAttempt:
    """Audit the rows into a new ``folder``, and call ``on_rows`` with the number of rows that have finished since.

    ``fatal_rows`` would end this process, so they become dead letters; None before the last try, see ``read_rows``.
    ``model`` runs the blocks, as ``audit_stages`` has it.
    Raises ``ReconciliationError`` if audited rows and dead letters are not exactly the rows of the range; ``LeakError``
    if a file shows what should be masked.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    take_stage_seconds()
    group = read_rows(RowGroup(None, [rows], on_rows=on_rows), settings, ArrowStorage(), fatal_rows)
    for run in audit_stages(settings, schemas.evidence, model).values():
        group = run(group)
    write_group(group, folder, schemas)
    is_last = fatal_rows is not None
    attempt = read_attempt(rows, folder, settings, group.counts, storage=ArrowStorage(), last_try=is_last)
    return replace(attempt, seconds=time.monotonic() - started, stages=take_stage_seconds())
