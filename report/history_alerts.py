"""Finds what moved in a history of audits: a share that left the range that the audits before it let one expect.

A range is the mean of up to seven finished audits before, and three standard errors to both sides. The error is the
larger of two: what chance explains if answers are drawn anew each night, and how far these nights lie from each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

from attribeam.report.audit_history import DAMAGED, AuditEntry

WATCHED = {
    "unsupported_share": "unsupported claims",
    "weak_share": "weak claims",
    "answers_at_risk": "answers at risk",
    "mean_answer_risk": "mean answer risk",
    "dead_letter_share": "dead letters",
}
"""Shares that are watched, with their names in words; of each, less is better."""

BEFORE = 7
_LIMIT = 3.0
_FEWEST_NIGHTS = 3


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """Where a share should lie by the ``audits`` audits before; ``changed`` if these had another configuration."""

    low: float
    high: float
    audits: int
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to look at; ``kind`` is "worse", "better", "gate" or "broken"."""

    entry: AuditEntry
    kind: str
    text: str
    metric: str = ""


def expected_range(before: Sequence[AuditEntry], entry: AuditEntry, metric: str) -> ExpectedRange | None:
    """Where ``metric`` of ``entry`` should lie by the audits ``before`` it, oldest first; None where nobody can tell.

    Audits of the same configuration are compared where there are some. Without standard errors, three audits are
    needed.
    """
    known = [one for one in before if one.is_done and metric in one.metrics]
    same = [one for one in known if one.configuration == entry.configuration]
    reference = (same or known)[-BEFORE:]
    if not reference or metric not in entry.metrics:
        return None
    count = len(reference)
    values = [one.metrics[metric] for one in reference]
    spreads = [*_chance(reference, entry, metric)]
    if count >= _FEWEST_NIGHTS:
        spreads.append(variance(values) * (1 + 1 / count))
    if not spreads:
        return None
    middle, reach = fmean(values), _LIMIT * sqrt(max(spreads))
    return ExpectedRange(max(middle - reach, 0.0), min(middle + reach, 1.0), count, changed=not same)


def _chance(reference: Sequence[AuditEntry], entry: AuditEntry, metric: str) -> Iterator[float]:
    """The variance of the difference if only chance moves the share, where all errors are known."""
    errors = [one.errors.get(metric) for one in reference]
    own = entry.errors.get(metric)
    known = [error for error in errors if error is not None]
    if own is not None and len(known) == len(errors):
        yield own**2 + sum(error**2 for error in known) / len(known) ** 2


def find_alerts(entries: Sequence[AuditEntry]) -> list[Alert]:
    """All alerts of a history, oldest first."""
    return [alert for place, entry in enumerate(entries) for alert in _alerts_of(entries[:place], entry)]


def _alerts_of(before: Sequence[AuditEntry], entry: AuditEntry) -> Iterator[Alert]:
    if entry.status == DAMAGED:
        yield Alert(entry, "broken", f"is damaged: {entry.note}")
        return
    if not entry.is_done:
        yield Alert(entry, "broken", f"is not complete, its status is {entry.status}")
        return
    if entry.note:
        yield Alert(entry, "broken", entry.note)
    yield from (Alert(entry, "gate", f"failed the gate {gate}") for gate in entry.failed_gates)
    for metric, words in WATCHED.items():
        expected = expected_range(before, entry, metric)
        value = entry.metrics.get(metric)
        if expected is not None and value is not None and not expected.low <= value <= expected.high:
            kind = "worse" if value > expected.high else "better"
            yield Alert(entry, kind, _moved(words, value, expected), metric)


def _moved(words: str, value: float, expected: ExpectedRange) -> str:
    by = f"{expected.audits} audits before" if expected.audits > 1 else "audit before"
    changed = ", which had other options, models or versions" * expected.changed
    return f"{words} {value:.2%}, where {expected.low:.2%} to {expected.high:.2%} was expected by the {by}{changed}"
