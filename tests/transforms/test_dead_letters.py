"""Dead letters of one chunk lie in the order of its rows, whichever stage refused them first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from attribeam.logs.privacy.redactor import MASK
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import DeadLetter, Passage, QARecord, Reason, RowFault, RowSource, Stage, dead_letter_schema
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DeadLetterOffice, WriteDeadLetters


def letters(rows: Sequence[int]) -> list[DeadLetter]:
    stages = (Stage.VALIDATE, Stage.ATTRIBUTE, Stage.EVIDENCE)
    return [
        DeadLetter(f"row-{row}", RowSource("log.parquet", row), stages[row % 3], Reason.EMPTY_ANSWER, "as planned")
        for row in rows
    ]


def written(prefix: Path, rows: Sequence[int]) -> Path:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        parts = [pipeline | f"Create{part}" >> beam.Create(letters(rows[part::2]), reshuffle=False) for part in (0, 1)]
        _ = parts | beam.Flatten() | WriteDeadLetters(str(prefix), dead_letter_schema())
    return prefix.with_suffix(".parquet")


@pytest.mark.parametrize("count", [5, 1500])
def test_file_is_the_same_in_whatever_order_letters_come(tmp_path: Path, count: int) -> None:
    upwards = written(tmp_path / "upwards", [*range(count)])
    downwards = written(tmp_path / "downwards", [*reversed(range(count))])
    assert upwards.read_bytes() == downwards.read_bytes()
    assert pq.read_table(upwards)["source_row"].to_pylist() == [*range(count)]


def test_a_letter_masks_what_any_text_of_its_row_shows_to_be_a_secret() -> None:
    settings = AuditSettings(privacy=PrivacySettings(redact=True), dead_letter_text=True)
    record = QARecord("482719", "My phone is 482719.", (Passage("A"),), "It is 482719.", RowSource("log.parquet", 0))
    refused = DeadLetterOffice(Stage.PARSE, settings).refuse(record, RowFault(Reason.PARSE_FAILED, "at 482719"))
    assert (refused.value.record_id, refused.value.message) == (MASK * 6, f"at {MASK * 6}")
    assert refused.value.answer == f"It is {MASK * 6}."
