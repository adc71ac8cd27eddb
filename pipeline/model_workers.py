"""Models in processes of their own, which run blocks of rows for all workers, and what stands for them in a worker.

All processes share the two ends of one socket. A worker that has a block sends one end of a new pipe through it, and
whichever model worker is idle takes it there: the socket is the queue. The driver only starts the model workers.

Which devices they are on follows from ``--device``, ``--model-workers`` and ``--workers``. A run chooses once what
``--dtype auto`` means.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle, islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from socket import recv_fds, send_fds, socket, socketpair
from typing import Any

from attribeam.attribution.evidence.union_results import MethodError
from attribeam.attribution.methods.audit_row import (
    AuditRow,
    Outcome,
    attention_outcomes,
    audit_provenance,
    model_outcomes,
    reads_attention_alone,
    runs_models,
)
from attribeam.attribution.methods.method import LoadedModels, Method, resolve_method
from attribeam.attribution.methods.models import decoder_to_choose_for, load_audit_models, may_use_half_precision
from attribeam.attribution.models import half_precision_instructions
from attribeam.attribution.option_declaration import AUTO_DTYPE, BUNDLED_MODEL_NAME
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.pipeline.audit_options import ALL_GPUS, RunOptions, may_be_several_gpus
from attribeam.pipeline.worker_process import (
    MODEL_WORKER,
    BlockStep,
    ModelsLoaded,
    Worker,
    WorkerDied,
    WorkerFailed,
    describe_failure,
    has_gpu,
    is_out_of_memory,
    load_or_report,
    start_process,
    thread_environment,
)
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import RunManifest
from attribeam.transforms.audit_settings import AuditSettings, plain_settings
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
        request_socket: the workers' end of the socket.
        running: the processes and their devices.
    """

    def __init__(self, settings: AuditSettings, plan: ModelWorkerPlan, *, verbose: bool) -> None:
        self.plan = plan
        self.request_socket, self._serving_socket = socketpair()
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
        self.running[start_process(_serve_blocks, self._serving_socket, who=MODEL_WORKER, **options)] = device

    def take(self, worker: Worker, message: object) -> None:
        """Take what a model worker has sent.

        Raises ``UsageError`` if the models cannot be loaded as asked; ``RunError`` if they cannot be loaded this time,
        differ, or end without rows again and again.
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
        """How the model worker with this process id ended; a worker has reported that it did."""
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
        self.request_socket.close()
        self._serving_socket.close()


@dataclass(frozen=True, slots=True)
class BlockReply:
    """What the models made of a block, or raised, and the seconds and seconds of processor time that they took."""

    outcomes: Sequence[Outcome] | MethodError | str
    wall: float
    cpu: float


def _serve_blocks(connection: Connection, settings: AuditSettings, serving_socket: socket) -> None:
    """Load the models on the device of ``settings``, then run blocks; ``MemoryError`` if one needs too much."""

    def load() -> tuple[Method, LoadedModels, ModelsLoaded]:
        method = resolve_method(settings.method)
        models = load_audit_models(settings.models, method.needs)
        merged = None if models.attention is None else models.attention.settings
        return method, models, ModelsLoaded(audit_provenance(method, settings.method, models), merged)

    if (loaded := load_or_report(connection, settings, load)) is not None:
        method, models, provenance = loaded
        serve_requests(
            connection, serving_socket, provenance, lambda block: _run_block(block, method, settings.method, models)
        )


def serve_requests(
    connection: Connection, serving_socket: socket, models: ModelsLoaded, run: Callable[[bytes], bytes]
) -> None:
    """Tell the driver of the models, then ``run`` a block of whoever asks first, again and again."""
    connection.send(models)
    finished: float | None = None
    while (question := recv_fds(serving_socket, 1, 1))[1]:
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
        outcomes = (
            attention_outcomes(models, *rows) if is_tokens_alone else model_outcomes(method, options, models, rows)
        )
        reply = BlockReply(outcomes, time.perf_counter() - wall, time.process_time() - cpu)
        return pickle.dumps(reply, protocol=5)
    except Exception as error:
        logging.info("a block failed", exc_info=True)
        if is_out_of_memory(error):
            raise MemoryError from error
        failure = error if isinstance(error, MethodError) else f"{type(error).__name__}: {error}"
        return pickle.dumps(BlockReply(failure, 0.0, 0.0))


class ModelWorkerDiedError(Exception):
    """The model worker with this process id ended while it ran a block."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


