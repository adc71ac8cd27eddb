"""The driver's model service: one thread that hands the blocks of worker processes to model workers.

It waits for messages and does nothing else; it never sees a block's rows.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue

from attribeam.pipeline.chunks.worker_messages import how_it_ended
from attribeam.pipeline.failures import describe_model_worker_death
from attribeam.pipeline.options.devices import ModelWorkerPlan
from attribeam.pipeline.workers.import_server import start_context, worker_environment
from attribeam.pipeline.workers.model_messages import (
    BlockDied,
    BlockDone,
    BlockFailed,
    ModelsFailed,
    ModelsReady,
    ModelWorkerDied,
    RunBlock,
    Turn,
    TurnOver,
    TurnWanted,
)
from attribeam.pipeline.workers.shared_block import SharedBlock, receive_block
from attribeam.pipeline.workers.worker_start import run_model_worker
from attribeam.transforms.audit_settings import AuditSettings

_BLOCKS_PER_MODEL_WORKER = 2
"""One that it works on, and one that it finds when it is done."""
_MOST_IDLE_DEATHS = 3
_END_SECONDS = 10


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What model workers did from each one's first block to its last.

    Attributes:
        worked: seconds with a block.
        waited: seconds without one.
        peak_bytes: the most bytes that blocks took up at a time, rows and outcomes.
    """

    worked: float = 0.0
    waited: float = 0.0
    peak_bytes: int = 0

    @property
    def waiting_share(self) -> float:
        """The share of the time without a block."""
        return self.waited / (self.worked + self.waited) if self.worked else 0.0


@dataclass(eq=False)
class _Client:
    """A worker process, as the service sees it."""

    connection: Connection
    has_turn: bool = False

    def send(self, message: object) -> None:
        with suppress(OSError):  # its end shows when something is received
            self.connection.send(message)


@dataclass(eq=False)
class _Block:
    """A block on its way."""

    client: _Client
    job: RunBlock
    shared: SharedBlock
    deaths: int = 0


@dataclass(eq=False)
class _ModelWorker:
    """A process with models on one device; ``blocks`` are in the order in which it takes them."""

    device: str
    process: BaseProcess
    connection: Connection
    is_ready: bool = False
    has_worked: bool = False
    blocks: deque[_Block] = field(default_factory=deque)


