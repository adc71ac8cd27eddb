"""Blocks hold neighbouring rows in order, and their outcomes may come from the model's own thread."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Reason, RowFault
from attribeam.transforms.block_model import runs_in_model_thread
from attribeam.transforms.elements import AttributedBlock, Outcome, PackRows, start_outcomes
from attribeam.transforms.stage_metrics import take_stage_seconds


def blocks_of(rows: list[int], pack: PackRows) -> list[tuple[object, ...]]:
    """What one bundle of rows gives."""
    pack.start_bundle()
    blocks = [block for row in rows for block in pack.process(row)]
    return blocks + [windowed.value for windowed in pack.finish_bundle()]


@given(rows=st.lists(st.integers(0, 100)), max_rows=st.integers(1, 10), max_weight=st.none() | st.integers(1, 200))
def test_blocks_are_the_rows_in_order_and_keep_their_bounds(
    rows: list[int], max_rows: int, max_weight: int | None
) -> None:
    blocks = blocks_of(rows, PackRows(max_rows, weigh=int, max_weight=max_weight))
    assert [row for block in blocks for row in block] == rows
    assert all(1 <= len(block) <= max_rows for block in blocks)
    if max_weight is not None:
        assert all(sum(block[:-1]) < max_weight for block in blocks)  # type: ignore[arg-type]


def test_every_bundle_starts_with_an_empty_block() -> None:
    pack = PackRows(10)
    pack.start_bundle()
    list(pack.process(1))
    assert blocks_of([2, 3], pack) == [(2, 3)]


def attributed() -> list[Outcome]:
    empty = np.zeros((0, 4), np.float32)
    return [TokenAttribution(empty.astype(np.int32), empty, empty, empty[:, 0]), RowFault(Reason.OUT_OF_MEMORY, "big")]


def test_outcomes_at_hand_are_not_on_their_way() -> None:
    outcomes = start_outcomes(attributed, ahead=False)
    assert not outcomes.is_pending
    assert len(outcomes.wait()) == 2


def test_blocks_are_worked_on_one_after_the_other_while_the_caller_goes_on() -> None:
    may_go_on, order = threading.Event(), []

    def first() -> list[Outcome]:
        may_go_on.wait()
        order.append("first")
        return []

    def second() -> list[Outcome]:
        order.append("second")
        return attributed()

    blocks = [start_outcomes(first, ahead=True), start_outcomes(second, ahead=True)]
    assert all(block.is_pending for block in blocks)
    assert order == []
    may_go_on.set()
    assert [len(block.wait()) for block in blocks] == [0, 2]
    assert order == ["first", "second"]


def test_block_goes_to_another_process_with_its_outcomes() -> None:
    block = AttributedBlock((), start_outcomes(attributed, ahead=True), MethodOptions())
    found = pickle.loads(pickle.dumps(block)).outcomes
    assert not found.is_pending
    assert [isinstance(one, RowFault) for one in found.wait()] == [False, True]


def test_time_of_the_models_thread_counts_for_its_stage() -> None:
    take_stage_seconds()
    start_outcomes(lambda: [RowFault(Reason.OUT_OF_MEMORY, str(sum(range(200_000))))], ahead=True).wait()
    (found,) = take_stage_seconds()
    assert found.stage == "attribute"
    assert found.cpu_seconds > 0


def test_model_works_ahead_on_a_gpu_only() -> None:
    assert runs_in_model_thread(torch.device("cuda", 0))
    assert not runs_in_model_thread(torch.device("cpu"))
