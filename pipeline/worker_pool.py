"""The worker processes of a run, as the driver sees them: how they start, how many there are, what they say.

They are forked from a process that has imported what they need, or each starts on its own.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.failures import RESUME_HINT, AuditError
from attribeam.pipeline.worker_messages import FromWorker, ModelsLoaded, RunRows, WorkerDied, WorkerFailed
from attribeam.transforms.audit_settings import AuditSettings


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that must stand before numpy and torch are loaded: thread counts, because sums depend on them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def run_worker(connection: Connection, settings: AuditSettings, verbose: bool) -> None:
    """Work until the driver says None or is gone; Ctrl-C is left to the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    if verbose:
        logging.basicConfig(level=logging.INFO)
    else:
        silence_libraries()
    from attribeam.pipeline.worker import serve

    serve(connection, settings)


def silence_libraries() -> None:
    """Let libraries say nothing; what goes wrong is told to the driver."""
    logging.basicConfig(level=logging.CRITICAL)
    warnings.simplefilter("ignore")


def _end_with_parent() -> None:
    """End this process at once when the driver has died, so that nobody works for no one."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


_IMPORTS = "attribeam.pipeline.worker_imports"
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def start_context(*, verbose: bool) -> ForkServerContext | SpawnContext:
    """Forked, unless it is told what libraries say, or a GPU is there, whose driver may not survive it.

    Only Linux's libraries are made for that.
    """
    if verbose or sys.platform != "linux" or any(Path(driver).exists() for driver in _GPU_DRIVERS):
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_IMPORTS])
    return context


def begin_imports(threads: int, *, verbose: bool) -> None:
    """Let the process that workers are forked from import what they need, while the caller does something else.

    Does nothing where it has begun, or where workers are not forked.
    """
    if isinstance(start_context(verbose=verbose), ForkServerContext):
        resource_tracker.ensure_running()  # it would end the holding back
        with worker_environment(threads), _interrupts_held_back():
            forkserver.ensure_running()


def end_imports() -> None:
    """End that process at once, if there is one; its workers have ended.

    To ask it and wait would take as long as its imports, and for ever where the caller was interrupted while a worker
    was being forked: such a worker, whom nobody knows, keeps the process alive and ends with the caller.
    """
    server: Any = forkserver._forkserver  # there is no public name for it
    if server._forkserver_pid is not None:
        os.kill(server._forkserver_pid, signal.SIGKILL)
    server._stop()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C is the caller's alone: a process started inside never gets it, and the caller gets it behind the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def worker_environment(threads: int) -> Iterator[None]:
    """Set the variables of workers for the processes that are started inside."""
    variables: Mapping[str, str] = thread_environment(threads)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
                f"workers start without it and say why. {RESUME_HINT}"
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


_TICK_SECONDS = 1.0


def worker_count(options: RunOptions, models: Mapping[str, str]) -> int:
    """Number of processes; by default one a CPU, or one in all where the model runs on a GPU."""
    if options.workers is not None:
        return options.workers
    return len(os.sched_getaffinity(0)) if models["device"] == "cpu" else 1


def start_first_worker(pool: WorkerPool) -> tuple[Worker, Mapping[str, str]]:
    """Start one worker and wait until its models are loaded; returns it and the models' provenance.

    Raises:
        AuditError: if they cannot be loaded.
    """
    worker = pool.start()
    while True:
        for _, message in pool.messages(timeout=_TICK_SECONDS):
            if isinstance(message, ModelsLoaded):
                return worker, message.models
            raise AuditError(describe_failure(message, "while the models were loaded"))


def describe_failure(message: object, when: str) -> str:
    """What a worker's last message means to the user."""
    if isinstance(message, WorkerFailed):
        return message.explanation
    if isinstance(message, WorkerDied):
        code = message.exit_code
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return (
            f"a worker process ended by {how} {when}; if the system ran out of memory, try fewer --workers. "
            f"{RESUME_HINT}"
        )
    return f"a worker process said {type(message).__name__} {when}, which was not expected"
