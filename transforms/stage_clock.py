"""How long each stage works in this process; times go to manifests only, never into records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from schemas.run_manifest import StageSeconds

_STAGES = ("read", "encode", "parse", "attribute", "evidence", "write")
_totals: dict[str, list[float]] = {}


def stage(name: str) -> AbstractContextManager[None]:
    """Add the wall and CPU time of the block to a stage; CPU time is that of all threads of the process."""
    return _timed(name, time.process_time)


def thread_stage(name: str) -> AbstractContextManager[None]:
    """``stage`` for work beside others: CPU time is that of the thread alone. One thread a stage at a time."""
    return _timed(name, time.thread_time)


@contextmanager
def _timed(name: str, cpu_seconds: Callable[[], float]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    try:
        yield
    finally:
        total = _totals.setdefault(name, [0.0, 0.0])
        total[0] += time.perf_counter() - wall
        total[1] += cpu_seconds() - cpu


def take_stage_seconds() -> tuple[StageSeconds, ...]:
    """The stages' seconds since the last call, in the order of the graph; those that did not work are left out."""
    taken = {name: _totals[name] for name in _STAGES if name in _totals}
    _totals.clear()
    return tuple(StageSeconds(name, round(wall, 4), round(cpu, 4)) for name, (wall, cpu) in taken.items())
