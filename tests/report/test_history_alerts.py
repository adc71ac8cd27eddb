"""What moved: a share outside the range that the nights before let one expect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import sqrt
from statistics import mean, stdev

import pytest
from tests.report.made_history import FIRST_NIGHT

from attribeam.report.audit_history import DAMAGED, Alert, AuditEntry, expected_ranges, find_alerts

METRIC = "unsupported_share"


def nights(
    shares: Sequence[float], *, error: float | None = 0.002, configurations: Sequence[str] = ()
) -> list[AuditEntry]:
    """An audit a night, with these shares of unsupported claims."""
    return [
        AuditEntry(
            name=f"night-{night}",
            moment=FIRST_NIGHT + timedelta(days=night),
            status="done",
            metrics={METRIC: share},
            errors={} if error is None else {METRIC: error},
            configuration=configurations[night] if configurations else "",
        )
        for night, share in enumerate(shares)
    ]


def _moved(entries: Sequence[AuditEntry]) -> list[tuple[str, str]]:
    return [(one.entry.name, one.kind) for one in find_alerts(entries)]


def test_two_nights_are_compared_by_their_standard_errors() -> None:
    reach = 3 * sqrt(2) * 0.002
    found = expected_ranges(nights([0.05, 0.05]), METRIC)[1]
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.05 - reach), pytest.approx(0.05 + reach))
    assert _moved(nights([0.05, 0.05 + reach * 0.99])) == []
    assert _moved(nights([0.05, 0.05 + reach * 1.01])) == [("night-1", "worse")]
    assert _moved(nights([0.05, 0.05 - reach * 1.01])) == [("night-1", "better")]


def test_nights_that_differ_by_more_than_chance_widen_the_range() -> None:
    shares = [0.03, 0.07, 0.05, 0.04, 0.06]
    before = nights(shares, error=0.0001)
    found = expected_ranges([*before[:1], *nights(shares, error=None)[1:], *nights([0.05] * 6)[5:]], METRIC)[-1]
    assert found is not None
    reach = 6.62 * stdev(shares) * sqrt(1 + 1 / 5)
    assert (found.low, found.high) == (0.0, pytest.approx(mean(shares) + reach))


def test_without_errors_nobody_can_tell_before_five_nights() -> None:
    ranges = expected_ranges(nights([0.05] * 7, error=None), METRIC)
    assert [one is not None for one in ranges] == [False] * 5 + [True] * 2


def test_one_night_outside_does_not_make_the_next_ones_look_normal() -> None:
    calm = [0.050, 0.051, 0.049, 0.050, 0.052, 0.048, 0.050]
    assert _moved(nights([*calm, 0.2, 0.05, 0.2])) == [("night-7", "worse"), ("night-9", "worse")]


def test_two_nights_outside_are_a_new_level() -> None:
    shares = [0.05] * 7 + [0.2] * 5 + [0.05]
    assert _moved(nights(shares)) == [("night-7", "worse"), ("night-8", "worse"), ("night-12", "better")]


def test_another_configuration_is_compared_with_a_remark_and_then_with_its_like() -> None:
    entries = nights([0.05, 0.05, 0.2, 0.2], configurations=["a", "a", "b", "b"])
    alerts = find_alerts(entries)
    assert [one.entry.name for one in alerts] == ["night-2", "night-3"]
    assert "which had other options, models or versions" in alerts[0].text
    mixed = nights([0.05, 0.2, 0.05, 0.2], configurations=["a", "b", "a", "b"])
    assert [one.entry.name for one in find_alerts(mixed)] == ["night-1", "night-3"]


def test_what_failed_is_told_and_serves_nobody_as_reference() -> None:
    first, failed, last = nights([0.05, 0.9, 0.05])
    entries = [
        first,
        AuditEntry(failed.name, failed.moment, "failed", metrics=failed.metrics, errors=failed.errors),
        AuditEntry("damaged", failed.moment, DAMAGED, "run_manifest.json: it cannot be read"),
        last,
    ]
    assert [(one.entry.name, one.kind, one.text) for one in find_alerts(entries)] == [
        ("night-1", "broken", "is not complete, its status is failed"),
        ("damaged", "broken", "is damaged: run_manifest.json: it cannot be read"),
    ]


def test_failed_gates_and_broken_metrics_are_told() -> None:
    entry = AuditEntry("night", FIRST_NIGHT, "done", "it has no metrics.json", failed_gates=("rows < 1: 0",))
    assert find_alerts([entry]) == [
        Alert(entry, "broken", "it has no metrics.json"),
        Alert(entry, "gate", "failed the gate rows < 1: 0"),
    ]
