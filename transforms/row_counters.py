"""The counters of a run, in the namespace "attribeam"."""

from __future__ import annotations

from collections.abc import Iterable

from apache_beam.metrics import Metrics

from schemas import Reason, SpanEvidence
from transforms.row_progress import rows_finished

NAMESPACE = "attribeam"
ROWS_READ = "rows_read"
ROWS_AUDITED = "rows_audited"
ROWS_DEAD_LETTERED = "rows_dead_lettered"
SPANS = "spans"
TOKENS = "tokens"


def count_row_read() -> None:
    """One more row of the input, faulty or not."""
    Metrics.counter(NAMESPACE, ROWS_READ).inc()


def count_dead_letter(reason: Reason) -> None:
    """One more dead letter, in all ("rows_dead_lettered") and of its reason ("rows_dead_lettered.empty_answer")."""
    Metrics.counter(NAMESPACE, ROWS_DEAD_LETTERED).inc()
    Metrics.counter(NAMESPACE, f"{ROWS_DEAD_LETTERED}.{reason}").inc()
    rows_finished(1)


def count_audited_row(tokens: int, spans: Iterable[SpanEvidence]) -> None:
    """One more audited row with its tokens (prompt and response) and its spans, in all and by support."""
    Metrics.counter(NAMESPACE, ROWS_AUDITED).inc()
    Metrics.counter(NAMESPACE, TOKENS).inc(tokens)
    for span in spans:
        Metrics.counter(NAMESPACE, SPANS).inc()
        Metrics.counter(NAMESPACE, f"{SPANS}.{span.support}").inc()
    rows_finished(1)
