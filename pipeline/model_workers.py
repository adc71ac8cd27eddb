"""Models in processes of their own, which run blocks of rows for all workers, and what stands for them in a worker.

All processes share the two ends of one socket. A worker that has a block sends one end of a new pipe through it, and
whichever model worker is idle takes it there: the socket is the queue. The driver only starts the model workers.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from socket import recv_fds, send_fds, socket, socketpair
from typing import Any

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
from attribeam.pipeline.devices import ModelWorkerPlan
from attribeam.pipeline.worker_process import (
    MODEL_WORKER,
    BlockStep,
    ModelsLoaded,
    Worker,
    WorkerDied,
    WorkerFailed,
    describe_failure,
    is_out_of_memory,
    load_or_tell,
    start_process,
)
from attribeam.schemas.errors import RunError, UsageError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import add_stage_seconds

_BLOCKS_AHEAD = 2
"""The most blocks that one worker has with the model workers: one to wait for, and the next one."""
_MOST_IDLE_DEATHS = 3
"""How many model workers may end one after the other without a block, none of which has finished one meanwhile."""
_WHICH_MODELS, _BLOCK = b"?", b" "
"""What a worker asks a model worker for."""


class ModelWorkers:
    """The driver's side: a process with the models on each device; one that ends is replaced.

    Attributes:
        asking: the workers' end of the socket.
        running: the processes and their devices.
    """

    def __init__(self, settings: AuditSettings, plan: ModelWorkerPlan, *, verbose: bool) -> None:
        self.plan = plan
        self.asking, self._asked = socketpair()
        self.running: dict[Worker, str] = {}
        self._ended: dict[int | None, WorkerDied] = {}
        self._settings, self._verbose = settings, verbose
        self._models: ModelsLoaded | None = None
        self._waited = self._worked = 0.0
        self._idle_deaths = 0

    def start(self) -> None:
        """Start the model workers, unless they run."""
        for device in self.plan.devices[len(self.running) :]:
            self._start(device)

    def _start(self, device: str) -> None:
        settings = replace(self._settings, model=self._settings.model.replaced(device=device))
        options: Any = {"settings": settings, "verbose": self._verbose, "name": f"models on {device}"}
        self.running[start_process(_serve_blocks, self._asked, who=MODEL_WORKER, **options)] = device

    def take(self, worker: Worker, message: object) -> None:
        """Take what a model worker has sent.

        Raises:
            UsageError: if the models cannot be loaded as asked.
            RunError: if they cannot be loaded this time, differ, or end without rows again and again.
        """
        if isinstance(message, BlockStep):
            worker.is_busy = message.is_taken
            self._waited += message.seconds if message.is_taken else 0.0
            self._worked += 0.0 if message.is_taken else message.seconds
            self._idle_deaths = 0
        elif isinstance(message, WorkerDied):
            self._idle_deaths += not worker.is_busy
            if not worker.is_loaded or self._idle_deaths > _MOST_IDLE_DEATHS:
                when = "between blocks of rows, as others did" if worker.is_loaded else "while the models were loaded"
                raise RunError(describe_failure(message, when))
            self._ended[worker.process.pid] = message
            self._start(self.running.pop(worker))
        elif isinstance(message, WorkerFailed):
            raise (UsageError if message.is_usage and self._models is None else RunError)(message.explanation)
        elif self._models not in (None, message):
            raise RunError(
                "all model workers should have the same models on the same kind of device, but they differ; name "
                "devices of one kind in --device, and leave the models' files alone while the audit runs"
            )
        elif isinstance(message, ModelsLoaded):
            self._models = message

    def death_of(self, pid: int | None) -> WorkerDied:
        """How the model worker has ended that a worker says has ended on its block."""
        running = (worker.death() for worker in self.running if worker.process.pid == pid)
        return next(running, self._ended.get(pid, WorkerDied(None, MODEL_WORKER)))

    @property
    def waiting_share(self) -> float | None:
        """The share of the time without a block, from each model worker's first to its last; None without blocks."""
        return self._waited / (self._worked + self._waited) if self._worked else None

    def kill(self) -> None:
        """End the model workers at once."""
        for worker in self.running:
            worker.process.kill()
        for worker in self.running:
            worker.kill()
        self.running.clear()
        self.asking.close()
        self._asked.close()


@dataclass(frozen=True, slots=True)
class BlockReply:
    """What the models made of a block, or raised, and the seconds and seconds of processor time that they took."""

    outcomes: list[Outcome] | MethodError | str
    wall: float
    cpu: float


