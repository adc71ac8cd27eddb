"""Beam counters and their sums after a run, numbers of finished rows, and the seconds of each stage.

Counters are in the namespace "attribeam". Seconds go into manifests, never into records.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.metrics.metricbase import Counter as BeamCounter
from apache_beam.runners.runner import PipelineResult

from attribeam.schemas import QARecord, Reason, SpanEvidence
from attribeam.schemas.passage_sample import PassageEnd, sample_passages
from attribeam.schemas.run_manifest import ReadingNote, StageSeconds

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


NAMESPACE = "attribeam"
ROWS_READ = "rows_read"
CHUNKS_COMMITTED = "chunks_committed"
ROWS_AUDITED = "rows_audited"
ROWS_DEAD_LETTERED = "rows_dead_lettered"
ANSWERS = "answers"
SPANS = "spans"
CLAIMS = "claims"
TOKENS = "tokens"
ROWS_IN_WINDOWS = "rows_in_windows"
ROWS_UNREAD = "rows_unread_by_decoder"
ROWS_ASKED = "rows_asked_of_verdict_model"


def count_row_read() -> None:
    """Count one row of the input, faulty or not."""
    _counter(ROWS_READ).inc()


def count_chunk() -> None:
    """Count one committed chunk of a distributed run."""
    _counter(CHUNKS_COMMITTED).inc()


def count_dead_letter(reason: Reason) -> None:
    """Count one dead letter, in total ("rows_dead_lettered") and by reason ("rows_dead_lettered.empty_answer")."""
    _counter(ROWS_DEAD_LETTERED).inc()
    _counter(f"{ROWS_DEAD_LETTERED}.{reason}").inc()
    tell_rows_finished(1)


def count_audited_rows(
    rows: Sequence[Sequence[SpanEvidence]], *, tokens: int, in_windows: int, unread: int, asked: int
) -> None:
    """Count audited rows, in total and by kind of answer, their tokens, and their spans and claims by support.

    Tokens are those of prompts and responses. ``in_windows`` of the rows were longer than the model's context,
    ``unread`` too long for the verdict's own model, a decoder or a verifier, which was ``asked`` about these.
    """
    _counter(ROWS_AUDITED).inc(len(rows))
    _counter(TOKENS).inc(tokens)
    _counter(ROWS_IN_WINDOWS).inc(in_windows)
    _counter(ROWS_UNREAD).inc(unread)
    _counter(ROWS_ASKED).inc(asked)
    _count_by(ANSWERS, Counter(spans[0].answer_kind for spans in rows if spans))
    _count_by(SPANS, Counter(span.support for spans in rows for span in spans))
    _count_by(CLAIMS, Counter(span.support for spans in rows for span in spans if span.is_counted))
    tell_rows_finished(len(rows))


def _count_by(name: str, numbers: Mapping[str, int]) -> None:
    """Count in total ("spans") and by kind ("spans.weak")."""
    _counter(name).inc(sum(numbers.values()))
    for kind, number in numbers.items():
        _counter(f"{name}.{kind}").inc(number)


@lru_cache(maxsize=64)
def _counter(name: str) -> BeamCounter:
    counter: BeamCounter = Metrics.counter(NAMESPACE, name)
    return counter


def counter_sum(result: PipelineResult, name: str) -> int | None:
    """The sum of one of our counters over all steps; None if the runner reports none of them.

    Some runners, such as the local one, report attempted values only; others, such as the portable job service,
    committed values only. The committed value is preferred.
    """
    counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return sum(one.result or 0 for one in counters if one.key.metric.name == name) if counters else None


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """What is told of audited rows from their records: a sample of their passages, and the notes, with their rows."""

    passage_sample: tuple[PassageEnd, ...] = ()
    notes: tuple[ReadingNote, ...] = ()

    def with_records(self, records: Sequence[QARecord]) -> RecordsSeen:
        """With further records."""
        notes = Counter({one.note: one.rows for one in self.notes})
        notes.update(chain.from_iterable(record.notes for record in records))
        texts = (passage.text for record in records for passage in record.passages)
        return RecordsSeen(
            sample_passages(texts, self.passage_sample),
            tuple(ReadingNote(note, rows) for note, rows in sorted(notes.items())),
        )


_seen = [RecordsSeen()]


def see_records(records: Sequence[QARecord]) -> None:
    """Add to what this process has seen of audited rows."""
    _seen[0] = _seen[0].with_records(records)


def take_seen() -> RecordsSeen:
    """What was seen since the last call."""
    taken, _seen[0] = _seen[0], RecordsSeen()
    return taken


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What no table tells of audited rows; None where it was not counted.

    Attributes:
        tokens: of prompts and responses.
        rows_in_windows: rows that were longer than the model's context.
        rows_unread: rows that were too long for the verdict's own model, a decoder or a verifier.
        rows_asked: rows that it was asked about.
        seen: what their texts tell.
    """

    tokens: int | None = None
    rows_in_windows: int | None = None
    rows_unread: int | None = None
    rows_asked: int | None = None
    seen: RecordsSeen = RecordsSeen()


def token_counts(result: PipelineResult, *, encoded: bool, probed: bool) -> TokenCounts:
    """The counts of a run in this process; None for tokens that are not ``encoded``, and without counters of ours.

    Those of the verdict's own model are None if it has none, so that no row is ``probed``.
    """
    return TokenCounts(
        tokens=counter_sum(result, TOKENS) if encoded else None,
        rows_in_windows=counter_sum(result, ROWS_IN_WINDOWS) if encoded else None,
        rows_unread=counter_sum(result, ROWS_UNREAD) if probed else None,
        rows_asked=counter_sum(result, ROWS_ASKED) if probed else None,
        seen=take_seen(),
    )


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
