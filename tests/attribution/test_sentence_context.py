"""What a span's sentence adds to the choice of its passage."""

from dataclasses import replace

import numpy as np
import pytest

from attribution.parsed_answer import ParsedAnswer
from attribution.sentence_context import SentenceContext
from attribution.settings import UnionSettings
from attribution.word_token_alignment import WordTokenAlignment
from schemas import CharRange

ANSWER = "Ann rows. Bob runs far."
WORDS = tuple(CharRange(start, end) for start, end in [(0, 3), (4, 8), (8, 9), (10, 13), (14, 18), (19, 22), (22, 23)])
MASS = np.array([[0.5, 0.0], [0.25, 0.25], [0.0, 0.0], [0.0, 0.5], [0.125, 0.5], [0.0, 0.25], [0.0, 0.0]], np.float32)


def context(sentence_starts: tuple[int, ...] = (0, 3), words: tuple[CharRange, ...] = WORDS) -> SentenceContext:
    """One token a word."""
    count = len(words)
    parsed = ParsedAnswer(
        words=words,
        dependency_heads=tuple(range(count)),
        dependency_labels=("dep",) * count,
        universal_tags=("X",) * count,
        fine_tags=("",) * count,
        sentence_starts=sentence_starts,
    )
    alignment = WordTokenAlignment(
        words=words,
        token_char_start=np.array([word.char_start for word in WORDS], np.int32),
        token_char_end=np.array([word.char_end for word in WORDS], np.int32),
    )
    return SentenceContext(parsed=parsed, alignment=alignment, passage_mass=MASS)


def test_each_token_of_a_span_brings_the_mass_of_its_whole_sentence() -> None:
    assert context().of_spans([0, 4], [1, 6]).tolist() == [[0.75, 0.25], [2 * 0.125, 2 * 1.25]]


def test_span_over_two_sentences_brings_both() -> None:
    assert context().of_spans([1], [4]).tolist() == [[3 * 0.875, 3 * 1.5]]


def test_span_without_tokens_brings_nothing() -> None:
    assert context().of_spans([2], [2]).tolist() == [[0.0, 0.0]]


def test_answer_without_words_brings_nothing() -> None:
    assert context(sentence_starts=(), words=()).of_spans([0], [3]).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("weight", [-0.1, float("inf"), float("nan")])
def test_weight_below_zero_or_without_end_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="sentence_weight"):
        replace(UnionSettings(), sentence_weight=weight)
