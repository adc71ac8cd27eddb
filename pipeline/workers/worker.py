"""A worker process: loads the models once, then audits chunk after chunk."""

from __future__ import annotations

import gc
import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from attribeam.attribution.methods.models import load_audit_models, stage_of
from attribeam.attribution.methods.provenance import audit_provenance
from attribeam.attribution.methods.registry import resolve_method
from attribeam.pipeline.chunk_runner import run_chunk
from attribeam.pipeline.chunks.configuration import with_pinned_model
from attribeam.pipeline.chunks.worker_messages import (
    ChunkAttempt,
    ModelsLoaded,
    RowsFinished,
    RunRows,
    WorkerFailed,
    WorkerNote,
)
from attribeam.pipeline.failures import (
    explain_chunk_failure,
    explain_load_failure,
    is_load_refusal,
    is_out_of_memory,
)
from attribeam.pipeline.workers.model_client import FatalRowsError, RemoteModels
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.block_model import run_blocks_elsewhere
from attribeam.transforms.prepare_rows import return_parser, take_parser

_REPORT_SECONDS = 0.5


def serve(connection: Connection, settings: AuditSettings, model_connection: Connection | None = None) -> None:
    """Load the models, then audit what the driver sends; the first failure is reported and ends the process.

    A lack of memory is not reported: the process should end by it, as by a kill, so that the rows are found that need
    too much.

    With a ``model_connection``, model workers have the models. It ends silently when the driver closes its end of the
    pipe.

    Raises:
        MemoryError: if rows need more memory than there is.
    """
    with suppress(BrokenPipeError, ConnectionResetError):
        _serve(connection, settings, model_connection)


def _serve(connection: Connection, settings: AuditSettings, model_connection: Connection | None) -> None:
    gc.disable()
    remote = None if model_connection is None else _remote_models(connection, settings, model_connection)
    try:
        models = load_models(settings, remote)
    except Exception as error:
        logging.info("the models could not be loaded", exc_info=True)
        connection.send(WorkerFailed(explain_load_failure(error, settings), is_load_refusal(error)))
        return
    gc.freeze()  # models stay; searching them for garbage again and again takes time
    gc.enable()
    connection.send(ModelsLoaded(models))
    if remote is not None:
        settings = with_pinned_model(settings, models)
        run_blocks_elsewhere(remote)
    while (job := _next_job(connection)) is not None:
        try:
            attempt = _run(connection, settings, job, remote)
        except Exception as error:
            logging.info("a chunk failed", exc_info=True)
            if is_out_of_memory(error):
                raise MemoryError from error
            connection.send(WorkerFailed(explain_chunk_failure(error, job.rows, hides=settings.privacy.hides)))
            return
        connection.send(attempt)


def load_models(settings: AuditSettings, remote: RemoteModels | None = None) -> dict[str, str]:
    """Load the parser and the method's models, which stay loaded for the stages; returns their provenance.

    ``remote`` models are waited for.

    Raises:
        ModelLoadError: if a model cannot be loaded.
        ModelWorkersError: if ``remote`` models cannot be loaded this time.
        UsageError: if the method cannot be used, or ``remote`` models cannot be loaded as asked.
        FileNotFoundError, ValueError: if the parser cannot be.
    """
    parser = take_parser(settings.parser)
    return_parser(settings.parser, parser)
    provenance = _own_models(settings) if remote is None else remote.wait_for_models()
    return {**provenance, "parser": parser.identity, "spacy_version": version("spacy")}


def _own_models(settings: AuditSettings) -> Mapping[str, str]:
    method = resolve_method(settings.method)
    return audit_provenance(method, settings.method, load_audit_models(settings.models, method.needs))


def _remote_models(connection: Connection, settings: AuditSettings, model_connection: Connection) -> RemoteModels:
    def tell(text: str) -> None:
        connection.send(WorkerNote(text))

    return RemoteModels(model_connection, stage_of(resolve_method(settings.method).needs), tell)


def _run(connection: Connection, settings: AuditSettings, job: RunRows, remote: RemoteModels | None) -> ChunkAttempt:
    run = partial(
        run_chunk,
        job.rows,
        settings=settings,
        schemas=job.schemas,
        on_rows=_ThrottledReport(connection).add,
    )
    if remote is None:
        return run(folder=Path(job.folder), fatal_rows=job.fatal_rows)
    return _run_remotely(run, job, remote)


def _run_remotely(run: Callable[..., ChunkAttempt], job: RunRows, remote: RemoteModels) -> ChunkAttempt:
    """Run the chunk with the models of model workers.

    If rows end a model worker on their own, it is run again, and they are refused as soon as they are read.
    """
    fatal_rows = job.fatal_rows
    while True:
        try:
            with remote.turn():
                return run(folder=Path(job.folder), fatal_rows=fatal_rows)
        except Exception as error:
            cause = remote.take_error() or error
            if not isinstance(cause, FatalRowsError):
                raise cause from error
            fatal_rows = {**(fatal_rows or {}), **cause.rows}
            shutil.rmtree(job.folder)
            for row, how in cause.rows.items():
                remote.tell(f"row {row} of {job.rows.file!r} ended its model worker ({how}) and became a dead letter")


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
