"""JSON lines: the same rows, faults and types as those of a Parquet file."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import log_row, write_jsonl, write_log

from attribeam.logs import jsonl_log
from attribeam.logs.columns import ColumnPart, LogOptions
from attribeam.logs.jsonl_log import JsonlReader
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import FaultyRow
from attribeam.schemas import QARecord, Reason
from attribeam.schemas.errors import LogFormatError

JSONL = LogOptions(max_text_chars=LONGEST, format="jsonl")
PARQUET = LogOptions(max_text_chars=LONGEST)


def told(log, rows=None):
    return [
        (one.source.source_row, one.record_id, one.fault.reason, str(one.fault))
        if isinstance(one, FaultyRow)
        else (one.source.source_row, one.record_id, one.question, one.passages, one.answer, one.target_spans)
        for one in log.outcomes(rows)
    ]


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_is_the_same_in_both_formats(name, tmp_path):
    rows = [log_row(0), log_row(1, **FAULTS[name][0]), log_row(2, target_spans=[{"char_start": 0, "char_end": 3}])]
    parquet = QALog(write_log(tmp_path / "log.parquet", rows), PARQUET)
    assert told(QALog(write_jsonl(tmp_path / "log.jsonl", rows), JSONL)) == told(parquet)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(picked=st.sets(st.integers(0, 2 * BATCH_ROWS + 9), max_size=20))
def test_picked_rows_are_those_of_a_whole_reading(picked, tmp_path_factory):
    rows = [log_row(number) for number in range(2 * BATCH_ROWS + 10)]
    log = QALog(write_jsonl(tmp_path_factory.mktemp("jsonl") / "log.jsonl", rows), JSONL)
    assert log.check().row_count == len(rows)
    whole = told(log)
    assert told(log, sorted(picked)) == [whole[row] for row in sorted(picked)]


def test_large_lines_make_small_blocks(tmp_path, monkeypatch):
    rows = [log_row(number) for number in range(40)]
    expected = told(QALog(write_jsonl(tmp_path / "whole.jsonl", rows), JSONL))
    file = write_jsonl(tmp_path / "log.jsonl", rows)
    monkeypatch.setattr(jsonl_log, "_BATCH_BYTES", 3 * len(json.dumps(rows[0])))
    assert told(QALog(file, JSONL)) == expected
    assert told(QALog(file, JSONL), [7, 31]) == [expected[7], expected[31]]
    with Path(file).open("rb") as opened:
        batches = list(JsonlReader().open(opened).batches([ColumnPart("answer")], range(40)))
    assert max(one.rows.num_rows for one in batches) < 6


def test_fields_that_only_later_lines_have_are_found(tmp_path):
    rows = [{**log_row(number), "generator": None} for number in range(BATCH_ROWS)]
    rows += [log_row(BATCH_ROWS, generator="writer-2", tags=["a"], record_id=None)]
    log = QALog(write_jsonl(tmp_path / "log.jsonl", rows), LogOptions(extra_columns=("tags",), format="jsonl"))
    *_, last = log.outcomes()
    assert isinstance(last, FaultyRow)
    first = next(log.outcomes())
    assert (first.generator, first.extra_columns) == (None, (("tags", None),))


def test_half_a_surrogate_pair_is_a_fault_of_its_row(tmp_path):
    rows = [log_row(0), log_row(1), log_row(2)]
    path = Path(write_jsonl(tmp_path / "log.jsonl", rows))
    path.write_text(path.read_text().replace("lamp 1 in", "lamp \\ud83d in"))
    reasons = [getattr(getattr(one, "fault", None), "reason", None) for one in QALog(str(path), JSONL).outcomes()]
    assert reasons == [None, Reason.INVALID_UTF8, None]


def test_byte_order_mark_and_empty_lines_are_no_rows(tmp_path):
    lines = [json.dumps(log_row(number)) for number in range(2)]
    (tmp_path / "log.jsonl").write_text("\ufeff" + lines[0] + "\r\n\n  \n" + lines[1], encoding="utf-8")
    log = QALog(str(tmp_path / "log.jsonl"), JSONL)
    assert [row[1] for row in told(log)] == ["row-0", "row-1"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"answer": "a secret', "Unterminated string"), ('{"a": "a secret"} {"a": 2}', "Extra data"),
        ('{"a": "a secret"}\r{"a": 2}', "Extra data"), ('["a secret"]', "has list"), ("\0" * 5000, "Expecting value"),
        ('{"answer": "a secret\0"}', "Invalid control character"), ("[" * 4000, "RecursionError"),
        ('{"answer": "' + "a secret" * 1000 + '"}', "have at most 5000 bytes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1, 2])
def test_line_that_is_no_object_is_a_fault_of_its_row(line, problem, at, tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl_log, "MOST_BYTES", 5000)
    monkeypatch.setattr(jsonl_log, "BLOCK_BYTES", 100)
    lines = [json.dumps(log_row(number)) for number in range(2)]
    lines.insert(at, line)
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    outcomes = list(QALog(str(tmp_path / "log.jsonl"), JSONL).outcomes())
    faulty = outcomes.pop(at)
    assert re.search(f"^line at byte [0-9]+ should .*{problem}", str(faulty.fault))
    assert "secret" not in str(faulty.fault)
    assert [one.record_id for one in outcomes] == ["row-0", "row-1"]


def test_file_without_any_object_is_of_another_format(tmp_path):
    for content in ("a,b\n1,2\n", "[{}]", json.dumps(log_row(0), indent=1), "\0"):
        (tmp_path / "log.jsonl").write_text(content)
        with pytest.raises(LogFormatError, match=r"log\.jsonl' line at byte 0 should .*--log-format.* import jsonl`$"):
            QALog(str(tmp_path / "log.jsonl"), JSONL).check()
    (tmp_path / "log.jsonl").write_bytes(gzip.compress(json.dumps(log_row(0)).encode()))
    with pytest.raises(LogFormatError, match=r"log\.jsonl' should be a log, is packed as gzip; unpack it first"):
        QALog(str(tmp_path / "log.jsonl"), JSONL).check()


def test_field_whose_objects_have_ever_new_members_is_no_column(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl_log, "_MOST_MEMBERS", 50)
    rows = [log_row(number, scores={f"doc-{number}": {"bm25": 1}}, few={"a": number}) for number in range(30)]
    log = QALog(write_jsonl(tmp_path / "log.jsonl", rows), JSONL)
    assert "few" in log.check().column_names
    assert "scores" not in log.check().column_names
    assert len([one for one in log.outcomes() if isinstance(one, QARecord)]) == 30


def test_field_that_nobody_asks_for_needs_no_type(tmp_path):
    rows = [log_row(0, prompt="Say it.", meta={"k": 1}), log_row(1, prompt=[{"role": "user"}], meta={"k": "none"})]
    path = write_jsonl(tmp_path / "log.jsonl", [{"meta": 0}, *rows])
    assert [isinstance(one, QARecord) for one in QALog(path, JSONL).outcomes()] == [False, True, True]


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ('"\\ud800": 1', "has another name"),
        ('"passages": [{"text": "a secret", "\\udfff": 1}]', "has another name"),
        ('"notes": ' + "[" * 65 + '"a secret"' + "]" * 65, "has deeper ones"),
        ('"notes": ' + '{"a": ' * 400 + '"a secret"' + "}" * 400, "has deeper ones"),
        ('"notes": ' + "[" * 900 + '"a secret"' + "]" * 900, "has deeper ones"),
        ('"notes": [[], {"a": ' + "[" * 63 + "]" * 63 + "}]", "has deeper ones"),
    ],
)
def test_line_that_no_column_can_hold_is_a_dead_letter_alone(field, found, tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(log_row(number)) for number in range(3)]
    lines[1] = lines[1].removesuffix("}") + ", " + field + "}"
    path.write_text("\n".join(lines))
    before, odd, after = QALog(str(path), JSONL).outcomes()
    assert (type(before), type(after)) == (QARecord, QARecord)
    assert odd.fault.reason is Reason.INVALID_VALUE
    assert found in str(odd.fault)
    assert "secret" not in str(odd.fault)


def test_value_of_64_levels_is_read(tmp_path):
    (record,) = QALog(
        write_jsonl(tmp_path / "log.jsonl", [log_row(0, notes=json.loads("[" * 64 + "]" * 64))]), JSONL
    ).outcomes()
    assert isinstance(record, QARecord)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("clicks", "a secret"), ("clicks", 2**63), ("clicks", [1]), ("record_id", 7), ("passages", "a secret")],
)
def test_value_of_another_type_is_an_error_that_names_file_field_and_row_and_no_text(tmp_path, name, wrong):
    rows = [log_row(number, clicks=number) for number in range(BATCH_ROWS + 9)]
    rows[BATCH_ROWS + 4][name] = wrong
    log = QALog(write_jsonl(tmp_path / "log.jsonl", rows), replace(JSONL, extra_columns=("clicks",)))
    problem = rf"log\.jsonl.* column '{name}' should have values of one type.* row {BATCH_ROWS + 4} has another one"
    with pytest.raises(LogFormatError, match=problem) as caught:
        log.check()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("fraction_row", [BATCH_ROWS, 1])
@pytest.mark.parametrize("nested", [lambda value: value, lambda value: {"count": value}, lambda value: [value]])
def test_whole_number_that_a_column_of_fractions_cannot_hold_is_a_fault_of_its_row(nested, fraction_row, tmp_path):
    rows = [log_row(number, clicks=nested(number)) for number in range(BATCH_ROWS + 1)]
    rows[7]["clicks"], rows[fraction_row]["clicks"] = nested(2**53 + 1), nested(0.5)
    log = QALog(write_jsonl(tmp_path / "log.jsonl", rows), LogOptions(extra_columns=("clicks",), format="jsonl"))
    outcomes = list(log.outcomes())
    (faulty,) = (one for one in outcomes if isinstance(one, FaultyRow))
    assert (faulty.source.source_row, faulty.record_id, faulty.answer) == (7, rows[7]["record_id"], rows[7]["answer"])
    assert (faulty.fault.reason, faulty.fault.column) == (Reason.INVALID_VALUE, "clicks")
    values = [dict(one.extra_columns)["clicks"] for one in outcomes if isinstance(one, QARecord)]
    assert values == [row["clicks"] for number, row in enumerate(rows) if number != 7]
    assert not [one for one in QALog(log.path, JSONL).outcomes() if isinstance(one, FaultyRow)]


def test_changed_file_is_read_anew(tmp_path):
    log = QALog(write_jsonl(tmp_path / "log.jsonl", [log_row(0)]), JSONL)
    assert log.check().row_count == 1
    write_jsonl(tmp_path / "log.jsonl", [log_row(0), log_row(1)])
    assert log.check().row_count == 2
