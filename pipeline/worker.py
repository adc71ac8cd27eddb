"""A worker process: loads the models once, then audits chunk after chunk."""

from __future__ import annotations

import gc
import logging
import threading
import time
from contextlib import suppress
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.methods.provenance import audit_provenance
from attribeam.attribution.methods.registry import resolve_method
from attribeam.pipeline.chunk_runner import run_chunk
from attribeam.pipeline.failures import explain_chunk_failure, explain_load_failure
from attribeam.pipeline.worker_messages import ChunkAttempt, ModelsLoaded, RowsFinished, RunRows, WorkerFailed
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.prepare_rows import return_parser, take_parser

_REPORT_SECONDS = 0.5


def serve(connection: Connection, settings: AuditSettings) -> None:
    """Load the models, then audit what the driver sends; the first failure is reported and ends the process.

    It ends silently when the driver closes its end of the pipe.
    """
    with suppress(BrokenPipeError, ConnectionResetError):
        _serve(connection, settings)


def _serve(connection: Connection, settings: AuditSettings) -> None:
    gc.disable()
    try:
        models = load_models(settings)
    except Exception as error:
        logging.info("the models could not be loaded", exc_info=True)
        connection.send(WorkerFailed(explain_load_failure(error, settings)))
        return
    gc.freeze()  # models stay; searching them for garbage again and again takes time
    gc.enable()
    connection.send(ModelsLoaded(models))
    while (job := _next_job(connection)) is not None:
        try:
            attempt = _run(connection, settings, job)
        except Exception as error:
            logging.info("a chunk failed", exc_info=True)
            connection.send(WorkerFailed(explain_chunk_failure(error, job.rows)))
            return
        connection.send(attempt)


def load_models(settings: AuditSettings) -> dict[str, str]:
    """Load the method's models and the parser, which stay loaded for the stages; returns their provenance.

    Raises:
        ModelLoadError: if a model cannot be loaded.
        UsageError: if the method cannot be used.
        FileNotFoundError, ValueError: if the parser cannot be.
    """
    method = resolve_method(settings.method)
    models = load_audit_models(settings.models, method.needs)
    parser = take_parser(settings.parser)
    return_parser(settings.parser, parser)
    provenance = audit_provenance(method, settings.method, models)
    return {**provenance, "parser": parser.identity, "spacy_version": version("spacy")}


def _run(connection: Connection, settings: AuditSettings, job: RunRows) -> ChunkAttempt:
    return run_chunk(
        job.rows,
        settings=settings,
        schemas=job.schemas,
        folder=Path(job.folder),
        fatal_rows=job.fatal_rows,
        on_rows=_ThrottledReport(connection).add,
    )


def _next_job(connection: Connection) -> RunRows | None:
    try:
        job: RunRows | None = connection.recv()
    except EOFError:
        return None
    return job


class _ThrottledReport:
    """Sums up finished rows and reports them at most twice per second."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._count = 0
        self._sent = time.monotonic()

    def add(self, count: int) -> None:
        with self._lock:
            self._count += count
            if time.monotonic() - self._sent >= _REPORT_SECONDS:
                self._connection.send(RowsFinished(self._count))
                self._count, self._sent = 0, time.monotonic()
