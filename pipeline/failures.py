"""What to tell the user about a failed run: why, where, and the way out."""

from __future__ import annotations

import errno
import os

from attribeam.attribution.evidence.union_results import MethodError
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.output_directory import FULL_DISK
from attribeam.pipeline.chunks.worker_messages import WORKER, WorkerDied, WorkerFailed
from attribeam.schemas.errors import (
    AttribeamError,
    LeakError,
    ModelLoadError,
    ModelUnavailableError,
    RunError,
    UsageError,
)
from attribeam.transforms.audit_settings import AuditSettings

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


class ModelWorkersError(RunError):
    """Model workers cannot go on; the message is the whole paragraph for the user."""


_MAX_REASON_CHARS = 600


def is_load_refusal(error: BaseException | None) -> bool:
    """Whether models that raised this while they were loaded cannot be loaded as asked, however often it is tried."""
    causes: list[BaseException] = []
    while error is not None:
        causes.append(error)
        error = error.__cause__
    passing = (ModelUnavailableError, ModelWorkersError, MemoryError, ConnectionError, TimeoutError)
    if any(isinstance(one, passing) or is_disk_full(one) for one in causes):
        return False
    return isinstance(causes[0], ModelLoadError | UsageError | OSError | ValueError | ImportError)


def explain_load_failure(error: BaseException, settings: AuditSettings) -> str:
    """Why the models cannot be loaded."""
    if isinstance(error, ModelWorkersError):
        return str(error)
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
    if isinstance(error, ModelWorkersError):
        return str(error)
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