class RemoteModels:
    """The models of the model workers, as a ``BlockModel``; one thread of the worker uses it.

    Attributes:
        models: the models' provenance.
        settings: see ``BlockModel``.
    """

    def __init__(self, request_socket: socket, settings: AuditSettings) -> None:
        """Ask a model worker for its provenance, and the next one if that one ends meanwhile."""
        self._request_socket = request_socket
        self._sends_tokens_alone = reads_attention_alone(resolve_method(settings.method), settings.method)
        self._threads = ThreadPoolExecutor(_BLOCKS_AHEAD, thread_name_prefix="model-worker")
        loaded: ModelsLoaded | None = None
        while loaded is None:
            with suppress(ModelWorkerDiedError):
                loaded = self._ask(None)
        self.models, self.settings = loaded.models, loaded.settings

    def start(self, rows: Sequence[AuditRow]) -> Future[Sequence[Outcome]]:
        sent: object = [*rows]
        if self._sends_tokens_alone:  # the rest need not cross the border
            sent = [row.encoded for row in rows], [len(row.record.passages) for row in rows]
        return self._threads.submit(self._outcomes, pickle.dumps(sent, protocol=5))

    def _outcomes(self, block: bytes) -> Sequence[Outcome]:
        """What the models make of the block; raises what they raised, or ``ModelWorkerDiedError`` as ``_ask``."""
        reply: BlockReply = self._ask(block)
        if isinstance(reply.outcomes, MethodError):
            raise reply.outcomes
        if isinstance(reply.outcomes, str):
            raise RuntimeError(reply.outcomes)
        add_stage_seconds("attribute", reply.wall, reply.cpu)
        return reply.outcomes

    def _ask(self, block: bytes | None) -> Any:
        """What a model worker makes of the block; without one, which models it has. A thread waits for it."""
        pid: int | None = None
        ours, theirs = Pipe()
        with ours:
            with theirs:
                send_fds(self._request_socket, [_WHICH_MODELS if block is None else _BLOCK], [theirs.fileno()])
            try:
                pid = ours.recv()
                if block is not None:
                    ours.send_bytes(block)
                return ours.recv()
            except (EOFError, OSError) as error:
                raise ModelWorkerDiedError(pid) from error


_WAITING_WORKERS = 2
"""Workers per model worker that wait for blocks at the end of their chunks, while others compute."""


@dataclass(frozen=True, slots=True)
class ModelWorkerPlan:
    """The processes of a run with model workers.

    ``devices`` has one per model worker; ``cpu_workers`` are those besides the workers that wait for blocks.
    """

    devices: tuple[str, ...]
    cpu_workers: int

    @property
    def workers(self) -> int:
        """Workers: a chunk that waits for its last block keeps its worker, which needs no processor then."""
        return self.cpu_workers + min(self.cpu_workers, _WAITING_WORKERS * len(self.devices))


def plan_model_workers(settings: AuditSettings, options: RunOptions) -> ModelWorkerPlan | None:
    """The model workers of a local run; None if every worker process holds the models itself.

    There are model workers if ``--model-workers`` asks for them, or ``--device`` names a GPU, but for ``--workers 1``
    and a single GPU: then one process does everything. Raises ``UsageError`` if a GPU does not exist, or the method has
    no model.
    """
    if not runs_models(resolve_method(settings.method), settings.method):
        if options.model_workers is not None or may_be_several_gpus(options.gpus):
            raise UsageError(
                f"--method {settings.method.method} has no model, so that --model-workers and several devices say "
                "nothing; leave them out"
            )
        return None
    by_default = may_be_several_gpus(options.gpus) or (bool(options.gpus) and options.workers != 1)
    if options.model_workers is None and not by_default:
        return None
    if sys.platform == "win32":
        raise UsageError("--model-workers and several devices need Linux or macOS; use --device cuda --workers 1")
    devices = (
        _existing(options.gpus) if may_be_several_gpus(options.gpus) else (*options.gpus,) or (settings.model.device,)
    )
    count = options.model_workers or len(devices)
    if count < len(devices):
        raise UsageError(
            f"--model-workers should be at least the number of devices, {len(devices)}, was: {count}; name fewer in "
            "--device"
        )
    cpu_workers = options.workers or len(os.sched_getaffinity(0))
    return ModelWorkerPlan(tuple(islice(cycle(devices), count)), cpu_workers)


def _existing(gpus: Sequence[str]) -> tuple[str, ...]:
    """The listed GPUs by number, or all that there are; ``UsageError`` if there are none, or one does not exist."""
    count = gpu_count()
    if not count:
        raise UsageError(f"--device {','.join(gpus)}: torch finds no CUDA here; use --device cpu")
    if list(gpus) == [ALL_GPUS]:
        return tuple(f"cuda:{number}" for number in range(count))
    missing = [name for name in gpus if int(name.partition(":")[2] or 0) >= count]
    if missing:
        existing = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise UsageError(f"--device {','.join(gpus)}: there is no {' and no '.join(missing)}, torch finds {existing}")
    return tuple(gpus)


