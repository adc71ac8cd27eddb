"""How Ctrl-C, SIGTERM and SIGHUP end a run: once, so that it can record how it ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first Ctrl-C, SIGTERM or SIGHUP, and ignore all later ones.

    So nothing keeps the block from recording how the run ended. A signal that was ignored before, such as SIGHUP under
    ``nohup``, stays ignored.
    """

    def interrupt(_: int, __: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: handler for number in _ENDINGS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
