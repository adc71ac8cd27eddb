"""Sums of Beam's counters after a run."""

from __future__ import annotations

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.runner import PipelineResult

from transforms.row_counters import NAMESPACE


def counter_sum(result: PipelineResult, name: str) -> int | None:
    """The sum of one of our counters over all steps; None where the runner reports no counters of ours.

    The committed value counts; runners that do not know it, such as the local one, report an attempted value only,
    and others, such as the portable job service, a committed value only.
    """
    counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return sum(one.result or 0 for one in counters if one.key.metric.name == name) if counters else None
