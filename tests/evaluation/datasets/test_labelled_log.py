import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.evaluation.dataset_rows import write_log_rows
from tests.logs.log_files import write_log as write_broken_log

from attribeam.evaluation.datasets.labelled_log import load_cited_log, load_judged_log, load_log
from attribeam.logs.columns import LogOptions
from attribeam.schemas import CharRange, Passage
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import PassageRange, SkippedRow, UnsupportedRange
from attribeam.schemas.qa_record import labelled_log_schema

ANSWER = "Ada lit it. A buoy lies there."
SPANS = [{"char_start": 0, "char_end": 11}, {"char_start": 12, "char_end": 30}]


def row(**fields: object) -> dict[str, object]:
    passages = [{"passage_id": "a", "title": "Point", "text": "Ada lit the lamp."}, {"text": "A buoy lies off it."}]
    known = {"record_id": "r", "question": "Who?", "passages": passages, "answer": ANSWER, "target_spans": SPANS}
    return known | fields


def label(**members: object) -> dict[str, object]:
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


def test_span_without_a_gold_passage_is_not_evaluated(tmp_path):
    labels = [label(gold_passages=[]), label(gold_passages=[1])]
    (answer,) = load_log(write_log_rows(tmp_path / "l.parquet", [row(span_labels=labels)])).answers
    assert answer.spans == (CharRange(12, 30),)


def test_evidence_that_only_some_spans_have_is_not_compared(tmp_path):
    marked = label(gold_passages=[0], gold_evidence=[{"passage_index": 0, "char_start": 0, "char_end": 7}])
    rows = [row(span_labels=[marked, marked]), row(record_id="s", span_labels=[marked, label(gold_passages=[1])])]
    dataset = load_log(write_log_rows(tmp_path / "l.parquet", rows))
    assert [answer.gold_evidence for answer in dataset.answers] == [(), ()]


def test_rows_that_cannot_be_used_are_skipped_with_their_reason(tmp_path):
    rows = [
        row(span_labels=None),
        row(answer=" "),
        row(passages=[]),
        row(span_labels=[label(supported=True), label(supported=True)]),
    ]
    dataset = load_log(write_log_rows(tmp_path / "l.parquet", rows))
    reasons = ("no_gold_passage", "empty_answer", "no_passages", "no_gold_passage")
    assert dataset.skipped == tuple(SkippedRow(number, reason) for number, reason in enumerate(reasons))


def test_citations_are_read_even_if_their_passages_do_not_exist(tmp_path):
    labels = [label(cited_passages=[]), label(cited_passages=[1, 9])]
    (answer,) = load_cited_log(write_log_rows(tmp_path / "l.parquet", [row(span_labels=labels)])).answers
    assert (answer.citations, answer.gold_passages) == (((), (1, 9)), ())


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


def test_row_that_an_audit_would_refuse_is_skipped_with_the_same_reason(tmp_path):
    rows = [row(question=None), row(target_spans=[{"char_start": 3, "char_end": 99}]), row(question=b"\xff")]
    log = write_broken_log(tmp_path / "l.parquet", rows, schema=labelled_log_schema())
    reasons = ("missing_value", "span_out_of_range", "invalid_utf8")
    assert load_log(log).skipped == tuple(SkippedRow(number, reason) for number, reason in enumerate(reasons))


def test_renamed_columns_are_read(tmp_path):
    rows = [row(span_labels=[label(gold_passages=[0])] * 2)]
    table = pq.read_table(write_log_rows(tmp_path / "l.parquet", rows)).rename_columns({"answer": "response"})
    pq.write_table(table, tmp_path / "l.parquet")
    (answer,) = load_log(tmp_path / "l.parquet", LogOptions((("answer", "response"),))).answers
    assert answer.record.answer == ANSWER


def test_log_of_plain_texts_and_whole_numbers_as_ids_is_read(tmp_path):
    table = pa.table(
        {
            "record_id": [7],
            "question": ["Who?"],
            "passages": [["Ada lit the lamp."]],
            "answer": ["Ada."],
            "unsupported_spans": pa.array([[]], pa.list_(pa.struct([("char_start", pa.int64())]))),
        }
    )
    pq.write_table(table, tmp_path / "l.parquet")
    (answer,) = load_judged_log(tmp_path / "l.parquet").answers
    assert (answer.record.record_id, answer.record.passages) == ("7", (Passage("Ada lit the lamp."),))


def test_log_without_labels_is_an_error_that_says_where_they_are_described(tmp_path):
    columns = {name: [""] for name in ("record_id", "question", "answer")} | {"passages": [[""]]}
    pq.write_table(pa.table(columns), tmp_path / "l")
    with pytest.raises(DataError, match=r"labels in a column span_labels, the file has: .*'Labels' in docs/schema\.md"):
        load_log(tmp_path / "l")


@pytest.mark.parametrize(("name", "problem"), [("none.parquet", "is not there"), ("text", "should be a Parquet file")])
def test_file_that_is_not_a_log_is_one_clear_error(tmp_path, name, problem):
    (tmp_path / "text").write_text("no Parquet", encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        load_log(tmp_path / name)


def test_answer_judged_as_a_whole_needs_no_ranges(tmp_path):
    rows = [row(answer_supported=False, faithfulness=1.5, error_kinds=["swap"]), row(answer_supported=None)]
    dataset = load_judged_log(write_log_rows(tmp_path / "l.parquet", rows))
    (answer,) = dataset.answers
    assert (answer.unsupported, answer.is_supported, answer.faithfulness) == (None, False, 1.5)
    assert (answer.error_kinds, answer.record.target_spans) == (("swap",), None)
    assert dataset.skipped == (SkippedRow(1, "not_judged"),)


def test_grade_that_is_no_number_is_an_error_with_file_row_and_column(tmp_path):
    path = write_log_rows(tmp_path / "l.parquet", [row(answer_supported=True)])
    table = pq.read_table(path)
    place = table.column_names.index("faithfulness")
    pq.write_table(table.set_column(place, "faithfulness", pa.array(["high"])), path)
    with pytest.raises(DataError, match=r"l\.parquet, row 0: field 'faithfulness' should be a number, was: str"):
        load_judged_log(path)
