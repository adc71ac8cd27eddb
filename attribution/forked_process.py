"""Torch in a process that was forked from one with an attributor: its threads stayed there, and a pass that needs them
would wait for them forever. So such a process works with one thread.
"""

from __future__ import annotations

import os

from attribeam.schemas.errors import UsageError

_first_process: int | None = None


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
