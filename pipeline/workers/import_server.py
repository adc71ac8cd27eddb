"""The import server: a process that has imported what workers need, from which they are forked.

It relies on private parts of Python: ``multiprocessing`` starts such a process (its "forkserver") but cannot end it at
once. ``start_context`` checks that these parts exist. Otherwise it takes the plain path: each worker starts on its own
("spawn"), which costs a few seconds of imports per worker. This module imports the standard library only.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver, parent_process, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any

from attribeam.report.messages import let_libraries_speak

_IMPORTS = "attribeam.pipeline.workers.worker_imports"
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_PRIVATE_PARTS = ("_forkserver_pid", "_stop")
_MAX_SOCKET_BYTES = 107
_SOCKET_NAME = "/pymp-xxxxxxxx/listener-xxxxxxxx"


def start_context(*, verbose: bool) -> ForkServerContext | SpawnContext:
    """How workers start: forked from the import server if that is safe, else each on its own.

    They start on their own to show the libraries' messages (``verbose``), beside a GPU, whose driver may not survive a
    fork, and wherever the import server cannot run.
    """
    if verbose or not _can_fork():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_IMPORTS])
    return context


def has_gpu() -> bool:
    """Whether the driver of a GPU is installed."""
    return any(Path(driver).exists() for driver in _GPU_DRIVERS)


def _can_fork() -> bool:
    """Whether the import server can run: Linux, no GPU, a short path for its socket, and all private parts."""
    return (
        sys.platform == "linux"
        and not has_gpu()
        and len(os.fsencode(tempfile.gettempdir() + _SOCKET_NAME)) <= _MAX_SOCKET_BYTES
        and all(hasattr(_server(), part) for part in _PRIVATE_PARTS)
    )


def _server() -> Any:
    """Python's record of the import server, which has no public name."""
    return getattr(forkserver, "_forkserver", None)


def start_import_server(threads: int, *, verbose: bool) -> None:
    """Start the import server unless it runs already; it imports in the background.

    Does nothing if workers are not forked.
    """
    if isinstance(start_context(verbose=verbose), ForkServerContext):
        resource_tracker.ensure_running()  # it would unblock signals
        with worker_environment(threads), _interrupts_blocked():
            forkserver.ensure_running()


def stop_import_server() -> None:
    """End the import server at once, if it runs. Its workers must have ended.

    A polite request would wait for its imports. If Ctrl-C came while a worker was being forked, it would wait forever:
    the driver does not know that worker, which keeps the server alive.
    """
    server = _server()
    if all(hasattr(server, part) for part in _PRIVATE_PARTS) and server._forkserver_pid is not None:
        os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Shield processes that start in the block from Ctrl-C; the caller gets it after the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def thread_environment(threads: int) -> dict[str, str]:
    """Variables to set before numpy and torch load: numbers of threads, because sums depend on them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


_environment_lock = threading.RLock()


@contextmanager
def worker_environment(threads: int) -> Iterator[None]:
    """Set the workers' variables for processes started in the block."""
    variables: Mapping[str, str] = thread_environment(threads)
    with _environment_lock:
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


def silence_libraries() -> None:
    """Keep libraries from printing; workers report failures to the driver themselves."""
    let_libraries_speak(logging.CRITICAL)
    warnings.simplefilter("ignore")


_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def name_process(name: str) -> None:
    """Let ``ps`` and ``top`` show this process by a name of at most 15 bytes; does nothing except on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


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
    driver = parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)
