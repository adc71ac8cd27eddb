"""The records and their Arrow schemas: every row fits, nothing reveals an answer unasked, faults survive pickling."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from attribeam.schemas import (
    SCHEMA_VERSION,
    CharRange,
    ClaimKind,
    DeadLetter,
    EvidencePiece,
    Passage,
    QARecord,
    Reason,
    RowFault,
    RowSource,
    SpanEvidence,
    SpanKind,
    Stage,
    Support,
    SupportedHow,
    UnsupportedReason,
    dead_letter_row,
    dead_letter_schema,
    evidence_row,
    evidence_schema,
)
from attribeam.schemas.claim_rows import claim_mask
from attribeam.schemas.evidence_record import evidence_table

SOURCE = RowSource("log.parquet", 4)
RECORD = QARecord("r", "Who?", (Passage("Ada lit it."),), "Ada.", SOURCE, extra_columns=(("region", "north"),))
PIECE = EvidencePiece(0, None, False, CharRange(0, 3), "Ada", 0.5)
SPAN = SpanEvidence(
    span_index=0,
    span_kind=SpanKind.FACTS,
    chars=CharRange(0, 3),
    text="Ada",
    atomic_fact=(CharRange(0, 3),),
    evidence=(PIECE,),
    passage_scores=(0.5,),
    top_passage_index=0,
    top_passage_id=None,
    margin=1.0,
    evidence_mass=0.5,
    evidence_isolated=False,
    support=Support.SUPPORTED,
    unmatched_values=("1874",),
)


def test_evidence_row_has_the_fields_of_its_schema_in_their_order() -> None:
    schema = evidence_schema(extra_fields=[pa.field("region", pa.string())])
    row = evidence_row(RECORD, SPAN)
    assert list(row) == schema.names
    (read,) = pa.Table.from_pylist([row], schema=schema).to_pylist()
    assert read == row


def test_evidence_table_is_the_rows_of_all_spans_in_their_order() -> None:
    schema = evidence_schema(extra_fields=[pa.field("region", pa.string())], metadata={"a": "b"})
    other = replace(
        RECORD, record_id="s", answered_at=datetime(2026, 1, 2, tzinfo=UTC), extra_columns=(("region", None),)
    )
    bare = replace(
        SPAN, span_index=1, evidence=(), passage_scores=(0.0,), top_passage_index=None, margin=None, unmatched_values=()
    )
    reasoned = replace(SPAN, reason=UnsupportedReason.OTHER_VALUE, expected="1874", how=SupportedHow.QUOTED)
    rows = [(RECORD, (SPAN, bare)), (RECORD, ()), (other, (replace(reasoned, evidence=(PIECE, PIECE)),))]
    table = evidence_table(rows, schema)
    expected = [evidence_row(record, span) for record, spans in rows for span in spans]
    assert table.equals(pa.Table.from_pylist(expected, schema=schema), check_metadata=True)


def test_evidence_table_of_no_spans_has_no_rows() -> None:
    schema = evidence_schema(extra_fields=[pa.field("region", pa.string())])
    assert evidence_table([(RECORD, ())], schema).equals(schema.empty_table())


def test_dead_letter_row_has_the_fields_of_its_schema_in_their_order() -> None:
    letter = DeadLetter("r", SOURCE, Stage.PARSE, Reason.PARSE_FAILED, "should, does not", column="answer")
    row = dead_letter_row(letter)
    schema = dead_letter_schema()
    assert list(row) == schema.names
    assert pa.Table.from_pylist([row], schema=schema).to_pylist() == [row]
    assert row["answer"] is None


@pytest.mark.parametrize("schema", [evidence_schema(metadata={"a": "b"}), dead_letter_schema({"a": "b"})])
def test_schemas_carry_version_metadata_and_descriptions(schema: pa.Schema) -> None:
    assert schema.metadata == {b"attribeam.schema_version": SCHEMA_VERSION.encode(), b"a": b"b"}
    assert all(field.metadata[b"description"] for field in schema)


def test_extra_column_with_a_name_of_the_record_is_refused() -> None:
    with pytest.raises(ValueError, match="'support' has the name of a field"):
        evidence_schema(extra_fields=[pa.field("support", pa.string())])


def test_row_fault_survives_pickling() -> None:
    fault = pickle.loads(pickle.dumps(RowFault(Reason.NO_PASSAGES, "should, does not", column="contexts")))
    assert (fault.reason, str(fault), fault.column) == (Reason.NO_PASSAGES, "should, does not", "contexts")


@pytest.mark.parametrize(("char_start", "char_end"), [(2, 2), (3, 1), (-1, 4)])
def test_range_that_is_empty_reversed_or_negative_is_refused(char_start: int, char_end: int) -> None:
    with pytest.raises(ValueError, match="0 <= char_start < char_end"):
        CharRange(char_start, char_end)


def test_ranges_that_only_touch_do_not_overlap() -> None:
    assert not CharRange(0, 2).overlaps(CharRange(2, 4))
    assert CharRange(0, 3).overlaps(CharRange(2, 4))


def test_only_the_span_that_its_verdict_is_on_is_the_claim() -> None:
    claim = replace(SPAN, span_index=3, claim_index=3)
    assert claim.is_claim
    assert not replace(claim, span_index=4).is_claim
    for support in (Support.NO_CLAIM, Support.NOT_JUDGED):
        assert not replace(claim, claim_index=None, support=support).is_claim


def test_a_span_without_a_claim_that_has_a_verdict_counts_like_one() -> None:
    copied = replace(SPAN, claim_kind=ClaimKind.LANGUAGE, claim_index=None)
    assert copied.is_claim
    rows = pa.Table.from_pylist([evidence_row(RECORD, copied)]).to_batches()[0]
    assert claim_mask(rows).to_pylist() == [True]
