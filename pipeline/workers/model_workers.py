"""Models in processes of their own: how the driver feeds them, what they run, and what stands for them in workers.

Workers read, parse and write; what the models read of a block of rows goes, pickled, through the driver to whichever
model worker is idle. The driver never looks into a block, and loads no models.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from attribeam.attribution.evidence.union_results import MethodError
from attribeam.attribution.methods.audit_row import (
    AuditRow,
    Outcome,
    attended,
    audit_provenance,
    model_outcomes,
    reads_attention_alone,
)
from attribeam.attribution.methods.method import LoadedModels, Method, resolve_method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.options import MethodOptions
from attribeam.pipeline.workers.devices import ModelWorkerPlan
from attribeam.pipeline.workers.worker_messages import (
    MODEL_WORKER,
    ModelsLoaded,
    ModelWorkersError,
    WorkerDied,
    WorkerFailed,
    describe_death,
    is_out_of_memory,
)
from attribeam.pipeline.workers.worker_process import Worker, load_or_tell, start_process
from attribeam.schemas.errors import UsageError
from attribeam.transforms.attribute_rows import Pending
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import add_stage_seconds

BLOCKS_AHEAD = 2
"""The most blocks that one worker has with the model workers: one to wait for, and the next one."""
_END_SECONDS = 10


@dataclass(frozen=True, slots=True)
class RunBlock:
    """From a worker, and on to a model worker: run these pickled rows; without rows, say which models there are."""

    number: int
    rows: bytes | None


@dataclass(frozen=True, slots=True)
class BlockReply:
    """The pickled outcomes of a block, and the seconds and seconds of processor time that they took.

    Or the ``failure``: what the models raised, how the model worker ended, or why no models can be loaded any more.
    """

    number: int
    outcomes: bytes = b""
    wall: float = 0.0
    cpu: float = 0.0
    failure: str | MethodError | WorkerDied | WorkerFailed | None = None


class ModelService:
    """The driver's side: a process with the models on each device, and a thread that hands it one block after another.

    A process that dies is replaced, and whoever sent its block is told.
    """

    def __init__(self, settings: AuditSettings, plan: ModelWorkerPlan, *, verbose: bool) -> None:
        self.plan = plan
        self._settings, self._verbose = settings, verbose
        self._models: ModelsLoaded | WorkerFailed | None = None
        self._is_stopping = False
        self._requests: SimpleQueue[tuple[RunBlock, Callable[[object], None]] | None] = SimpleQueue()
        self._processes: list[Worker] = []
        self._times: list[tuple[float, float]] = []
        self._threads = [Thread(target=self._feed, args=(device,), daemon=True) for device in plan.devices]

    def start(self) -> None:
        """Start the model workers, unless they run."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def run(self, block: RunBlock, reply: Callable[[object], None]) -> None:
        """Let a model worker run the block, and ``reply`` from another thread."""
        self._requests.put((block, reply))

    @property
    def waiting_share(self) -> float | None:
        """The share of the time without a block, from each model worker's first to its last; None without blocks."""
        worked, waited = (sum(times) for times in zip(*self._times, strict=True)) if self._times else (0.0, 0.0)
        return waited / (worked + waited) if worked else None

    def stop(self) -> None:
        """End the model workers at once."""
        self._is_stopping = True
        for _ in self._threads:
            self._requests.put(None)
        for worker in self._processes:
            worker.process.kill()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_END_SECONDS)
        for worker in self._processes:
            worker.process.join(_END_SECONDS)

    def _feed(self, device: str) -> None:
        worker: Worker | None = None
        replied: float | None = None
        while not self._is_stopping:
            if worker is None and not isinstance(self._models, WorkerFailed):
                worker = self._loaded(device)
            if (request := self._requests.get()) is None:
                return
            block, reply = request
            if worker is None or block.rows is None or isinstance(self._models, WorkerFailed):
                failure = self._models if isinstance(self._models, WorkerFailed) else None
                reply(self._models if block.rows is None else BlockReply(block.number, failure=failure))
                continue
            worker.send(block)
            answer = worker.receive()
            if isinstance(answer, BlockReply):
                now = time.monotonic()
                self._times.append((answer.wall, 0.0 if replied is None else max(0.0, now - replied - answer.wall)))
                replied = now
            elif isinstance(answer, WorkerDied):
                worker, answer = None, BlockReply(block.number, failure=answer)
            reply(answer)

    def _loaded(self, device: str) -> Worker | None:
        """A process that has loaded the models; None if it could not, or has others than those before it."""
        settings = replace(self._settings, model=self._settings.model.replaced(device=device))
        try:
            worker = start_process(
                _serve_blocks,
                settings=settings,
                verbose=self._verbose,
                name=f"models on {device}",
                who=MODEL_WORKER,
            )
            self._processes.append(worker)
            if self._is_stopping:
                worker.process.kill()
            message = worker.receive()
        except (EOFError, OSError):  # the import server has ended
            message = WorkerDied(None, MODEL_WORKER)
        if isinstance(message, WorkerDied):
            message = WorkerFailed(describe_death(message, "while the models were loaded"))
        elif isinstance(message, ModelsLoaded) and self._models not in (None, message):
            message = WorkerFailed(
                "all model workers should have the same models on the same kind of device, but they differ; name "
                "devices of one kind in --device, and leave the models' files alone while the audit runs"
            )
        if isinstance(message, WorkerFailed) and isinstance(self._models, ModelsLoaded):
            message = replace(message, is_usage=False)  # the models can be loaded, but not here or not this time
        if not isinstance(self._models, WorkerFailed) and isinstance(message, ModelsLoaded | WorkerFailed):
            self._models = message
        return worker if isinstance(message, ModelsLoaded) else None


