"""The first stage: faulty rows become dead letters of the right stage, and no text goes where nobody asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.pvalue import TaggedOutput
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import log_row, write_log

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.schemas import DeadLetter, QARecord
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.read_qa_logs import ReadRows


def outcomes(file: str, *, rows: int, with_text: bool = False) -> list[QARecord | DeadLetter]:
    settings = AuditSettings(max_text_chars=LONGEST, dead_letter_text=with_text)
    found = ReadRows(settings, {}, ArrowStorage()).process(RowRange(file, 0, rows))
    return [one.value if isinstance(one, TaggedOutput) else one for one in found]


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_is_one_dead_letter_of_its_stage(name: str, tmp_path: Path) -> None:
    changes, stage, reason, column = FAULTS[name]
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, **changes), log_row(2)])
    before, letter, after = outcomes(file, rows=3)
    assert isinstance(letter, DeadLetter)
    assert (letter.stage, letter.reason, letter.column) == (stage, reason, column)
    assert (letter.source.source_file, letter.source.source_row) == (file, 1)
    assert [type(one) for one in (before, after)] == [QARecord, QARecord]


def test_answer_text_is_in_the_dead_letter_only_when_asked_for(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.parquet", [log_row(0, answer="A secret answer.", passages=[])])
    (without,) = outcomes(file, rows=1)
    (with_text,) = outcomes(file, rows=1, with_text=True)
    assert "secret" not in repr(without)
    assert isinstance(with_text, DeadLetter)
    assert with_text.answer == "A secret answer."
