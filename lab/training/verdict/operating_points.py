"""Thresholds of the verdict, chosen on what parts fitted on other sources said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.verdict_model import OperatingPoint, VerdictThresholds
from attribeam.lab.evaluation.measures.source_folds import Cuts, best_threshold, f1
from attribeam.lab.training.verdict.cross_validation import Scored
from attribeam.lab.training.verdict.unmatched_claims import UnmatchedShares
from attribeam.lab.training.verdict.verdict_rows import VerdictRow

_POINTS = 40
_UNSUPPORTED_BELOW = 0.5
"""A claim with a lower score is more likely unsupported than not: scores are probabilities."""
_SUPPORTED_FROM = 0.8
"""Of claims with this score four in five are supported."""
_F1_GIVEN = 0.005
"""How much F1 of answers is given for fewer false alarms: near its best it hardly depends on the threshold."""
_WORD_CHOICES = np.arange(0.06, 0.3, 0.02)
_WEAK_WORD_CHOICES = np.arange(0.1, 0.6, 0.05)


def operating_points(risks: npt.NDArray[np.float64], marked: npt.NDArray[np.bool_]) -> list[dict[str, float]]:
    """What thresholds over the whole range of the risks give, ascending, as ``OperatingPoint`` reads it."""
    levels = np.unique(np.round(np.quantile(risks, np.linspace(0, 1, _POINTS + 1)[1:-1]), 4))
    points = []
    for level in levels:
        called = risks >= level
        points.append(
            OperatingPoint(
                answer_risk=float(level),
                precision=_share(marked[called]),
                recall=_share(called[marked]),
                false_alarms=_share(called[~marked]),
            )
        )
    return [{name: round(value, 4) for name, value in asdict(point).items()} for point in points]


def choose_thresholds(
    rows: Sequence[VerdictRow], scores: Sequence[Scored], shares: UnmatchedShares
) -> VerdictThresholds:
    """The thresholds with the best F1 of characters for words; ``scores`` have the ``shares`` applied.

    For answers it is the one with the fewest false alarms of those whose F1 is at most half a point below the best.
    Those of claims are fixed, for a score is a probability. Chosen by the F1 of characters, they would depend on
    chance, for it hardly changes between 0.5 and 0.8.
    """
    risks = np.array([_probability(one.answer) for one in scores])
    marked = np.array([row.is_marked for row in rows])
    support = np.concatenate([1 - _probability(one.claims) for one in scores])
    unmarked = ~np.concatenate([row.marked_claims for row in rows])
    limits = VerdictThresholds(
        answer_risk=round(float(best_threshold(risks, marked, _is_nearly_best)), 4),
        unsupported=_UNSUPPORTED_BELOW,
        supported=_SUPPORTED_FROM,
        unmatched=shares.support_score,
        unmatched_risk=shares.answer_risk,
        literal=round(float(np.quantile(support[unmarked], 0.75)), 4),
        word=1.0,
        weak_word=1.0,
    )
    flagged = [(row, one) for row, one, risk in zip(rows, scores, risks, strict=True) if risk >= limits.answer_risk]
    every = sum(int(row.letters[row.marked_words].sum()) for row in rows)
    for name, choices in (("word", _WORD_CHOICES), ("weak_word", _WEAK_WORD_CHOICES)):
        tried = [replace(limits, **{name: round(float(choice), 4)}) for choice in choices]
        limits = max(tried, key=lambda one: _character_f1(flagged, every, one))
    return limits


def _is_nearly_best(cuts: Cuts) -> npt.NDArray[np.float64]:
    """1 for thresholds whose F1 is nearly the best; ``best_threshold`` takes the largest of them."""
    found = f1(cuts)
    return np.where(found >= found.max() - _F1_GIVEN, 1.0, 0.0)


def _character_f1(flagged: Sequence[tuple[VerdictRow, Scored]], every: int, limits: VerdictThresholds) -> float:
    common = called = 0
    for row, one in flagged:
        chosen = called_words(row, one, limits)
        common += int(row.letters[chosen & row.marked_words].sum())
        called += int(row.letters[chosen].sum())
    return 2 * common / max(called + every, 1)


def called_words(row: VerdictRow, one: Scored, limits: VerdictThresholds) -> npt.NDArray[np.bool_]:
    """Which words of a flagged answer are named, by the thresholds for words of its unsupported and its weak claims.

    The claim with the lowest score is unsupported in any case.
    """
    places = {index: place for place, index in enumerate(row.signals.words)}
    chosen = np.zeros(len(places), dtype=bool)
    support = 1 - _probability(one.claims)
    for score, words in zip(support, row.claims, strict=True):
        if score < limits.supported or score == support.min():
            is_unsupported = score < limits.unsupported or score == support.min()
            own = [places[each] for each in words if each in places]
            chosen[own] = _probability(one.words[own]) >= (limits.word if is_unsupported else limits.weak_word)
    return chosen


def _share(items: npt.NDArray[np.bool_]) -> float:
    return float(items.mean()) if len(items) else 0.0


def _probability(log_odds: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.asarray(log_odds, dtype=np.float64))))
