"""Every attention and hidden-state method on one answer whose figures are worked out by hand.

The answer's nine tokens are its words and marks. The prompt has eight: BOS, three of passage 0, three of passage 1, one
of the question. Column j of passage 0 is its j-th character, column 3 + j of passage 1 likewise.
"""

import math

import numpy as np
import pytest
import torch
from tests.attribution.methods.hand_parser import ANSWER, PARSED, PARSER

from attribeam.attribution.attention.hidden_states import HiddenSimilarity
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import MethodSettings, PassageScore
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.evaluation.methods.hidden_states import hidden_similarity
from attribeam.evaluation.methods.registry import LabelledContext, lab_methods
from attribeam.evaluation.methods.unions import attributed_responses
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer

COLUMN_PASSAGE = [-1, 0, 0, 0, 1, 1, 1, -1]
TOP = {
    "Ada": [(1, 0.4), (4, 0.3)],
    "sings": [(5, 0.5), (0, 0.2)],
    "and": [(0, 0.9), (7, 0.05)],
    "Jon": [(2, 0.3), (6, 0.1)],
    "dances": [(6, 0.6), (2, 0.2)],
    ".": [(0, 0.9), (7, 0.1)],
    "Bells": [(3, 0.5), (0, 0.1)],
    "ring": [(3, 0.4), (2, 0.25)],
}
WORDS = [chars.of(ANSWER) for chars in PARSED.words]
ADA, SINGS, BELLS = WORDS.index("Ada"), WORDS.index("sings"), WORDS.index("Bells")
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
STATES = [Z, X, Z, Z, Y, Y, Z, Z, *({"Ada": X, "sings": Y}.get(word, Z) for word in WORDS)]


class ModelOfNoDefaults:
    """Stands for a model; all that is asked of it is the settings."""

    def union_settings(self, options):
        return options.with_model(MethodOptions())


def worked_context() -> LabelledContext:
    starts = np.array([(column - 1) % 3 if passage >= 0 else 0 for column, passage in enumerate(COLUMN_PASSAGE)])
    encoded = EncodedRow(
        token_ids=np.zeros(17, dtype=np.int32),
        prompt_length=8,
        column_passage=np.array(COLUMN_PASSAGE, dtype=np.int32),
        column_in_title=np.zeros(8, dtype=np.bool_),
        column_char_start=starts.astype(np.int32),
        column_char_end=np.array(starts + (np.array(COLUMN_PASSAGE) >= 0), dtype=np.int32),
        response_char_start=np.array([chars.char_start for chars in PARSED.words], dtype=np.int32),
        response_char_end=np.array([chars.char_end for chars in PARSED.words], dtype=np.int32),
    )
    attention = TokenAttribution(
        top_columns=np.array([[column for column, _ in TOP[word]] for word in WORDS], dtype=np.int32),
        top_scores=np.array([[score for _, score in TOP[word]] for word in WORDS], dtype=np.float32),
        passage_mass=np.zeros((9, 2), dtype=np.float32),
        sink_mass=np.zeros(9, dtype=np.float32),
    )
    attributed = np.zeros((9, 9), dtype=np.bool_)
    attributed[[SINGS, BELLS], ADA] = True
    passages = (Passage(text="abc"), Passage(text="xyz"))
    record = QARecord("r", "Who?", passages, ANSWER, RowSource("f", 0), target_spans=(CharRange(0, 3),))
    context = LabelledContext(LabelledAnswer(record, (frozenset({0}),)), LoadedModels(PARSER, ModelOfNoDefaults()))
    hidden = HiddenSimilarity([torch.tensor(STATES)], encoded=encoded, passage_count=2)
    vars(context).update(encoded=encoded, attention=attention)
    context._made.update({attributed_responses: attributed, hidden_similarity: hidden})
    return context


def result(name, **options):
    (found,) = lab_methods(MethodSettings(**options))[name].span_results(worked_context())
    return found


def scores(name, **options):
    return pytest.approx(result(name, **options).passage_scores)


def evidence(name):
    passages = ("abc", "xyz")
    return [(one.chars.of(passages[one.passage_index]), pytest.approx(one.score)) for one in result(name).evidence]


def test_attn_union_of_ada_has_isolated_tokens_only_and_keeps_them():
    assert scores("attn-union") == (0.4, 0.3)
    assert evidence("attn-union") == [("abc", 0.4), ("xyz", 0.3)]  # whole words


def test_attn_union_dep_adds_sings_which_isolates_the_token_of_passage_0():
    assert scores("attn-union-dep") == (0, 0.8)
    assert evidence("attn-union-dep") == [("xyz", 0.8)]


def test_attn_union_sent_sums_the_tokens_of_the_first_sentence():
    # columns 1: 0.4, 2: 0.3 + 0.2, 4: 0.3, 5: 0.5, 6: 0.1 + 0.6
    assert scores("attn-union-sent") == (0.9, 1.5)
    assert evidence("attn-union-sent") == [("xyz", 1.5), ("abc", 0.9)]


def test_augment_by_attn_adds_the_later_tokens_that_are_attributed_to_ada():
    # sings and Bells: columns 1: 0.4, 3: 0.5, 4: 0.3, 5: 0.5
    assert scores("augment-by-attn") == (0.9, 0.8)


def test_augment_by_attn_sent_leaves_bells_out():
    assert scores("augment-by-attn-sent") == (0, 0.8)


def test_top5_mean_divides_by_the_three_tokens_of_a_passage():
    assert scores("attn-union-sent", passage_score=PassageScore.TOP5_MEAN) == (0.3, 0.5)
    assert scores("attn-union", passage_score=PassageScore.TOP5_MEAN) == (0.4 / 3, 0.1)


def test_hss_union_of_ada_is_the_token_of_its_direction():
    assert scores("hss-union", top_k=1) == (1, 0)


def test_hss_union_dep_adds_the_two_tokens_of_sings_and_drops_the_isolated_one():
    assert scores("hss-union-dep", top_k=2) == (0, 2)


def test_hss_union_dep_counts_the_spans_own_token_as_often_as_asked():
    # columns 1: 3 of Ada, isolated; 4 and 5: 1 each of sings; without the filter both passages keep theirs
    assert scores("hss-union-dep", top_k=2, own_token_weight=3, isolation_tau=math.inf) == (3, 2)


def test_hss_avg_compares_the_mean_of_the_passages_three_tokens():
    # (1, 0, 2) / 3 and (0, 2, 1) / 3
    assert scores("hss-avg") == (1 / math.sqrt(5), 0)
    assert evidence("hss-avg") == [("abc", 1 / math.sqrt(5))]


def test_hss_avg_dep_compares_the_mean_of_ada_and_sings():
    assert scores("hss-avg-dep") == (1 / math.sqrt(10), 2 / math.sqrt(10))
    assert evidence("hss-avg-dep") == [("xyz", 2 / math.sqrt(10))]
