"""The options of attribeam report, its rows as CSV and JSON lines, and its digest: texts of a log stay text."""

import csv
import html
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.report.made_audit import (
    ANSWER,
    PASSAGES,
    made_audit,
    no_claim,
    say_version,
    supported_span,
    told_spans,
    unsupported_span,
)

from attribeam.pipeline.command_line import main
from attribeam.report.messages import one_line
from attribeam.report.report_command import BYTE_ORDER_MARK, csv_lines, digest_lines, escape_markdown, jsonl_lines
from attribeam.schemas import AnswerKind, ClaimKind, Passage
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import RunStatus


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_audit(tmp_path_factory.mktemp("report"))


def _report(made, output, *more):
    return main(["report", "--audit", str(made.root), "--output", str(output), *more])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--format", "csv"), "ferry-1,"), (("--format", "csv", "--rows", "dead_letters"), "empty_answer"),
        (("--format", "jsonl"), '"record_id": "ferry-1"'), (("--format", "md"), "### 1. ferry"),
        ((), "<!doctype html>"), (("--title", "Night\udcff <1>"), "<title>Night\ufffd &lt;1&gt; · attribeam</title>"),
    ],
    ids=["csv", "dead letters", "jsonl", "md", "html by default", "with a title"],
)  # fmt: skip
def test_every_format_is_written(made, tmp_path, more, text):
    assert _report(made, tmp_path / "out", *more) == 0
    assert text.lower() in (tmp_path / "out").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(("name", "text"), [("rows.csv", "ferry-1,"), ("a.md", "### 1. ferry"), ("a.htm", "<!doctype")])
def test_without_a_format_the_end_of_the_file_name_says_it(made, tmp_path, name, text):
    assert _report(made, tmp_path / name) == 0
    assert text in (tmp_path / name).read_text(encoding="utf-8")


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
        ("out", "csv --answers 5", "--answers"), ("out", "md --rows dead_letters", "--rows"),
        ("out", "jsonl --previous x", "--previous"), ("out", "csv --title x", "--title"),
        ("", "csv", "existing directory"), ("nowhere/rows.csv", "csv", "existing directory"),
    ],
)  # fmt: skip
def test_what_a_format_or_an_output_cannot_be_is_bad_usage(made, tmp_path, output, more, complaint, capsys):
    assert _report(made, tmp_path / output, "--format", *more.split()) == 2
    assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_rows_and_page_of_an_audit_that_is_not_complete_come_with_a_word_about_it(tmp_path, capsys):
    made = made_audit(tmp_path, status=RunStatus.INTERRUPTED)
    for more in (("--format", "csv"), ()):
        assert _report(made, tmp_path / "out", *more) == 0
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
        (date(2026, 11, 19), pa.date32(), "2026-11-19"), (timedelta(seconds=90), pa.duration("s"), 90.0),
        (b"\xff\x00", pa.binary(), "/wA="), (Decimal("4.20"), pa.decimal128(5, 2), "4.20"),
        (float("nan"), pa.float64(), None), (float("inf"), pa.float32(), None), (np.float16(0.5), pa.float16(), 0.5),
        (True, pa.bool_(), True), ([{"a": float("nan")}], pa.list_(pa.struct([("a", pa.float64())])), [{"a": None}]),
        ([{"a": 1.5}], pa.list_(pa.struct([("a", pa.float64())])), [{"a": 1.5}]),
        ([("k", 1)], pa.map_(pa.string(), pa.int8()), [["k", 1]]), (None, pa.null(), None),
    ],
)  # fmt: skip
def test_extra_columns_of_any_type_have_a_plain_value(value, kind, plain):
    (line,) = jsonl_lines([_batch([value], kind)])
    assert json.loads(line) == {"value": plain}


MARS = (pa.timestamp(unit, "Mars/Base") for unit in ("s", "ns"))


@pytest.mark.parametrize(("value", "kind"), [([10**12], pa.list_(pa.timestamp("s"))), *((0, kind) for kind in MARS)])
def test_a_value_that_python_has_no_type_for_is_an_error_that_names_its_column(value, kind):
    with pytest.raises(RunError, match="'value'"):
        list(jsonl_lines([_batch([value], kind)]))


