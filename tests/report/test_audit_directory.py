"""Opening an audit: what is one, which of its files count, rows in small batches, and texts read again from logs."""

import hashlib
import os
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import made_audit, supported_span, tell_sizes

from attribeam.logs.privacy import PrivacySettings
from attribeam.report.audit_directory import BATCH_ROWS, AuditDirectory
from attribeam.report.audited_answer import AuditedLogs, LogFile
from attribeam.schemas import Passage, RowSource
from attribeam.schemas.errors import LogReadError, RunError, UsageError
from attribeam.schemas.run_manifest import InputFile, RunStatus
from attribeam.transforms.row_groups import write_tables


def test_rows_come_in_the_order_of_the_log_with_the_columns_and_rows_that_were_asked_for(tmp_path):
    audit = made_audit(tmp_path).opened
    rows = [row for batch in audit.evidence_batches() for row in batch.to_pylist()]
    assert [(row["source_row"], row["span_index"]) for row in rows] == [*product(range(3), range(2))]
    assert [field.name for field in audit.extra_fields] == ["team"]
    assert {row["team"] for row in rows} == {"harbour"}
    where = ds.field("support") == "unsupported"
    rows = [row for batch in audit.evidence_batches(["text", "support"], where=where) for row in batch.to_pylist()]
    assert rows == [{"text": "40 cars", "support": "unsupported"}] * 3


def test_a_batch_is_small_whatever_the_size_of_a_file(tmp_path):
    count = BATCH_ROWS + 10
    spans = tuple(replace(supported_span(), span_index=index) for index in range(count))
    made = made_audit(tmp_path, record_ids=["ferry"], spans={0: spans})
    sizes = [batch.num_rows for batch in made.opened.evidence_batches(["text"])]
    assert sum(sizes) == count
    assert max(sizes) <= BATCH_ROWS


def test_a_chunk_without_its_manifest_does_not_count(tmp_path):
    root = made_audit(tmp_path, status=RunStatus.RUNNING).root
    sorted((root / "_chunks").iterdir())[0].unlink()
    audit = AuditDirectory.open(root)
    rows = [row for batch in audit.evidence_batches(["source_row"]) for row in batch["source_row"].to_pylist()]
    assert rows == [2, 2]
    assert (audit.counts.audited, audit.counts.dead_lettered) == (1, 1)


def test_a_done_audit_that_lost_a_manifest_is_an_error_and_not_a_smaller_audit(tmp_path):
    root = made_audit(tmp_path).root
    sorted((root / "_chunks").iterdir())[0].unlink()
    with pytest.raises(RunError, match=r"2 finished chunks, but 1 have no manifest, first .*start the audit's command"):
        AuditDirectory.open(root)


@pytest.mark.parametrize("damage", ['"row_end": 0', '"row_end": "2"', '"row_end": 9', '"row_end": NaN'])
def test_a_damaged_manifest_of_a_chunk_is_told_by_name_with_the_way_out(tmp_path, damage):
    root = made_audit(tmp_path).root
    path = sorted((root / "_chunks").iterdir())[0]
    path.write_text(path.read_text().replace('"row_end": 2', damage))
    with pytest.raises(RunError, match=f"{path.name}: .* was expected: .*; start the audit's command again"):
        AuditDirectory.open(root)


def test_an_audit_of_nothing_has_no_batches_and_still_a_schema(tmp_path):
    root = made_audit(tmp_path, status=RunStatus.INTERRUPTED).root
    for chunk in (root / "_chunks").iterdir():
        chunk.unlink()
    audit = AuditDirectory.open(root)
    assert list(audit.evidence_batches()) == []
    assert audit.evidence_of(["ferry-1"]).num_rows == 0
    assert isinstance(audit.evidence_schema, pa.Schema)


