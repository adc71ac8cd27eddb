"""All rooms read logs through the same reader: a faulty row has one reason, whoever reads it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import LOG_SCHEMA, log_row, write_log

from attribeam.evaluation.datasets.labelled_log import load_judged_log, load_log
from attribeam.logs.columns import LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow
from attribeam.schemas.labelled_answer import SkippedRow

OPTIONS = LogOptions(max_text_chars=LONGEST)
LABELLED = pa.schema([*LOG_SCHEMA, ("span_labels", pa.list_(pa.struct([("supported", pa.bool_())])))])


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_has_one_reason_for_all(name: str, tmp_path: Path) -> None:
    changes, _, reason, column = FAULTS[name]
    spans = {"target_spans": [{"char_start": 0, "char_end": 3}], "span_labels": [{"supported": True}]}
    rows = [log_row(0, **spans), log_row(1, **(spans | changes)), log_row(2, **spans)]
    log = QALog(write_log(tmp_path / "log.parquet", rows, schema=LABELLED), OPTIONS)
    read = [(one.fault.reason, one.fault.column) for one in log.outcomes() if isinstance(one, FaultyRow)]
    assert read == [(reason, column)]
    judged = load_judged_log(Path(log.path), OPTIONS)
    assert judged.skipped == (SkippedRow(1, str(reason)),)
    assert SkippedRow(1, str(reason)) in load_log(Path(log.path), OPTIONS).skipped
    assert [one.record.record_id for one in judged.answers] == ["row-0", "row-2"]
