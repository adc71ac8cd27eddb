"""The unit of work: a group of rows goes through all stages as one element of a Beam pipeline.

In an audit, a group is a chunk. So it is read, audited and committed wherever a runner puts it, whatever it fuses,
retries or doubles, and its rows never meet those of another group: the files are the same, however many workers there
are. A stage is a function from a group to a group. Its rows are made when they are asked for, so that a worker holds
the rows of some blocks only, unless a runner moves the group between two stages.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from attribeam.logs.privacy import Redactor, record_secrets, without_secrets
from attribeam.schemas import DeadLetter, QARecord, RowFault, Stage
from attribeam.schemas.passage_sample import PassageEnd
from attribeam.schemas.run_manifest import StageSeconds
from attribeam.transforms.audit_settings import AuditSettings

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


_T = TypeVar("_T")


@dataclass
class RowCounts:
    """What no table tells of a group's audited rows.

    Attributes:
        tokens: of prompts and responses.
        rows_in_windows: rows that were longer than the model's context.
        rows_unread: rows that were too long for the verdict's own model, a decoder or a verifier.
        rows_asked: rows that it was asked about.
        passage_sample: of their passages.
        notes: what was noted when they were read, and of how many rows.
    """

    tokens: int = 0
    rows_in_windows: int = 0
    rows_unread: int = 0
    rows_asked: int = 0
    passage_sample: tuple[PassageEnd, ...] = ()
    notes: Counter[str] = field(default_factory=Counter)


@dataclass
class RowGroup:
    """The rows of one chunk between two stages.

    Attributes:
        chunk: what the group is of; stages only pass it on.
        rows: what the last stage makes, in the order of the input: ranges, records, rows or tables. They can be asked
            for once, and only then are the dead letters and the counts complete.
        letters: the dead letters of all stages so far.
        counts: of the audited rows.
        started: seconds since 1970 when the group was taken up.
    """

    chunk: Any
    rows: Iterable[Any]
    letters: list[DeadLetter] = field(default_factory=list)
    counts: RowCounts = field(default_factory=RowCounts)
    started: float = 0.0

    def of(self, rows: Iterable[Any]) -> RowGroup:
        """The group with the rows that a stage makes of its own."""
        return replace(self, rows=rows)

    def refuse(self, letter: DeadLetter) -> None:
        """Add a dead letter."""
        self.letters.append(letter)
        tell_rows_finished(1)

    def __getstate__(self) -> dict[str, Any]:
        self.rows = tuple(self.rows)
        return self.__dict__


def packs(
    rows: Iterable[_T], *, max_rows: int, weigh: Callable[[_T], int], max_weight: int
) -> Iterator[tuple[_T, ...]]:
    """The rows in tuples of at most ``max_rows``; one is also closed when its weight reaches ``max_weight``."""
    pack: list[_T] = []
    weight = 0
    for row in rows:
        pack.append(row)
        weight += weigh(row)
        if len(pack) >= max_rows or weight >= max_weight:
            yield tuple(pack)
            pack, weight = [], 0
    if pack:
        yield tuple(pack)


def dead_letter(record: QARecord, fault: RowFault, stage: Stage, settings: AuditSettings) -> DeadLetter:
    """The dead letter of a valid record that failed at a stage.

    What the record holds of e-mail addresses and numbers is masked in it; the rest is, when it is written.
    """
    secrets = record_secrets(record, Redactor(settings.privacy))
    return DeadLetter(
        record_id=without_secrets(record.record_id, secrets),
        source=record.source,
        stage=stage,
        reason=fault.reason,
        message=without_secrets(str(fault), secrets),
        column=fault.column,
        answer=without_secrets(record.answer, secrets) if settings.dead_letter_text else None,
    )
