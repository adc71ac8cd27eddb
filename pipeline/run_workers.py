"""The workers of a run: how many there are, the first of them, and what the end of one means."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from pipeline.failures import GO_ON, AuditError
from pipeline.run_options import RunOptions
from pipeline.worker_messages import ModelsLoaded, WorkerDied, WorkerFailed
from pipeline.worker_pool import Worker, WorkerPool

_TICK_SECONDS = 1.0


def worker_count(options: RunOptions, models: Mapping[str, str]) -> int:
    """Number of processes; by default one a CPU, or one in all where the model runs on a GPU."""
    if options.workers is not None:
        return options.workers
    return len(os.sched_getaffinity(0)) if models["device"] == "cpu" else 1


def load_first(pool: WorkerPool) -> tuple[Worker, Mapping[str, str]]:
    """Start one worker and wait until its models are loaded; returns it and the models' provenance.

    Raises:
        AuditError: if they cannot be loaded.
    """
    worker = pool.start()
    while True:
        for _, message in pool.messages(timeout=_TICK_SECONDS):
            if isinstance(message, ModelsLoaded):
                return worker, message.models
            raise AuditError(last_words(message, "while the models were loaded"))


def last_words(message: object, when: str) -> str:
    """What a worker's last message means to the user."""
    if isinstance(message, WorkerFailed):
        return message.explanation
    if isinstance(message, WorkerDied):
        code = message.exit_code
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return f"a worker process ended by {how} {when}; if the system ran out of memory, try fewer --workers. {GO_ON}"
    return f"a worker process said {type(message).__name__} {when}, which was not expected"