def _serve_blocks(connection: Connection, settings: AuditSettings, asked: socket) -> None:
    """Load the models on the device of ``settings``, then run blocks.

    Raises:
        MemoryError: if a block needs more memory than there is.
    """

    def load() -> tuple[Method, LoadedModels, ModelsLoaded]:
        method = resolve_method(settings.method)
        models = load_audit_models(settings.models, method.needs)
        merged = None if models.attention is None else models.attention.settings
        return method, models, ModelsLoaded(audit_provenance(method, settings.method, models), merged)

    if (loaded := load_or_tell(connection, settings, load)) is not None:
        method, models, provenance = loaded
        serve_asked(connection, asked, provenance, lambda block: _run_block(block, method, settings.method, models))


def serve_asked(connection: Connection, asked: socket, models: ModelsLoaded, run: Callable[[bytes], bytes]) -> None:
    """Tell the driver of the models, then ``run`` a block of whoever asks first, again and again."""
    connection.send(models)
    finished: float | None = None
    while (question := recv_fds(asked, 1, 1))[1]:
        with Connection(question[1][0]) as worker, suppress(EOFError, OSError):  # of a worker that has ended
            worker.send(os.getpid())
            if question[0] == _WHICH_MODELS:
                worker.send(models)
                continue
            taken = time.monotonic()  # from here on the block may end this process, even as it arrives
            connection.send(BlockStep(True, 0.0 if finished is None else taken - finished))
            reply = b""
            with suppress(EOFError, OSError):
                reply = run(worker.recv_bytes())
            finished = time.monotonic()
            connection.send(BlockStep(False, finished - taken))
            worker.send_bytes(reply)


def _run_block(block: bytes, method: Method, options: MethodOptions, models: LoadedModels) -> bytes:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        rows = pickle.loads(block)
        is_tokens_alone = reads_attention_alone(method, options)
        outcomes = attended(models, *rows) if is_tokens_alone else model_outcomes(method, options, models, rows)
        reply = BlockReply(outcomes, time.perf_counter() - wall, time.process_time() - cpu)
        return pickle.dumps(reply, protocol=5)
    except Exception as error:
        logging.info("a block failed", exc_info=True)
        if is_out_of_memory(error):
            raise MemoryError from error
        told = error if isinstance(error, MethodError) else f"{type(error).__name__}: {error}"
        return pickle.dumps(BlockReply(told, 0.0, 0.0))


class ModelWorkerDiedError(Exception):
    """The model worker of this number of process ended on a block of the rows."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


class RemoteModels:
    """The models of the model workers, as a ``BlockModel``; one thread of the worker uses it.

    Attributes:
        models: the models' provenance.
        settings: see ``BlockModel``.
    """

    def __init__(self, asking: socket, settings: AuditSettings) -> None:
        """Wait for the models; where a model worker ends as it is asked, another one is."""
        self._asking = asking
        self._sends_tokens_alone = reads_attention_alone(resolve_method(settings.method), settings.method)
        self._threads = ThreadPoolExecutor(_BLOCKS_AHEAD, thread_name_prefix="model-worker")
        loaded: ModelsLoaded | None = None
        while loaded is None:
            with suppress(ModelWorkerDiedError):
                loaded = self._ask(None)
        self.models, self.settings = loaded.models, loaded.settings

    def start(self, rows: Sequence[AuditRow]) -> Future[list[Outcome]]:
        """See ``BlockModel``."""
        sent: object = [*rows]
        if self._sends_tokens_alone:  # the rest need not cross the border
            sent = [row.encoded for row in rows], [len(row.record.passages) for row in rows]
        return self._threads.submit(self._outcomes, pickle.dumps(sent, protocol=5))

    def _outcomes(self, block: bytes) -> list[Outcome]:
        """What the models make of the block.

        Raises:
            ModelWorkerDiedError: if the model worker ended.
            MethodError, RuntimeError: what the models raised.
        """
        reply: BlockReply = self._ask(block)
        if isinstance(reply.outcomes, MethodError):
            raise reply.outcomes
        if isinstance(reply.outcomes, str):
            raise RuntimeError(reply.outcomes)
        add_stage_seconds("attribute", reply.wall, reply.cpu)
        return reply.outcomes

    def _ask(self, block: bytes | None) -> Any:
        """What a model worker makes of the block; without one, which models it has.

        A thread waits for it, so that no model worker waits until its reply is read.
        """
        pid: int | None = None
        ours, theirs = Pipe()
        with ours:
            with theirs:
                send_fds(self._asking, [_WHICH_MODELS if block is None else _BLOCK], [theirs.fileno()])
            try:
                pid = ours.recv()
                if block is not None:
                    ours.send_bytes(block)
                return ours.recv()
            except (EOFError, OSError) as error:
                raise ModelWorkerDiedError(pid) from error
