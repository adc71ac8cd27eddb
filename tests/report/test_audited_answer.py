"""Texts of audited rows, read again from their logs."""

import hashlib
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import made_audit

from attribeam.report.audited_answer import AuditedLogs, LogFile
from attribeam.schemas import Passage, RowSource
from attribeam.schemas.errors import LogReadError
from attribeam.schemas.run_manifest import InputFile

IDS = [f"ferry-{row}" for row in range(7)]


def _logs(made):
    return AuditedLogs.of(made.opened)


def test_the_wanted_rows_come_whole_and_in_order(tmp_path):
    made = made_audit(tmp_path, record_ids=IDS)
    wanted = frozenset(made.records[row].source for row in (6, 1, 4))
    found = list(_logs(made).answers(wanted))
    assert [answer.source.source_row for answer in found] == [1, 4, 6]
    for answer in found:
        record = made.records[answer.source.source_row]
        assert (answer.record_id, answer.question, answer.passages, answer.answer) == (
            record.record_id, record.question, record.passages, record.answer,
        )  # fmt: skip
    assert _logs(made).problems(wanted) == ()


def test_columns_of_other_names_are_found_as_the_audit_found_them(tmp_path):
    made = made_audit(tmp_path, columns=[("answer", "response"), ("passages", "contexts")])
    (answer,) = _logs(made).answers(frozenset([made.records[2].source]))
    assert (answer.answer, answer.passages) == (made.records[2].answer, made.records[2].passages)


def _changed(log):
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


def _in_its_place_a_pipe(log):
    log.unlink()
    os.mkfifo(log)


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (_changed, "another content"),
        (Path.unlink, "not there any more"),
        (_in_its_place_a_pipe, "it is no file but a pipe"),
    ],
)
def test_a_log_that_is_not_as_it_was_gives_no_text_and_is_named(tmp_path, harm, problem):
    made = made_audit(tmp_path)
    harm(made.log)
    wanted = frozenset([made.records[0].source])
    assert list(_logs(made).answers(wanted)) == []
    (told,) = _logs(made).problems(wanted)
    assert str(made.log) in told
    assert problem in told


def test_a_log_that_is_replaced_when_its_state_is_known_gives_no_text(tmp_path):
    made = made_audit(tmp_path)
    logs, wanted = _logs(made), frozenset([made.records[0].source])
    assert logs.problems(wanted) == ()
    shutil.copy(made.log, tmp_path / "other.parquet")
    (tmp_path / "other.parquet").replace(made.log)
    with pytest.raises(LogReadError, match="was replaced or written to"):
        list(logs.answers(wanted))


def test_a_file_that_was_no_input_is_named(tmp_path):
    wanted = frozenset([RowSource("elsewhere.parquet", 0)])
    logs = _logs(made_audit(tmp_path))
    assert list(logs.answers(wanted)) == []
    assert logs.problems(wanted) == ("'elsewhere.parquet' is no input of this audit",)


TEXTS = ["Der Fährplan", None]
TYPES = {
    "string": pa.string(), "large": pa.large_string(), "view": pa.string_view(), "bytes": pa.binary(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_texts_may_have_any_type_that_an_audit_reads(kind, tmp_path):
    columns = {
        "record_id": pa.array([17, 18]),
        "question": pa.array(["Wann?", "Wo?"]).cast(kind),
        "answer": pa.array(["Um zwölf 🚢.", "Am Kai."]).cast(kind),
        "passages": pa.array([TEXTS[:1], ["Ost", "West"]], pa.list_(pa.string())),
        "unread": pa.array([b"\xff", b"\xff"]),
    }
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), log)
    found = _read(log, [1, 0])
    assert [(one.record_id, one.question, one.answer) for one in found] == [
        ("17", "Wann?", "Um zwölf 🚢."),
        ("18", "Wo?", "Am Kai."),
    ]
    assert found[0].passages == (Passage("Der Fährplan"),)


def _read(log, rows):
    content = log.read_bytes()
    audited = InputFile(str(log), len(content), pq.read_metadata(log).num_rows, hashlib.sha256(content).hexdigest())
    logs = AuditedLogs({str(log): LogFile(audited)})
    return list(logs.answers(frozenset(RowSource(str(log), row) for row in rows)))
