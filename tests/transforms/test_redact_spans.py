"""What a span says that the evidence has instead is text of a passage: it is masked as there, or left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.made_audit import ANSWER, made_record, unsupported_span

from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import Passage, UnsupportedReason, evidence_schema
from attribeam.schemas.evidence_record import evidence_table
from attribeam.transforms.hide_texts import HideTexts
from attribeam.transforms.make_evidence import redacted

SPAN = replace(unsupported_span(), reason=UnsupportedReason.OTHER_VALUE)
MAIL = "ann@pier.example"


@pytest.mark.parametrize(
    ("passage", "expected", "shown"),
    [
        pytest.param(f"Write to {MAIL}.", MAIL, MASK * len(MAIL), id="all of it is masked"),
        pytest.param(f"Write to {MAIL}.", f"to {MAIL}", f"to {MASK * len(MAIL)}", id="a part is masked"),
        pytest.param(f"Write to {MAIL}.", "pier", MASK * 4, id="it is part of what is masked"),
        pytest.param(f"The pier: {MAIL}.", "pier", MASK * 4, id="it is part of it in one place"),
        pytest.param(f"Write to {MAIL} by noon.", "noon", "noon", id="it stands elsewhere"),
        pytest.param(f"Write to {MAIL} by noon.", "12:00", MASK * 5, id="it stands nowhere, and something is masked"),
        pytest.param("Write by noon.", "12:00", "12:00", id="it stands nowhere, and nothing is masked"),
        pytest.param("Write by noon.", None, None, id="there is none"),
    ],
)
def test_what_the_evidence_has_instead_is_masked_as_in_the_passages(
    passage: str, expected: str | None, shown: str | None
) -> None:
    record = replace(made_record(Path("log"), 0), passages=(Passage("The ferry leaves."), Passage(passage)))
    _, (span,) = redacted(record, [replace(SPAN, expected=expected)], Redactor(PrivacySettings(redact=True)))
    assert (span.expected, span.reason) == (shown, SPAN.reason)


def test_a_title_is_a_text_of_the_passages_too() -> None:
    record = replace(made_record(Path("log"), 0), passages=(Passage("The ferry leaves.", title=f"Ask {MAIL}"),))
    _, (span,) = redacted(record, [replace(SPAN, expected="Ask")], Redactor(PrivacySettings(redact=True)))
    assert span.expected == "Ask"


def test_without_texts_the_reason_stays_and_what_the_evidence_has_is_null() -> None:
    record = replace(made_record(Path("log"), 0, answer=ANSWER), extra_columns=())
    table = evidence_table([(record, [replace(SPAN, expected="twelve")])], evidence_schema())
    (row,) = HideTexts(PrivacySettings(no_texts=True))(table).to_pylist()
    assert (row["reason"], row["expected"], row["text"]) == ("other_value", None, "")
    assert (row["record_id"], row["generator"]) == (record.record_id, record.generator)
