"""The signals of an answer's words, on rows of our own."""

from __future__ import annotations

import numpy as np
import pytest
from tests.attribution.verdict.judged_rows import LANTERN, RECORD, parse, record

from attribeam.attribution.verdict import word_matches
from attribeam.attribution.verdict.claim_kinds import word_kinds
from attribeam.attribution.verdict.signals import AnswerRow, answer_signals
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_table import word_table


def column(name: str, answer: str, *passages: str, question: str = "") -> dict[str, float]:
    """One signal of the judged words, by word."""
    row, parsed = record(answer, *passages, question=question), parse(answer)
    (found,) = answer_signals([AnswerRow.of(row, parsed, word_kinds(parsed, row))], word_table(BUNDLED_VERDICT))
    values = found.values[:, found.names.index(name)]
    return {parsed.words[word].of(answer): float(one) for word, one in zip(found.words, values, strict=True)}


def test_a_value_is_unmatched_if_neither_passages_nor_question_have_it() -> None:
    answer = "The keeper of Windhaven trimmed the lamp 1731 times."
    assert column("word_unmatched_value", answer, LANTERN)["1731"] == 1
    asked = column("word_unmatched_value", answer, LANTERN, question="Who trimmed the lamp of Windhaven?")
    assert (asked["Windhaven"], asked["1731"]) == (0, 1)


def test_words_of_passages_are_seen_and_others_are_not() -> None:
    seen = column("word_seen", "The keeper trimmed a violin.", LANTERN)
    assert (seen["keeper"], seen["trimmed"], seen["violin"]) == (1, 1, 0)
    assert column("word_in_question", "The keeper trimmed a violin.", LANTERN, question="A violin?")["violin"] == 1


def test_every_signal_of_every_judged_word_is_a_number() -> None:
    answer = "The keeper trimmed the lamp. His daughter sold the ledger in 1902."
    row, parsed = record(answer, LANTERN, question="What did they do?"), parse(answer)
    (found,) = answer_signals([AnswerRow.of(row, parsed, word_kinds(parsed, row))], word_table(BUNDLED_VERDICT))
    assert found.values.shape == (len(found.words), len(found.names)) == (7, 85)
    assert found.values.dtype == np.float32
    assert np.isfinite(found.values).all()


def test_words_of_an_unmatched_date_are_unmatched_and_their_neighbours_are_not() -> None:
    answer = "The keeper trimmed the lamp on 7 March 1902, and his daughter wrote the ledger on 4 June 1911."
    found = column("word_unmatched_value", answer, LANTERN + " She began on 4 June 1911.")
    assert (found["7"], found["March"], found["1902"]) == (1, 1, 1)
    assert (found["lamp"], found["daughter"], found["June"], found["1911"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_similarities_that_are_too_many_to_keep_are_the_same(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    answer = "The guard polished the lantern at dusk. A girl noted the storm in a book."
    names = ("word_similarity", "word_similarity_in_sentence", "word_similarity_in_clause")
    kept = [column(name, answer, LANTERN) for name in names]
    monkeypatch.setattr(word_matches, "_MOST_COSINES", at_once)
    for name, expected in zip(names, kept, strict=True):
        assert column(name, answer, LANTERN) == pytest.approx(expected, abs=1e-6)


def test_answers_that_are_measured_together_have_the_signals_of_each_alone() -> None:
    given = (
        ("The keeper trimmed the lamp. His daughter sold the ledger in 1902.", (LANTERN, "The lamp was sold."), "Who?"),
        ("Hello.", (LANTERN,), ""),
        ("The cafe has no outdoor seating, and it is open on Wednesday.", (RECORD,), ""),
        ("The keeper trimmed the lamp.", (LANTERN,), "What did the keeper trim in the evening?"),
    )
    rows = [(record(answer, *texts, question=question), parse(answer)) for answer, texts, question in given]
    read = [AnswerRow.of(row, parsed, word_kinds(parsed, row)) for row, parsed in rows]
    table = word_table(BUNDLED_VERDICT)
    for together, one in zip(answer_signals(read, table), read, strict=True):
        (alone,) = answer_signals([one], table)
        assert (together.words, together.names, together.kind) == (alone.words, alone.names, alone.kind)
        assert np.array_equal(together.values, alone.values)
