"""Stopping what takes too long, in the process that runs it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class TimeIsUpError(Exception):
    """What ran inside ``time_limit`` was stopped."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Stop what runs inside after ``seconds`` of wall time, as soon as the call into torch that is under way returns.

    None is no limit. In the main thread only, and not within another limit.

    Raises:
        TimeIsUpError: where it was stopped.
    """
    if seconds is None:
        yield
        return
    earlier = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _stop(*_: object) -> NoReturn:
    raise TimeIsUpError
