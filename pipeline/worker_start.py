"""How worker processes start: forked from one that has imported what they need, or each on its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any

from pipeline.worker_process import environment

_IMPORTS = "pipeline.worker_imports"
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
    variables: Mapping[str, str] = environment(threads)
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
