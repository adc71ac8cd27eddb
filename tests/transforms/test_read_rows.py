"""Every row of a range is a record or a dead letter, and no text goes where nobody asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import log_row, write_log

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.read_rows import read_rows
from attribeam.transforms.row_groups import RowGroup


def read(file: str, *, rows: int, with_text: bool = False) -> RowGroup:
    settings = AuditSettings(max_text_chars=LONGEST, dead_letter_text=with_text)
    group = read_rows(RowGroup("chunk", [RowRange(file, 0, rows)]), settings, ArrowStorage(), {})
    return group.of([*group.rows])


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_is_one_dead_letter_of_its_stage(name: str, tmp_path: Path) -> None:
    changes, stage, reason, column = FAULTS[name]
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, **changes), log_row(2)])
    group = read(file, rows=3)
    (letter,) = group.letters
    assert (letter.stage, letter.reason, letter.column) == (stage, reason, column)
    assert (letter.source.source_file, letter.source.source_row) == (file, 1)
    assert [record.source.source_row for record in group.rows] == [0, 2]


def test_answer_text_is_in_the_dead_letter_only_when_asked_for(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.parquet", [log_row(0, answer="A secret answer.", passages=[])])
    (without,) = read(file, rows=1).letters
    (with_text,) = read(file, rows=1, with_text=True).letters
    assert "secret" not in repr(without)
    assert with_text.answer == "A secret answer."
