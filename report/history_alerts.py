"""Finds what moved in a history of audits: a share that left the range that the audits before it let one expect.

A range is the mean of up to fourteen finished audits before, and as much to both sides that 99.73% of shares that did
not change lie within it: three standard errors, if only chance moves a share from night to night, or Student's factor
times the spread of the nights before, if that is more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

BEFORE = 14
_LIMIT = 3.0
_STUDENT = (6.62, 5.51, 4.90, 4.53, 4.28, 4.09, 3.96, 3.85, 3.76, 3.69)
"""The same limit for a spread that 5, 6, ... and 14 nights tell: quantiles of Student's distribution."""

_FEWEST_NIGHTS = 5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """Where a share should lie by the ``audits`` audits before; ``changed`` if these had another configuration."""

    low: float
    high: float
    audits: int
    changed: bool = False

    def holds(self, share: float) -> bool:
        """Whether a share is in the range."""
        return self.low <= share <= self.high


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to look at; ``kind`` is "worse", "better", "gate" or "broken"."""

    entry: AuditEntry
    kind: str
    text: str
    metric: str = ""


def expected_ranges(entries: Sequence[AuditEntry], metric: str) -> list[ExpectedRange | None]:
    """Where ``metric`` of each audit should lie by those before it, oldest first; None where nobody can tell.

    An audit outside its range says nothing about later ones, unless the next is outside too: then these two begin a
    new level. Audits of the same configuration are compared where there are some. Without standard errors, five audits
    are needed.
    """
    ranges: list[ExpectedRange | None] = []
    calm: list[AuditEntry] = []
    outside: list[AuditEntry] = []
    for entry in entries:
        expected = _expected_range(calm, entry, metric)
        ranges.append(expected)
        if not entry.is_done or metric not in entry.metrics:
            continue
        if expected is None or expected.holds(entry.metrics[metric]):
            calm, outside = [*calm, entry], []
        elif outside:
            calm, outside = [*outside, entry], []
        else:
            outside = [entry]
    return ranges


def _expected_range(before: Sequence[AuditEntry], entry: AuditEntry, metric: str) -> ExpectedRange | None:
    same = [one for one in before if one.configuration == entry.configuration]
    reference = (same or before)[-BEFORE:]
    if not reference or not entry.is_done or metric not in entry.metrics:
        return None
    count = len(reference)
    values = [one.metrics[metric] for one in reference]
    reaches = [_LIMIT * sqrt(one) for one in _chance(reference, entry, metric)]
    if count >= _FEWEST_NIGHTS:
        reaches.append(_STUDENT[count - _FEWEST_NIGHTS] * sqrt(variance(values) * (1 + 1 / count)))
    if not reaches:
        return None
    middle, reach = fmean(values), max(reaches) + _ROUNDING
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
    ranges = {metric: expected_ranges(entries, metric) for metric in WATCHED}
    return [
        alert
        for place, entry in enumerate(entries)
        for alert in _alerts_of(entry, {metric: of_all[place] for metric, of_all in ranges.items()})
    ]


def _alerts_of(entry: AuditEntry, ranges: Mapping[str, ExpectedRange | None]) -> Iterator[Alert]:
    if entry.status == DAMAGED:
        yield Alert(entry, "broken", f"is damaged: {entry.note}")
        return
    if not entry.is_done:
        yield Alert(entry, "broken", f"is not complete, its status is {entry.status}")
        return
    if entry.note:
        yield Alert(entry, "broken", entry.note)
    yield from (Alert(entry, "gate", f"failed the gate {gate}") for gate in entry.failed_gates)
    for metric, expected in ranges.items():
        value = entry.metrics.get(metric)
        if expected is not None and value is not None and not expected.holds(value):
            kind = "worse" if value > expected.high else "better"
            yield Alert(entry, kind, _moved(WATCHED[metric], value, expected), metric)


def _moved(words: str, value: float, expected: ExpectedRange) -> str:
    by = f"{expected.audits} audits before" if expected.audits > 1 else "audit before"
    changed = ", which had other options, models or versions" * expected.changed
    return f"{words} {value:.2%}, where {expected.low:.2%} to {expected.high:.2%} was expected by the {by}{changed}"
