"""The worker processes of a run, as the driver sees them: start them, count them, listen to them, end them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Lock
from typing import TYPE_CHECKING

from attribeam.pipeline.chunks.worker_messages import (
    ChunkAttempt,
    FromWorker,
    ModelsLoaded,
    RowsFinished,
    RunRows,
    WorkerDied,
    WorkerFailed,
)
from attribeam.pipeline.failures import RESUME_HINT, describe_failure, describe_rows
from attribeam.pipeline.options.devices import ModelWorkerPlan
from attribeam.pipeline.workers.model_service import ModelService, RunBlock
from attribeam.pipeline.workers.worker_process import start_import_server, start_process
from attribeam.schemas.errors import RunError, UsageError
from attribeam.transforms.audit_settings import AuditSettings

if TYPE_CHECKING:
    from attribeam.pipeline.options.audit_options import RunOptions


_END_SECONDS = 10
_TICK_SECONDS = 1.0


@dataclass(eq=False)
class Worker:
    """One process and the driver's end of its pipe; ``loaded`` once its models are."""

    process: BaseProcess
    connection: Connection
    loaded: bool = False
    _lock: Lock = field(default_factory=Lock)

    def send(self, message: object) -> None:
        """Hand over a job, or a reply of the model workers; a dead worker shows in the next ``WorkerPool.messages``."""
        with self._lock:
            try:
                self.connection.send(message)
            except OSError:
                self.process.join(_END_SECONDS)

    def close(self) -> None:
        """Let the worker end when it has nothing to do."""
        with self._lock:
            self.connection.close()


class WorkerPool:
    """Starts workers, listens to all of them, and leaves none behind."""

    def __init__(self, settings: AuditSettings, *, verbose: bool, models: ModelWorkerPlan | None = None) -> None:
        """With ``models``, model workers hold the models, and end with the pool."""
        self.service = None if models is None else ModelService(settings, models, verbose=verbose)
        self._settings = settings
        self._verbose = verbose
        self._workers: list[Worker] = []

    def start(self) -> Worker:
        """Start one more process, whose first message is ``ModelsLoaded`` or ``WorkerFailed``.

        Raises:
            RunError: if the import server has ended.
        """
        start_import_server(self._settings.threads, verbose=self._verbose)
        if self.service is not None:
            self.service.start()
        try:
            process, connection = start_process(
                _serve, self.service is not None, settings=self._settings, verbose=self._verbose, name="worker"
            )
        except (EOFError, ConnectionError) as error:
            raise RunError(
                "the process that workers are forked from ended before it had imported what they need; with --verbose "
                f"workers start without it and show why. {RESUME_HINT}"
            ) from error
        self._workers.append(worker := Worker(process, connection))
        return worker

    def __contains__(self, worker: Worker) -> bool:
        return worker in self._workers

    @property
    def is_empty(self) -> bool:
        """Whether no worker is left."""
        return not self._workers

    def messages(self, timeout: float) -> Iterator[tuple[Worker, FromWorker]]:
        """Messages of the workers; waits up to ``timeout`` seconds for the first one.

        Blocks for the model workers are passed on to them.
        """
        by_connection = {worker.connection: worker for worker in self._workers}
        for ready in wait(list(by_connection), timeout):
            worker = by_connection[ready]  # type: ignore[index]
            message = self._receive(worker)
            if not isinstance(message, RunBlock):
                yield worker, message
            elif self.service is not None:
                self.service.run(message, worker.send)

    def worker_count(self, options: RunOptions, models: Mapping[str, str]) -> int:
        """Number of worker processes: by default one per CPU, or a single one if it runs the model on a GPU."""
        if self.service is not None:
            return self.service.plan.workers
        if options.workers is not None:
            return options.workers
        return len(os.sched_getaffinity(0)) if models["device"] == "cpu" else 1

    def finish(self) -> None:
        """Let idle workers end, without waiting for those that still load; then ``kill``."""
        for worker in self._workers:
            if not worker.loaded:
                worker.process.kill()
            worker.close()
        for worker in self._workers:
            worker.process.join(_END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End all workers and model workers at once."""
        self.kill_workers()
        if self.service is not None:
            self.service.stop()

    def kill_workers(self) -> None:
        """End all workers at once; nothing uncommitted counts."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.close()
        self._workers.clear()

    def run(self, worker: Worker, job: RunRows) -> ChunkAttempt | WorkerDied:
        """Give one worker a job and wait for its end; all other workers must be idle.

        Raises:
            RunError: if the worker reports a failure.
        """
        worker.send(job)
        while True:
            for _, message in self.messages(timeout=_TICK_SECONDS):
                if isinstance(message, ChunkAttempt | WorkerDied):
                    return message
                if not isinstance(message, RowsFinished):
                    raise RunError(describe_failure(message, describe_rows(job.rows)))

    def _receive(self, worker: Worker) -> FromWorker | RunBlock:
        try:
            message: FromWorker | RunBlock = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(_END_SECONDS)
            worker.close()
            self._workers.remove(worker)
            return WorkerDied(worker.process.exitcode)
        worker.loaded = worker.loaded or isinstance(message, ModelsLoaded)
        return message


def _serve(connection: Connection, settings: AuditSettings, remote: bool) -> None:
    from attribeam.pipeline.workers.worker import serve

    serve(connection, settings, remote=remote)


def start_first_worker(pool: WorkerPool) -> tuple[Worker, Mapping[str, str]]:
    """Start one worker and wait for its models; returns the worker and the models' provenance.

    Raises:
        UsageError: if they cannot be loaded as asked.
        RunError: if they cannot be loaded this time.
    """
    worker = pool.start()
    while True:
        for _, message in pool.messages(timeout=_TICK_SECONDS):
            if isinstance(message, ModelsLoaded):
                return worker, message.models
            if isinstance(message, WorkerFailed) and message.is_usage:
                raise UsageError(message.explanation)
            raise RunError(describe_failure(message, "while the models were loaded"))
