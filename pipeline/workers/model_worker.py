"""Models in another process: the model worker that holds them on one device, and what stands for them elsewhere.

Workers read, parse and write; what the models read of a block of rows goes to a model worker through the driver.
"""

from __future__ import annotations

import gc
import logging
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import cast

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.audit_row import (
    AuditRow,
    Outcome,
    attended,
    model_outcomes,
    reads_attention_alone,
)
from attribeam.attribution.methods.method import Method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.methods.provenance import audit_provenance
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import MethodOptions
from attribeam.pipeline.chunks.worker_messages import WorkerDied
from attribeam.pipeline.failures import ModelWorkersError, explain_load_failure, is_load_refusal, is_out_of_memory
from attribeam.pipeline.workers.model_service import (
    BlockDied,
    BlockDone,
    BlockFailed,
    ModelsFailed,
    ModelsReady,
    Reply,
    RunBlock,
)
from attribeam.schemas.errors import UsageError
from attribeam.transforms.attribute_rows import Pending
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.stage_metrics import add_stage_seconds

BLOCKS_AHEAD = 2
"""The most blocks that one worker has with the model workers: one to wait for, and the next one."""


class ModelWorkerDiedError(Exception):
    """The model worker ended on a block of the rows."""

    def __init__(self, death: WorkerDied) -> None:
        super().__init__(death.how)
        self.death = death


class RemoteModels:
    """The models of the model workers, as a ``BlockModel``; one thread of the worker uses it at a time.

    Attributes:
        models: the models' provenance.
        settings: see ``BlockModel``.
        error: what was raised last because of model workers; Beam makes text of what its stages raise.
    """

    def __init__(self, connection: Connection, settings: AuditSettings) -> None:
        """Wait for the models.

        Raises:
            UsageError: if they cannot be loaded as asked.
            ModelWorkersError: if they cannot be loaded this time.
        """
        self._connection = connection
        self._sends_tokens_alone = reads_attention_alone(resolve_method(settings.method), settings.method)
        self._replies: dict[int, Reply | None] = {}
        self._number = 0
        self._inbox: SimpleQueue[object] = SimpleQueue()
        self.error: Exception | None = None
        Thread(target=self._listen, name="replies", daemon=True).start()
        connection.send(RunBlock(0, None))
        ready = self._receive()
        if not isinstance(ready, ModelsReady):
            raise RuntimeError(f"the models should be told of first, was: {type(ready).__name__}")
        self.models, self.settings = ready.models, ready.settings

    def start(self, rows: Sequence[AuditRow]) -> Pending:
        """See ``BlockModel``; waits for an earlier block first if enough of them are on their way."""
        while len(pending := [number for number, reply in self._replies.items() if reply is None]) >= BLOCKS_AHEAD:
            self._wait(pending[0])
        self._number += 1
        self._replies[self._number] = None
        number = self._number
        sent: object = [*rows]
        if self._sends_tokens_alone:  # the rest need not cross the border
            sent = [row.encoded for row in rows], [len(row.record.passages) for row in rows]
        self._connection.send(RunBlock(number, pickle.dumps(sent, protocol=5)))
        return _PendingBlock(lambda: self._outcomes(number))

    def receive(self) -> object:
        """The next message of the driver.

        Raises:
            EOFError: if there will be none.
        """
        message = self._inbox.get()
        if message is None:
            self._inbox.put(None)
            raise EOFError
        return message

    def _listen(self) -> None:
        """Take messages as they come, so that no model worker has to wait until this process reads its reply."""
        with suppress(EOFError, OSError):
            while (message := self._connection.recv()) is not None:
                self._inbox.put(message)
        self._inbox.put(None)

    def forget(self) -> None:
        """Drop all blocks that nobody waits for any more."""
        self._replies.clear()
        self.error = None

    def _outcomes(self, number: int) -> list[Outcome]:
        self._wait(number)
        reply = self._replies.pop(number)
        if isinstance(reply, BlockDied):
            self.error = ModelWorkerDiedError(reply.death)
            raise self.error
        if not isinstance(reply, BlockDone):
            raise RuntimeError(reply.error if isinstance(reply, BlockFailed) else f"no outcomes, but {reply!r}")
        add_stage_seconds("attribute", reply.wall, reply.cpu)
        outcomes: list[Outcome] = pickle.loads(reply.outcomes)
        return outcomes

    def _wait(self, number: int) -> None:
        while self._replies[number] is None:
            reply = self._receive()
            if not isinstance(reply, ModelsReady) and reply.number in self._replies:  # else of a chunk that failed
                self._replies[reply.number] = reply

    def _receive(self) -> ModelsReady | BlockDone | BlockFailed | BlockDied:
        reply = self.receive()
        if isinstance(reply, ModelsFailed):
            self.error = (UsageError if reply.is_usage else ModelWorkersError)(reply.explanation)
            raise self.error
        return cast("ModelsReady | BlockDone | BlockFailed | BlockDied", reply)


@dataclass(frozen=True, slots=True)
class _PendingBlock:
    result: Callable[[], list[Outcome]]


def serve_blocks(connection: Connection, settings: AuditSettings) -> None:
    """Load the models on the device of ``settings``, then run blocks until the other end is closed.

    Raises:
        EOFError, OSError: when it is closed.
        MemoryError: if a block needs more memory than there is.
    """
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
        connection.send(_run_block(connection.recv(), method, settings.method, models))


def _run_block(
    block: RunBlock, method: Method, options: MethodOptions, models: LoadedModels
) -> BlockDone | BlockFailed:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        rows = pickle.loads(block.rows or b"")
        is_tokens_alone = isinstance(rows, tuple)
        outcomes = attended(models, *rows) if is_tokens_alone else model_outcomes(method, options, models, rows)
        sent = pickle.dumps(outcomes, protocol=5)
    except Exception as error:
        logging.info("a block failed", exc_info=True)
        if is_out_of_memory(error):
            raise MemoryError from error
        return BlockFailed(block.number, f"{type(error).__name__}: {error}")
    return BlockDone(block.number, sent, time.perf_counter() - wall, time.process_time() - cpu)