def test_what_is_no_audit_is_refused_by_name(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("absent", "empty"):
        with pytest.raises(UsageError, match=name):
            AuditDirectory.open(tmp_path / name)


@pytest.mark.parametrize("folder", ["evidence", "dead_letters"])
@pytest.mark.parametrize("damage", ["cut", "other rows", "missing"])
def test_a_file_that_is_not_as_it_was_written_is_told_by_name_with_the_way_out(tmp_path, folder, damage):
    root = made_audit(tmp_path).root
    (damaged,) = (path for path in (root / folder).iterdir() if path.name.startswith("00000-log-r0000000002"))
    if damage == "cut":
        damaged.write_bytes(damaged.read_bytes()[:-20])
    elif damage == "other rows":
        pq.write_table(pq.read_table(damaged).slice(0, 0), damaged)
    else:
        damaged.unlink()
    problem = rf"{damaged.name} should have .* bytes .*, but it .*; start the audit's command"
    with pytest.raises(RunError, match=problem):
        AuditDirectory.open(root)


def test_a_changed_bit_of_evidence_is_an_error_and_no_other_figure(tmp_path):
    root = made_audit(tmp_path, rows_per_chunk=9).root
    audit = AuditDirectory.open(root)
    path = root / "evidence" / "one.parquet"
    tables = (pa.Table.from_batches([batch]) for batch in audit.evidence_batches())
    write_tables(path, tables, audit.evidence_schema, PrivacySettings())
    whole = path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    columns = map(group.column, range(group.num_columns))
    (masses,) = (column for column in columns if column.path_in_schema == "evidence_mass")
    for place in range(masses.data_page_offset - 8, masses.data_page_offset):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        changed = replace(audit, evidence_files=(str(path),))
        with pytest.raises(RunError, match="cannot be read"):
            list(changed.evidence_batches())
        with pytest.raises(RunError, match="cannot be read"):
            list(changed.evidence_columns(["evidence_mass"]))


@pytest.mark.parametrize("column", ["record_id", "support", "evidence", "char_start"])
@pytest.mark.parametrize("change", ["missing", "other type", "null"])
def test_a_column_that_is_not_as_written_is_an_error_that_names_it(tmp_path, column, change):
    root = made_audit(tmp_path).root
    path = sorted((root / "evidence").iterdir())[1]
    table = pq.read_table(path)
    place = table.schema.names.index(column)
    kind = pa.bool_() if change == "other type" else table.schema.field(column).type
    changed = table.drop_columns([column])
    if change != "missing":
        changed = table.set_column(place, pa.field(column, kind), pa.nulls(len(table), kind))
    pq.write_table(changed, path)
    tell_sizes(root)
    audit = AuditDirectory.open(root)
    for read in (audit.evidence_batches(), audit.evidence_columns(["claim_index"])):
        with pytest.raises(RunError, match=f"{path.name}.*{column}"):
            list(read)


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
    [(_changed, "another content"), (Path.unlink, "not there any more"), (_in_its_place_a_pipe, "no file but a pipe")],
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


TYPES = {
    "string": pa.string(), "large": pa.large_string(), "view": pa.string_view(), "bytes": pa.binary(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_texts_may_have_any_type_that_an_audit_reads(kind, tmp_path):
    texts = {"question": ["Wann?", "Wo?"], "answer": ["Um zwölf 🚢.", "Am Kai."]}
    columns = {name: pa.array(own).cast(kind) for name, own in texts.items()} | {"unread": [b"\xff", b"\xff"]}
    columns |= {"record_id": [17, 18], "passages": [["Der Fährplan"], ["Ost", "West"]]}
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), log)
    content = log.read_bytes()
    audited = InputFile(str(log), len(content), 2, hashlib.sha256(content).hexdigest())
    logs = AuditedLogs({str(log): LogFile(audited)})
    found = list(logs.answers(frozenset(RowSource(str(log), row) for row in (1, 0))))
    read = [(one.record_id, one.question, one.answer) for one in found]
    assert read == [("17", "Wann?", "Um zwölf 🚢."), ("18", "Wo?", "Am Kai.")]
    assert found[0].passages == (Passage("Der Fährplan"),)
