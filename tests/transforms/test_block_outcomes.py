"""The outcomes of a block that the model works on in a thread of its own."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import torch

from attribution.settings import UnionSettings
from attribution.token_attribution import TokenAttribution
from schemas import Reason, RowFault
from transforms.attribute_rows import works_ahead
from transforms.audit_row import AttributedBlock
from transforms.block_outcomes import Outcome, outcomes_of
from transforms.stage_clock import take_stage_seconds


def attributed() -> list[Outcome]:
    empty = np.zeros((0, 4), np.float32)
    return [TokenAttribution(empty.astype(np.int32), empty, empty, empty[:, 0]), RowFault(Reason.OUT_OF_MEMORY, "big")]


def test_outcomes_at_hand_are_not_on_their_way() -> None:
    outcomes = outcomes_of(attributed, ahead=False)
    assert not outcomes.on_their_way
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

    blocks = [outcomes_of(first, ahead=True), outcomes_of(second, ahead=True)]
    assert all(block.on_their_way for block in blocks)
    assert order == []
    may_go_on.set()
    assert [len(block.wait()) for block in blocks] == [0, 2]
    assert order == ["first", "second"]


def test_block_goes_to_another_process_with_its_outcomes() -> None:
    block = AttributedBlock((), outcomes_of(attributed, ahead=True), UnionSettings())
    found = pickle.loads(pickle.dumps(block)).outcomes
    assert not found.on_their_way
    assert [isinstance(one, RowFault) for one in found.wait()] == [False, True]


def test_time_of_the_models_thread_counts_for_its_stage() -> None:
    take_stage_seconds()
    outcomes_of(lambda: [RowFault(Reason.OUT_OF_MEMORY, str(sum(range(200_000))))], ahead=True).wait()
    (found,) = take_stage_seconds()
    assert found.stage == "attribute"
    assert found.cpu_seconds > 0


def test_model_works_ahead_on_a_gpu_only() -> None:
    assert works_ahead(torch.device("cuda", 0))
    assert not works_ahead(torch.device("cpu"))
