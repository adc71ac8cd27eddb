"""Worker processes: how they start, end and speak, and what their ends mean to the user.

They are forked from one process that has imported what they need (the import server), or spawned. This module imports
no model library, because the driver loads no models.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from attribeam.attribution.evidence.union_results import MethodError
from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.output_directory import FULL_DISK
from attribeam.report.messages import print_library_messages
from attribeam.schemas.errors import (
    AttribeamError,
    LeakError,
    ModelLoadError,
    ModelUnavailableError,
    RunError,
    UsageError,
)
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas

RESUME_HINT = "Finished chunks are kept; start the same command again to go on."
OUT_OF_MEMORY = errno.ENOMEM
"""The exit code of a process that was refused memory: it ends then, as it does where the kernel kills it instead."""
WORKER, MODEL_WORKER = "a worker process", "a model worker"
_IMPORTS = "attribeam.pipeline.worker_imports"
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_MAX_SOCKET_BYTES = 107
_SOCKET_NAME = "/pymp-xxxxxxxx/listener-xxxxxxxx"
_PR_SET_PDEATHSIG = 1
_SIGNAL_NAMES = {number.value: number.name for number in signal.Signals}  # most of real time have none
_END_SECONDS = 10
_NEW_OBJECTS = 50_000
"""How many objects a worker makes before it looks for garbage among them: rows leave none in circles."""
_MAX_REASON_CHARS = 600
_REFUSALS = (
    *(os.strerror(errno.ENOMEM), "can't allocate memory", "bad_alloc", "can't start new thread"),
    "failed to map segment",  # a library that finds no room for its code
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunRows:
    """To a worker: audit these rows into ``folder``.

    ``fatal_rows`` become dead letters without being audited; the value says how each ended a worker: "signal SIGKILL".
    None before the last try, see ``read_rows``.
    """

    rows: RowRange
    schemas: OutputSchemas
    folder: str
    fatal_rows: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class ModelsLoaded:
    """From a worker or model worker, once: the provenance of its models, and a model worker's merged options."""

    models: Mapping[str, str]
    settings: MethodOptions | None = None


@dataclass(frozen=True, slots=True)
class BlockStep:
    """From a model worker: a block was taken, or its rows are finished; ``seconds`` since the step before it."""

    is_taken: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelWorkerDied:
    """From a worker: the model worker ``pid`` ended on a block of its rows; None if it is not known which."""

    pid: int | None


@dataclass(frozen=True, slots=True)
class RowsFinished:
    """From a worker, now and then: this many more rows of its chunk are finished."""

    count: int


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """From a worker or model worker, before it ends: one paragraph for the user.

    ``is_usage`` if the models cannot be loaded as asked.
    """

    explanation: str
    is_usage: bool = False


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A process ended silently: a worker, or the model worker that had its rows; a negative code is a signal."""

    exit_code: int | None
    who: str = WORKER

    @property
    def how(self) -> str:
        """``signal SIGKILL``, ``a lack of memory``, ``exit code 1``, or ``an unknown cause`` that nobody saw."""
        if self.exit_code is None:
            return "an unknown cause"
        if self.exit_code == OUT_OF_MEMORY:
            return "a lack of memory"
        if self.exit_code < 0:
            return f"signal {_SIGNAL_NAMES.get(-self.exit_code, -self.exit_code)}"
        return f"exit code {self.exit_code}"


def is_disk_full(error: BaseException) -> bool:
    """Whether a full disk or quota is the cause, even if a library has turned the cause into text."""
    number = error.errno if isinstance(error, OSError) else None
    return any(number == code or os.strerror(code) in str(error) for code in FULL_DISK)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the system has refused memory, even if a library has turned the cause into text."""
    return isinstance(error, MemoryError) or any(text in _message(error) for text in _REFUSALS)


def describe_rows(rows: RowRange) -> str:
    """``rows 0 to 500 of 'logs/a.parquet'``."""
    return f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"


