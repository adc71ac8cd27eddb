"""The messages between the driver and its workers: rows to audit, and their outcomes.

This module imports no model library, because the driver loads no models.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.schemas.passage_sample import PassageEnd
from attribeam.schemas.run_manifest import AuditCounts, OutputFile, ReadingNote, StageSeconds


@dataclass(frozen=True, slots=True)
class ChunkAttempt:
    """A chunk that was audited and reconciled but not yet committed; files are relative to ``folder``."""

    folder: str
    evidence: OutputFile
    dead_letters: OutputFile
    counts: AuditCounts
    seconds: float
    stages: tuple[StageSeconds, ...] = ()
    passage_sample: tuple[PassageEnd, ...] = ()
    notes: tuple[ReadingNote, ...] = ()


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
    """A process ended silently on a worker's rows: the worker, or a model worker, of which the worker tells.

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
