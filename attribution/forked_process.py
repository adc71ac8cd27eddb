"""How many threads torch has while an attributor works.

In a process that was forked from one with an attributor it has one: the others stayed in the parent, and a pass that
needs them would wait for them forever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from attribeam.schemas.errors import UsageError

_first_process: int | None = None
_lock = Lock()
_users, _before = 0, 1


def settle_after_fork(threads: int | None = None) -> None:
    """Remember the first process that calls this, and let torch have one thread in each that is forked from it.

    Raises:
        UsageError: if ``threads``, which are asked for, are more than one in a forked process.
    """
    global _first_process
    if _first_process is None:
        _first_process = os.getpid()
    if _first_process == os.getpid():
        return
    if threads is not None and threads > 1:
        raise UsageError(
            f"threads should be 1 in a process that was forked from one with an Attributor, was: {threads}; start "
            "processes with spawn, which may have more"
        )
    import torch

    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch have this many threads inside; afterwards it has as many as before. None leaves its own.

    Several of a process's threads may be inside at once: the number that the first of them found is the one before.
    """
    global _users, _before
    settle_after_fork()
    if threads is None or _first_process != os.getpid():
        yield
        return
    import torch

    with _lock:
        _before = _before if _users else torch.get_num_threads()
        _users += 1
        before = _before
    try:
        torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)
        with _lock:
            _users -= 1
