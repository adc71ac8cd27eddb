"""An audit that reads an export directly: rows by number, faults as dead letters, one reading per process."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import EXPORTS, SPAN_FORMATS, imported, mixed_spans, ragas, write_lines

from attribeam.logs.columns import LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import BATCH_ROWS, reader_named
from attribeam.logs.rows import FaultyRow
from attribeam.logs.traces import trace_reader
from attribeam.schemas import QARecord, Reason

OPTIONS = LogOptions(format="openinference")


def test_rows_and_faults_come_in_the_order_of_the_export(tmp_path: Path) -> None:
    log = QALog(mixed_spans(tmp_path), OPTIONS)
    assert log.check().row_count == 4
    found = list(log.outcomes())
    assert [one.record_id for one in found] == ["trace-1", "trace-bare", None, "trace-2"]
    faults = [one for one in found if isinstance(one, FaultyRow)]
    assert [one.fault.reason for one in faults] == [Reason.NO_PASSAGES, Reason.INVALID_JSON]
    assert faults[0].answer == "Hello."
    assert str(faults[1].fault).startswith("line 3 should be JSON")
    assert [one.source.source_row for one in log.outcomes([1, 3])] == [1, 3]


def test_import_and_reader_agree_on_rows_and_faults(tmp_path: Path) -> None:
    path = mixed_spans(tmp_path)
    _, rows, letters = imported("openinference", path, output=tmp_path / "log.parquet")
    found = list(QALog(path, OPTIONS).outcomes())
    assert [one.record_id for one in found if isinstance(one, QARecord)] == [row["record_id"] for row in rows]
    faults = [one for one in found if isinstance(one, FaultyRow)]
    assert [(one.source.source_row, str(one.fault)) for one in faults] == [
        (one["source_row"], one["message"]) for one in letters
    ]


@pytest.mark.parametrize("kind", [name for name in EXPORTS if name != "jsonl"])
def test_picked_rows_of_a_long_export_are_those_of_a_whole_reading(kind: str, tmp_path: Path) -> None:
    count = 2 * BATCH_ROWS + 7 if kind == "ragas" else 5
    rows = [{**ragas()[0], "response": f"Answer {number}."} for number in range(count)]
    path = write_lines(tmp_path / "a.jsonl", rows if kind == "ragas" else EXPORTS[kind]())
    log = QALog(path, LogOptions(format=kind))
    whole = [str(one) for one in log.outcomes()]
    wanted = [0, 3, 255, 256, count - 1] if kind == "ragas" else [0]
    assert [str(one) for one in log.outcomes(wanted)] == [whole[row] for row in wanted]


def test_export_is_put_together_once_and_anew_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = trace_reader.TraceReader._stored
    monkeypatch.setattr(trace_reader.TraceReader, "_stored", lambda *given: made.append(1) or real(*given))
    path = Path(write_lines(tmp_path / "a.jsonl", ragas()))
    log = QALog(str(path), LogOptions(format="ragas"))
    assert [len(list(log.outcomes())) for _ in range(3)] == [1, 1, 1]
    assert len(made) == 1
    write_lines(path, ragas() * 2)
    assert len(list(log.outcomes())) == 2
    assert len(made) == 2


def test_logs_that_are_read_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    logs = [
        QALog(write_lines(tmp_path / f"{one}.jsonl", ragas() * (300 + one)), LogOptions(format="ragas"))
        for one in range(4)
    ]
    pairs = zip(*(log.outcomes() for log in logs), strict=False)
    assert sum(1 for _ in pairs) == 300


def test_text_that_is_no_utf8_is_a_fault_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = json.dumps(ragas()[0]).encode()
    path.write_bytes(good.replace(b"lamp", b"l\xe9mp") + b"\n" + good.replace(b"lamp", b"\\ud83d") + b"\n" + good)
    reasons = [
        getattr(getattr(one, "fault", None), "reason", None)
        for one in QALog(str(path), LogOptions(format="ragas")).outcomes()
    ]
    assert reasons == [Reason.INVALID_UTF8, Reason.INVALID_UTF8, None]


def test_empty_export_has_no_rows(tmp_path: Path) -> None:
    for kind in SPAN_FORMATS:
        path = tmp_path / f"{kind}.jsonl"
        path.write_bytes(b"")
        assert QALog(str(path), LogOptions(format=kind)).check().row_count == 0


def test_conversation_can_be_carried_into_the_evidence(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", EXPORTS["langfuse"]())
    (found,) = QALog(path, LogOptions(format="langfuse", extra_columns=("session_id",))).outcomes()
    assert isinstance(found, QARecord)
    assert found.extra_columns == (("session_id", "talk-7"),)


def test_folder_means_the_files_of_an_export(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.json", "c.csv.gz", "d.parquet", "e.txt", "_f.parquet", "dataset_info.json"):
        (tmp_path / name).touch()
    log = QALog("")
    suffix = {kind: reader_named(kind).suffix for kind in ("langfuse", "ragas")}
    names = {
        kind: [Path(one).name for one in log.storage.find(str(tmp_path), suffix=one)] for kind, one in suffix.items()
    }
    assert names["langfuse"] == ["a.jsonl", "b.json", "c.csv.gz", "d.parquet", "dataset_info.json"]
    assert names["ragas"] == ["a.jsonl", "c.csv.gz", "d.parquet"]


def test_long_rows_are_stored_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "word " * 50_000
    rows = [{**ragas()[0], "retrieved_contexts": [long] * 2, "response": f"Answer {number}."} for number in range(40)]
    monkeypatch.setattr(trace_reader, "BATCH_BYTES", 8 * len(long))
    with Path(write_lines(tmp_path / "a.jsonl", rows)).open("rb") as file:
        stored = pq.ParquetFile(trace_reader.ragas_reader()._stored(file)).metadata
    assert [stored.row_group(index).num_rows for index in range(stored.num_row_groups)] == [4] * 10
