"""A model worker: a process that holds the method's models on one device, and runs the blocks of other processes."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from typing import cast

from attribeam.attribution.flat_rows import FlatAttributions, FlatRows
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.audit_row import AuditRow, model_outcomes
from attribeam.attribution.methods.method import Method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.methods.provenance import audit_provenance
from attribeam.attribution.methods.registry import resolve_method
from attribeam.pipeline.failures import explain_load_failure, is_load_refusal, is_out_of_memory
from attribeam.pipeline.workers.model_messages import BlockDone, BlockFailed, ModelsFailed, ModelsReady, RunBlock
from attribeam.pipeline.workers.shared_block import SharedBlock, receive_block
from attribeam.transforms.audit_settings import AuditSettings


def serve_blocks(connection: Connection, settings: AuditSettings) -> None:
    """Load the models on the device of ``settings``, then run blocks until the other end is closed.

    Raises:
        MemoryError: if a block needs more memory than there is.
    """
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):
        _serve(connection, settings)


def _serve(connection: Connection, settings: AuditSettings) -> None:
    gc.disable()
    method = resolve_method(settings.method)
    try:
        models = load_audit_models(settings.models, method.needs)
        provenance = audit_provenance(method, settings.method, models)
    except Exception as error:
        logging.info("the models could not be loaded", exc_info=True)
        connection.send(ModelsFailed(explain_load_failure(error, settings), is_load_refusal(error)))
        return
    gc.freeze()  # models stay; searching them for garbage again and again takes time
    gc.enable()
    connection.send(ModelsReady(provenance, None if models.attention is None else models.attention.settings))
    while True:
        began = time.perf_counter()
        job = cast(RunBlock, connection.recv())
        with closing(receive_block(connection)) as block:
            waited = time.perf_counter() - began
            connection.send(_run_block(job, block, method, models, waited))


def _run_block(
    job: RunBlock, block: SharedBlock, method: Method, models: LoadedModels, waited: float
) -> BlockDone | BlockFailed:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        place = block.write(_outcomes(block.read(0), method, models))
    except Exception as error:
        logging.info("a block failed", exc_info=True)
        if is_out_of_memory(error):
            raise MemoryError from error
        return BlockFailed(job.number, f"{type(error).__name__}: {error}")
    return BlockDone(job.number, place, waited, time.perf_counter() - wall, time.process_time() - cpu)


def _outcomes(rows: object, method: Method, models: LoadedModels) -> object:
    """The outcomes of ``FlatRows`` as ``FlatAttributions``; a list of outcomes for whole rows."""
    if isinstance(rows, FlatRows):
        if models.attention is None:
            raise RuntimeError("rows came for an attention model, but the method has none")
        return FlatAttributions.of(models.attention.attribute(rows.rows(), rows.passage_counts))
    return model_outcomes(method, models, cast(Sequence[AuditRow], rows))
