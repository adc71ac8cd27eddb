"""Counters of runners that report attempted values only, committed values only, or none at all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from apache_beam.metrics.execution import MetricKey, MetricResult
from apache_beam.metrics.metricbase import MetricName

from pipeline.beam_counters import counter_sum
from transforms.row_counters import NAMESPACE


def _result(*values: tuple[str, int | None, int | None]) -> SimpleNamespace:
    """A finished run with counters given as name, committed, attempted; each from a step of its own."""
    counters = [
        MetricResult(MetricKey(f"step {place}", MetricName(NAMESPACE, name)), committed, attempted)
        for place, (name, committed, attempted) in enumerate(values)
    ]
    return SimpleNamespace(metrics=lambda: SimpleNamespace(query=lambda _: {"counters": counters}))


@pytest.mark.parametrize("values", [(None, 5), (5, None), (5, 9)])
def test_the_committed_value_counts_where_there_is_one(values: tuple[int | None, int | None]) -> None:
    assert counter_sum(_result(("tokens", *values), ("tokens", *values), ("spans", 100, 100)), "tokens") == 10


@pytest.mark.parametrize("values", [(None, None), (0, None), (None, 0)])
def test_a_step_that_counted_nothing_adds_nothing(values: tuple[int | None, int | None]) -> None:
    assert counter_sum(_result(("tokens", *values), ("tokens", 3, None)), "tokens") == 3


def test_without_any_counters_the_sum_is_unknown() -> None:
    assert counter_sum(_result(), "tokens") is None
