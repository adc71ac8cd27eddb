"""A group of rows: its rows are made when they are asked for, in order, and its dead letters stay with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made_audit import made_record

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.logs.privacy.redactor import MASK
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import (
    DeadLetter,
    Passage,
    QARecord,
    Reason,
    RowFault,
    RowSource,
    Stage,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.run_manifest import StageSeconds, sum_stage_seconds
from attribeam.transforms import attribute_rows
from attribeam.transforms.attribute_rows import attributed_blocks, runs_in_model_thread
from attribeam.transforms.audit_answers import RowGroupCoder
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, dead_letter, packs
from attribeam.transforms.stage_metrics import stage, take_stage_seconds
from attribeam.transforms.write_group import DEAD_LETTER_FILE, write_group

SCHEMAS = (evidence_schema(), dead_letter_schema(), PrivacySettings())


def letter(row: int) -> DeadLetter:
    return DeadLetter("x", RowSource("log", row), [*Stage][row % len(Stage)], Reason.PARSE_FAILED, "no")


def refuse_odd(group: RowGroup) -> RowGroup:
    def rows() -> Iterator[int]:
        for number in group.rows:
            if number % 2:
                group.refuse(letter(number))
            else:
                yield number

    return group.of(rows())


def test_rows_are_made_when_they_are_asked_for_and_a_runner_may_move_the_group_at_any_stage() -> None:
    coder, group = RowGroupCoder(), refuse_odd(RowGroup("chunk", iter([1, 2, 3, 4]), [letter(9)]))
    assert coder.estimate_size(group) == 1
    assert [one.source.source_row for one in group.letters] == [9]
    moved = coder.decode(coder.encode(group))
    assert (moved.chunk, moved.rows, moved.letters) == ("chunk", (2, 4), [letter(9), letter(1), letter(3)])


@given(rows=st.lists(st.integers(0, 100)), max_rows=st.integers(1, 10), max_weight=st.integers(1, 200))
def test_packs_are_the_rows_in_order_and_keep_their_bounds(rows: list[int], max_rows: int, max_weight: int) -> None:
    found = [*packs(rows, max_rows=max_rows, weigh=int, max_weight=max_weight)]
    assert [row for pack in found for row in pack] == rows
    assert all(1 <= len(pack) <= max_rows and sum(pack[:-1]) < max_weight for pack in found)


@pytest.mark.parametrize("count", [5, 1500])
def test_file_of_dead_letters_is_the_same_in_whatever_order_they_come(tmp_path: Path, count: int) -> None:
    letters = [letter(row) for row in range(count)]
    files = []
    for name, order in (("upwards", letters), ("downwards", letters[::-1])):
        (tmp_path / name).mkdir()
        write_group(RowGroup("chunk", [], order), tmp_path / name, *SCHEMAS)
        files.append(tmp_path / name / DEAD_LETTER_FILE)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert pq.read_table(files[0])["source_row"].to_pylist() == [*range(count)]


def test_a_letter_masks_what_any_text_of_its_row_shows_to_be_a_secret() -> None:
    settings = AuditSettings(privacy=PrivacySettings(redact=True), dead_letter_text=True)
    record = QARecord("482719", "My phone is 482719.", (Passage("A"),), "It is 482719.", RowSource("log.parquet", 0))
    refused = dead_letter(record, RowFault(Reason.PARSE_FAILED, "at 482719"), Stage.PARSE, settings)
    assert (refused.record_id, refused.message) == (MASK * 6, f"at {MASK * 6}")
    assert refused.answer == f"It is {MASK * 6}."


class ThreadModel:
    """Finds something in every row, in a thread, once it may."""

    settings = None

    def __init__(self) -> None:
        self.may_go_on, self.threads, self.started = threading.Event(), ThreadPoolExecutor(1), list[int]()

    def start(self, rows: Sequence[AuditRow]) -> Future[list[Any]]:
        self.started.append(len(rows))
        return self.threads.submit(lambda: [self.may_go_on.wait()] * len(rows))


def test_the_next_block_is_started_before_the_outcomes_of_the_first_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ThreadModel()
    monkeypatch.setattr(attribute_rows, "BLOCK_ROWS", 2)
    monkeypatch.setattr(attribute_rows, "_elsewhere", model)
    record = made_record(Path("log"), 0)
    rows = [AuditRow(replace(record), ParsedAnswer((), (), (), (), (), ()), (), None)] * 5
    blocks = attributed_blocks(RowGroup("chunk", iter(rows)), AuditSettings())
    first = next(blocks)
    assert (model.started, first.is_pending) == ([2, 2], True)
    model.may_go_on.set()
    assert [len(block.pairs()) for block in (first, *blocks)] == [2, 2, 1]


def test_model_works_ahead_on_a_gpu_only() -> None:
    assert runs_in_model_thread(torch.device("cuda", 0))
    assert not runs_in_model_thread(torch.device("cpu"))


def test_stages_stand_in_the_order_of_the_graph_are_taken_once_and_count_work_that_fails() -> None:
    take_stage_seconds()
    for name in ("write", "parse", "read"):
        with stage(name):
            pass
    with pytest.raises(ValueError, match="no"), stage("parse"):
        raise ValueError("no")
    assert [one.stage for one in take_stage_seconds()] == ["read", "parse", "write"]
    assert take_stage_seconds() == ()


def test_seconds_of_chunks_are_summed_a_stage() -> None:
    chunks = [(StageSeconds("read", 1.0, 0.5),), (StageSeconds("read", 2.0, 0.25), StageSeconds("write", 1.0, 1.0))]
    assert sum_stage_seconds(chunks) == (StageSeconds("read", 3.0, 0.75), StageSeconds("write", 1.0, 1.0))
