"""The driver's side of model workers: one process with the models on each device, and one thread that feeds it.

Workers ask for blocks of rows to be run; whichever model worker is idle takes the next one. The driver never looks into
a block. This module imports no model library, because the driver loads no models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

from attribeam.attribution.options import MethodOptions
from attribeam.pipeline.chunks.worker_messages import MODEL_WORKER, WorkerDied
from attribeam.pipeline.failures import describe_death
from attribeam.pipeline.options.devices import ModelWorkerPlan
from attribeam.pipeline.workers.worker_process import start_process
from attribeam.transforms.audit_settings import AuditSettings

_END_SECONDS = 10


@dataclass(frozen=True, slots=True)
class RunBlock:
    """From a worker, and on to a model worker: run these pickled rows; without rows, say which models there are."""

    number: int
    rows: bytes | None


@dataclass(frozen=True, slots=True)
class BlockDone:
    """The reply: the pickled outcomes, and the seconds and seconds of processor time that they took."""

    number: int
    outcomes: bytes
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class BlockFailed:
    """The reply where the models raised an error, ``ValueError: ...``."""

    number: int
    error: str


@dataclass(frozen=True, slots=True)
class BlockDied:
    """The reply where the model worker ended on the block."""

    number: int
    death: WorkerDied


@dataclass(frozen=True, slots=True)
class ModelsReady:
    """From a model worker, once: ``models`` are the models' provenance.

    ``settings`` are the method's options merged with the model's; None without an attention model.
    """

    models: Mapping[str, str]
    settings: MethodOptions | None


@dataclass(frozen=True, slots=True)
class ModelsFailed:
    """The reply where blocks cannot be run any more; one paragraph for the user says why.

    ``is_usage`` if the models cannot be loaded as asked.
    """

    explanation: str
    is_usage: bool = False


Reply: TypeAlias = ModelsReady | ModelsFailed | BlockDone | BlockFailed | BlockDied


class ModelService:
    """The model workers of a run; one that dies is replaced, and whoever sent its block is told."""

    def __init__(self, settings: AuditSettings, plan: ModelWorkerPlan, *, verbose: bool) -> None:
        self.plan = plan
        self.settings = settings
        self.verbose = verbose
        self.models: ModelsReady | ModelsFailed | None = None
        self.is_stopping = False
        self.requests: SimpleQueue[tuple[RunBlock, Callable[[Reply], None]] | None] = SimpleQueue()
        self._workers = [_ModelWorker(self, device) for device in plan.devices]

    def start(self) -> None:
        """Start the model workers, unless they run."""
        for worker in self._workers:
            if worker.ident is None:
                worker.start()

    def run(self, block: RunBlock, reply: Callable[[Reply], None]) -> None:
        """Let a model worker run the block, and ``reply`` from another thread."""
        self.requests.put((block, reply))

    def hear(self, message: ModelsReady | ModelsFailed) -> None:
        """Take note of what a model worker has loaded; all have to have the same, and the first failure counts."""
        if self.models is None or message == self.models:
            self.models = message
        elif isinstance(self.models, ModelsReady):
            differing = (
                "all model workers should have the same models on the same kind of device, but they differ; name "
                "devices of one kind in --device, and leave the models' files alone while the audit runs"
            )
            self.models = ModelsFailed(message.explanation if isinstance(message, ModelsFailed) else differing)

    @property
    def waiting_share(self) -> float | None:
        """The share of the time without a block, from each model worker's first to its last; None without blocks."""
        worked, waited = (sum(getattr(one, name) for one in self._workers) for name in ("worked", "waited"))
        return waited / (worked + waited) if worked else None

    def stop(self) -> None:
        """End the model workers at once."""
        self.is_stopping = True
        for worker in self._workers:
            self.requests.put(None)
            worker.kill()
        for worker in self._workers:
            if worker.ident is not None:
                worker.join(_END_SECONDS)


class _ModelWorker(Thread):
    """A process with the models on one device, and the thread that hands it one block after another."""

    def __init__(self, service: ModelService, device: str) -> None:
        super().__init__(name=f"models on {device}", daemon=True)
        self._service = service
        self._settings = replace(service.settings, model=service.settings.model.replaced(device=device))
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._replied: float | None = None
        self.worked = self.waited = 0.0

    def run(self) -> None:
        while not self._service.is_stopping:
            if self._process is None and not isinstance(self._service.models, ModelsFailed):
                self._load()
            request = self._service.requests.get()
            if request is not None:
                block, reply = request
                reply(self._answer(block))

    def kill(self) -> None:
        if (process := self._process) is not None:
            process.kill()
            process.join(_END_SECONDS)

    def _load(self) -> None:
        try:
            self._process, self._connection = start_process(
                _serve_blocks,
                settings=self._settings,
                verbose=self._service.verbose,
                name=self.name,
            )
            if self._service.is_stopping:
                self.kill()
            self._service.hear(self._connection.recv())
        except (EOFError, OSError):
            self._service.hear(ModelsFailed(describe_death(self._death(), "while the models were loaded")))

    def _answer(self, block: RunBlock) -> Reply:
        models = self._service.models
        if models is None or isinstance(models, ModelsFailed) or block.rows is None or self._connection is None:
            return models or ModelsFailed("no model worker has loaded the models; please report this")
        try:
            self._connection.send(block)
            reply: BlockDone | BlockFailed = self._connection.recv()
        except (EOFError, OSError):
            return BlockDied(block.number, self._death())
        if isinstance(reply, BlockDone):
            now = time.monotonic()
            self.waited += 0.0 if self._replied is None else max(0.0, now - self._replied - reply.wall)
            self.worked += reply.wall
            self._replied = now
        return reply

    def _death(self) -> WorkerDied:
        """How the process has ended; another one will take its place."""
        process, self._process = self._process, None
        if process is None:
            return WorkerDied(None, MODEL_WORKER)
        process.join(_END_SECONDS)
        return WorkerDied(process.exitcode, MODEL_WORKER)


def _serve_blocks(connection: Connection, settings: AuditSettings) -> None:
    from attribeam.pipeline.workers.model_worker import serve_blocks

    serve_blocks(connection, settings)
