import numpy as np
import pytest

from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.methods.method import PassageScore
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.evaluation.methods.unions import passage_scores


def encoded(column_passage: list[int]) -> EncodedRow:
    size = len(column_passage)
    return EncodedRow(
        token_ids=np.zeros(size + 1, dtype=np.int32),
        prompt_length=size,
        column_passage=np.array(column_passage, dtype=np.int32),
        column_in_title=np.zeros(size, dtype=np.bool_),
        column_char_start=np.arange(size, dtype=np.int32),
        column_char_end=np.arange(1, size + 1, dtype=np.int32),
        response_char_start=np.zeros(1, dtype=np.int32),
        response_char_end=np.ones(1, dtype=np.int32),
    )


# two unions: the first has six tokens of passage 0 and one of passage 1, the second one token of passage 2
ROW = encoded([-1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2])
SCORES = UnionScores(
    unions=np.array([0] * 7 + [1]),
    columns=np.array([1, 2, 3, 4, 5, 6, 8, 14]),
    scores=np.array([0.6, 0.1, 0.5, 0.4, 0.3, 0.2, 1.0, 0.8]),
    evidence_isolated=[False, False],
)


def test_sum_takes_all_evidence():
    found = passage_scores(SCORES, encoded=ROW, passage_count=3, rule=PassageScore.SUM)
    assert found.tolist() == [[pytest.approx(2.1), 1.0, 0.0], [0.0, 0.0, 0.8]]


def test_top5_mean_leaves_the_sixth_token_out_and_counts_tokens_without_evidence_as_0():
    found = passage_scores(SCORES, encoded=ROW, passage_count=3, rule=PassageScore.TOP5_MEAN)
    # passage 2 has two tokens only
    assert found.tolist() == [[pytest.approx(2.0 / 5), pytest.approx(0.2), 0.0], [0.0, 0.0, pytest.approx(0.4)]]
