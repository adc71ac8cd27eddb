"""Passage accuracy, and the overlap of evidence and highlights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers.text_sentences import text_sentences
from attribeam.evaluation.measures.accuracy import (
    HighlightOverlap,
    HighlightTally,
    best_sentences,
    highlight_overlap,
    span_credit,
)
from attribeam.evaluation.measures.bootstrap import RowBootstrap
from attribeam.schemas import CharRange, EvidencePiece, Passage
from attribeam.schemas.labelled_answer import PassageRange


@pytest.mark.parametrize(
    ("scores", "gold", "credit"),
    [
        ([0.2, 0.9, 0.1], {1}, 1.0),
        ([0.2, 0.9, 0.1], {0}, 0.0),
        ([0.1, 0.0, 0.7], {0, 2}, 1.0),
        *(([4.0, 1.0, 4.0, 4.0], *pair) for pair in (({0}, 1 / 3), ({1}, 0.0), ({0, 2}, 2 / 3), ({0, 2, 3}, 1.0))),
        *((nothing, {0}, 0.0) for nothing in ([], [0.0], [0.0, 0.0])),
        ([0.1 + 0.2, 0.3], {1}, 0.5),  # equal but for rounding
    ],
)
def test_credit_is_the_share_of_gold_passages_among_the_best(scores, gold, credit):
    assert span_credit(scores, gold) == pytest.approx(credit)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
def test_credits_of_all_passages_sum_to_one(scores):
    assert sum(span_credit(scores, {index}) for index in range(len(scores))) == pytest.approx(1)


PASSAGES = [Passage(text="red lamp at sea"), Passage(text="blue lamp")]


def in_passage(passage_index: int, text: str) -> PassageRange:
    start = PASSAGES[passage_index].text.index(text)
    return PassageRange(passage_index, CharRange(start, start + len(text)))


@pytest.mark.parametrize(
    ("evidence", "gold", "recall", "precision"),
    [
        ([(0, "lamp at")], (0, "red lamp"), 4 / 7, 4 / 6),
        ([(1, "lamp")], (0, "lamp"), 0.0, 0.0),
        ([(0, "red lamp"), (0, "lamp")], (0, "red lamp"), 1.0, 1.0),
        ([], (0, "red"), 0.0, 0.0),
    ],
)
def test_recall_and_precision_count_visible_characters_once(evidence, gold, recall, precision):
    found = highlight_overlap(
        evidence=[in_passage(*one) for one in evidence], gold=[in_passage(*gold)], passages=PASSAGES
    )
    assert found == HighlightOverlap(recall, precision)


def test_f1_is_the_harmonic_mean_and_0_without_a_common_character():
    assert HighlightOverlap(recall=0.5, precision=0.25).f1 == pytest.approx(1 / 3)
    assert HighlightOverlap(recall=0.0, precision=0.0).f1 == 0.0


def test_score_is_the_mean_over_spans_and_f1_the_mean_of_their_own():
    rows = [[HighlightOverlap(1.0, 1.0), HighlightOverlap(0.5, 0.25)], [HighlightOverlap(0.0, 0.0)]]
    score = HighlightTally(rows).score(RowBootstrap([2, 1], draws=50))
    assert (score.recall, score.precision) == (pytest.approx(50), pytest.approx(100 * 1.25 / 3))
    assert score.f1 == pytest.approx(100 * (4 / 3) / 3)
    assert score.f1_interval.low <= score.f1 <= score.f1_interval.high


def test_difference_of_f1_is_paired_by_row():
    own = HighlightTally([[HighlightOverlap(1.0, 1.0)], [HighlightOverlap(0.5, 0.5)]])
    words = HighlightTally([[HighlightOverlap(0.5, 0.5)], [HighlightOverlap(0.0, 0.0)]])
    bootstrap = RowBootstrap([1, 1], draws=50)
    score = own.score(bootstrap, words)
    assert score.f1_difference_to_words == pytest.approx(50)
    assert (score.f1_difference_interval.low, score.f1_difference_interval.high) == (50.0, 50.0)
    assert own.score(bootstrap).f1_difference_interval is None


def test_data_without_highlights_has_no_score():
    assert HighlightTally().score(RowBootstrap([1])) is None


SEA = "The lamp burns. Mr. Reed lit it in 1874. Gulls cry."
SENTENCES = [Passage(text=SEA), Passage(text="A bell rings.\nNo lamp.")]
LAMP, REED, GULLS = "The lamp burns.", "Mr. Reed lit it in 1874.", "Gulls cry."


@pytest.mark.parametrize(
    ("evidence", "best"),
    [
        ([("Gulls", 0.9), ("Reed", 1.0), ("1874", 1.0)], [REED]),  # pieces of one sentence are summed
        ([("lamp", 1.0), ("Reed", 0.49)], [LAMP]),
        ([("lamp", 1.0), ("Reed", 0.5)], [LAMP, REED]),
        ([("lamp", 1.0), ("bell", 0.9)], [LAMP]),  # another passage
        ([("burns. Mr", 9.0), ("Gulls", 2.9)], [LAMP]),  # 6 of its 9 characters are in the first sentence
        ([("burns. Mr", 9.0), ("Gulls", 3.1)], [LAMP, GULLS]),
        ([("bell", 1.0), ("Gulls", 1.0)], [GULLS]),
        ([], []),
    ],
)
def test_best_sentences_are_those_near_the_best_of_its_passage(evidence, best):
    pieces = []
    for text, score in evidence:
        index = 0 if text in SEA else 1
        start = SENTENCES[index].text.index(text)
        pieces.append(EvidencePiece(index, None, False, CharRange(start, start + len(text)), text, score))
    found = best_sentences(pieces, SENTENCES)
    assert [one.chars.of(SENTENCES[one.passage_index].text) for one in found] == best


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (SEA, [LAMP, REED, GULLS]),
        ('"A lamp!" He ran.', ['"A lamp!"', "He ran."]),
        ("  The coast \n\nA lamp\tburns", ["The coast", "A lamp\tburns"]),
        (" \n ", []),
    ],
)
def test_sentences_end_at_marks_and_lines_but_not_after_an_abbreviation(text, sentences):
    assert [sentence.of(text) for sentence in text_sentences(text)] == sentences
