"""Rows in Python and tables: what may stand for a record, and every row is in one of two tables."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.logs.log_files import log_row

from attribeam.attribution.attribute_table import Refusal, TableAudit, table_log
from attribeam.attribution.rows import check_record, record_of, records_of
from attribeam.schemas import (
    CharRange,
    Passage,
    QARecord,
    Reason,
    RowFault,
    RowSource,
    SpanEvidence,
    SpanKind,
    Stage,
    Support,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.errors import DataError, LogFormatError, UsageError


class Audited:
    """Stands for the models: one span per answer, and the rows that it refuses."""

    def __init__(self, *refused):
        self.refused = refused
        self.sizes = []

    def __call__(self, records):
        self.sizes.append(len(records))
        return [self._outcome(record) for record in records]

    def _outcome(self, record):
        if record.record_id in self.refused:
            return Refusal(Stage.ATTRIBUTE, RowFault(Reason.TOO_MANY_TOKENS, "too long", column="answer"))
        chars = CharRange(0, len(record.answer))
        scores = (0.0,) * len(record.passages)
        return (
            SpanEvidence(
                0, SpanKind.SENTENCES, chars, record.answer, (chars,), (), scores, None, None, None, None, False,
                Support.NOT_CALIBRATED, (),
            ),
        )  # fmt: skip


def rows_of(count):
    return pa.Table.from_pylist([log_row(number, thumbs=number % 2 == 0) for number in range(count)])


def log_of(data, **options):
    given = {"columns": None, "extra_columns": (), "name": "table", "max_text_chars": 1000}
    return table_log(data, **(given | options))


def audit(audited):
    return TableAudit(audited, {"method": "none"}, has_mass=False)


def test_every_row_is_in_one_of_two_tables():
    table = pa.concat_tables([rows_of(5), rows_of(1)])
    evidence, letters = audit(Audited("row-2")).of(log_of(table, extra_columns=["thumbs"]), progress=False)
    assert evidence.column("source_row").to_pylist() == [0, 1, 3, 4]
    assert evidence.column("thumbs").to_pylist() == [True, False, False, True]
    assert set(evidence.column("source_file").to_pylist()) == {"table"}
    assert [(one["source_row"], one["stage"], one["reason"]) for one in letters.to_pylist()] == [
        (2, "attribute", "too_many_tokens"),
        (5, "validate", "duplicate_record_id"),
    ]


def test_the_tables_have_the_schemas_of_an_audits_files():
    found = audit(Audited()).of(log_of(rows_of(2)), progress=False)
    assert found.evidence.schema.equals(evidence_schema(has_mass=False))
    assert found.dead_letters.schema.equals(dead_letter_schema())
    assert found.evidence.schema.metadata[b"attribeam.method"] == b"none"


def test_at_most_256_rows_are_audited_at_once():
    audited = Audited()
    parts = [one.evidence.num_rows for one in audit(audited).batches(log_of(rows_of(600)), progress=False)]
    assert audited.sizes == parts == [256, 256, 88]


def test_batches_are_read_as_they_are_asked_for():
    audited = Audited()
    next(audit(audited).batches(log_of(rows_of(600).to_reader(max_chunksize=100)), progress=False))
    assert audited.sizes == [256]


@pytest.mark.parametrize("columns", [{"answer": "response"}, "answer=response"])
def test_columns_are_mapped_by_a_mapping_or_as_on_the_command_line(columns):
    table = rows_of(2).rename_columns({"answer": "response"})
    assert audit(Audited()).of(log_of(table, columns=columns), progress=False).evidence.num_rows == 2


@pytest.mark.parametrize(("options", "message"), [
    ({"columns": {"reply": "answer"}}, r"columns should be a list .* among record_id, .*, has: 'reply'"),
    ({"columns": {"answer": None}}, r"has: 'answer'"), ({"columns": "answer"}, r"has: 'answer'"),
    ({"columns": "answer=a,answer=b"}, r"has 'answer' twice"),
    ({"extra_columns": ["answer_risk"]}, r"'answer_risk' has the name of a field.*leave it out of extra_columns"),
])  # fmt: skip
def test_a_name_that_cannot_be_is_refused(options, message):
    table = rows_of(1).append_column("answer_risk", pa.array([0.5]))
    with pytest.raises(UsageError, match=message):
        audit(Audited()).of(log_of(table, **options), progress=False)


def test_a_column_of_another_type_is_refused_before_anything_is_audited():
    audited = Audited()
    table = rows_of(1).set_column(3, "answer", pa.array([5]))
    with pytest.raises(LogFormatError, match="table: column 'answer' should be a string, is int64"):
        next(audit(audited).batches(log_of(table), progress=False))
    assert audited.sizes == []


def test_columns_that_are_missing_are_named_with_the_keyword_for_all_of_them():
    table = rows_of(1).rename_columns({"question": "query", "answer": "response"})
    with pytest.raises(LogFormatError, match=r'these fields with columns=\{"question": \.\.\., "answer": \.\.\.\}$'):
        next(audit(Audited()).batches(log_of(table), progress=False))


def test_a_text_that_is_too_long_is_a_dead_letter_that_names_the_keyword():
    found = audit(Audited()).of(log_of(rows_of(1), max_text_chars=20), progress=False)
    assert found.dead_letters.column("message")[0].as_py().endswith("raise max_text_chars")


ROW = {"question": "Who keeps the light?", "passages": ["Oda keeps it."], "answer": "Oda."}


def fault_of(row):
    (outcome,) = records_of([row])
    assert isinstance(outcome, RowFault)
    return outcome


def test_a_dict_has_the_names_of_a_logs_columns():
    (found,) = records_of(
        [
            {
                "record_id": 7,
                "question": "Who?",
                "passages": [{"text": "Oda keeps it.", "title": "Light", "passage_id": 3}, ("Tower", "It is tall.")],
                "answer": "Oda does.",
                "target_spans": [{"char_start": 0, "char_end": 3}, (4, 8), CharRange(0, 3)],
                "thumbs": "up",
            }
        ]
    )
    assert found == QARecord(
        "7",
        "Who?",
        (Passage("Oda keeps it.", "Light", "3"), Passage("It is tall.", "Tower")),
        "Oda does.",
        RowSource("", 0),
        (CharRange(0, 3), CharRange(4, 8), CharRange(0, 3)),
    )


def test_a_passage_may_come_in_any_form():
    found = record_of("Who?", [Passage("It.", "B"), ("B", "It."), {"title": "B", "text": "It."}, "It."], "Oda.", None)
    assert found.passages == (*[Passage("It.", "B")] * 3, Passage("It."))


def test_arrays_may_stand_for_lists_and_other_fields_of_a_passage_are_not_read():
    passages = np.array([{"text": "Oda keeps it.", "score": 0.5}], dtype=object)
    (found,) = records_of([ROW | {"passages": passages, "target_spans": np.array([[0, 3]])}])
    assert (found.passages, found.target_spans) == ((Passage("Oda keeps it."),), (CharRange(0, 3),))


def test_numbers_and_pairs_in_a_record_are_read_as_those_of_a_dict():
    made = QARecord(
        "r", "Who?", (Passage("Oda keeps it.", None, 3),), "Oda.", RowSource("log", 4), ((0, 3),), notes=("n",)
    )
    passages, spans = (Passage("Oda keeps it.", None, "3"),), (CharRange(0, 3),)
    assert records_of([made]) == [replace(made, passages=passages, target_spans=spans)]


def test_a_row_without_an_id_is_named_by_its_place():
    assert [one.record_id for one in records_of([ROW, ROW | {"record_id": None}])] == ["0", "1"]


@pytest.mark.parametrize(
    ("field", "reason"),
    [("question", Reason.MISSING_VALUE), ("passages", Reason.NO_PASSAGES), ("answer", Reason.EMPTY_ANSWER)],
)
def test_none_is_the_fault_of_its_row_as_null_is_in_a_log(field, reason):
    good, faulty = records_of([ROW, ROW | {field: None}])
    assert isinstance(good, QARecord)
    assert (faulty.reason, faulty.column) == (reason, field)


@pytest.mark.parametrize(("field", "value"), [
    ("passages", ["a", None]), ("passages", [{"text": None, "title": "Light"}]), ("target_spans", [None]),
    ("target_spans", [{"char_start": None, "char_end": 3}]),
])  # fmt: skip
def test_none_inside_a_list_is_the_fault_of_its_row(field, value):
    fault = fault_of(ROW | {field: value})
    assert (fault.reason, fault.column) == (Reason.MISSING_VALUE, field)
    if field == "passages":
        with pytest.raises(DataError, match=r"passages\[\d\]: a passage should have 'text', but is None"):
            record_of("Who?", value, "Oda.", None)


@pytest.mark.parametrize(("row", "message"), [
    ({"question": "Who?", "answer": "Oda."}, r"row 1: the field 'passages' is needed, there are: question, answer"),
    (ROW | {"answer": 5}, r"row 1: answer should be a string, was a int; correct the row, or leave it out"),
    (ROW | {"question": ["Who?"]}, r"row 1: question should be a string, was a list"),
    (ROW | {"passages": "Oda keeps it."}, r"row 1: passages should be a list of passages.*, was a str"),
    (ROW | {"passages": ["a", 5]}, r"row 1: passages\[1\] should be a text, .*, was a int"),
    (ROW | {"passages": [{"body": "a"}]}, r"row 1: passages\[0\]: a passage should have 'text'"),
    (ROW | {"passages": [{"text": "a", "title": 5}]}, r"row 1: passages\[0\]\['title'\] should be a string"),
    (ROW | {"passages": [(None, None)]}, r"row 1: passages\[0\]\[1\] should be a string, was a None"),
    (ROW | {"target_spans": [5]}, r"row 1: target_spans\[0\] should be a pair"),
    (ROW | {"target_spans": [(0, 1.5)]}, r"row 1: target_spans\[0\] should be the whole numbers"),
    (ROW | {"target_spans": [(0, 1, 2)]}, r"row 1: target_spans\[0\] should be the whole numbers"),
    (ROW | {"target_spans": ["01"]}, r"row 1: target_spans\[0\] should be a pair"),
    (ROW | {"record_id": 1.5}, r"row 1: record_id should be a string or an integer, was a float"),
    (["Who?"], r"row 1: a QARecord or a dict is needed, was a list; .*attribute_table"),
    (QARecord("r", None, (), "Oda.", RowSource("", 0)), r"row 1: question should be a string, was a None"),
    (QARecord("r", "Who?", ("a",), "Oda.", RowSource("", 0)), r"row 1: passages\[0\] should be a Passage, was a str"),
    (QARecord("r", "Who?", (Passage("a", title=5),), "Oda.", RowSource("", 0)),
        r"row 1: passages\[0\]\['title'\] should be a string, was a int"),
])  # fmt: skip
def test_a_field_of_another_type_is_an_error_that_names_row_and_field(row, message):
    with pytest.raises(DataError, match=message):
        records_of([ROW, row])


@pytest.mark.parametrize(("rows", "message"), [
    (pa.table({"question": ["Who?"]}), r"was a Table; a table of rows goes to attribute_table"),
    (ROW, r"was a single dict; put it into a list"), ("Who?", r"was a single str"),
    (None, r"a list of QARecords or dicts is needed, was a None"),
])  # fmt: skip
def test_what_is_no_list_of_rows_is_refused_with_the_way_out(rows, message):
    with pytest.raises(UsageError, match=message):
        records_of(rows)


@pytest.mark.parametrize(("given", "message"), [
    ((None, ["a"], "Oda."), 'question should be a string, was None; give "" where nothing was asked'),
    (("Who?", None, "Oda."), "passages should be a list of passages, was None"),
    (("Who?", ["a"], None), "answer should be a string, was None"),
    (("Who?", ["a"], b"Oda."), "answer should be a string, was a bytes"),
    (("Who?", "a passage", "Oda."), "passages should be a list of passages; put a single one into a list"),
    *((("Who?", [one], "Oda."), "a passage should have 'text'") for one in ({"body": "text"}, {"text": None},
        {"text": "t", "url": "u"})),
])  # fmt: skip
def test_a_single_row_without_a_field_is_an_error_that_names_it(given, message):
    with pytest.raises(DataError, match=message):
        record_of(*given, None)


def test_an_impossible_range_is_the_fault_of_its_row():
    assert fault_of(ROW | {"target_spans": [(3, 3)]}).reason is Reason.SPAN_OUT_OF_RANGE


def test_half_a_surrogate_pair_is_the_fault_of_its_row():
    (record,) = records_of([ROW | {"passages": ["Oda \ud83d keeps it."]}])
    assert isinstance(record, QARecord)
    with pytest.raises(RowFault, match="half of a surrogate pair at code point 4") as caught:
        check_record(record)
    assert (caught.value.reason, caught.value.column) == (Reason.INVALID_UTF8, "passages")
