"""The counters of a run, in the namespace "attribeam"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from apache_beam.metrics import Metrics
from apache_beam.metrics.metricbase import Counter as BeamCounter

from schemas import Reason, SpanEvidence
from transforms.row_progress import rows_finished

NAMESPACE = "attribeam"
ROWS_READ = "rows_read"
ROWS_AUDITED = "rows_audited"
ROWS_DEAD_LETTERED = "rows_dead_lettered"
SPANS = "spans"
TOKENS = "tokens"
ROWS_IN_WINDOWS = "rows_in_windows"


def count_row_read() -> None:
    """One more row of the input, faulty or not."""
    _counter(ROWS_READ).inc()


def count_dead_letter(reason: Reason) -> None:
    """One more dead letter, in all ("rows_dead_lettered") and of its reason ("rows_dead_lettered.empty_answer")."""
    _counter(ROWS_DEAD_LETTERED).inc()
    _counter(f"{ROWS_DEAD_LETTERED}.{reason}").inc()
    rows_finished(1)


def count_audited_rows(rows: Sequence[Sequence[SpanEvidence]], *, tokens: int, in_windows: int) -> None:
    """More audited rows with their tokens (prompts and responses) and their spans, in all and by support.

    ``in_windows`` of the rows were longer than the model's context.
    """
    _counter(ROWS_AUDITED).inc(len(rows))
    _counter(TOKENS).inc(tokens)
    _counter(ROWS_IN_WINDOWS).inc(in_windows)
    by_support = Counter(span.support for spans in rows for span in spans)
    _counter(SPANS).inc(by_support.total())
    for support, spans in by_support.items():
        _counter(f"{SPANS}.{support}").inc(spans)
    rows_finished(len(rows))


@lru_cache(maxsize=64)
def _counter(name: str) -> BeamCounter:
    counter: BeamCounter = Metrics.counter(NAMESPACE, name)
    return counter
