"""How a worker process starts: what it does first, before it imports a library."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from attribeam.pipeline.workers.import_server import end_with_driver, name_process, silence_libraries
from attribeam.report.messages import let_libraries_speak
from attribeam.transforms.audit_settings import AuditSettings

MODEL_WORKER = "attribeam-model"
"""The name of model workers' processes."""


def run_worker(
    connection: Connection, model_connection: Connection | None, settings: AuditSettings, verbose: bool
) -> None:
    """Audit until the driver sends None or ends; models run where ``model_connection`` leads, or here if it is None."""
    _prepare(verbose, settings)
    with _ended_by_lack_of_memory():
        from attribeam.pipeline.workers.worker import serve

        serve(connection, settings, model_connection)


def run_model_worker(connection: Connection, settings: AuditSettings, verbose: bool) -> None:
    """Run blocks of other processes until the driver ends."""
    _prepare(verbose, settings)
    name_process(MODEL_WORKER)
    with _ended_by_lack_of_memory():
        from attribeam.pipeline.workers.model_worker import serve_blocks

        serve_blocks(connection, settings)


@contextmanager
def _ended_by_lack_of_memory() -> Iterator[None]:
    """End this process at once if it is refused memory, whatever its threads do.

    A library that finds no room for its code is an ``ImportError``.
    """
    try:
        yield
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and "failed to map segment" not in str(error):
            raise
        from attribeam.pipeline.chunks.worker_messages import OUT_OF_MEMORY

        os._exit(OUT_OF_MEMORY)


def _prepare(verbose: bool, settings: AuditSettings) -> None:
    """Leave Ctrl-C to the driver, end with it, and let libraries speak only if they are asked to.

    Where texts are hidden they are silent all the same, because their messages may hold some.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_driver()
    if verbose and not settings.privacy.hides:
        let_libraries_speak(logging.INFO)
    else:
        silence_libraries()
