"""Thresholds of the verdict, chosen on what parts fitted on other sources said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.verdict_model import OperatingPoint, VerdictThresholds
from attribeam.lab.evaluation.measures.source_folds import best_threshold, f1
from attribeam.lab.training.verdict.cross_validation import Scored
from attribeam.lab.training.verdict.unmatched_claims import UnmatchedShares
from attribeam.lab.training.verdict.verdict_rows import VerdictRow

_POINTS = 40
_SUPPORTED_PRECISION = 0.95
_CLAIM_CHOICES = np.arange(0.5, 0.85, 0.05)
_WORD_CHOICES = np.arange(0.06, 0.3, 0.02)


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
    """The thresholds that give the best F1 of answers, and then of characters; ``scores`` have the ``shares`` applied.

    ``supported`` is the lowest support score from which on at least 95% of the claims are unmarked, but no lower than
    ``unsupported``.
    """
    risks = np.array([_probability(one.answer) for one in scores])
    marked = np.array([row.is_marked for row in rows])
    answer_risk = best_threshold(risks, marked, f1)
    flagged = [(row, one) for row, one, risk in zip(rows, scores, risks, strict=True) if risk >= answer_risk]
    every = sum(row.letters[row.marked_words].sum() for row in rows)
    unsupported = max(_CLAIM_CHOICES, key=lambda choice: _character_f1(flagged, every, float(choice), 0.0))
    word = max(_WORD_CHOICES, key=lambda choice: _character_f1(flagged, every, float(unsupported), float(choice)))
    support = np.concatenate([1 - _probability(one.claims) for one in scores])
    unmarked = ~np.concatenate([row.marked_claims for row in rows])
    return VerdictThresholds(
        answer_risk=round(float(answer_risk), 4),
        unsupported=round(float(unsupported), 4),
        supported=round(max(float(unsupported), _lowest_with_precision(support, unmarked)), 4),
        unmatched=shares.support_score,
        unmatched_risk=shares.answer_risk,
        literal=round(float(np.quantile(support[unmarked], 0.75)), 4),
        word=round(float(word), 4),
    )


def _character_f1(flagged: Sequence[tuple[VerdictRow, Scored]], every: int, unsupported: float, word: float) -> float:
    common = called = 0
    for row, one in flagged:
        chosen = called_words(row, one, unsupported, word)
        common += int(row.letters[chosen & row.marked_words].sum())
        called += int(row.letters[chosen].sum())
    return 2 * common / max(called + every, 1)


def called_words(row: VerdictRow, one: Scored, unsupported: float, word: float) -> npt.NDArray[np.bool_]:
    """Which words of a flagged answer are named: those from ``word`` on in claims below ``unsupported`` and the worst.

    With 0 for ``word`` these are all words of the claims.
    """
    places = {index: place for place, index in enumerate(row.signals.words)}
    chosen = np.zeros(len(places), dtype=bool)
    support = 1 - _probability(one.claims)
    for index, words in enumerate(row.claims):
        if support[index] < unsupported or support[index] == support.min():
            own = [places[each] for each in words if each in places]
            chosen[own] = _probability(one.words[own]) >= word
    return chosen


def _lowest_with_precision(support: npt.NDArray[np.float64], unmarked: npt.NDArray[np.bool_]) -> float:
    order = np.argsort(-support)
    right = np.cumsum(unmarked[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(right >= _SUPPORTED_PRECISION)
    return float(support[order[enough[-1]]]) if len(enough) else 1.0


def _share(items: npt.NDArray[np.bool_]) -> float:
    return float(items.mean()) if len(items) else 0.0


def _probability(log_odds: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.asarray(log_odds, dtype=np.float64))))