class ModelService:
    """The model workers of a run, one per device, and the turns of its workers.

    A model worker that dies is replaced, and its block is run again. Nobody is told of a block twice, and a worker that
    has died is forgotten together with its blocks.
    """

    def __init__(self, settings: AuditSettings, plan: ModelWorkerPlan, *, verbose: bool) -> None:
        self.plan = plan
        self._settings = settings
        self._verbose = verbose
        self._free_turns = plan.turns
        self._context = start_context(verbose=verbose)
        self._thread: threading.Thread | None = None
        self._woken, self._waker = Pipe(duplex=False)
        self._new_connections: SimpleQueue[Connection] = SimpleQueue()
        self._stopping = False
        self._clients: dict[Connection, _Client] = {}
        self._workers: dict[Connection, _ModelWorker] = {}
        self._queue: deque[_Block] = deque()
        self._turn_queue: deque[_Client] = deque()
        self._greeting: ModelsReady | ModelsFailed | None = None
        self._idle_deaths = 0
        self.use = ModelUse()

    def connect(self) -> Connection:
        """The end of a new pipe, for one more worker; starts the model workers with the first one."""
        ours, theirs = Pipe()
        if self._thread is None:
            for device in self.plan.devices:
                self._start_worker(device)
            self._thread = threading.Thread(target=self._serve, name="attribeam-model-service", daemon=True)
            self._thread.start()
        self._new_connections.put(ours)
        self._waker.send(None)
        return theirs

    def stop(self) -> None:
        """End the service and its model workers at once."""
        self._stopping = True
        if self._thread is not None:
            self._waker.send(None)
            self._thread.join()
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.join()
            worker.connection.close()
        self._workers.clear()

    def _serve(self) -> None:
        try:
            while not self._stopping:
                for ready in wait([self._woken, *self._clients, *self._workers]):
                    self._take_message(ready)  # type: ignore[arg-type]
                self._give_turns()
                self._give_blocks()
        except Exception:
            if not self._stopping:
                logging.exception("the model service failed")
        finally:
            for connection in self._clients:
                connection.close()  # whoever waits for a block is told so

    def _take_message(self, connection: Connection) -> None:
        if connection is self._woken:
            connection.recv()
            while not self._new_connections.empty():
                self._add_client(self._new_connections.get())
        elif connection in self._clients:
            self._hear_client(self._clients[connection])
        elif connection in self._workers:
            self._hear_worker(self._workers[connection])

    def _add_client(self, connection: Connection) -> None:
        client = self._clients[connection] = _Client(connection)
        if self._greeting is not None:
            client.send(self._greeting)

    def _hear_client(self, client: _Client) -> None:
        try:
            message = client.connection.recv()
            block = receive_block(client.connection) if isinstance(message, RunBlock) else None
        except (EOFError, OSError):
            self._forget(client)
            return
        if isinstance(message, TurnWanted):
            self._turn_queue.append(client)
        elif isinstance(message, TurnOver):
            self._end_turn(client)
        elif block is not None:
            self._queue.append(_Block(client, message, block))
            self._count_bytes()

    def _forget(self, client: _Client) -> None:
        """A worker has ended; what a model worker does for it is lost."""
        client.connection.close()
        del self._clients[client.connection]
        self._end_turn(client)
        self._turn_queue = deque(one for one in self._turn_queue if one is not client)
        self._queue = deque(block for block in self._queue if block.client is not client)

    def _hear_worker(self, worker: _ModelWorker) -> None:
        try:
            message: object = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if isinstance(message, BlockDone | BlockFailed):
            self._finish_block(worker, message)
        elif isinstance(message, ModelsReady):
            worker.is_ready = True
            self._greet(message)
        elif isinstance(message, ModelsFailed):
            self._fail(message.explanation, is_usage=message.is_usage)

    def _finish_block(self, worker: _ModelWorker, message: BlockDone | BlockFailed) -> None:
        if isinstance(message, BlockDone):
            waited = message.waited if worker.has_worked else 0.0
            self.use = replace(self.use, worked=self.use.worked + message.wall, waited=self.use.waited + waited)
        self._count_bytes()
        worker.has_worked, self._idle_deaths = True, 0
        block = worker.blocks.popleft()
        block.client.send(message)
        block.shared.close()

    def _greet(self, message: ModelsReady) -> None:
        """Tell the workers of the models, once."""
        if self._greeting is None:
            self._greeting = message
            self._tell_all(message)
        elif self._greeting != message:
            self._fail(
                "all model workers should have the same models on the same kind of device, but they differ; name "
                "devices of one kind in --device, and leave the models' files alone while the audit runs"
            )

    def _replace(self, worker: _ModelWorker) -> None:
        """Start another model worker for one that has ended, which is held against the block that it worked on."""
        worker.process.join(_END_SECONDS)
        worker.connection.close()
        del self._workers[worker.connection]
        how = how_it_ended(worker.process.exitcode)
        if isinstance(self._greeting, ModelsFailed):
            return
        if not worker.is_ready:
            self._fail(describe_model_worker_death(how, "while the models were loaded"))
            return
        if worker.blocks:
            self._blame(worker.blocks[0], how)
        else:
            self._idle_deaths += 1
        if self._idle_deaths > _MOST_IDLE_DEATHS:
            self._fail(describe_model_worker_death(how, "without any work, as others did before it"))
            return
        again = [one for one in worker.blocks if one.deaths < one.job.tries and one.client.connection in self._clients]
        self._queue.extendleft(reversed(again))
        self._start_worker(worker.device)

    def _blame(self, block: _Block, how: str) -> None:
        block.deaths += 1
        last = block.deaths >= block.job.tries
        block.client.send((BlockDied if last else ModelWorkerDied)(block.job.number, how))

    def _fail(self, explanation: str, *, is_usage: bool = False) -> None:
        """Tell all workers, present and future, that nothing can be run; the first reason counts.

        Models that could be loaded before were asked for rightly.
        """
        if not isinstance(self._greeting, ModelsFailed):
            self._greeting = ModelsFailed(explanation, is_usage and self._greeting is None)
            self._tell_all(self._greeting)

    def _tell_all(self, message: object) -> None:
        for client in self._clients.values():
            client.send(message)

    def _end_turn(self, client: _Client) -> None:
        self._free_turns += client.has_turn
        client.has_turn = False

    def _give_turns(self) -> None:
        while self._free_turns and self._turn_queue:
            client = self._turn_queue.popleft()
            client.has_turn = True
            self._free_turns -= 1
            client.send(Turn())

    def _give_blocks(self) -> None:
        """Give waiting blocks to the model workers that have the fewest."""
        while self._queue:
            able = [one for one in self._workers.values() if _is_able(one)]
            if not able:
                return
            worker = min(able, key=lambda one: len(one.blocks))
            worker.blocks.append(block := self._queue.popleft())
            with suppress(OSError):  # its end shows when something is received
                worker.connection.send(block.job)
                block.shared.send_through(worker.connection)

    def _start_worker(self, device: str) -> None:
        settings = replace(self._settings, model=self._settings.model.replaced(device=device))
        ours, theirs = Pipe()
        process = self._context.Process(
            target=run_model_worker, args=(theirs, settings, self._verbose), daemon=True, name=f"models on {device}"
        )
        with worker_environment(self._settings.threads):
            process.start()
        theirs.close()
        self._workers[ours] = _ModelWorker(device, process, ours)

    def _count_bytes(self) -> None:
        now = sum(one.shared.size for one in _all_blocks(self._queue, self._workers.values()))
        self.use = replace(self.use, peak_bytes=max(self.use.peak_bytes, now))


def _is_able(worker: _ModelWorker) -> bool:
    return worker.is_ready and len(worker.blocks) < _BLOCKS_PER_MODEL_WORKER


def _all_blocks(queue: Iterable[_Block], workers: Iterable[_ModelWorker]) -> list[_Block]:
    return [*queue, *(block for worker in workers for block in worker.blocks)]