HOSTILE = "<script>alert(1)</script> | [x](http://y) `a` **b** ![i](j) &amp; \x1b[2J"


def _rendered(markdown):
    return MarkdownIt("commonmark").enable("table").render(markdown)


_ALONE = replace(unsupported_span(), span_index=0, claim_index=0)


def test_figures_come_first_and_then_answers_by_risk(tmp_path):
    made = made_audit(tmp_path, spans={0: (supported_span(),), 2: (_ALONE,)})
    lines = list(digest_lines(made.opened, answers=2))
    text = "\n".join(lines)
    assert "| rows | 4 |  |" in lines
    assert "| dead letters: `empty_answer` | 1 | 25.0% |" in lines
    assert "## The 2 riskiest of 3 audited answers" in text
    headings = [line.split()[2] for line in lines if line.startswith("### ")]
    assert headings == ["ferry-2", "ferry-1"]
    assert "> When does the ferry leave?  " in lines
    assert "| unsupported |  | 6% | 40 cars | 40 | none |" in lines
    assert "Supported claims besides: 1." in text


def test_a_digest_lists_claims_and_says_what_refuses_or_is_not_judged(tmp_path):
    claim = replace(unsupported_span(), span_index=0, claim_index=0, support_score=0.25, answer_risk=0.75)
    part = replace(claim, span_index=1, text="40")
    spans = {
        0: (no_claim(ClaimKind.LANGUAGE, answer_kind=AnswerKind.NOT_JUDGED),),
        1: (no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL, answer_risk=0.125),),
        2: (claim, part),
    }
    lines = list(digest_lines(made_audit(tmp_path, spans=spans).opened, answers=9))
    headings = ("1. ferry-2 (risk 0.75)", "2. ferry-1 (risk 0.12, a refusal)", "3. ferry-0 (not judged: language)")
    assert [line for line in lines if line.startswith("### ")] == [f"### {one}\n" for one in headings]
    unsupported = ["| unsupported | 1 | 100.0% |", "| unsupported | 0.25 | 6% | 40 cars | 40 | none |"]
    assert [line for line in lines if line.startswith("| unsupp")] == unsupported
    assert "| spans with support `not_judged` | 1 |  |" in lines
    assert "| answers of the kind `refusal` | 1 | 33.3% |" in lines


def test_a_digest_says_why_a_claim_is_unsupported_and_without_its_log_has_no_whole_texts(tmp_path):
    made = made_audit(tmp_path, record_ids=["ferry"], spans={0: told_spans()})
    made.log.unlink()
    lines = [*digest_lines(made.opened, answers=1)]
    (row,) = (line for line in lines if line.startswith("| unsupported: "))
    assert row.split(" | ")[0] == "| unsupported: other value — evidence says: twelve"
    assert "40 cars" in "\n".join(lines)
    assert "Question" not in "\n".join(lines)


def test_hostile_texts_in_every_field_stay_text(tmp_path):
    texts = dict.fromkeys(("record_id", "question", "generator"), HOSTILE)
    texts |= {"answer": f"{ANSWER}\n{HOSTILE}", "passages": (Passage(HOSTILE, HOSTILE, HOSTILE), PASSAGES[1])}
    spans = {0: (replace(_ALONE, text=HOSTILE, unmatched_values=(HOSTILE,)),)}
    made = made_audit(tmp_path, record_ids=["x"], spans=spans, change=lambda record: replace(record, **texts))
    page = _rendered("\n".join(digest_lines(made.opened, answers=5)))
    assert "\x1b" not in page
    for tag in ("<script", "<a ", "<img", "<em>"):
        assert tag not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; | [x](http://y) `a` **b** ![i](j) &amp;amp;") == 6


@given(st.text(st.sampled_from("ab1.)#-+=>*_`[]()<>|~$&!\\@:/ \n\u202e\x1b"), max_size=30).map(lambda text: f"{text}z"))
def test_markdown_shows_escaped_text_as_it_is(text):
    line = one_line(text).strip()
    assert _rendered(escape_markdown(line)) == f"<p>{html.escape(line)}</p>\n"
