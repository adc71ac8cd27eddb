"""The messages between the driver and its workers: rows to audit, and their outcomes.

This module imports no model library, because the driver loads no models.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from attribeam.attribution.evidence.union_results import MethodError
from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.output_directory import FULL_DISK
from attribeam.schemas.errors import (
    AttribeamError,
    LeakError,
    ModelLoadError,
    ModelUnavailableError,
    UsageError,
)
from attribeam.transforms.audit_settings import AuditSettings


@dataclass(frozen=True, slots=True)
class RunRows:
    """To a worker: audit these rows into ``folder``.

    ``fatal_rows`` become dead letters without being audited; the value says how each ended a worker: "signal SIGKILL".
    None before the last try, see ``ReadQALogs``.
    """

    rows: RowRange
    schemas: OutputSchemas
    folder: str
    fatal_rows: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class ModelsLoaded:
    """From a worker or model worker, once: its models are ready; ``models`` is their provenance.

    ``settings`` are the method's options merged with a model worker's; None without an attention model.
    """

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


OUT_OF_MEMORY = errno.ENOMEM
"""The exit code of a process that was refused memory: it ends then, as it does where the kernel kills it instead."""


WORKER, MODEL_WORKER = "a worker process", "a model worker"


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A process ended silently: a worker, or the model worker that had its rows.

    ``exit_code`` is negative for a signal.
    """

    exit_code: int | None
    who: str = WORKER

    @property
    def how(self) -> str:
        """``signal SIGKILL``, ``a lack of memory`` or ``exit code 1``."""
        if self.exit_code == OUT_OF_MEMORY:
            return "a lack of memory"
        if self.exit_code is not None and self.exit_code < 0:
            return f"signal {signal.Signals(-self.exit_code).name}"
        return f"exit code {self.exit_code}"


RESUME_HINT = "Finished chunks are kept; start the same command again to go on."


def is_disk_full(error: BaseException) -> bool:
    """Whether a full disk or quota is the cause, even if a library has turned the cause into text."""
    if isinstance(error, OSError) and error.errno in FULL_DISK:
        return True
    return any(os.strerror(code) in str(error) for code in FULL_DISK)


_REFUSALS = (os.strerror(errno.ENOMEM), "can't allocate memory", "bad_alloc", "can't start new thread")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the system has refused memory, even if a library has turned the cause into text."""
    return isinstance(error, MemoryError) or any(text in _message(error) for text in _REFUSALS)


def row_text(rows: RowRange) -> str:
    """``rows 0 to 500 of 'logs/a.parquet'``."""
    return f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"


def describe_rows(rows: RowRange) -> str:
    """``at rows 0 to 500 of 'logs/a.parquet'``."""
    return f"at {row_text(rows)}"


def describe_failure(message: object, when: str) -> str:
    """What a worker's last message means to the user."""
    if isinstance(message, WorkerFailed):
        return message.explanation
    if isinstance(message, WorkerDied):
        return describe_death(message, when)
    return f"a worker process unexpectedly sent {type(message).__name__} {when}; please report this"


def describe_death(death: WorkerDied, when: str) -> str:
    """What the end of a process means to the user."""
    out = (
        "if the system ran out of memory, try fewer --workers"
        if death.who == WORKER
        else "if memory ran out, try fewer --model-workers"
    )
    return f"{death.who} ended by {death.how} {when}; {out}. {RESUME_HINT}"


_MAX_REASON_CHARS = 600


def is_load_refusal(error: BaseException | None) -> bool:
    """Whether models that raised this while they were loaded cannot be loaded as asked, however often it is tried."""
    causes: list[BaseException] = []
    while error is not None:
        causes.append(error)
        error = error.__cause__
    passing = (ModelUnavailableError, MemoryError, ConnectionError, TimeoutError)
    if any(isinstance(cause, passing) or is_disk_full(cause) for cause in causes):
        return False
    return isinstance(causes[0], ModelLoadError | UsageError | OSError | ValueError | ImportError)


def explain_load_failure(error: BaseException, settings: AuditSettings) -> str:
    """Why the models cannot be loaded."""
    if isinstance(error, ModelLoadError):
        return f"the attributor cannot be loaded: {error}"
    if isinstance(error, UsageError):
        return str(error)
    model, parser = settings.model.model, settings.parser
    return f"the models cannot be loaded (--model {model!r}, --parser {parser!r}): {_message(error)}"


def explain_chunk_failure(error: BaseException, rows: RowRange, *, hides: bool = False) -> str:
    """Why rows could not be audited, and the way out for this kind of failure.

    Messages of libraries may hold text of a row; with ``hides``, the kind of error stands for them.
    """
    where = row_text(rows)
    if isinstance(error, LeakError):
        return f"{error}. {RESUME_HINT}"
    reason = _message(error)
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
