"""What an answer was asked for, as its row shows."""

from __future__ import annotations

import json

import pytest
from tests.attribution.verdict.judged_rows import LANTERN, RECORD, parse, record

from attribeam.attribution.verdict.claim_kinds import word_kinds
from attribeam.attribution.verdict.record_fields import record_lines
from attribeam.attribution.verdict.row_kind import RowKind, row_kind
from attribeam.attribution.verdict.signals import AnswerRow, answer_signals
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_table import word_table
from attribeam.schemas import Passage, QARecord

QUESTION = "Who trimmed the lamp?"


def kind_of(question: str, *passages: str) -> RowKind:
    return row_kind(question, [line for text in passages for line in record_lines(text)])


@pytest.mark.parametrize(
    "question",
    [
        "",
        "  \n",
        "Summarize the article in 100 words.",
        "please summarise this for me",
        "Can you sum it up?",
        "TL;DR",
        "A short summary of the text",
        "Give me a one-paragraph summary of what the keeper did",
        "Who trimmed the lamp? Please write a summary.",
    ],
)
def test_row_that_asks_nothing_or_for_a_summary_is_a_summary(question: str) -> None:
    assert kind_of(question, LANTERN) is RowKind.SUMMARY


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        "lamp keeper lighthouse",
        "What does the summary of the ledger say?",
        "How do I write an abstract?",
        "What does TL;DR mean?",
        "Why does fog condense on the lens?",
        "In 1902 the lamp was lit. Where can I get a summary of its costs?",
    ],
)
def test_row_that_asks_something_is_a_question(question: str) -> None:
    assert kind_of(question, LANTERN) is RowKind.QUESTION


@pytest.mark.parametrize("question", ["", QUESTION, "Write a summary of this business."])
def test_passages_of_short_fields_are_records_whatever_is_asked(question: str) -> None:
    assert kind_of(question, RECORD) is RowKind.RECORD
    assert (
        kind_of(question, json.dumps({"name": "The Copper Kettle", "WiFi": False}), "Tea was fine.") is RowKind.RECORD
    )


def test_paragraph_that_begins_like_a_field_is_no_record() -> None:
    assert kind_of(QUESTION, f"Note: {LANTERN}") is RowKind.QUESTION
    assert kind_of("", f"Note: {LANTERN}", f"Weather: {LANTERN}") is RowKind.SUMMARY


def test_few_fields_among_plain_lines_are_no_record() -> None:
    assert kind_of("", "height: 12 m", LANTERN, LANTERN) is RowKind.SUMMARY
    assert kind_of("", "height: 12 m", "lamp: oil", "It stands at the end of the pier.") is RowKind.RECORD


def test_text_below_a_header_of_fields_is_no_record() -> None:
    page = f"Title: Lighthouse\nDate: 1902\n{LANTERN} {LANTERN} {LANTERN}"
    assert kind_of(QUESTION, page) is RowKind.QUESTION
    assert kind_of("", page, page) is RowKind.SUMMARY


def test_record_with_a_long_review_in_several_lines_is_a_record() -> None:
    business = {"name": "The Copper Kettle", "city": "Marl", "WiFi": "no", "stars": 4, "hours": {"Monday": "9:0-17:0"}}
    review = "\n".join(["They make good tea and wait for you without a clock on the wall"] * 3)
    assert kind_of("", json.dumps({**business, "reviews": [{"text": review}]})) is RowKind.RECORD


def kind_of_signals(row: QARecord) -> RowKind:
    parsed = parse(row.answer)
    (found,) = answer_signals([AnswerRow.of(row, parsed, word_kinds(parsed, row))], word_table(BUNDLED_VERDICT))
    return found.kind


def test_signals_tell_the_kind_of_their_row_and_titles_do_not_count() -> None:
    answer = "The keeper trimmed the lamp."
    assert kind_of_signals(record(answer, RECORD, question=QUESTION)) is RowKind.RECORD
    assert kind_of_signals(record(answer, LANTERN)) is RowKind.SUMMARY
    titled = record(answer, LANTERN, question=QUESTION)
    titled = QARecord(
        titled.record_id, titled.question, (Passage(text=LANTERN, title="Museum: ground floor"),), answer, titled.source
    )
    assert kind_of_signals(titled) is RowKind.QUESTION
