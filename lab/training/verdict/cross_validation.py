"""Fits the verdict with folds by source: what is said of a row comes from parts that were fitted on other sources.

Claims see the log odds that words of other folds gave, and answers those of claims: so a later part never learns from
an earlier one that knew its rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.answer_regression import AnswerRegression
from attribeam.attribution.verdict.boosted_trees import BoostedTrees
from attribeam.attribution.verdict.state_probe import ProbeShares
from attribeam.lab.evaluation.measures.source_folds import FOLDS
from attribeam.lab.training.verdict.fitting import (
    WEIGHTS,
    FittedWords,
    Odds,
    fit_answers,
    fit_claims,
    fit_words,
    numbers_of_claims,
)
from attribeam.lab.training.verdict.verdict_rows import VerdictRow

_FALLS = (0.4, 0.6, 0.8, 1.0, 1.3, 1.6)
_FALL_SETS = frozenset({"ragtruth", "ragtruth_qa", "log", "made_mixed", "trial"})
"""The sets with marks and several claims an answer, which tell how far other claims lie below the riskiest."""
_Numbers = npt.NDArray[np.float64]
_Part = TypeVar("_Part")
_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class FittedParts:
    """Everything that is fitted; the trees of claims in JSON form."""

    words: FittedWords
    claims: dict[str, Any]
    answers: AnswerRegression


@dataclass(frozen=True, slots=True)
class Scored:
    """What a fitted verdict says of one row: log odds of its words, of its claims and of the answer."""

    words: _Numbers
    claims: _Numbers
    answer: float


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """What is said of each row by parts that were fitted without its fold.

    Attributes:
        scores: one per row.
        folds: intp [rows], the fold of each row, from 0.
        parts: for each fold the parts that were fitted on all others, and last those fitted on all rows.
        claim_fall: as ``VerdictModel`` has it.
    """

    scores: tuple[Scored, ...]
    folds: npt.NDArray[np.intp]
    parts: tuple[FittedParts, ...]
    claim_fall: float


def folds_of(rows: Sequence[VerdictRow], *, seed: int) -> npt.NDArray[np.intp]:
    """intp [rows], by a hash of the key alone: rows with one key, of whatever sets, share a fold."""
    return np.array([zlib.crc32(f"{seed}{row.key}".encode()) % FOLDS for row in rows], dtype=np.intp)


def cross_validated(
    rows: Sequence[VerdictRow],
    *,
    seed: int,
    probe_shares: ProbeShares,
    progress: Callable[[], object] = lambda: None,
) -> CrossValidation:
    """Fit words, claims and answers in turn, each without each fold and on all rows; ``progress`` hears of each fit."""
    folds = folds_of(rows, seed=seed)

    def each(
        fit: Callable[[list[int]], _Part], say: Callable[[_Part, list[int]], Sequence[_Said]]
    ) -> tuple[list[_Said], list[_Part]]:
        said, parts = dict[int, _Said](), []
        for fold in range(FOLDS):
            parts.append(fit(np.flatnonzero(folds != fold).tolist()))
            own = np.flatnonzero(folds == fold).tolist()
            said.update(zip(own, say(parts[fold], own), strict=True))
            progress()
        parts.append(fit(list(range(len(rows)))))
        progress()
        return [said[place] for place in range(len(rows))], parts

    def only(places: list[int], values: Sequence[_Said]) -> list[_Said]:
        return [values[place] for place in places]

    odds, words = each(
        lambda some: fit_words(only(some, rows), seed=seed, probe_shares=probe_shares),
        lambda part, own: part.log_odds(only(own, rows)),
    )
    ratios, claims = each(
        lambda some: fit_claims(only(some, rows), only(some, odds), seed=seed),
        lambda part, own: _ratios(part, only(own, rows), only(own, odds)),
    )
    risks, answers = each(
        lambda some: fit_answers(only(some, rows), only(some, odds), only(some, ratios)),
        lambda part, own: [part.log_odds(rows[one].signals, odds[one], ratios[one]) for one in own],
    )
    fall = _claim_fall(rows, ratios, risks)
    scores = [
        Scored(one, risk - fall * (ratio.max() - ratio), risk)
        for one, ratio, risk in zip(odds, ratios, risks, strict=True)
    ]
    return CrossValidation(tuple(scores), folds, tuple(map(FittedParts, words, claims, answers)), fall)


def _ratios(trees: dict[str, Any], rows: Sequence[VerdictRow], odds: Odds) -> list[_Numbers]:
    loaded = BoostedTrees.from_json(trees)
    return [loaded.log_odds(numbers_of_claims(row, one)) for row, one in zip(rows, odds, strict=True)]


def _claim_fall(rows: Sequence[VerdictRow], ratios: Odds, risks: Sequence[float]) -> float:
    """The fall with the least log loss of claims, the mean over sets."""
    chosen = [one for one in zip(rows, ratios, risks, strict=True) if one[0].has_marks]
    several = [one for one in chosen if one[0].set_name in _FALL_SETS] or chosen

    def loss(fall: float) -> float:
        found: dict[str, list[_Numbers]] = {name: [] for name in WEIGHTS}
        for row, ratio, risk in several:
            odds = risk - fall * (ratio.max() - ratio)
            judged = row.claim_weights > 0
            found[row.set_name].append(np.logaddexp(0, np.where(row.marked_claims, -odds, odds))[judged])
        return float(np.mean([np.concatenate(one).mean() for one in found.values() if one]))

    return min(_FALLS, key=loss)
