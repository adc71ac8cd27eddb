"""Thresholds of claims and words, on scores written for these tests."""

from __future__ import annotations

import numpy as np
import pytest

from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.attribution.verdict.signals import Signals
from attribeam.attribution.verdict.verdict_model import VerdictThresholds
from attribeam.lab.training.verdict.cross_validation import Scored
from attribeam.lab.training.verdict.operating_points import called_words, choose_thresholds
from attribeam.lab.training.verdict.unmatched_claims import UnmatchedShares
from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.schemas import CharRange

LIMITS = VerdictThresholds(0.4, 0.5, 0.8, 0.3, 0.8, 0.9, word=0.1, weak_word=0.3)


def row(*marked: int, source: str = "a") -> VerdictRow:
    """Three claims of two words of four letters each."""
    marks = np.zeros(6, dtype=bool)
    marks[list(marked)] = True
    return VerdictRow(
        record_id=source,
        signals=Signals((0, 1, 2, 3, 4, 5), ("word_unmatched_value",), np.zeros((6, 1), np.float32), RowKind.QUESTION),
        marked_words=marks,
        mark_sizes=np.ones(6, dtype=np.int64),
        claims=((0, 1), (2, 3), (4, 5)),
        chars=tuple(CharRange(5 * at, 5 * at + 4) for at in range(6)),
        is_marked=bool(marked),
        source=source,
        group="",
        generator="",
    )


def scored(support: list[float], words: list[float], risk: float = 0.9) -> Scored:
    """What a verdict says, given support scores, the words' probabilities and the answer's risk."""
    return Scored(log_odds(words), -log_odds(support), float(log_odds([risk])[0]))


def log_odds(probabilities: list[float]) -> np.ndarray:
    found = np.array(probabilities)
    return np.log(found / (1 - found))


@pytest.mark.parametrize(
    ("support", "called"),
    [
        pytest.param([0.2, 0.7, 0.9], [0, 1, 3], id="low-weak-high"),
        pytest.param([0.2, 0.4, 0.3], [0, 1, 2, 3, 4, 5], id="all-low"),
        pytest.param([0.75, 0.7, 0.6], [1, 3, 4, 5], id="weak-ones-and-the-worst"),
        pytest.param([0.95, 0.85, 0.9], [2, 3], id="the-worst-alone"),
    ],
)
def test_words_of_weak_claims_need_more_suspicion(support: list[float], called: list[int]) -> None:
    one = scored(support, [0.2, 0.5, 0.15, 0.4, 0.2, 0.5])
    assert np.flatnonzero(called_words(row(), one, LIMITS)).tolist() == called


def test_no_word_of_a_weak_claim_is_named_by_verdicts_without_a_threshold_for_it() -> None:
    one = scored([0.2, 0.7, 0.9], [0.2, 0.5, 0.15, 0.99, 0.2, 0.5])
    plain = VerdictThresholds(0.4, 0.5, 0.8, 0.3, 0.8, 0.9, word=0.1)
    assert np.flatnonzero(called_words(row(), one, plain)).tolist() == [0, 1]


def test_thresholds_of_words_are_those_that_find_what_people_marked() -> None:
    words = [0.25, 0.02, 0.35, 0.12, 0.2, 0.2]
    rows = [row(0, 2, source=str(at)) for at in range(4)] + [row(source=str(at)) for at in range(4, 8)]
    scores = [scored([0.2, 0.7, 0.95], words)] * 4 + [scored([0.9, 0.9, 0.95], words, risk=0.1)] * 4
    limits = choose_thresholds(rows, scores, UnmatchedShares(0.3, 0.8))
    assert (limits.unsupported, limits.supported) == (0.5, 0.8)
    assert 0.1 < limits.answer_risk <= 0.9
    assert 0.02 < limits.word <= 0.25
    assert 0.12 < limits.weak_word <= 0.35
    for one, said in zip(rows, scores, strict=True):
        if one.is_marked:
            np.testing.assert_array_equal(called_words(one, said, limits), one.marked_words)


def test_weak_claims_name_nothing_where_people_marked_none_of_their_words() -> None:
    words = [0.25, 0.02, 0.5, 0.5, 0.2, 0.2]
    rows = [row(0, source=str(at)) for at in range(4)] + [row(source=str(at)) for at in range(4, 8)]
    scores = [scored([0.2, 0.7, 0.95], words)] * 4 + [scored([0.9, 0.9, 0.95], words, risk=0.1)] * 4
    limits = choose_thresholds(rows, scores, UnmatchedShares(0.3, 0.8))
    assert limits.weak_word > 0.5


@pytest.mark.parametrize(("marked", "threshold"), [(200, 0.675), (20, 0.325)])
def test_one_more_answer_in_200_is_not_worth_more_false_alarms(marked: int, threshold: float) -> None:
    """All marked answers have a risk of 0.9 but one, which stands before the clean ones: F1 is 99.7 without it."""
    risks = [0.9] * marked + [0.45] + [0.2] * 60
    rows = [row(*([0] if place <= marked else []), source=str(place)) for place in range(len(risks))]
    scores = [scored([0.2, 0.7, 0.9], [0.2] * 6, risk) for risk in risks]
    assert choose_thresholds(rows, scores, UnmatchedShares(0.3, 0.8)).answer_risk == pytest.approx(threshold)
