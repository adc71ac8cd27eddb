"""The work of one process: models loaded once, then chunk after chunk, and one paragraph where that fails."""

from __future__ import annotations

import gc
import logging
import re
import threading
import time
from contextlib import suppress
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from attribeam.attribution.attention.attention_model import load_attention_model
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunk_runner import run_chunk
from attribeam.pipeline.failures import RESUME_HINT, is_disk_full
from attribeam.pipeline.worker_messages import ChunkAttempt, ModelsLoaded, RowsFinished, RunRows, WorkerFailed
from attribeam.schemas.errors import ModelLoadError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.prepare_rows import return_parser, take_parser

_REPORT_SECONDS = 0.5


def serve(connection: Connection, settings: AuditSettings) -> None:
    """Load the models, then audit what the driver sends; the first failure is told and ends the process.

    It also ends, without a word, when the driver has closed its end: no more work is wanted then.
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
    gc.freeze()  # what is loaded stays: to look through it for garbage again and again takes time
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
    """Load the attributor and the parser, which stay loaded for the stages; returns their provenance.

    Raises:
        ModelLoadError: if the attributor cannot be loaded.
        FileNotFoundError, ValueError: if the parser cannot be.
    """
    model = load_attention_model(settings.model, method=settings.method, threads=settings.threads)
    parser = take_parser(settings.parser)
    return_parser(settings.parser, parser)
    return {**model.provenance(), "parser": parser.identity, "spacy_version": version("spacy")}


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
    """Sums finished rows up and sends them at most twice a second."""

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


_BEAM_STEP = re.compile(r"\s*\[while running '[^']*'\]\s*$")
_MAX_REASON_CHARS = 600


def explain_load_failure(error: BaseException, settings: AuditSettings) -> str:
    """Why the models cannot be loaded."""
    if isinstance(error, ModelLoadError):
        return f"the attributor cannot be loaded: {error}"
    model, parser = settings.model.model, settings.parser
    return f"the models cannot be loaded (--model {model!r}, --parser {parser!r}): {_root_message(error)}"


def explain_chunk_failure(error: BaseException, rows: RowRange) -> str:
    """Why rows could not be audited, by the kinds of failure that have a way out of their own."""
    where = f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"
    reason = _root_message(error)
    if is_disk_full(error):
        return f"the disk is full: {where} could not be written. Free some space. {RESUME_HINT}"
    if isinstance(error, MemoryError) or "MemoryError" in reason:
        return f"{where} do not fit into memory. Try fewer --workers or a smaller --token-budget. {RESUME_HINT}"
    return (
        f"{where} could not be audited: {reason}. If the file is damaged or was changed meanwhile, replace it or leave "
        f"it out of --input; --verbose shows where it happened. {RESUME_HINT}"
    )


def _root_message(error: BaseException) -> str:
    """What was raised at the bottom; Beam puts whole tracebacks into messages, and step names behind them."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = " ".join(_BEAM_STEP.sub("", lines[-1]).split()) if lines else type(error).__name__
    return text[:_MAX_REASON_CHARS].rstrip(".")
