"""Shared words of answer and passages against the word methods and by hand, and what they add to a decision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.trees import tree

from attribeam.attribution.evidence.passage_evidence import SharedWords, WordOverlap
from attribeam.evaluation.methods.words import match_words
from attribeam.schemas import CharRange, Passage

TEXTS = st.lists(st.sampled_from(["bell", "Bell", "of", "of", "lamp", "tide", "船", ",", ".", "çan"]), max_size=14).map(
    " ".join
)
PASSAGES = st.lists(st.builds(Passage, text=TEXTS, title=st.none() | TEXTS), min_size=1, max_size=4)


@given(answer=TEXTS, passages=st.lists(st.builds(Passage, text=TEXTS), min_size=1, max_size=4), data=st.data())
def test_shares_are_those_of_the_word_methods(answer: str, passages: list[Passage], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(answer)))
    chars = CharRange(start, data.draw(st.integers(start, len(answer))) + 1)
    overlap = WordOverlap(answer, passages)
    expected = np.array(match_words(answer, passages).passage_scores([chars]))
    total = expected.sum()
    (shares,) = overlap.shares(*overlap.words_of([chars]))
    assert shares == pytest.approx(expected / total if total else expected)


@given(answer=TEXTS, passages=PASSAGES, data=st.data())
def test_span_stands_alone_where_one_passage_has_its_words_in_a_row(
    answer: str, passages: list[Passage], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(answer)))
    chars = CharRange(start, data.draw(st.integers(start, len(answer))) + 1)
    overlap = WordOverlap(answer, passages)
    (first,), (end,) = overlap.words_of([chars])
    words = [word.of(answer).lower() for word in match_words(answer, passages).words[first:end]]
    having = [
        index
        for index, passage in enumerate(passages)
        if words and any(f" {' '.join(words)} " in _spaced(text) for text in (passage.title or "", passage.text))
    ]
    (alone,) = overlap.stand_alone(np.array([first]), np.array([end]))
    assert np.flatnonzero(alone).tolist() == (having if len(having) == 1 else [])


def test_no_run_goes_on_from_a_title_to_its_text() -> None:
    overlap = WordOverlap("bell rings", [Passage("rings loud", "The bell"), Passage("no bell rings")])
    assert overlap.stand_alone(*overlap.words_of([CharRange(0, 10)])).tolist() == [[False, True]]


def _spaced(text: str) -> str:
    return f" {' '.join(word for word in text.lower().split() if word not in ',.')} "


ANSWER = "Bell/nsubj/2/NOUN rang/root/0/VERB || Lamp/nsubj/2/NOUN burned/root/0/VERB"
SHORE = [Passage("A bell rang."), Passage("A lamp burned, a bell did not.", "The lamp"), Passage("Snow fell.")]


def test_parts_are_the_shares_of_span_and_sentence_and_one_for_the_passage_that_alone_has_the_span() -> None:
    answer, parsed = tree(ANSWER)
    words = SharedWords(answer=answer, parsed=parsed, passages=SHORE, weight=2.0)
    bell, rang = answer.index("Bell"), answer.index("rang")
    spans = [CharRange(bell, bell + 4), CharRange(rang, rang + 4)]
    # "bell rang" is a run of two in passage 0; "bell" occurs twice in all, so that it scores 2 / 2 and 1 / 2
    of_sentence = np.array([1 + 2, 0.5, 0]) / 3.5
    of_bell, of_rang = np.array([1, 0.5, 0]) / 1.5, np.array([1, 0, 0])
    alone = np.array([1, 0, 0])
    assert words.parts(spans) == pytest.approx(2 * np.array([of_bell + of_sentence, of_rang + of_sentence + alone]))


def test_parts_of_a_span_do_not_depend_on_its_neighbours() -> None:
    answer, parsed = tree(ANSWER)
    words = SharedWords(answer=answer, parsed=parsed, passages=SHORE, weight=0.7)
    spans = [CharRange(start, end) for start in range(len(answer)) for end in range(start + 1, len(answer) + 1)]
    together = words.parts(spans)
    assert [words.parts([span]).tolist() for span in spans] == [[row] for row in together.tolist()]
