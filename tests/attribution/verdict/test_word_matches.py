"""Runs, coverage and nearness, on words of our own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.attribution.verdict.judged_rows import LANTERN

from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_forms import stem
from attribeam.attribution.verdict.word_matches import Coverage, PassageWords, WordMatches
from attribeam.attribution.verdict.word_table import word_table
from attribeam.schemas import Passage

TABLE = word_table(BUNDLED_VERDICT)
APART = "The lamp fell. " + "It rained and rained. " * 10 + "The lamp lit the ledger."


def matched(words: Sequence[str], *texts: str) -> tuple[WordMatches, np.ndarray, np.ndarray]:
    """The matches of one group of words, its groups and its columns."""
    stems = [*dict.fromkeys(map(stem, words))]
    matches = WordMatches([stems], PassageWords([[Passage(text=text) for text in texts]], TABLE), TABLE)
    return matches, np.zeros(len(words), np.int64), np.array([stems.index(stem(word)) for word in words], np.int64)


def coverage(words: Sequence[str], *texts: str) -> Coverage:
    matches, groups, columns = matched(words, *texts)
    return matches.coverage(groups, columns, 1)


def test_every_word_of_a_run_has_its_full_length() -> None:
    words = ["Yes", "the", "lighthouse", "keeper", "trimmed", "the", "lamp", "twice"]
    matches, _, columns = matched(words, LANTERN)
    assert matches.runs(columns).tolist() == [0, 6, 6, 6, 6, 6, 6, 0]
    assert not len(matches.runs(columns[:0]))


def test_coverage_is_of_the_best_sentence_and_the_best_two() -> None:
    found = coverage(["keeper", "ledger"], LANTERN)
    assert 0 < found.best[0] < 1
    assert found.pair[0] == pytest.approx(1)
    assert coverage([], LANTERN).best[0] == 1
    assert coverage(["zebra"], LANTERN).best[0] == 0
    assert coverage(["zebra"], LANTERN).pair_start[0] == -1


def test_the_lead_is_over_the_second_sentence() -> None:
    both = "The keeper slept. The keeper woke."
    assert coverage(["keeper"], both).lead[0] == 0
    assert coverage(["slept"], both).lead[0] == pytest.approx(1)


def test_of_equal_sentences_the_one_of_the_first_word_is_best() -> None:
    both = "The zubrix slept. The qarnol woke."
    first, second = (coverage(words, both).best_sentence[0] for words in (("zubrix", "qarnol"), ("qarnol", "zubrix")))
    assert second == first + 1


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (("lamp", "ledger"), 1),
        (("fell", "ledger"), 0),
        (("lamp",), -1),
        (("zebra", "lamp"), 0),
    ],
)
def test_share_around_looks_at_every_place_of_a_stem(words: Sequence[str], share: float) -> None:
    matches, groups, columns = matched(words, APART)
    assert matches.shares_around(groups, columns, 5)[0] == pytest.approx(share)


def test_a_stem_that_a_group_has_twice_is_one_of_its_others() -> None:
    matches, groups, columns = matched(("lamp", "lamp"), APART)
    assert (matches.shares_around(groups, columns, 5) > 0).all()


@pytest.mark.parametrize(("distance", "near"), [(2, False), (3, True), (4, True)])
def test_nearness_counts_both_sides(distance: int, near: bool) -> None:
    matches, _, columns = matched(("keeper", "lamp", "zebra"), "The keeper trimmed lamps, the lamp of the keeper.")
    pairs = columns[[0, 1, 0]], columns[[1, 0, 2]]
    assert matches.stand_near(*pairs, distance).tolist() == [near, near, False]
