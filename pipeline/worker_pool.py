"""Worker processes of one run, each with one pipe to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from pipeline.failures import GO_ON, AuditError
from pipeline.worker_messages import FromWorker, ModelsLoaded, RunRows, WorkerDied
from pipeline.worker_process import run_worker
from pipeline.worker_start import begin_imports, end_imports, start_context, worker_environment
from transforms.audit_settings import AuditSettings

_END_SECONDS = 10


@dataclass(eq=False)
class Worker:
    """One process and the driver's end of its pipe; ``loaded`` once it has said that its models are."""

    process: BaseProcess
    connection: Connection
    loaded: bool = False

    def send(self, job: RunRows) -> None:
        """Hand over a job; a worker that is gone is noticed at the next ``WorkerPool.messages``."""
        try:
            self.connection.send(job)
        except OSError:
            self.process.join(_END_SECONDS)


class WorkerPool:
    """Starts workers, listens to all of them, and leaves none behind."""

    def __init__(self, settings: AuditSettings, *, verbose: bool) -> None:
        self._settings = settings
        self._verbose = verbose
        self._context = start_context(verbose=verbose)
        self._workers: list[Worker] = []

    def start(self) -> Worker:
        """Start one more process; it says ``ModelsLoaded`` or ``WorkerFailed`` first.

        Raises:
            AuditError: if the process that it should be forked from has ended.
        """
        begin_imports(self._settings.threads, verbose=self._verbose)
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=run_worker, args=(theirs, self._settings, self._verbose), daemon=True)
        try:
            with worker_environment(self._settings.threads):
                process.start()
        except (EOFError, ConnectionError) as error:
            raise AuditError(
                "the process that workers are forked from ended before it had imported what they need; with --verbose "
                f"workers start without it and say why. {GO_ON}"
            ) from error
        theirs.close()
        worker = Worker(process, ours)
        self._workers.append(worker)
        return worker

    def messages(self, timeout: float) -> Iterator[tuple[Worker, FromWorker]]:
        """What workers have to say, waiting up to ``timeout`` seconds for the first word."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for ready in wait(list(by_connection), timeout):
            worker = by_connection[ready]  # type: ignore[index]
            yield worker, self._receive(worker)

    def finish(self) -> None:
        """Let idle workers end, and do not wait for those that still load; then like ``kill``."""
        for worker in self._workers:
            if not worker.loaded:
                worker.process.kill()
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End all workers at once: nothing of theirs counts before the driver has committed it."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers.clear()
        end_imports()

    def _receive(self, worker: Worker) -> FromWorker:
        try:
            message: FromWorker = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(_END_SECONDS)
            return WorkerDied(worker.process.exitcode)
        worker.loaded = worker.loaded or isinstance(message, ModelsLoaded)
        return message
