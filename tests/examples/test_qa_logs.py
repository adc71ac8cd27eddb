"""The example log: it is what its source says, and the source shows what it should."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribeam.schemas import Reason

EXAMPLES = Path(__file__).parents[2] / "examples"
FAULTS = (
    Reason.EMPTY_ANSWER,
    Reason.NO_PASSAGES,
    Reason.MISSING_VALUE,
    Reason.SPAN_OUT_OF_RANGE,
    Reason.DUPLICATE_RECORD_ID,
    Reason.INVALID_UTF8,
)


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_qa_logs", EXAMPLES / "make_qa_logs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return _load_script()


@pytest.fixture(scope="module")
def source(script: ModuleType) -> list[dict]:
    return script.read_source()


@pytest.fixture(scope="module")
def log() -> pa.Table:
    return pq.read_table(EXAMPLES / "qa_logs.parquet")


@pytest.fixture(scope="module")
def answers(log: pa.Table) -> list[bytes]:
    return _as_bytes(log["answer"])


def _as_bytes(column: pa.ChunkedArray) -> list[bytes]:
    return [value for chunk in column.chunks for value in chunk.cast(pa.binary()).to_pylist()]


def _row(source: list[dict], expected: str) -> dict:
    (row,) = [row for row in source if row["expected"] == expected]
    return row


def test_the_log_is_what_the_script_makes_of_the_source(script: ModuleType, source: list[dict], log: pa.Table) -> None:
    made = script.make_table(source)
    assert log.schema.equals(made.schema)
    assert log.equals(made)


def test_each_fault_is_expected_exactly_once(source: list[dict]) -> None:
    faulty = Counter(row["expected"] for row in source if row["expected"] != "audited")
    assert faulty == Counter({str(reason): 1 for reason in FAULTS})


def test_the_faults_are_in_the_log(source: list[dict], log: pa.Table, answers: list[bytes]) -> None:
    index = {reason: source.index(_row(source, reason)) for reason in FAULTS}
    assert answers[index[Reason.EMPTY_ANSWER]].strip() == b""
    assert log["passages"][index[Reason.NO_PASSAGES]].as_py() == []
    assert log["question"][index[Reason.MISSING_VALUE]].as_py() is None
    spans = log["target_spans"][index[Reason.SPAN_OUT_OF_RANGE]].as_py()
    assert spans[-1]["char_end"] > len(answers[index[Reason.SPAN_OUT_OF_RANGE]])
    with pytest.raises(UnicodeDecodeError):
        answers[index[Reason.INVALID_UTF8]].decode()


def test_target_texts_stand_at_their_ranges(source: list[dict], log: pa.Table, answers: list[bytes]) -> None:
    rows = [(row, n) for n, row in enumerate(source) if "target_texts" in row]
    assert len(rows) >= 10
    for row, n in rows:
        spans = log["target_spans"][n].as_py()
        assert [answers[n].decode()[span["char_start"] : span["char_end"]] for span in spans] == row["target_texts"]
