"""Numbers of finished rows, and the seconds of each stage, which go into manifests, never into records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from attribeam.schemas.run_manifest import StageSeconds

_row_listeners: list[Callable[[int], None]] = []


def tell_rows_finished(count: int) -> None:
    """Tell the listener, if there is one, that ``count`` more rows are finished."""
    for listener in _row_listeners:
        listener(count)


@contextmanager
def listening_for_rows(listener: Callable[[int], None]) -> Iterator[None]:
    """Call ``listener`` with the numbers of rows that finish in this process during the block."""
    _row_listeners.append(listener)
    try:
        yield
    finally:
        _row_listeners.remove(listener)


_STAGES = ("read", "encode", "parse", "attribute", "evidence", "write")
_stage_totals: dict[str, list[float]] = {}


def stage(name: str) -> AbstractContextManager[None]:
    """Add the wall and CPU time of the block to a stage; CPU time is that of all threads of the process."""
    return _timed_stage(name, time.process_time)


def thread_stage(name: str) -> AbstractContextManager[None]:
    """Like ``stage``, with the CPU time of this thread alone; one thread per stage at a time."""
    return _timed_stage(name, time.thread_time)


@contextmanager
def _timed_stage(name: str, cpu_seconds: Callable[[], float]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    try:
        yield
    finally:
        add_stage_seconds(name, time.perf_counter() - wall, cpu_seconds() - cpu)


def add_stage_seconds(name: str, wall: float, cpu: float) -> None:
    """Add time that was spent elsewhere, such as in a model's own process, to a stage."""
    total = _stage_totals.setdefault(name, [0.0, 0.0])
    total[0] += wall
    total[1] += cpu


def take_stage_seconds() -> tuple[StageSeconds, ...]:
    """The stages' seconds since the last call, in the order of the graph; idle stages are left out."""
    taken = {name: _stage_totals[name] for name in _STAGES if name in _stage_totals}
    _stage_totals.clear()
    return tuple(StageSeconds(name, round(wall, 4), round(cpu, 4)) for name, (wall, cpu) in taken.items())
