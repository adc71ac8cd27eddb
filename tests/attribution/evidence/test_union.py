"""The union and its filter against Algorithm 1, and its windows against the naive search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.made_rows import made_attribution, made_row
from tests.attribution.trees import tree

from attribeam.attribution.answers.atomic_facts import AtomicFacts, WordTokenAlignment
from attribeam.attribution.evidence.union import (
    PassageScores,
    ResponseWeights,
    SentenceContext,
    UnionScores,
    keep_best_windows,
)
from attribeam.schemas import CharRange


def scores_of(top, column_passage, *, blank=None, responses=None):
    """The passage scores of response tokens with these (column, similarity) pairs; ``blank`` is white space alone."""
    size, length = len(column_passage), len(top)
    columns = [(column, column + (column != blank)) for column in range(size)]
    encoded, tokens = made_row(column_passage, responses=length, columns=columns), made_attribution(top)
    if responses is None:
        return PassageScores(encoded=encoded, tokens=tokens)
    return PassageScores(encoded=encoded, tokens=tokens, responses=np.array(responses))


def algorithm_1(top, column_passage, multiplicity, tau):
    """Algorithm 1 as the paper writes it."""
    w = {}
    for row, count in zip(top, multiplicity, strict=True):
        for _ in range(count):
            for j, similarity in row:
                if column_passage[j] >= 0 and similarity > 0:
                    w[j] = w.get(j, 0) + similarity
    if math.isinf(tau):
        return w
    near = range(-int(tau), int(tau) + 1)
    return {i: score for i, score in w.items() if any(i + step in w for step in near if step)}


def split(found):
    """Columns, scores and evidence_isolated of each union."""
    return [
        (found.columns[found.unions == union].tolist(), found.scores[found.unions == union].tolist(), isolated)
        for union, isolated in enumerate(found.evidence_isolated)
    ]


def united(scores):
    """The union of a single response token."""
    return split(scores.unite(np.ones((1, 1), dtype=np.int64), isolation_tau=2))[0]


SIMILARITIES = st.sampled_from([0.0, 0.125, 0.25, 0.5])


@st.composite
def responses(draw):
    column_passage = draw(st.lists(st.sampled_from([-1, 0, 0, 1]), min_size=3, max_size=16))
    columns = st.lists(st.sampled_from(range(len(column_passage))), min_size=2, max_size=2, unique=True)
    chosen = draw(st.lists(columns, min_size=1, max_size=6))
    top = [[(column, draw(SIMILARITIES)) for column in row] for row in chosen]
    return top, column_passage, [draw(st.integers(0, 3)) for _ in top]


@given(response=responses(), tau=st.sampled_from([0, 1, 2, 3, math.inf]))
def test_union_and_filter_are_algorithm_1(response, tau):
    top, column_passage, multiplicity = response
    expected = algorithm_1(top, column_passage, multiplicity, tau)
    unfiltered = algorithm_1(top, column_passage, multiplicity, math.inf)
    none, found, again = split(
        scores_of(top, column_passage).unite(np.outer([0, 1, 1], multiplicity), isolation_tau=tau)
    )
    assert none == ([], [], False)
    assert found == again
    columns, scores, isolated = found
    assert isolated == (bool(unfiltered) and not expected)
    kept = expected or unfiltered
    assert columns == sorted(kept)
    assert scores == [kept[column] for column in sorted(kept)]


def test_mass_is_the_mean_of_the_spans_own_tokens():
    scores = scores_of([[(0, 0.5), (1, 0.25)], [(1, 0.5), (2, 0.25)], [(3, 1.0), (2, 0.0)]], [0, 0, -1, 0])
    found = scores.unite(np.array([[1, 1, 0], [0, 0, 1]]), isolation_tau=2)
    masses = scores.mean_masses(found, union_of_span=[0, 1, 0, 1], firsts=[0, 2, 1, 1], ends=[2, 3, 1, 3])
    assert masses == [(0.75 + 0.5) / 2, 1.0, 0.0, 0.5]


def test_white_space_of_a_passage_is_no_evidence_and_no_neighbour():
    scores = scores_of([[(1, 0.5), (2, 0.25), (5, 0.125)]], [-1, 0, 0, 0, 0, 0], blank=2)
    found = scores.unite(np.array([[1]]), isolation_tau=2)
    assert split(found) == [([1, 5], [0.5, 0.125], True)]
    assert scores.mean_masses(found, union_of_span=[0], firsts=[0], ends=[1]) == [0.625]


def test_response_tokens_that_do_not_count_have_no_scores():
    encoded_scores = scores_of([[(0, 0.5), (1, 0.25)], [(1, 0.5), (2, 0.25)]], [0, 0, 0], responses=[1])
    assert united(encoded_scores) == ([1, 2], [0.5, 0.25], False)


INFINITE = float("inf")


def union_scores(evidence):
    cells = [(union, column, one[column]) for union, one in enumerate(evidence) for column in sorted(one)]
    unions, columns, scores = (np.array([cell[part] for cell in cells]) for part in range(3))
    return UnionScores(unions.astype(np.intp), columns.astype(np.intp), scores.astype(float), [False] * len(evidence))


def naive(evidence, context, column_passage, titles, window):
    """The kept columns and the passage scores of one union, window after window."""
    kept, sums = set(), []
    for passage in range(2):
        columns = [column for column, one in enumerate(column_passage) if one == passage]
        text = [column for column in columns if column not in titles]
        worth = {column: evidence.get(column, 0.0) + context.get(column, 0.0) for column in columns}
        windows = [[other for other in text if column <= other < column + window] for column in text if worth[column]]
        if any(column in evidence for column in text):
            windows = [one for one in windows if any(column in evidence for column in one)]
        best = max(windows, key=lambda one: sum(worth[column] for column in one), default=[])
        inside = {*best, *(column for column in columns if column in titles)}
        kept |= inside & set(evidence)
        sums.append(sum(worth[column] for column in inside))
    return kept, sums


VALUES = st.sampled_from([0.125, 0.25, 0.5, 1.0])


@st.composite
def rows(draw):
    order = draw(st.sampled_from([(0, 1), (1, 0)]))
    lengths = [draw(st.integers(1, 9)) for _ in order]
    column_passage = [-1]
    titles = set()
    for passage, length in zip(order, lengths, strict=True):
        titles |= {len(column_passage)} if draw(st.booleans()) else set()
        column_passage += [passage] * length + [-1]
    inside = [column for column, passage in enumerate(column_passage) if passage >= 0]
    some = st.dictionaries(st.sampled_from(inside), VALUES, max_size=8)
    evidence = [draw(some) for _ in range(3)]
    return column_passage, titles, evidence, [draw(some) for _ in evidence]


@given(row=rows(), window=st.sampled_from([1, 2, 3, 5, INFINITE]), with_context=st.booleans())
def test_windows_are_those_of_the_naive_search(row, window, with_context):
    column_passage, titles, evidence, added = row
    columns = sorted({column for one in [*evidence, *added] for column in one})
    values = np.array([[one.get(column, 0.0) for column in columns] for one in added]).reshape(len(added), -1)
    found, passage_scores = keep_best_windows(
        union_scores(evidence),
        encoded=made_row(column_passage, responses=0, titles=[*titles]),
        passage_count=2,
        window=window,
        context=(np.array(columns, dtype=np.intp), values) if with_context else None,
    )
    for union, own in enumerate(evidence):
        kept, sums = naive(own, added[union] if with_context else {}, column_passage, titles, window)
        assert set(found.columns[found.unions == union].tolist()) == kept
        assert passage_scores[union].tolist() == pytest.approx(sums)


WORDS = tuple(CharRange(start, end) for start, end in [(0, 3), (4, 8), (8, 9), (10, 13), (14, 18), (19, 22), (22, 23)])
SCORES = np.array([[0.5, 0.0], [0.25, 0.25], [0.0, 0.0], [0.0, 0.5], [0.125, 0.5], [0.0, 0.25], [0.0, 0.0]], np.float32)


def one_token_each(words):
    starts, ends = (np.array([getattr(word, name) for word in words], np.int32) for name in ("char_start", "char_end"))
    return WordTokenAlignment(words=words, token_char_start=starts, token_char_end=ends)


def context():
    """One token a word, which attends to two passage columns as ``SCORES`` says."""
    scores = scores_of([[*enumerate(row)] for row in SCORES.tolist()], [0, 1])
    return SentenceContext([CharRange(0, 9), CharRange(10, 23)], alignment=one_token_each(WORDS), scores=scores)


def added(context, first, end):
    """What the sentences of the span of tokens ``[first, end)`` have on the two columns."""
    (sums,) = context.of_spans(context.sentences_of([first], [end])).tolist()
    return sums


def test_span_has_the_scores_of_its_whole_sentence():
    assert added(context(), 0, 1) == [0.75, 0.25]
    assert added(context(), 4, 6) == [0.125, 1.25]


def test_spans_whose_weights_differ_by_a_factor_share_a_union():
    sentences = 100
    text, parsed = tree(" || ".join(["Dogs/nsubj/2/NOUN bark/root/0/VERB"] * sentences))
    weights = ResponseWeights(alignment=one_token_each(parsed.words), facts=AtomicFacts(parsed)).of_spans(
        [CharRange(0, len(text))]
    )
    assert weights.unions.tolist() == [[1] * 2 * sentences]
    assert weights.factors == [2]
