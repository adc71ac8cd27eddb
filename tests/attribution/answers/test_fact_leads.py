"""Facts that only lead to the next one, read with the bundled parser."""

from __future__ import annotations

from functools import cache

import pytest

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import choose_target_spans, fact_ranges
from attribeam.schemas import SpanKind


@cache
def parser() -> AnswerParser:
    return AnswerParser.from_pretrained("bundled")


def facts(answer: str) -> list[str]:
    return [chars.of(answer) for chars in fact_ranges(parser().parse(answer), answer)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Check that the leg measures 75 degrees.", ["Check that the leg measures 75 degrees"]),
        ("Ensure that the lid is closed.", ["Ensure that the lid is closed"]),
        ("Locate and select the program.", ["Locate and select the program"]),
        (
            "You may leave, provided you have paid.",
            ["You may leave", "provided you have paid"],
        ),
        (
            "The guide praised the food and noted that the service was slow.",
            ["The guide praised the food", "noted that the service was slow"],
        ),
        ("1. Size: Herons are larger than terns.", ["Size: Herons are larger than terns"]),
        ("* **Body size**: Herons are larger than terns.", ["Body size", "Herons are larger than terns"]),
        (
            "Benchmark Eatery is a restaurant located in Santa Barbara.",
            ["Benchmark Eatery is a restaurant located in Santa Barbara"],
        ),
    ],
)
def test_what_only_leads_to_a_fact_belongs_to_it(answer: str, expected: list[str]) -> None:
    assert facts(answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("He said that the mill was sold.", ["He said", "the mill was sold"]),
        ("Press the button, then wait.", ["Press the button", "then wait"]),
        ("Step 3: Combine beer and onions.", ["Step 3", "Combine beer and onions"]),
        ("The guide noted the price, which was high.", ["The guide noted the price", "which was high"]),
    ],
)
def test_what_states_something_of_its_own_stays_a_fact(answer: str, expected: list[str]) -> None:
    assert facts(answer) == expected


@pytest.mark.parametrize(
    ("answer", "mention"),
    [
        ("It will be held at the lake on October 9–11.", "October 9–11"),
        ("It will be held at the lake on October 9.", "October 9"),
    ],
)
def test_days_of_one_month_are_one_mention(answer: str, mention: str) -> None:
    spans = choose_target_spans(parser().parse(answer), answer, kinds=(SpanKind.MENTIONS,), given=None)
    assert spans[-1].chars.of(answer) == mention
    assert sum("9" in span.chars.of(answer) for span in spans) == 1
