"""The verdicts of a scorer by thresholds on its risks that were chosen on other sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.measures.bootstrap import balanced_accuracy, f1, fold_thresholds
from attribeam.evaluation.support.judged_parts import JudgedParts
from attribeam.evaluation.support.scorers import ScoredAnswer, Scorer

Flags = frozenset[int]
Calls = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """One scorer's scores of all answers, and its verdicts by thresholds chosen on other sources; None without any.

    Attributes:
        scorer: what gave the scores.
        answers: the scores of each answer.
        calls: the verdict on each answer, by the threshold with the best F1.
        balanced_calls: the same, by the threshold with the best balanced accuracy.
        flags: the flagged characters of each answer, by the threshold with the best F1 of characters.
        claim_calls: the verdict on each claim of each answer, by the threshold with the best F1 of claims.
    """

    scorer: Scorer
    answers: tuple[ScoredAnswer, ...]
    calls: tuple[bool, ...] | None
    balanced_calls: tuple[bool, ...] | None
    flags: tuple[Flags, ...] | None
    claim_calls: tuple[Calls, ...] | None


def scored_answers(scorer: Scorer, parts: Sequence[JudgedParts], folds: npt.NDArray[np.intp]) -> ScoredAnswers:
    """Score all answers, and call them by thresholds chosen on the sources of other folds; ``folds`` has one a row."""
    answers = tuple(scorer.score(one) for one in parts)
    risks = np.array([one.risk for one in answers])
    marked = np.array([one.is_marked for one in parts])
    if not scorer.has_order:
        return ScoredAnswers(scorer, answers, None, None, None, None)
    return ScoredAnswers(
        scorer=scorer,
        answers=answers,
        calls=_calls(risks, fold_thresholds(risks, marked, folds, f1), folds),
        balanced_calls=_calls(risks, fold_thresholds(risks, marked, folds, balanced_accuracy), folds),
        flags=_flags(answers, parts, folds) if scorer.scores_parts else None,
        claim_calls=_claim_calls(answers, parts, folds) if scorer.scores_parts else None,
    )


def _calls(
    risks: npt.NDArray[np.float64], thresholds: dict[int, float] | None, folds: npt.NDArray[np.intp]
) -> tuple[bool, ...] | None:
    if thresholds is None:
        return None
    return tuple(bool(risk >= thresholds[int(fold)]) for risk, fold in zip(risks, folds, strict=True))


def _flags(
    answers: Sequence[ScoredAnswer], parts: Sequence[JudgedParts], folds: npt.NDArray[np.intp]
) -> tuple[Flags, ...] | None:
    """The flagged characters of each answer, by the threshold with the best F1 of characters on other sources."""
    if any(one.marked is None for one in parts):
        return None
    risks = np.array([risk for one in answers for risk in one.characters])
    marked = np.array([place in (one.marked or ()) for one in parts for place in one.characters], dtype=np.bool_)
    owners = np.repeat(folds, [len(one.characters) for one in parts])
    thresholds = fold_thresholds(risks, marked, owners, f1)
    if thresholds is None:
        return None
    return tuple(
        frozenset(
            place
            for place, risk in zip(one.characters, answer.characters, strict=True)
            if risk >= thresholds.get(int(fold), np.inf)
        )
        for one, answer, fold in zip(parts, answers, folds, strict=True)
    )


def _claim_calls(
    answers: Sequence[ScoredAnswer], parts: Sequence[JudgedParts], folds: npt.NDArray[np.intp]
) -> tuple[Calls, ...] | None:
    """The verdict on each claim, by the threshold with the best F1 of claims on other sources."""
    marks = [part.is_marked for one in parts for part in one.claims]
    risks = np.array([risk for one in answers for risk in one.claims])
    owners = np.repeat(folds, [len(one.claims) for one in parts])
    if None in marks:
        return None
    thresholds = fold_thresholds(risks, np.array(marks, dtype=np.bool_), owners, f1)
    if thresholds is None:
        return None
    return tuple(
        tuple(risk >= thresholds.get(int(fold), np.inf) for risk in one.claims)
        for one, fold in zip(answers, folds, strict=True)
    )
