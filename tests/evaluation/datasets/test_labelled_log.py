"""Logs with labels: written by people in labelling tools, marked on an audit's page, and imported."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.evaluation.dataset_rows import (
    QUOTESUM,
    quotesum_row,
    ragtruth_response,
    ragtruth_source,
    write_all,
    write_log_rows,
    write_rows,
)
from tests.evaluation.marked_ferries import CARS, LEAVES, answer_marks, claim_marks, save
from tests.logs.log_files import write_log as write_broken_log
from tests.report.made_audit import ANSWER as MARKED_ANSWER
from tests.report.made_audit import made_audit

from attribeam.evaluation.datasets.dataset_file import PassageRange, SkippedRow, UnsupportedRange
from attribeam.evaluation.datasets.labelled_log import load_cited_log, load_judged_log, load_log, load_marks
from attribeam.evaluation.datasets.published import load_alce, load_lfqa, load_quotesum, load_ragtruth, load_veri_gran
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import CharRange, Passage
from attribeam.schemas.errors import DataError, ExitCode
from attribeam.schemas.qa_record import labelled_log_schema

ANSWER = "Ada lit it. A buoy lies there."
SPANS = [{"char_start": 0, "char_end": 11}, {"char_start": 12, "char_end": 30}]


def row(**fields):
    passages = [{"passage_id": "a", "title": "Point", "text": "Ada lit the lamp."}, {"text": "A buoy lies off it."}]
    known = {"record_id": "r", "question": "Who?", "passages": passages, "answer": ANSWER, "target_spans": SPANS}
    return known | fields


def label(**members):
    return members


def test_gold_passages_and_evidence_become_labels(tmp_path):
    labels = [
        label(gold_passages=[0], gold_evidence=[{"passage_index": 0, "char_start": 0, "char_end": 7}]),
        label(gold_passages=[0, 1], gold_evidence=[{"passage_index": 1, "char_start": 2, "char_end": 6}]),
    ]
    (answer,) = load_log(write_log_rows(tmp_path / "l.parquet", [row(span_labels=labels)])).answers
    assert answer.record.passages == (Passage("Ada lit the lamp.", "Point", "a"), Passage("A buoy lies off it."))
    assert answer.gold_passages == (frozenset({0}), frozenset({0, 1}))
    assert answer.gold_evidence == ((PassageRange(0, CharRange(0, 7)),), (PassageRange(1, CharRange(2, 6)),))


def test_evidence_that_only_some_spans_have_is_not_compared(tmp_path):
    marked = label(gold_passages=[0], gold_evidence=[{"passage_index": 0, "char_start": 0, "char_end": 7}])
    rows = [row(span_labels=[marked, marked]), row(record_id="s", span_labels=[marked, label(gold_passages=[1])])]
    dataset = load_log(write_log_rows(tmp_path / "l.parquet", rows))
    assert [answer.gold_evidence for answer in dataset.answers] == [(), ()]


def test_rows_that_cannot_be_used_are_skipped_with_their_reason(tmp_path):
    supported = [label(supported=True)] * 2
    rows = [row(span_labels=None), row(answer=" "), row(passages=[]), row(span_labels=supported)]
    dataset = load_log(write_log_rows(tmp_path / "l.parquet", rows))
    reasons = ("no_gold_passage", "empty_answer", "no_passages", "no_gold_passage")
    assert dataset.skipped == tuple(SkippedRow(number, reason) for number, reason in enumerate(reasons))


def test_unsupported_spans_judge_the_whole_answer_and_leave_the_choice_of_spans_to_the_audit(tmp_path):
    unsupported = [{"char_start": 12, "char_end": 18, "kind": "invented"}, {"char_start": 0, "char_end": 3}]
    rows = [row(unsupported_spans=unsupported, label_group="QA", split="test"), row(unsupported_spans=[])]
    marked, clean = load_judged_log(write_log_rows(tmp_path / "l.parquet", rows)).answers
    assert marked.unsupported == (UnsupportedRange(CharRange(0, 3)), UnsupportedRange(CharRange(12, 18), "invented"))
    assert (marked.record.target_spans, marked.judged, marked.group, marked.split) == (None, None, "QA", "test")
    assert clean.unsupported == ()


def test_spans_labelled_as_supported_or_not_judge_only_themselves(tmp_path):
    rows = [row(span_labels=[label(supported=None), label(supported=False)]), row(span_labels=None)]
    dataset = load_judged_log(write_log_rows(tmp_path / "l.parquet", rows))
    (answer,) = dataset.answers
    assert answer.record.target_spans == answer.judged == (CharRange(12, 30),)
    assert answer.unsupported == (UnsupportedRange(CharRange(12, 30)),)
    assert dataset.skipped == (SkippedRow(1, "not_judged"),)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"span_labels": [{"gold_passages": [0]}]}, "'span_labels' should have one item for each of 2 target spans"),
        ({"span_labels": [{"gold_passages": [2]}, {}]}, r"span_labels\[0\]: field 'gold_passages' should be 0-based"),
    ],
)
def test_broken_label_is_an_error_with_file_row_and_column(tmp_path, fields, problem):
    path = write_log_rows(tmp_path / "l.parquet", [row(), row(**fields)])
    with pytest.raises(DataError, match=rf"l\.parquet, row 1.*{problem}"):
        load_log(path)


def test_log_without_labels_is_an_error_that_says_where_they_are_described(tmp_path):
    columns = {name: [""] for name in ("record_id", "question", "answer")} | {"passages": [[""]]}
    pq.write_table(pa.table(columns), tmp_path / "l")
    with pytest.raises(DataError, match=r"labels in a column span_labels, the file has: .*'Labels' in docs/schema\.md"):
        load_log(tmp_path / "l")
    pq.write_table(pa.table(columns | {"answer_supported": [True]}), tmp_path / "l")
    with pytest.raises(DataError, match="; those in answer_supported are for --measure support; see 'Labels'"):
        load_log(tmp_path / "l")


def test_grade_that_is_no_number_is_an_error_with_file_row_and_column(tmp_path):
    path = write_log_rows(tmp_path / "l.parquet", [row(answer_supported=True)])
    table = pq.read_table(path)
    place = table.column_names.index("faithfulness")
    pq.write_table(table.set_column(place, "faithfulness", pa.array(["high"])), path)
    with pytest.raises(DataError, match=r"l\.parquet, row 0: field 'faithfulness' should be a number, was: str"):
        load_judged_log(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_audit(tmp_path_factory.mktemp("marked"))


def test_marked_claims_are_the_ranges_that_people_looked_at(made, tmp_path):
    file = save(tmp_path / "marks.jsonl", [*claim_marks([0, 1]), *answer_marks([2])])
    fine, lacking, whole = load_marks(file, AuditDirectory.open(made.root)).answers
    assert (fine.record.record_id, fine.record.answer, fine.judged) == ("ferry-0", MARKED_ANSWER, (LEAVES, CARS))
    assert fine.is_supported
    assert [one.chars for one in lacking.unsupported or ()] == [CARS]
    assert not lacking.is_supported
    assert (whole.unsupported, whole.judged, whole.answer_supported) == (None, None, True)


@pytest.mark.parametrize("wrong", [{"text": "The boat sinks"}, {"char_end": 10_000}])
def test_marks_of_other_answers_with_the_same_ids_are_refused(made, tmp_path, wrong):
    file = save(tmp_path / "marks.jsonl", [claim_marks([0])[0] | wrong])
    with pytest.raises(DataError, match=r"claim of 'ferry-0' does not stand in its answer of \d+ characters"):
        load_marks(file, AuditDirectory.open(made.root))


def test_answers_that_are_not_there_any_more_are_skipped(made, tmp_path):
    file = save(tmp_path / "marks.jsonl", answer_marks([0, 77]))
    found = load_marks(file, AuditDirectory.open(made.root))
    assert [one.record.record_id for one in found.answers] == ["ferry-0"]
    assert [one.reason for one in found.skipped] == ["not_in_audit"]
    gone = made_audit(tmp_path / "gone")
    gone.log.unlink()
    skipped = load_marks(file, AuditDirectory.open(gone.root)).skipped
    assert [one.reason for one in skipped] == ["text_gone", "not_in_audit"]


def test_evaluate_scores_against_marks(made, tmp_path):
    file, output = save(tmp_path / "marks.jsonl", claim_marks([0, 1, 2])), tmp_path / "figures.json"
    asked = ["evaluate", "--dataset", "marks", "--data", str(file), "--audit", str(made.root), "--method", "novelty"]
    assert main([*asked, "--output", str(output), "--bootstrap-draws", "20"]) == 0
    figures = json.loads(output.read_text(encoding="utf-8"))
    assert figures["dataset"] == "marks"
    assert list(figures["data_sha256"]) == ["marks.jsonl"]
    assert figures["baselines"][0]["answers"] == 3


@pytest.mark.parametrize("asked", ["marks", "log --audit x", "marks --audit nowhere"])
def test_marks_need_their_audit_and_nothing_else_does(asked, tmp_path, capsys):
    file = save(tmp_path / "marks.jsonl", answer_marks([0]))
    assert main(["evaluate", "--data", str(file), "--dataset", *asked.split()]) == 2
    assert "--audit" in capsys.readouterr().err or "nowhere" in asked


def import_into(output, source, data, *options):
    return main(["import", source, "--data", str(data), "--output", str(output), *options])


DATA = {
    "quotesum": ("quotesum/dev.jsonl", load_quotesum, load_log),
    "veri-gran": ("veri_gran/dev.jsonl", load_veri_gran, load_log),
    "lfqa": ("lfqa/dev.jsonl.xz", load_lfqa, load_log),
    "alce": ("alce/asqa.json", load_alce, load_cited_log),
    "ragtruth": ("ragtruth", load_ragtruth, load_judged_log),
}
"""Data of ``write_all``, and how it and its log are loaded."""


def quotesum(folder):
    return write_rows(folder / "quotesum.jsonl", QUOTESUM)


def without_place(dataset):
    return [str(answer).replace(repr(answer.record.source), "") for answer in dataset.answers]


@pytest.mark.parametrize("source", DATA)
def test_log_has_the_answers_and_labels_of_the_data_set(source, tmp_path, capsys):
    path, load_data, load_imported = DATA[source]
    data, log = write_all(tmp_path / "data") / path, tmp_path / "log.parquet"
    assert import_into(log, source, data) == 0
    assert without_place(load_imported(log)) == without_place(load_data(data))
    assert pq.read_schema(log).equals(labelled_log_schema())
    first, *skipped = capsys.readouterr().out.splitlines()
    rows = [int(word) for word in first.split() if word.isdigit()]
    assert rows[0] == rows[1] + rows[2] > 0
    assert skipped == (["skipped, no_span: 1 rows: 1"] if source == "quotesum" else [])


def test_existing_log_is_kept_unless_it_may_be_replaced(tmp_path, capsys):
    data, log = quotesum(tmp_path), tmp_path / "log.parquet"
    log.write_text("mine")
    assert import_into(log, "quotesum", data) == ExitCode.BAD_USAGE
    assert log.read_text() == "mine"
    assert "exists already; name another --output, or replace it with --overwrite" in capsys.readouterr().err
    assert import_into(log, "quotesum", data, "--overwrite") == 0
    assert pq.read_metadata(log).num_rows == 2


def test_faulty_data_leaves_no_file(tmp_path, capsys):
    data = write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 1 Ada ] ."), quotesum_row("[ 7 Ada ] .")])
    assert import_into(tmp_path / "log.parquet", "quotesum", data) == ExitCode.BAD_USAGE
    assert "line 2: field 'summary' marks source 7" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


def test_surrogate_in_a_label_is_a_skipped_row(tmp_path, capsys):
    source = ragtruth_source("s", "Ada lit the lamp.")
    responses = [
        ragtruth_response("1", "s", "Ada lit it.", {"Ada": "\ud800"}),
        ragtruth_response("2", "s", "Ada lit it.", split="\ud800"),
        ragtruth_response("3", "s", "Ada lit it."),
    ]
    folder = tmp_path / "ragtruth"
    folder.mkdir()
    for name, rows in (("source_info", [source]), ("response", responses)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="ascii")
    assert import_into(tmp_path / "log.parquet", "ragtruth", folder) == 0
    assert "skipped, invalid_unicode: 2 rows: 0, 1" in capsys.readouterr().out


def test_rows_that_no_log_can_hold_are_skipped_with_their_reason(tmp_path, capsys):
    rows = [quotesum_row("[ 1 Ada ] lit it.", row_id=name) for name in ("", "b", "c", "c")]
    rows[1] |= {"source1": " ", "source2": " "}
    assert import_into(tmp_path / "log.parquet", "quotesum", write_rows(tmp_path / "q.jsonl", rows)) == 0
    reasons = ("duplicate_record_id: 1 rows: 3", "no_passages: 1 rows: 1", "no_record_id: 1 rows: 0")
    assert capsys.readouterr().out.splitlines()[1:] == [f"skipped, {reason}" for reason in reasons]


def test_row_that_an_audit_would_refuse_is_skipped_with_the_same_reason(tmp_path):
    rows = [row(question=None), row(target_spans=[{"char_start": 3, "char_end": 99}]), row(question=b"\xff")]
    log = write_broken_log(tmp_path / "l.parquet", rows, schema=labelled_log_schema())
    reasons = ("missing_value", "span_out_of_range", "invalid_utf8")
    assert load_log(log).skipped == tuple(SkippedRow(number, reason) for number, reason in enumerate(reasons))
