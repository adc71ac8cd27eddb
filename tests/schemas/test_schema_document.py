"""docs/schema.md names every field, stage and reason, with the types of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from attribeam.logs.columns import INPUT_FIELDS
from attribeam.schemas import (
    SCHEMA_VERSION,
    AnswerKind,
    ClaimKind,
    Reason,
    SpanKind,
    Stage,
    Support,
    SupportedHow,
    UnsupportedReason,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.qa_record import (
    ANSWER_SUPPORTED,
    ERROR_KINDS,
    FAITHFULNESS,
    LABEL_GROUP,
    SPAN_LABELS,
    UNSUPPORTED_SPANS,
    labelled_log_schema,
)

DOCUMENT = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}.*?$(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(found)


def table_rows(text: str) -> dict[str, list[str]]:
    """Cells of each table row by the names in its first cell."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {name: [cell.strip() for cell in cells[1:]] for cells in lines for name in re.findall(r"`(\w+)`", cells[0])}


def null_cell(field: pa.Field) -> str:
    return "yes" if field.nullable else "no"


@pytest.mark.parametrize(
    ("title", "schema"),
    [("Evidence record", evidence_schema()), ("Dead letter", dead_letter_schema())],
    ids=["evidence", "dead letters"],
)
def test_every_output_field_stands_in_the_document_with_its_nullability(title: str, schema: pa.Schema) -> None:
    rows = table_rows(section(title))
    for field in schema:
        assert rows[field.name][1] == null_cell(field), field.name


def test_every_field_of_an_evidence_piece_stands_in_the_document() -> None:
    rows = table_rows(section("Evidence record").split("An item of `evidence`")[1])
    piece = evidence_schema().field("evidence").type.value_type
    assert {field.name: null_cell(field) for field in piece} == {name: cells[1] for name, cells in rows.items()}


def test_every_input_field_stands_in_the_document() -> None:
    rows = table_rows(section("QA log"))
    assert {name: cells[0] for name, cells in rows.items()} == {
        field.name: "yes" if field.needed else "no" for field in INPUT_FIELDS
    }


def test_every_label_stands_in_the_document() -> None:
    columns, members = section("Labels").split("An item of `span_labels`")
    schema = labelled_log_schema()
    labels = {SPAN_LABELS, UNSUPPORTED_SPANS, LABEL_GROUP, ANSWER_SUPPORTED, FAITHFULNESS, ERROR_KINDS, "split"}
    assert set(table_rows(columns)) == labels
    assert {field.name for field in schema.field(SPAN_LABELS).type.value_type} == set(table_rows(members))
    input_names = {field.name for field in INPUT_FIELDS}
    assert set(schema.names) - labels <= input_names


def test_document_has_exactly_the_reasons_of_the_code() -> None:
    reasons = table_rows(section("Dead letter").split("Reasons are stable")[1])
    assert set(reasons) == {str(reason) for reason in Reason}
    stages = {stage for cells in reasons.values() for stage in re.findall(r"`(\w+)`", cells[0])}
    assert stages <= {str(stage) for stage in Stage}


@pytest.mark.parametrize(
    "word", [*Stage, *SpanKind, *Support, *UnsupportedReason, *SupportedHow, *ClaimKind, *AnswerKind], ids=str
)
def test_every_stage_kind_support_and_reason_stands_in_the_document(word: str) -> None:
    assert f"`{word}`" in DOCUMENT


def test_document_states_the_version() -> None:
    assert f"Version {SCHEMA_VERSION}." in DOCUMENT