def gpu_count() -> int:
    """Number of GPUs that torch finds; ``UsageError`` if torch cannot be loaded."""
    count = _printed("-c", "import torch; print(torch.cuda.device_count())")
    if count is None:
        raise UsageError("the number of GPUs cannot be found, because torch cannot be loaded; use --device cpu")
    return int(count)


def _printed(*arguments: str, **more: Any) -> str | None:
    """What another process of Python prints, so that the driver need not load torch; None if it fails."""
    command, silent = [sys.executable, *arguments], subprocess.DEVNULL
    asked = subprocess.run(command, stdout=subprocess.PIPE, stderr=silent, text=True, check=False, **more)
    return None if asked.returncode else asked.stdout


_ASKED_WITH = ("model", "revision", "quantization", "device", "attribution_config", "trust_remote_code")


def with_auto_dtype(
    settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> tuple[AuditSettings, RunOptions]:
    """``settings`` with the dtype that "auto" means in this run, and ``options`` that say why; prints what was chosen.

    It is chosen for the model, and by the same rule for the decoder of a verdict's probe. A run that continues an
    ``earlier`` one of the same model keeps that one's choice, on whatever machine. Both stay as they are if there is
    nothing to choose: "auto" is then float32 on a CPU, and the model's own precision on a GPU.
    """
    earlier = None if options.overwrite else earlier
    needs, model = resolve_method(settings.method).needs, settings.model
    decoder = decoder_to_choose_for(model, settings.method, needs)
    if model.dtype == AUTO_DTYPE:
        candidate = model if may_use_half_precision(needs) and model.model != BUNDLED_MODEL_NAME else None
        choice = _earlier_choice("model", "dtype", settings, options, earlier) or _choice(candidate, settings, options)
        if choice[0] is not None:
            settings = replace(settings, model=model.replaced(dtype=choice[0]))
            options = options.replaced(dtype_choice=choice[1])
    if decoder is not None:
        name = "language_model_dtype"
        choice = _earlier_choice("method", name, settings, options, earlier) or _choice(
            decoder, settings, options, " for the language model"
        )
        dtype = choice[0] or AUTO_DTYPE  # it is told, lest it should take the model's
        settings = replace(settings, method=settings.method.replaced(language_model_dtype=dtype))
        options = options.replaced(language_model_dtype_choice=choice[1]) if choice[1] else options
    return settings, options


_Choice = tuple[str, str] | tuple[None, None]
"""A dtype and what to record of it; None twice where there is nothing to choose."""


def _earlier_choice(
    group: str, name: str, settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> _Choice | None:
    """What the run that is continued chose for the option ``name``; None where it asked for something else."""
    if earlier is None:
        return None
    before, asked, run = earlier.options.get(group), plain_settings(settings)[group], earlier.options.get("run")
    if not isinstance(before, dict) or not isinstance(asked, dict) or name not in earlier.models:
        return None
    why, dtype = run.get(f"{name}_choice") if isinstance(run, dict) else None, earlier.models[name]
    had_no_choice = (
        before.get(name) is None and dtype == "float32" if group == "model" else before.get(name) == AUTO_DTYPE
    )
    if (why is None and not had_no_choice) or {**asked, name: None} != {**before, name: None}:
        return None
    if why is not None and dtype != "float32" and dtype not in half_precision_instructions():
        options.messages.say(
            f"--dtype auto keeps {dtype}, in which this audit was started, but this processor has no instructions "
            f"for products in {dtype}, which may take many times as long; --dtype float32 does all rows again"
        )
    return (None, None) if why is None else (dtype, why)


def _choice(model: ModelOptions | None, settings: AuditSettings, options: RunOptions, of: str = "") -> _Choice:
    on_cpu = model is not None and (model.device == "cpu" or (model.device == "auto" and not has_gpu()))
    may_choose = on_cpu and half_precision_instructions()
    chosen = _chosen(model, threads=settings.threads) if model is not None and may_choose else None
    if chosen is None:
        return None, None
    options.messages.say(f"--dtype auto chooses {chosen[0]}{of}: {chosen[1]}")
    return chosen[0], f"{chosen[0]}: {chosen[1]}"


def _chosen(model: ModelOptions, *, threads: int) -> tuple[str, str] | None:
    """The dtype and the reason; None if there is nothing to choose, or the model cannot be read, as workers will say.

    The process that looks has as many threads as a worker.
    """
    options = json.dumps({name: value for name, value in model.explicit().items() if name in _ASKED_WITH})
    environment = {**os.environ, **thread_environment(threads)}
    printed = _printed("-m", "attribeam.attribution.models.precision", input=options, env=environment)
    choice = None if printed is None else json.loads(printed.splitlines()[-1])
    return None if choice is None else (choice["dtype"], choice["reason"])
