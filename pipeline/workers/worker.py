"""A worker process: loads the models once, then audits chunk after chunk."""

from __future__ import annotations

import gc
import logging
import shutil
import time
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.methods.provenance import audit_provenance
from attribeam.attribution.methods.registry import resolve_method
from attribeam.pipeline.chunk_runner import run_chunk
from attribeam.pipeline.chunks.configuration import with_pinned_model
from attribeam.pipeline.chunks.worker_messages import (
    ChunkAttempt,
    ModelsLoaded,
    RowsFinished,
    RunRows,
    WorkerDied,
    WorkerFailed,
)
from attribeam.pipeline.failures import (
    explain_chunk_failure,
    explain_load_failure,
    is_load_refusal,
    is_out_of_memory,
)
from attribeam.pipeline.workers.model_worker import ModelWorkerDiedError, RemoteModels
from attribeam.transforms.attribute_rows import run_blocks_elsewhere
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.prepare_rows import return_parser, take_parser

_REPORT_SECONDS = 0.5


def serve(connection: Connection, settings: AuditSettings, *, remote: bool = False) -> None:
    """Load the models, then audit what the driver sends; the first failure is reported and ends the process.

    A lack of memory is not reported: the process should end by it, as by a kill, so that the rows are found that need
    too much. If they end a model worker, which has the models if ``remote``, the driver is told and goes on.

    Raises:
        EOFError, OSError: when the driver closes its end of the pipe.
        MemoryError: if rows need more memory than there is.
    """
    gc.disable()
    models = None
    try:
        if remote:
            models = RemoteModels(connection, settings)
        provenance = load_models(settings, models)
    except Exception as error:
        logging.info("the models could not be loaded", exc_info=True)
        connection.send(WorkerFailed(explain_load_failure(error, settings), is_load_refusal(error)))
        return
    gc.freeze()  # models stay; searching them for garbage again and again takes time
    gc.enable()
    connection.send(ModelsLoaded(provenance))
    if models is not None:
        settings = with_pinned_model(settings, provenance)
        run_blocks_elsewhere(models)
    receive = connection.recv if models is None else models.receive
    while (job := receive()) is not None:
        if not isinstance(job, RunRows):  # a late reply of a model worker
            continue
        try:
            outcome: ChunkAttempt | WorkerDied = _run(connection, settings, job)
        except Exception as error:
            cause = error if models is None else models.error or error
            if isinstance(cause, ModelWorkerDiedError):
                shutil.rmtree(job.folder)
                outcome = cause.death
            else:
                logging.info("a chunk failed", exc_info=True)
                if is_out_of_memory(cause):
                    raise MemoryError from error
                connection.send(WorkerFailed(explain_chunk_failure(cause, job.rows, hides=settings.privacy.hides)))
                return
        if models is not None:
            models.forget()
        connection.send(outcome)


def load_models(settings: AuditSettings, remote: RemoteModels | None = None) -> dict[str, str]:
    """Load the parser and the method's models, which stay loaded for the stages; returns their provenance.

    Raises:
        ModelLoadError: if a model cannot be loaded.
        UsageError: if the method cannot be used.
        FileNotFoundError, ValueError: if the parser cannot be.
    """
    parser = take_parser(settings.parser)
    return_parser(settings.parser, parser)
    own = {"parser": parser.identity, "spacy_version": version("spacy")}
    if remote is not None:
        return {**remote.models, **own}
    method = resolve_method(settings.method)
    return {**audit_provenance(method, settings.method, load_audit_models(settings.models, method.needs)), **own}


def _run(connection: Connection, settings: AuditSettings, job: RunRows) -> ChunkAttempt:
    count, sent = 0, time.monotonic()

    def report(rows: int) -> None:
        """Sum up finished rows and report them at most twice per second."""
        nonlocal count, sent
        count += rows
        if time.monotonic() - sent >= _REPORT_SECONDS:
            connection.send(RowsFinished(count))
            count, sent = 0, time.monotonic()

    return run_chunk(
        job.rows,
        settings=settings,
        schemas=job.schemas,
        folder=Path(job.folder),
        on_rows=report,
        fatal_rows=job.fatal_rows,
    )
