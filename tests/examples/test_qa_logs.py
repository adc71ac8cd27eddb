"""The example log: it is what its source says, and the source shows what it should."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribeam.schemas import Reason

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = (
    "ARABIC",
    "HEBREW",
    "DEVANAGARI",
    "CJK UNIFIED",
    "HIRAGANA",
    "KATAKANA",
    "GREEK",
    "CYRILLIC",
    "HANGUL",
    "THAI",
)
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


def test_writing_twice_gives_the_same_bytes(script: ModuleType, source: list[dict], tmp_path: Path) -> None:
    script.write_log(script.make_table(source), tmp_path / "one.parquet")
    script.write_log(script.make_table(source), tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_the_log_is_small_compressed_and_has_several_row_groups() -> None:
    path = EXAMPLES / "qa_logs.parquet"
    parts = pq.ParquetFile(path).metadata
    assert path.stat().st_size < 300_000
    assert parts.num_rows >= 60
    assert parts.num_row_groups > 1
    assert parts.row_group(0).column(0).compression == "ZSTD"


def test_notes_and_expectations_stay_out_of_the_log(source: list[dict], log: pa.Table) -> None:
    assert all(row["example_note"] and row["expected"] for row in source)
    assert not {"example_note", "expected", "target_texts"} & set(log.column_names)


def test_each_fault_is_expected_exactly_once(source: list[dict]) -> None:
    faulty = Counter(row["expected"] for row in source if row["expected"] != "audited")
    assert faulty == Counter({str(reason): 1 for reason in FAULTS})


def test_ids_are_unique_but_for_the_expected_duplicate(source: list[dict]) -> None:
    seen: set[str] = set()
    repeated = []
    for row in source:
        if row["record_id"] in seen:
            repeated.append(row["expected"])
        seen.add(row["record_id"])
    assert repeated == [Reason.DUPLICATE_RECORD_ID]


def test_the_faults_are_in_the_log(source: list[dict], log: pa.Table, answers: list[bytes]) -> None:
    index = {reason: source.index(_row(source, reason)) for reason in FAULTS}
    assert answers[index[Reason.EMPTY_ANSWER]].strip() == b""
    assert log["passages"][index[Reason.NO_PASSAGES]].as_py() == []
    assert log["question"][index[Reason.MISSING_VALUE]].as_py() is None
    spans = log["target_spans"][index[Reason.SPAN_OUT_OF_RANGE]].as_py()
    assert spans[-1]["char_end"] > len(answers[index[Reason.SPAN_OUT_OF_RANGE]])
    with pytest.raises(UnicodeDecodeError):
        answers[index[Reason.INVALID_UTF8]].decode()


def test_rows_to_be_audited_are_whole(source: list[dict], answers: list[bytes]) -> None:
    for row, answer in zip(source, answers, strict=True):
        if row["expected"] == "audited":
            assert answer.decode().strip(), row["record_id"]
            assert row["question"].strip(), row["record_id"]
            assert row["passages"], row["record_id"]
            assert all(passage["text"].strip() for passage in row["passages"]), row["record_id"]


def test_target_texts_stand_at_their_ranges(source: list[dict], log: pa.Table, answers: list[bytes]) -> None:
    rows = [(row, n) for n, row in enumerate(source) if "target_texts" in row]
    assert len(rows) >= 10
    for row, n in rows:
        spans = log["target_spans"][n].as_py()
        assert [answers[n].decode()[span["char_start"] : span["char_end"]] for span in spans] == row["target_texts"]


def test_a_target_text_that_occurs_twice_is_refused(script: ModuleType) -> None:
    row = {"record_id": "twice", "answer": "no, no", "target_texts": ["no"]}
    with pytest.raises(ValueError, match="exactly once"):
        script.target_spans(row)


@pytest.mark.parametrize("script_name", SCRIPTS)
def test_a_script_is_in_an_answer_and_in_a_passage(script_name: str, source: list[dict]) -> None:
    answers = "".join(row["answer"] for row in source)
    passages = "".join(passage["text"] for row in source for passage in row["passages"])
    for text in (answers, passages):
        assert any(unicodedata.name(char, "").startswith(script_name) for char in set(text))


def test_joined_emoji_and_combining_marks_are_there(source: list[dict]) -> None:
    answers = "".join(row["answer"] for row in source)
    passages = "".join(passage["text"] for row in source for passage in row["passages"])
    assert "\u200d" in answers
    assert unicodedata.normalize("NFC", passages) != passages


def test_lengths_reach_from_one_word_to_many(source: list[dict]) -> None:
    audited = [row for row in source if row["expected"] == "audited"]
    words = [len(row["answer"].split()) for row in audited]
    assert 2 in words
    assert max(words) > 400
    assert max(len(row["passages"]) for row in audited) == 20
    assert max(len(passage["text"].split()) for row in audited for passage in row["passages"]) >= 1_500
    assert any(row["answer"] in [passage["text"] for passage in row["passages"]] for row in audited)


def test_the_log_holds_the_columns_to_carry_through(log: pa.Table) -> None:
    assert set(log["thumbs"].to_pylist()) == {-1, 0, 1, None}
    assert len(set(log["tenant"].to_pylist())) > 5
    assert len(set(log["generator"].to_pylist())) == 3
    assert {at.strftime("%F") for at in log["answered_at"].to_pylist()} == {"2026-11-18", "2026-11-19", "2026-11-20"}
