"""How a running chunk tells of finished rows: a listener of this process that the stages call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[int], None]] = []


def rows_finished(count: int) -> None:
    """Tell the listener, if there is one, that ``count`` more rows have their outcome."""
    for listener in _listeners:
        listener(count)


@contextmanager
def reporting_rows(listener: Callable[[int], None]) -> Iterator[None]:
    """Call ``listener`` with the rows that finish in this process meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