def describe_failure(message: object, when: str) -> str:
    """What a worker's last message means to the user; ``when`` says when it came."""
    if isinstance(message, WorkerFailed):
        return message.explanation
    if not isinstance(message, WorkerDied):
        return f"a worker process unexpectedly sent {type(message).__name__} {when}; please report this"
    fewer = {WORKER: "the system ran out of memory, try fewer --workers"}
    hint = fewer.get(message.who, "memory ran out, try fewer --model-workers")
    return f"{message.who} ended by {message.how} {when}; if {hint}. {RESUME_HINT}"


def is_load_refusal(error: BaseException) -> bool:
    """Whether models that raised this while they were loaded cannot be loaded as asked, however often it is tried."""
    passing = (ModelUnavailableError, MemoryError, ConnectionError, TimeoutError)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, passing) or is_disk_full(cause) or is_out_of_memory(cause):
            return False
        cause = cause.__cause__
    return isinstance(error, ModelLoadError | UsageError | OSError | ValueError | ImportError)


def explain_load_failure(error: BaseException, settings: AuditSettings) -> str:
    """Why the models cannot be loaded."""
    if isinstance(error, ModelLoadError):
        return f"the attributor cannot be loaded: {error}"
    if isinstance(error, UsageError):
        return str(error)
    if is_out_of_memory(error):
        return f"memory ran out while the models were loaded; raise the limit, or try fewer --workers. {RESUME_HINT}"
    model, parser = settings.model.model, settings.parser
    return f"the models cannot be loaded (--model {model!r}, --parser {parser!r}): {_message(error)}"


def explain_chunk_failure(error: BaseException, rows: RowRange, *, hides: bool = False) -> str:
    """Why rows could not be audited, and the way out for this kind of failure.

    Messages of libraries may hold text of a row; with ``hides``, the kind of error stands for them.
    """
    where, reason = describe_rows(rows), _message(error)
    if isinstance(error, LeakError):
        return f"{error}. {RESUME_HINT}"
    if is_disk_full(error):
        return f"the disk is full: {where} could not be written. Free some space. {RESUME_HINT}"
    if os.strerror(errno.EFBIG) in reason:
        return (
            f"an output file would be too large for `ulimit -f` or for its file system: {where} could not be written. "
            f"Raise the limit, or choose another --output. {RESUME_HINT}"
        )
    if isinstance(error, MethodError):
        return f"{reason}. Mend the method, then start the same command again"
    if hides and not isinstance(error, AttribeamError):
        reason = f"{type(error).__name__}, whose message may hold texts"
    return (
        f"{where} could not be audited: {reason}. If the file is damaged or was changed meanwhile, replace it or leave "
        f"it out of --input; --verbose shows where it happened. {RESUME_HINT}"
    )


def _message(error: BaseException) -> str:
    """The message in one line; of an error without any, its kind."""
    return (" ".join(str(error).split()) or type(error).__name__)[:_MAX_REASON_CHARS].rstrip(".")


@dataclass(eq=False)
class Worker:
    """A process, the driver's end of its pipe, and what it is.

    Attributes:
        is_loaded: whether its models are.
        is_busy: whether a model worker has a block.
    """

    process: BaseProcess
    connection: Connection
    who: str = WORKER
    is_loaded: bool = False
    is_busy: bool = False

    def send(self, message: object) -> None:
        """Hand something over; that a process has ended shows in the next ``receive``."""
        try:
            self.connection.send(message)
        except OSError:
            self.process.join(_END_SECONDS)

    def receive(self) -> object:
        """The next message, or the ``WorkerDied`` of a process that has ended without one."""
        try:
            message: object = self.connection.recv()
        except (EOFError, OSError):
            self.connection.close()
            return self.death()
        self.is_loaded = self.is_loaded or isinstance(message, ModelsLoaded)
        return message

    def death(self) -> WorkerDied:
        """How the process ended; waits for it."""
        self.process.join(_END_SECONDS)
        return WorkerDied(self.process.exitcode, self.who)

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def start_context(*, verbose: bool) -> ForkServerContext | SpawnContext:
    """How workers start: forked from the import server if that is safe, else each on its own.

    They start on their own to show the libraries' messages (``verbose``), beside a GPU, whose driver may not survive a
    fork, outside Linux, and where the temporary folder's path is too long for the server's socket.
    """
    has_room = len(os.fsencode(tempfile.gettempdir() + _SOCKET_NAME)) <= _MAX_SOCKET_BYTES
    if verbose or sys.platform != "linux" or has_gpu() or not has_room:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_IMPORTS])
    return context


