"""Entry of a worker process: prepares the process, then imports what is heavy and works."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

from transforms.audit_settings import AuditSettings


def environment(threads: int) -> dict[str, str]:
    """Variables that must stand before numpy and torch are loaded: thread counts, because sums depend on them."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def run_worker(connection: Connection, settings: AuditSettings, verbose: bool) -> None:
    """Work until the driver says None or is gone; Ctrl-C is left to the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    if verbose:
        logging.basicConfig(level=logging.INFO)
    else:
        be_quiet()
    from pipeline.worker import serve

    serve(connection, settings)


def be_quiet() -> None:
    """Let libraries say nothing; what goes wrong is told to the driver."""
    logging.basicConfig(level=logging.CRITICAL)
    warnings.simplefilter("ignore")


def _end_with_parent() -> None:
    """End this process at once when the driver has died, so that nobody works for no one."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
