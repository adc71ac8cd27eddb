"""The model of cost: its arithmetic."""

from __future__ import annotations

import pytest

from attribeam.lab.benchmarks.cluster_cost import RowCost

RUN = {
    "rows": 1000,
    "cluster_seconds": 40.0,
    "stage_ms": {"read": 1.0, "parse": 9.0, "attribute": 20.0, "evidence": 10.0},
    "log_bytes": 3_000_000,
    "output_bytes": 2_000_000,
    "shuffled_bytes": 1000,
}


def test_what_the_stages_do_not_explain_is_start_up() -> None:
    cost = RowCost.measured(RUN, workers=2)
    assert (cost.cpu_ms, cost.model_ms) == (20.0, 20.0)
    assert cost.start_seconds == pytest.approx(40.0 - 1000 * 0.040 / 2)
    assert (cost.read_bytes, cost.written_bytes, cost.shuffled_bytes) == (3000, 2000, 1)
    assert cost.seconds(1000, workers=2) == pytest.approx(RUN["cluster_seconds"])


def test_the_workers_that_are_named_finish_in_time_and_one_fewer_do_not() -> None:
    cost = RowCost.measured(RUN, workers=2)
    workers = cost.workers(10**8, hours=8)
    assert cost.seconds(10**8, workers=workers) <= 8 * 3600
    assert cost.seconds(10**8, workers=workers - 1) > 8 * 3600


def test_gpus_take_the_model_from_the_cores() -> None:
    cost = RowCost(cpu_ms=20, model_ms=100, start_seconds=0, read_bytes=0, written_bytes=0, shuffled_bytes=0)
    assert cost.with_gpus(3_600_000, hours=1, gpu_ms=2.0) == (20, 2)
    assert cost.workers(3_600_000, hours=1) == 120


def test_an_hour_shorter_than_the_start_up_is_refused() -> None:
    cost = RowCost.measured(RUN, workers=2)
    with pytest.raises(ValueError, match="more than the start-up of 20 s"):
        cost.workers(1, hours=0.001)
