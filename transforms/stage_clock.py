"""How long each stage works in this process; times go to manifests only, never into records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from schemas.run_manifest import StageSeconds

_STAGES = ("read", "encode", "parse", "attribute", "evidence", "write")
_totals: dict[str, list[float]] = {}


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the wall and CPU time of the block to a stage; CPU time is that of all threads of the process."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        total = _totals.setdefault(name, [0.0, 0.0])
        total[0] += time.perf_counter() - wall
        total[1] += time.process_time() - cpu


def take_stage_seconds() -> tuple[StageSeconds, ...]:
    """The stages' seconds since the last call, in the order of the graph; those that did not work are left out."""
    taken = {name: _totals[name] for name in _STAGES if name in _totals}
    _totals.clear()
    return tuple(StageSeconds(name, round(wall, 4), round(cpu, 4)) for name, (wall, cpu) in taken.items())
