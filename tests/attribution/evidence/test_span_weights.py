"""What a span's sentence adds to the choice of its passage."""

import numpy as np
import pytest
from tests.attribution.trees import tree

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.parser_output import WordTokenAlignment
from attribeam.attribution.evidence.union import PassageScores, ResponseWeights, SentenceContext
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange

ANSWER = "Ann rows. Bob runs far."
WORDS = tuple(CharRange(start, end) for start, end in [(0, 3), (4, 8), (8, 9), (10, 13), (14, 18), (19, 22), (22, 23)])
SCORES = np.array([[0.5, 0.0], [0.25, 0.25], [0.0, 0.0], [0.0, 0.5], [0.125, 0.5], [0.0, 0.25], [0.0, 0.0]], np.float32)


def context(sentence_starts: tuple[int, ...] = (0, 3), words: tuple[CharRange, ...] = WORDS) -> SentenceContext:
    """One token a word, which attends to two passage columns as ``SCORES`` says."""
    count, tokens = len(words), len(WORDS)
    parsed = ParsedAnswer(
        words=words,
        dependency_heads=tuple(range(count)),
        dependency_labels=("dep",) * count,
        universal_tags=("X",) * count,
        fine_tags=("",) * count,
        sentence_starts=sentence_starts,
    )
    starts = np.array([word.char_start for word in WORDS], np.int32)
    ends = np.array([word.char_end for word in WORDS], np.int32)
    encoded = EncodedRow(
        token_ids=np.zeros(2 + tokens, np.int32),
        prompt_length=2,
        column_passage=np.array([0, 1], np.int32),
        column_in_title=np.zeros(2, np.bool_),
        column_char_start=np.zeros(2, np.int32),
        column_char_end=np.ones(2, np.int32),
        response_char_start=starts,
        response_char_end=ends,
    )
    columns, outside = np.tile(np.array([0, 1], np.int32), (tokens, 1)), np.zeros(tokens, np.float32)
    attribution = TokenAttribution(columns, SCORES, SCORES, outside)
    alignment = WordTokenAlignment(words=words, token_char_start=starts, token_char_end=ends)
    scores = PassageScores(encoded=encoded, tokens=attribution)
    return SentenceContext(parsed=parsed, alignment=alignment, scores=scores)


def added(context: SentenceContext, first: int, end: int) -> list[float]:
    """What the sentences of the span of tokens ``[first, end)`` have on the two columns."""
    (sums,) = context.of_spans(context.sentences_of([first], [end])).tolist()
    return sums


def test_span_has_the_scores_of_its_whole_sentence() -> None:
    assert added(context(), 0, 1) == [0.75, 0.25]
    assert added(context(), 4, 6) == [0.125, 1.25]


@pytest.mark.parametrize("weight", [-0.1, float("inf"), float("nan")])
def test_weight_below_zero_or_without_end_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="sentence_weight"):
        MethodOptions(sentence_weight=weight)


def test_sums_over_runs_are_the_weighted_sums() -> None:
    scores = PassageScores(
        encoded=EncodedRow(
            token_ids=np.zeros(9, np.int32),
            prompt_length=2,
            column_passage=np.array([0, 1], np.int32),
            column_in_title=np.zeros(2, np.bool_),
            column_char_start=np.zeros(2, np.int32),
            column_char_end=np.ones(2, np.int32),
            response_char_start=np.arange(7, dtype=np.int32),
            response_char_end=np.arange(1, 8, dtype=np.int32),
        ),
        tokens=TokenAttribution(np.tile(np.array([0, 1], np.int32), (7, 1)), SCORES, SCORES, np.zeros(7, np.float32)),
    )
    weights = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 0], [0] * 7])
    assert scores.run_sums([0, 2, 5], [3, 6, 5]).tolist() == scores.column_sums(weights).tolist()


def test_spans_whose_weights_differ_by_a_factor_share_a_union() -> None:
    sentences = 100
    text, parsed = tree(" || ".join(["Dogs/nsubj/2/NOUN bark/root/0/VERB"] * sentences))
    alignment = WordTokenAlignment(
        words=parsed.words,
        token_char_start=np.array([word.char_start for word in parsed.words], np.int32),
        token_char_end=np.array([word.char_end for word in parsed.words], np.int32),
    )
    weights = ResponseWeights(alignment=alignment, facts=AtomicFacts(parsed)).of_spans([CharRange(0, len(text))])
    assert weights.unions.tolist() == [[1] * 2 * sentences]
    assert weights.factors == [2]
