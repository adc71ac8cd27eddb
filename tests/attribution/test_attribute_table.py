"""Audits of tables: every row is in one of two tables, a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from tests.logs.log_files import log_row

from attribeam.attribution.attribute_table import Refusal, SpanOutcome, TableAudit, table_log
from attribeam.logs.arrow_logs import TableLog
from attribeam.schemas import (
    CharRange,
    QARecord,
    Reason,
    RowFault,
    SpanEvidence,
    SpanKind,
    Stage,
    Support,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.errors import LogFormatError, UsageError


class Audited:
    """Stands for the models: one span per answer, and the rows that it refuses."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.sizes: list[int] = []

    def __call__(self, records: Sequence[QARecord]) -> list[SpanOutcome]:
        self.sizes.append(len(records))
        return [self._outcome(record) for record in records]

    def _outcome(self, record: QARecord) -> SpanOutcome:
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


def rows_of(count: int) -> pa.Table:
    return pa.Table.from_pylist([log_row(number, thumbs=number % 2 == 0) for number in range(count)])


def log_of(data: object, **options: object) -> TableLog:
    given = {"columns": None, "extra_columns": (), "name": "table", "max_text_chars": 1000}
    return table_log(data, **(given | options))  # type: ignore[arg-type]


def audit(audited: Audited) -> TableAudit:
    return TableAudit(audited, {"method": "none"}, has_mass=False)


def test_every_row_is_in_one_of_two_tables() -> None:
    table = pa.concat_tables([rows_of(5), rows_of(1)])
    evidence, letters = audit(Audited("row-2")).of(log_of(table, extra_columns=["thumbs"]), progress=False)
    assert evidence.column("source_row").to_pylist() == [0, 1, 3, 4]
    assert evidence.column("thumbs").to_pylist() == [True, False, False, True]
    assert set(evidence.column("source_file").to_pylist()) == {"table"}
    assert [(one["source_row"], one["stage"], one["reason"]) for one in letters.to_pylist()] == [
        (2, "attribute", "too_many_tokens"),
        (5, "validate", "duplicate_record_id"),
    ]


def test_the_tables_have_the_schemas_of_an_audits_files() -> None:
    found = audit(Audited()).of(log_of(rows_of(2)), progress=False)
    assert found.evidence.schema.equals(evidence_schema(has_mass=False))
    assert found.dead_letters.schema.equals(dead_letter_schema())
    assert found.evidence.schema.metadata[b"attribeam.method"] == b"none"


def test_an_empty_table_has_empty_results() -> None:
    found = audit(Audited()).of(log_of(rows_of(1).slice(0, 0)), progress=False)
    assert (found.evidence.num_rows, found.dead_letters.num_rows) == (0, 0)
    assert found.evidence.schema.names == evidence_schema().names


def test_at_most_256_rows_are_audited_at_once() -> None:
    audited = Audited()
    parts = [one.evidence.num_rows for one in audit(audited).batches(log_of(rows_of(600)), progress=False)]
    assert audited.sizes == parts == [256, 256, 88]


def test_batches_are_read_as_they_are_asked_for() -> None:
    audited = Audited()
    next(audit(audited).batches(log_of(rows_of(600).to_reader(max_chunksize=100)), progress=False))
    assert audited.sizes == [256]


def test_progress_is_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    audit(Audited()).of(log_of(rows_of(3)), progress=False)
    assert capsys.readouterr().err == ""
    audit(Audited()).of(log_of(rows_of(3)), progress=True)
    assert "3/3" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [{"answer": "response"}, "answer=response"])
def test_columns_are_mapped_by_a_mapping_or_as_on_the_command_line(columns: object) -> None:
    table = rows_of(2).rename_columns({"answer": "response"})
    assert audit(Audited()).of(log_of(table, columns=columns), progress=False).evidence.num_rows == 2


def test_extra_columns_may_be_written_as_on_the_command_line() -> None:
    found = audit(Audited()).of(log_of(rows_of(2), extra_columns="thumbs, question"), progress=False)
    assert found.evidence.schema.names[-2:] == ["thumbs", "question"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"reply": "answer"}}, r"columns should be a list .* among record_id, .*, has: 'reply'"),
        ({"columns": {"answer": None}}, r"has: 'answer'"),
        ({"columns": "answer"}, r"has: 'answer'"),
        ({"columns": "answer=a,answer=b"}, r"has 'answer' twice"),
        ({"extra_columns": ["answer_risk"]}, r"'answer_risk' has the name of a field.*leave it out of extra_columns"),
    ],
)
def test_a_name_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    table = rows_of(1).append_column("answer_risk", pa.array([0.5]))
    with pytest.raises(UsageError, match=message):
        audit(Audited()).of(log_of(table, **options), progress=False)


def test_a_column_of_another_type_is_refused_before_anything_is_audited() -> None:
    audited = Audited()
    table = rows_of(1).set_column(3, "answer", pa.array([5]))
    with pytest.raises(LogFormatError, match="table: column 'answer' should be a string, is int64"):
        next(audit(audited).batches(log_of(table), progress=False))
    assert audited.sizes == []


def test_a_text_that_is_too_long_is_a_dead_letter_that_names_the_keyword() -> None:
    found = audit(Audited()).of(log_of(rows_of(1), max_text_chars=20), progress=False)
    assert found.dead_letters.column("message")[0].as_py().endswith("raise max_text_chars")
