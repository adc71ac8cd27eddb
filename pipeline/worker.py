"""A worker process: loads the models once, then audits chunk after chunk, each through all stages."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket

from attribeam.attribution.methods.audit_row import audit_provenance
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunk_store import ChunkAttempt, read_attempt
from attribeam.pipeline.input_plan import ReusedAudit, ReusedEvidence
from attribeam.pipeline.model_workers import ModelWorkerDiedError, RemoteModels
from attribeam.pipeline.worker_process import (
    ModelsLoaded,
    ModelWorkerDied,
    RowsFinished,
    RunRows,
    WorkerFailed,
    explain_chunk_failure,
    is_out_of_memory,
    load_or_tell,
)
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas, with_pinned_model
from attribeam.transforms.row_groups import RowGroup, take_stage_seconds, write_group
from attribeam.transforms.stages import audit_stages, read_rows, return_parser, run_blocks_elsewhere, take_parser

_REPORT_SECONDS = 0.5


def serve(
    connection: Connection, settings: AuditSettings, asking: socket | None = None, reused: ReusedAudit | None = None
) -> None:
    """Load the models, then audit what the driver sends; the first failure is reported and ends the process.

    A lack of memory is not reported: the process should end by it, as by a kill, so that the rows are found that need
    too much. If they end a model worker, whose blocks go through ``asking``, the driver is told and goes on. Raises
    ``EOFError`` or ``OSError`` when the driver closes its end of the pipe; ``MemoryError`` if rows need more memory
    than there is.
    """

    def load() -> tuple[RemoteModels | None, dict[str, str]]:
        models = None if asking is None else RemoteModels(asking, settings)
        return models, load_models(settings, models, reused)

    if (loaded := load_or_tell(connection, settings, load)) is None:
        return
    models, provenance = loaded
    connection.send(ModelsLoaded(provenance))
    if models is not None:
        settings = with_pinned_model(settings, provenance)
        run_blocks_elsewhere(models)
    while (job := connection.recv()) is not None:
        try:
            connection.send(_run(connection, settings, job))
        except ModelWorkerDiedError as error:
            shutil.rmtree(job.folder)
            connection.send(ModelWorkerDied(error.pid))
        except Exception as error:
            logging.info("a chunk failed", exc_info=True)
            if is_out_of_memory(error):
                raise MemoryError from error
            connection.send(WorkerFailed(explain_chunk_failure(error, job.rows, hides=settings.privacy.hides)))
            return


def load_models(
    settings: AuditSettings, remote: RemoteModels | None = None, reused: ReusedAudit | None = None
) -> dict[str, str]:
    """Load the parser and the method's models, which stay loaded for the stages; returns their provenance.

    No models but the parser are loaded where evidence is ``reused``. Raises ``ModelLoadError`` if a model cannot be
    loaded; ``UsageError`` if the method cannot be used; ``FileNotFoundError`` or ``ValueError`` if the parser cannot
    be.
    """
    parser = take_parser(settings.parser)
    return_parser(settings.parser, parser)
    own = {"parser": parser.identity, "spacy_version": version("spacy")}
    if remote is not None:
        return {**remote.models, **own}
    if reused is not None:
        evidence = ReusedEvidence(reused)
        run_blocks_elsewhere(evidence)
        return {**evidence.provenance(settings.method), **own}
    method = resolve_method(settings.method)
    return {**audit_provenance(method, settings.method, load_audit_models(settings.models, method.needs)), **own}


def _run(connection: Connection, settings: AuditSettings, job: RunRows) -> ChunkAttempt:
    """Audit the rows, and tell at most twice per second how many have finished."""
    count, sent = 0, time.monotonic()

    def report(rows: int) -> None:
        nonlocal count, sent
        count += rows
        if time.monotonic() - sent >= _REPORT_SECONDS:
            connection.send(RowsFinished(count))
            count, sent = 0, time.monotonic()

    folder, fatal = Path(job.folder), job.fatal_rows
    return run_chunk(job.rows, settings=settings, schemas=job.schemas, folder=folder, on_rows=report, fatal_rows=fatal)


def run_chunk(
    rows: RowRange,
    *,
    settings: AuditSettings,
    schemas: OutputSchemas,
    folder: Path,
    on_rows: Callable[[int], None],
    fatal_rows: Mapping[int, str] | None = None,
) -> ChunkAttempt:
    """Audit the rows into a new ``folder``, and call ``on_rows`` with the number of rows that have finished since.

    ``fatal_rows`` would end this process, so they become dead letters; None before the last try, see ``read_rows``.
    Raises ``ReconciliationError`` if audited rows and dead letters are not exactly the rows of the range; ``LeakError``
    if a file shows what should be masked.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    take_stage_seconds()
    group = read_rows(RowGroup(None, [rows], on_rows=on_rows), settings, ArrowStorage(), fatal_rows)
    for run in audit_stages(settings, schemas.evidence).values():
        group = run(group)
    write_group(group, folder, schemas)
    attempt = read_attempt(
        rows, folder, settings, group.counts, storage=ArrowStorage(), last_try=fatal_rows is not None
    )
    return replace(attempt, seconds=time.monotonic() - started, stages=take_stage_seconds())
