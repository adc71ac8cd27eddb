"""Refusals in English sentences."""

from __future__ import annotations

import pytest

from attribeam.attribution.verdict.refusal_phrases import is_bare_refusal, refusals


def refused(sentence: str) -> list[str]:
    return [sentence[start:end] for start, end in refusals(sentence)]


def test_a_label_belongs_to_what_is_refused() -> None:
    assert refused("Body size: there is no mention of it.") == ["Body size: there is no mention of it."]


@pytest.mark.parametrize(
    "sentence",
    ["The text gives no hint as to its colour.", "More information would be needed to answer this."],
)
def test_what_is_missing_is_refused(sentence: str) -> None:
    assert refused(sentence) == [sentence]


def test_a_word_of_any_length_before_a_refusal_is_read_in_one_pass() -> None:
    sentence = "x" * 20_000 + " the passage does not mention it"
    assert refused(sentence) == ["the passage does not mention it"]


@pytest.mark.parametrize(
    "answer", ["No information.", "No details available.", "Not specified.", "Insufficient context"]
)
def test_an_answer_may_be_nothing_but_a_refusal(answer: str) -> None:
    assert is_bare_refusal(answer)


@pytest.mark.parametrize("answer", ["No steps.", "No references.", "No details."])
def test_an_answer_that_counts_none_is_no_refusal(answer: str) -> None:
    assert not is_bare_refusal(answer)
