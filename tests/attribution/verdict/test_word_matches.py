"""Runs, coverage and nearness, on words of our own."""

from __future__ import annotations

import pytest
from tests.attribution.verdict.judged_rows import LANTERN, parse

from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_matches import PassageWords, coverage, is_near, run_lengths, shares_around
from attribeam.attribution.verdict.word_table import word_table
from attribeam.schemas import Passage

TABLE = word_table(BUNDLED_VERDICT)


def passages(*texts: str) -> PassageWords:
    return PassageWords([Passage(text=text) for text in texts], TABLE)


def test_every_word_of_a_run_has_its_full_length() -> None:
    answer = "Yes, the lighthouse keeper trimmed the lamp twice."
    words = AnswerWords(parse(answer), answer)
    runs = dict(zip(words.lowered, run_lengths(words, passages(LANTERN)), strict=True))
    assert runs["keeper"] == runs["lamp"] == 6
    assert runs["twice"] == runs["yes"] == 0


def test_coverage_is_of_the_best_sentence_and_the_best_two() -> None:
    found = coverage(["keeper", "ledger"], passages(LANTERN), TABLE)
    assert 0 < found.best < 1
    assert found.pair == pytest.approx(1)
    assert coverage([], passages(LANTERN), TABLE).best == 1
    assert coverage(["zebra"], passages(LANTERN), TABLE).best == 0


def test_the_lead_is_over_the_second_sentence() -> None:
    both = passages("The keeper slept. The keeper woke.")
    assert coverage(["keeper"], both, TABLE).lead == 0
    assert coverage(["slept"], both, TABLE).lead == pytest.approx(1)


def test_share_around_looks_at_every_place_of_a_stem() -> None:
    apart = passages("The lamp fell. " + "It rained and rained. " * 10 + "The lamp lit the ledger.")
    assert shares_around(["lamp", "ledger"], 5, apart, TABLE)["lamp"] == pytest.approx(1)
    assert shares_around(["fell", "ledger"], 5, apart, TABLE)["fell"] == 0
    assert shares_around(["lamp"], 5, apart, TABLE) == {"lamp": -1}
    assert shares_around(["lamp", "lamp"], 5, apart, TABLE)["lamp"] > 0
    assert shares_around(["zebra", "lamp"], 5, apart, TABLE)["zebra"] == 0


def test_nearness_counts_both_sides() -> None:
    assert is_near(10, [2, 12], 2)
    assert is_near(10, [8], 2)
    assert not is_near(10, [2, 13], 2)
    assert not is_near(10, [], 2)
