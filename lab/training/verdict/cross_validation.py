"""Fits the verdict with folds by source, so that every figure and threshold comes from sources not fitted on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.answer_regression import AnswerRegression
from attribeam.attribution.verdict.logistic_regression import LogisticRegression
from attribeam.attribution.verdict.state_probe import ProbeShares
from attribeam.attribution.verdict.verdict_model import claim_numbers
from attribeam.lab.evaluation.measures.source_folds import source_folds
from attribeam.lab.training.verdict.answer_fitting import fit_answers
from attribeam.lab.training.verdict.fitting import fit_regression
from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.lab.training.verdict.word_fitting import PROBE_SHARES, FittedWords, fit_words

_Numbers = npt.NDArray[np.float64]
_CLAIM_STRENGTH = 1.0


@dataclass(frozen=True, slots=True)
class FittedParts:
    """Everything that is fitted."""

    words: FittedWords
    answers: AnswerRegression
    claims: LogisticRegression


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
        parts: for each fold the parts that were fitted on all others.
    """

    scores: tuple[Scored, ...]
    folds: npt.NDArray[np.intp]
    parts: tuple[FittedParts, ...]

    def others(self, fold: int) -> list[int]:
        """The places of the rows outside a fold."""
        return np.flatnonzero(self.folds != fold).tolist()

    def of(self, fold: int) -> list[int]:
        """The places of a fold's rows."""
        return np.flatnonzero(self.folds == fold).tolist()


def by_source(row: VerdictRow) -> Hashable:
    """Answers from one source share a fold."""
    return row.source


def fit_parts(
    rows: Sequence[VerdictRow],
    *,
    folds: int,
    seed: int,
    beside: Sequence[VerdictRow] = (),
    probe_shares: ProbeShares = PROBE_SHARES,
) -> FittedParts:
    """Words fitted on all rows, and regressions on the log odds that words fitted on other sources gave.

    The rows ``beside`` are in every fit of words, and in no regression: the risks stay those of the other rows.
    """
    inside = source_folds([row.source for row in rows], seed=seed + 1) % folds
    odds: list[_Numbers] = [np.empty(0)] * len(rows)
    for fold in range(folds):
        others = [row for row, one in zip(rows, inside, strict=True) if one != fold]
        words = fit_words([*others, *beside], seed=seed, probe_shares=probe_shares)
        places = np.flatnonzero(inside == fold).tolist()
        for place, found in zip(places, words.log_odds([rows[place] for place in places]), strict=True):
            odds[place] = found
    words = fit_words([*rows, *beside], seed=seed, probe_shares=probe_shares)
    answers = fit_answers(rows, odds)
    return FittedParts(words, answers, _fit_claims(rows, odds, answers))


def _fit_claims(rows: Sequence[VerdictRow], odds: Sequence[_Numbers], answers: AnswerRegression) -> LogisticRegression:
    found = [
        claim_numbers(row.signals, one, row.claims, answers.log_odds(row.signals, one))
        for row, one in zip(rows, odds, strict=True)
    ]
    numbers = np.concatenate([one for _, one in found])
    labels = np.concatenate([row.marked_claims for row in rows])
    return fit_regression(found[0][0], numbers, labels, strength=_CLAIM_STRENGTH)


def scored(parts: FittedParts, rows: Sequence[VerdictRow]) -> list[Scored]:
    """What the fitted parts say of each row."""
    found = []
    for row, odds in zip(rows, parts.words.log_odds(rows), strict=True):
        answer = parts.answers.log_odds(row.signals, odds)
        claims = parts.claims.log_odds(*claim_numbers(row.signals, odds, row.claims, answer))
        found.append(Scored(odds, claims, answer))
    return found


def cross_validated(
    rows: Sequence[VerdictRow],
    *,
    folds: int,
    seed: int,
    key: Callable[[VerdictRow], Hashable] = by_source,
    beside: Sequence[VerdictRow] = (),
    probe_shares: ProbeShares = PROBE_SHARES,
    progress: Callable[[str], object] = lambda _: None,
) -> CrossValidation:
    """Fit without each fold in turn; answers from one source, or with one value of ``key``, share a fold.

    The rows ``beside`` are in every fit of words and in no fold: nothing is said of them.
    """
    if key is by_source:
        outside = source_folds([row.source for row in rows], seed=seed)
    else:
        values = [str(key(row)) for row in rows]
        outside = np.array([sorted(set(values)).index(one) for one in values], dtype=np.intp)
    found: dict[int, Scored] = {}
    parts = []
    for fold in range(int(outside.max()) + 1):
        others = [rows[at] for at in np.flatnonzero(outside != fold).tolist()]
        parts.append(fit_parts(others, folds=folds, seed=seed, beside=beside, probe_shares=probe_shares))
        places = np.flatnonzero(outside == fold).tolist()
        found.update(zip(places, scored(parts[fold], [rows[place] for place in places]), strict=True))
        progress(f"fold {fold + 1} of {outside.max() + 1}")
    return CrossValidation(tuple(found[place] for place in range(len(rows))), outside, tuple(parts))
