"""How a passage's score is made of the scores of its tokens."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from attribution.evidence.union import UnionScores
from attribution.token_attribution import EncodedRow

BEST_TOKENS = 5


class PassageScore(StrEnum):
    """The sum of all of a passage's evidence (Section 4.1), or the mean of its five best tokens (AttnTrace).

    A token that is no evidence has the score 0, and a passage of fewer than five tokens is the mean of all of them.
    """

    SUM = "sum"
    TOP5_MEAN = "top5-mean"


def passage_scores(
    scores: UnionScores, *, encoded: EncodedRow, passage_count: int, rule: PassageScore
) -> npt.NDArray[np.float64]:
    """The score of every passage for every union: float64 [unions, passages]."""
    size = (len(scores.evidence_isolated), passage_count)
    places = scores.unions * passage_count + encoded.column_passage[scores.columns]
    counted = scores.scores if rule is PassageScore.SUM else np.where(_among_best(places, scores), scores.scores, 0.0)
    sums = np.bincount(places, weights=counted, minlength=size[0] * size[1]).astype(np.float64).reshape(size)
    if rule is PassageScore.SUM:
        return sums
    visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
    tokens = np.bincount(encoded.column_passage[visible], minlength=passage_count)
    means: npt.NDArray[np.float64] = sums / np.clip(tokens, 1, BEST_TOKENS)
    return means


def _among_best(places: npt.NDArray[np.intp], scores: UnionScores) -> npt.NDArray[np.bool_]:
    """bool [evidence]: whether a token is one of the five best of its passage and union."""
    order = np.lexsort((-scores.scores, places))
    ordered = places[order]
    firsts = np.searchsorted(ordered, ordered, side="left")
    best = np.zeros(len(places), dtype=np.bool_)
    best[order] = np.arange(len(places)) - firsts < BEST_TOKENS
    return best