def has_gpu() -> bool:
    """Whether the driver of a GPU is installed."""
    return any(Path(driver).exists() for driver in _GPU_DRIVERS)


def start_import_server(threads: int, *, verbose: bool) -> None:
    """Start the import server unless it runs already or workers are spawned; it imports in the background.

    It ends with this process, and Ctrl-C does not reach it.
    """
    if isinstance(start_context(verbose=verbose), ForkServerContext):
        resource_tracker.ensure_running()  # it would unblock signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _environment(threads):
                forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@atexit.register
def stop_import_server() -> None:
    """End the import server of this process at once, if it runs, and its workers with it.

    It is waited for, so that its time is that of this process's children. It has no public name; where it has another
    one, it ends with this process all the same.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_forkserver_pid", None) is not None:
        os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()


def start_process(
    target: Callable[..., None],
    *arguments: object,
    settings: AuditSettings,
    verbose: bool,
    name: str,
    who: str = WORKER,
) -> Worker:
    """Run ``target(connection, settings, *arguments)`` in a new process.

    Raises ``RunError`` if the import server has ended.
    """
    context = start_context(verbose=verbose)
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(target, theirs, settings, verbose, *arguments), daemon=True, name=name)
    try:
        start_import_server(settings.threads, verbose=verbose)
        with theirs, _environment(settings.threads):
            process.start()
    except (EOFError, ConnectionError) as error:
        raise RunError(
            "the process that workers are forked from ended before it had imported what they need; with --verbose "
            f"workers start without it and show why. {RESUME_HINT}"
        ) from error
    return Worker(process, ours, who)


def _run(
    target: Callable[..., None], connection: Connection, settings: AuditSettings, verbose: bool, *arguments: object
) -> None:
    """Leave Ctrl-C to the driver, end with it, and let libraries speak only if they are asked to.

    Where texts are hidden they are silent all the same, because their messages may hold some.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_driver()
    if verbose and not settings.privacy.hides:
        print_library_messages(logging.INFO)
    else:
        silence_libraries()
    serve(target, connection, settings, *arguments)


def serve(target: Callable[..., None], *arguments: object) -> None:
    """Call ``target`` until the driver has no use for it; end at once, whatever threads do, if memory is refused."""
    try:
        target(*arguments)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        return
    except (MemoryError, ImportError) as error:
        if not is_out_of_memory(error):
            raise
        os._exit(OUT_OF_MEMORY)


def thread_environment(threads: int) -> dict[str, str]:
    """Variables to set before numpy and torch load: numbers of threads, because sums depend on them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def load_or_report(connection: Connection, settings: AuditSettings, load: Callable[[], _T]) -> _T | None:
    """In a worker: what ``load`` loads; None if it cannot, of which the driver was told."""
    gc.disable()
    try:
        loaded = load()
    except Exception as error:
        logging.info("the models could not be loaded", exc_info=True)
        connection.send(WorkerFailed(explain_load_failure(error, settings), is_load_refusal(error)))
        return None
    gc.freeze()  # models stay; searching them for garbage again and again takes time
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()
    return loaded


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Set the workers' variables for a process that starts in the block."""
    variables = thread_environment(threads)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def silence_libraries() -> None:
    """Keep libraries from printing; workers report failures to the driver themselves."""
    print_library_messages(logging.CRITICAL)
    warnings.simplefilter("ignore")


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends; does nothing except on Linux.

    A thread could watch the parent too, but not while a library that is loading holds the interpreter's lock.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_driver() -> None:
    """End this worker as soon as its driver has ended, however that happened."""

    def wait_for_driver() -> None:
        driver: Any = parent_process()
        if driver is not None:
            wait([driver.sentinel])
            os._exit(1)

    end_with_parent()
    threading.Thread(target=wait_for_driver, name="driver-watch", daemon=True).start()
