import pytest

from schemas.run_manifest import StageSeconds, sum_stage_seconds
from transforms.stage_clock import stage, take_stage_seconds


@pytest.fixture(autouse=True)
def _fresh_clock() -> None:
    take_stage_seconds()


def test_stages_stand_in_the_order_of_the_graph_and_are_taken_once() -> None:
    for name in ("write", "parse", "read", "parse"):
        with stage(name):
            pass
    assert [one.stage for one in take_stage_seconds()] == ["read", "parse", "write"]
    assert take_stage_seconds() == ()


def test_work_that_fails_counts() -> None:
    with pytest.raises(ValueError, match="no"), stage("parse"):
        raise ValueError("no")
    (parse,) = take_stage_seconds()
    assert parse.wall_seconds >= 0


def test_seconds_of_chunks_are_summed_a_stage() -> None:
    chunks = [(StageSeconds("read", 1.0, 0.5),), (StageSeconds("read", 2.0, 0.25), StageSeconds("write", 1.0, 1.0))]
    assert sum_stage_seconds(chunks) == (StageSeconds("read", 3.0, 0.75), StageSeconds("write", 1.0, 1.0))
