"""How worker processes start: forked from one that has imported what they need (the import server), or spawned.

This module imports no model library, because the driver loads no models.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from attribeam.pipeline.workers.worker_messages import (
    OUT_OF_MEMORY,
    RESUME_HINT,
    WORKER,
    ModelsLoaded,
    WorkerDied,
    WorkerFailed,
    explain_load_failure,
    is_load_refusal,
)
from attribeam.report.messages import let_libraries_speak
from attribeam.schemas.errors import RunError
from attribeam.transforms.audit_settings import AuditSettings

_IMPORTS = "attribeam.pipeline.workers.worker_imports"
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_MAX_SOCKET_BYTES = 107
_SOCKET_NAME = "/pymp-xxxxxxxx/listener-xxxxxxxx"
_PR_SET_PDEATHSIG = 1
_END_SECONDS = 10
_NEW_OBJECTS = 50_000
"""How many objects a worker makes before it looks for garbage among them: rows leave none in circles."""
_T = TypeVar("_T")


@dataclass(eq=False)
class Worker:
    """A process, the driver's end of its pipe, and what it is.

    Attributes:
        is_loaded: whether its models are.
        is_busy: whether a model worker has a block.
    """

    process: BaseProcess
    connection: Connection
    who: str = WORKER
    is_loaded: bool = False
    is_busy: bool = False

    def send(self, message: object) -> None:
        """Hand something over; that a process has ended shows in the next ``receive``."""
        try:
            self.connection.send(message)
        except OSError:
            self.process.join(_END_SECONDS)

    def receive(self) -> object:
        """The next message, or the ``WorkerDied`` of a process that has ended without one."""
        try:
            message: object = self.connection.recv()
        except (EOFError, OSError):
            self.close()
            return self.death()
        self.is_loaded = self.is_loaded or isinstance(message, ModelsLoaded)
        return message

    def death(self) -> WorkerDied:
        """How the process ended; waits for it."""
        self.process.join(_END_SECONDS)
        return WorkerDied(self.process.exitcode, self.who)

    def close(self) -> None:
        """Let the process end when it has nothing to do."""
        self.connection.close()

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.close()


def start_context(*, verbose: bool) -> ForkServerContext | SpawnContext:
    """How workers start: forked from the import server if that is safe, else each on its own.

    They start on their own to show the libraries' messages (``verbose``), beside a GPU, whose driver may not survive a
    fork, outside Linux, and where the temporary folder's path is too long for the server's socket.
    """
    has_room = len(os.fsencode(tempfile.gettempdir() + _SOCKET_NAME)) <= _MAX_SOCKET_BYTES
    if verbose or sys.platform != "linux" or has_gpu() or not has_room:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_IMPORTS])
    return context


def has_gpu() -> bool:
    """Whether the driver of a GPU is installed."""
    return any(Path(driver).exists() for driver in _GPU_DRIVERS)


def start_import_server(threads: int, *, verbose: bool) -> None:
    """Start the import server unless it runs already or workers are spawned; it imports in the background.

    It ends with this process, and Ctrl-C does not reach it.
    """
    if isinstance(start_context(verbose=verbose), ForkServerContext):
        resource_tracker.ensure_running()  # it would unblock signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _environment(threads):
                forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@atexit.register
def stop_import_server() -> None:
    """End the import server of this process at once, if it runs, and its workers with it.

    It is waited for, so that its time is that of this process's children. It has no public name; where it has another
    one, it ends with this process all the same.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_forkserver_pid", None) is not None:
        os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()


def start_process(
    target: Callable[..., None],
    *arguments: object,
    settings: AuditSettings,
    verbose: bool,
    name: str,
    who: str = WORKER,
) -> Worker:
    """Run ``target(connection, settings, *arguments)`` in a new process.

    Raises:
        RunError: if the import server has ended.
    """
    context = start_context(verbose=verbose)
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(target, theirs, settings, verbose, *arguments), daemon=True, name=name)
    try:
        start_import_server(settings.threads, verbose=verbose)
        with theirs, _environment(settings.threads):
            process.start()
    except (EOFError, ConnectionError) as error:
        raise RunError(
            "the process that workers are forked from ended before it had imported what they need; with --verbose "
            f"workers start without it and show why. {RESUME_HINT}"
        ) from error
    return Worker(process, ours, who)


def _run(
    target: Callable[..., None], connection: Connection, settings: AuditSettings, verbose: bool, *arguments: object
) -> None:
    """Leave Ctrl-C to the driver, end with it, and let libraries speak only if they are asked to.

    Where texts are hidden they are silent all the same, because their messages may hold some.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_driver()
    if verbose and not settings.privacy.hides:
        let_libraries_speak(logging.INFO)
    else:
        silence_libraries()
    serve(target, connection, settings, *arguments)


def serve(target: Callable[..., None], *arguments: object) -> None:
    """Call ``target`` until the driver has no more use for it; end at once if memory is refused, whatever threads do.

    A library that finds no room for its code is an ``ImportError``.
    """
    try:
        target(*arguments)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        return
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and "failed to map segment" not in str(error):
            raise
        os._exit(OUT_OF_MEMORY)


def thread_environment(threads: int) -> dict[str, str]:
    """Variables to set before numpy and torch load: numbers of threads, because sums depend on them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def load_or_tell(connection: Connection, settings: AuditSettings, load: Callable[[], _T]) -> _T | None:
    """In a worker: what ``load`` loads; None if it cannot, of which the driver was told."""
    gc.disable()
    try:
        loaded = load()
    except Exception as error:
        logging.info("the models could not be loaded", exc_info=True)
        connection.send(WorkerFailed(explain_load_failure(error, settings), is_load_refusal(error)))
        return None
    gc.freeze()  # models stay; searching them for garbage again and again takes time
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()
    return loaded


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Set the workers' variables for a process that starts in the block."""
    variables = thread_environment(threads)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def silence_libraries() -> None:
    """Keep libraries from printing; workers report failures to the driver themselves."""
    let_libraries_speak(logging.CRITICAL)
    warnings.simplefilter("ignore")


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends; does nothing except on Linux.

    A thread could watch the parent too, but not while a library that is loading holds the interpreter's lock.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_driver() -> None:
    """End this worker as soon as its driver has ended, however that happened."""
    end_with_parent()
    threading.Thread(target=_wait_for_driver, name="driver-watch", daemon=True).start()


def _wait_for_driver() -> None:
    driver: Any = parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)
