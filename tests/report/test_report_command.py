"""The options of attribeam report, and rows of an audit as CSV and JSON lines."""

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made_audit import made_audit, say_version

from attribeam.pipeline.command_line import main
from attribeam.report.report_command import BYTE_ORDER_MARK, csv_lines, jsonl_lines
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import RunStatus


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An audit of four rows."""
    return made_audit(tmp_path_factory.mktemp("report"))


def _report(made, output, *more):
    return main(["report", "--audit", str(made.root), "--output", str(output), *more])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--format", "csv"), "ferry-1,"),
        (("--format", "csv", "--rows", "dead_letters"), "empty_answer"),
        (("--format", "jsonl"), '"record_id": "ferry-1"'),
        (("--format", "md"), "### 1. ferry"),
        ((), "<!doctype html>"),
        (("--title", "Night\udcff <1>"), "<title>Night\ufffd &lt;1&gt; · attribeam</title>"),
    ],
    ids=["csv", "dead letters", "jsonl", "md", "html by default", "with a title"],
)
def test_every_format_is_written(made, tmp_path, more, text):
    assert _report(made, tmp_path / "out", *more) == 0
    assert text.lower() in (tmp_path / "out").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("version", ["1.1", "1.3", ""], ids=["earlier", "later", "none"])
@pytest.mark.parametrize("pattern", ["run_manifest.json", "_chunks/*", "evidence/*", "dead_letters/*"])
def test_a_file_of_another_schema_version_is_refused_by_name_with_the_way_out(tmp_path, capsys, pattern, version):
    made = made_audit(tmp_path / "other")
    path = say_version(made.root, pattern, version)
    rows = "dead_letters" if pattern.startswith("dead") else "evidence"
    assert _report(made, tmp_path / "out", "--format", "jsonl", "--rows", rows) == 2
    error = capsys.readouterr().err
    assert f"{path} is of schema version {version!r}, but only files of version '1.2' can be read; audit" in error
    assert not (tmp_path / "out").exists()


def test_comparison_with_an_audit_of_other_logs_says_so_and_one_of_other_answers_is_refused(made, tmp_path, capsys):
    other = made_audit(tmp_path / "other", record_ids=["train-1"])
    assert _report(made, tmp_path / "out.html", "--previous", str(other.root)) == 2
    assert "has none of the record ids of" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
    other = made_audit(tmp_path / "like", record_ids=["ferry-0", "train-1"])
    assert _report(made, tmp_path / "out.html", "--previous", str(other.root)) == 0
    remark = f"The earlier audit read other logs, none of which this one read (the first is {other.log})"
    assert remark in capsys.readouterr().err
    assert remark in (tmp_path / "out.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("output", "more", "complaint"),
    [
        ("out", "csv --answers 5", "--answers"),
        ("out", "md --rows dead_letters", "--rows"),
        ("out", "jsonl --previous x", "--previous"),
        ("out", "csv --title x", "--title"),
        ("", "csv", "existing directory"),
        ("nowhere/rows.csv", "csv", "existing directory"),
    ],
)
def test_what_a_format_or_an_output_cannot_be_is_bad_usage(made, tmp_path, output, more, complaint, capsys):
    assert _report(made, tmp_path / output, "--format", *more.split()) == 2
    assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_rows_and_page_of_an_audit_that_is_not_complete_come_with_a_word_about_it(tmp_path, capsys):
    made = made_audit(tmp_path, status=RunStatus.INTERRUPTED)
    assert _report(made, tmp_path / "out", "--format", "csv") == 0
    assert "status is interrupted" in capsys.readouterr().err
    assert _report(made, tmp_path / "page.html") == 0
    assert "status is interrupted" in capsys.readouterr().err


def _batch(values, kind):
    return pa.record_batch({"value": pa.array(values, kind)})


def _read_csv(lines):
    text = "".join(lines)
    assert text.startswith(BYTE_ORDER_MARK)
    return list(csv.reader(io.StringIO(text.removeprefix(BYTE_ORDER_MARK), newline="")))


def test_csv_has_every_row_and_field_and_lists_as_json(tmp_path):
    audit = made_audit(tmp_path).opened
    names, *rows = _read_csv(csv_lines(audit.evidence_schema, audit.evidence_batches()))
    assert names == audit.evidence_schema.names
    table = [row for batch in audit.evidence_batches() for row in batch.to_pylist()]
    assert len(rows) == len(table) == 6
    for row, record in zip(rows, table, strict=True):
        cells = dict(zip(names, row, strict=True))
        assert cells["text"] == record["text"]
        assert json.loads(cells["evidence"]) == record["evidence"]
        assert float(cells["evidence_mass"]) == record["evidence_mass"]
        assert cells["evidence_isolated"] == "false"
        assert (cells["margin"] == "") == (record["margin"] is None)


@given(st.lists(st.text(st.sampled_from("=+-@＝\t\r\n ,\"';aé"), max_size=8)))
def test_no_text_of_a_csv_is_taken_for_a_formula_and_none_is_lost(texts):
    batch = _batch(list(texts), pa.string())
    _, *rows = _read_csv(csv_lines(batch.schema, [batch]))
    assert len(rows) == len(texts)
    for row, text in zip(rows, texts, strict=True):
        (cell,) = row or [""]
        assert cell.removeprefix("'") == text or cell == text
        assert not cell.startswith(("\t", "\r", "\n"))
        assert not cell.lstrip().startswith(tuple("=+-@＝"))


MOMENT = datetime(2026, 11, 19, 2, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        (MOMENT, pa.timestamp("us", "UTC"), "2026-11-19T02:00:00.000005+00:00"),
        (1_795_053_600_000_000_001, pa.timestamp("ns"), "2026-11-19T02:00:00.000000001"),
        (date(2026, 11, 19), pa.date32(), "2026-11-19"),
        (timedelta(seconds=90), pa.duration("s"), 90.0),
        (b"\xff\x00", pa.binary(), "/wA="),
        (Decimal("4.20"), pa.decimal128(5, 2), "4.20"),
        (float("nan"), pa.float64(), None),
        (float("inf"), pa.float32(), None),
        (np.float16(0.5), pa.float16(), 0.5),
        (True, pa.bool_(), True),
        ([{"a": float("nan")}], pa.list_(pa.struct([("a", pa.float64())])), [{"a": None}]),
        ([{"a": 1.5}], pa.list_(pa.struct([("a", pa.float64())])), [{"a": 1.5}]),
        ([("k", 1)], pa.map_(pa.string(), pa.int8()), [["k", 1]]),
        (None, pa.null(), None),
    ],
)
def test_extra_columns_of_any_type_have_a_plain_value(value, kind, plain):
    (line,) = jsonl_lines([_batch([value], kind)])
    assert json.loads(line) == {"value": plain}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([10**12], pa.list_(pa.timestamp("s"))),
        (0, pa.timestamp("s", "Mars/Base")),
        (0, pa.timestamp("ns", "Mars/Base")),
    ],
)
def test_a_value_that_python_has_no_type_for_is_an_error_that_names_its_column(value, kind):
    batch = _batch([value], kind)
    with pytest.raises(RunError, match="'value'"):
        list(jsonl_lines([batch]))