def _serve_blocks(connection: Connection, settings: AuditSettings) -> None:
    """Load the models on the device of ``settings``, then run blocks until the other end is closed.

    Raises:
        EOFError, OSError: when it is closed.
        MemoryError: if a block needs more memory than there is.
    """

    def load() -> tuple[Method, LoadedModels, ModelsLoaded]:
        method = resolve_method(settings.method)
        models = load_audit_models(settings.models, method.needs)
        merged = None if models.attention is None else models.attention.settings
        return method, models, ModelsLoaded(audit_provenance(method, settings.method, models), merged)

    if (found := load_or_tell(connection, settings, load)) is None:
        return
    method, models, told = found
    connection.send(told)
    while True:
        connection.send(_run_block(connection.recv(), method, settings.method, models))


def _run_block(block: RunBlock, method: Method, options: MethodOptions, models: LoadedModels) -> BlockReply:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        rows = pickle.loads(block.rows or b"")
        is_tokens_alone = reads_attention_alone(method, options)
        outcomes = attended(models, *rows) if is_tokens_alone else model_outcomes(method, options, models, rows)
        sent = pickle.dumps(outcomes, protocol=5)
    except Exception as error:
        logging.info("a block failed", exc_info=True)
        if is_out_of_memory(error):
            raise MemoryError from error
        told: str | MethodError = error if isinstance(error, MethodError) else f"{type(error).__name__}: {error}"
        return BlockReply(block.number, failure=told)
    return BlockReply(block.number, sent, time.perf_counter() - wall, time.process_time() - cpu)


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
        self._pending: dict[int, Future[BlockReply]] = {}
        self._number = 0
        self._inbox: SimpleQueue[object] = SimpleQueue()
        self.error: Exception | None = None
        Thread(target=self._listen, name="replies", daemon=True).start()
        connection.send(RunBlock(0, None))
        found = self.receive()
        if isinstance(found, WorkerFailed):
            raise _failure(found)
        if not isinstance(found, ModelsLoaded):
            raise RuntimeError(f"the models should be told of first, was: {type(found).__name__}")
        self.models, self.settings = found.models, found.settings

    def start(self, rows: Sequence[AuditRow]) -> Pending:
        """See ``BlockModel``; waits for an earlier block first if enough of them are on their way."""
        while len(pending := [one for one in self._pending.values() if not one.done()]) >= BLOCKS_AHEAD:
            wait(pending, return_when=FIRST_COMPLETED)
        self._number += 1
        future = self._pending[self._number] = Future()
        sent: object = [*rows]
        if self._sends_tokens_alone:  # the rest need not cross the border
            sent = [row.encoded for row in rows], [len(row.record.passages) for row in rows]
        self._connection.send(RunBlock(self._number, pickle.dumps(sent, protocol=5)))
        return _PendingBlock(lambda: self._outcomes(future))

    def receive(self) -> object:
        """The next message of the driver that is no reply.

        Raises:
            EOFError: if there will be none.
        """
        message = self._inbox.get()
        if isinstance(message, EOFError):
            raise message
        return message

    def forget(self) -> None:
        """Drop all blocks that nobody waits for any more."""
        self._pending.clear()
        self.error = None

    def _listen(self) -> None:
        """Take messages as they come, so that no model worker has to wait until this process reads its reply."""
        with suppress(EOFError, OSError):
            while True:
                message = self._connection.recv()
                if not isinstance(message, BlockReply):
                    self._inbox.put(message)
                elif (future := self._pending.get(message.number)) is not None:  # else of a chunk that failed
                    future.set_result(message)
        self._inbox.put(EOFError())
        for future in [*self._pending.values()]:
            if not future.done():
                future.set_exception(EOFError())

    def _outcomes(self, future: Future[BlockReply]) -> list[Outcome]:
        reply = future.result()
        self._pending.pop(reply.number, None)
        if isinstance(reply.failure, str):
            raise RuntimeError(reply.failure)
        if isinstance(reply.failure, MethodError):
            raise reply.failure
        if reply.failure is not None:
            self.error = _failure(reply.failure)
            raise self.error
        add_stage_seconds("attribute", reply.wall, reply.cpu)
        outcomes: list[Outcome] = pickle.loads(reply.outcomes)
        return outcomes


def _failure(failure: WorkerDied | WorkerFailed) -> Exception:
    if isinstance(failure, WorkerDied):
        return ModelWorkerDiedError(failure)
    return (UsageError if failure.is_usage else ModelWorkersError)(failure.explanation)


@dataclass(frozen=True, slots=True)
class _PendingBlock:
    result: Callable[[], list[Outcome]]
