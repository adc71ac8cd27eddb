"""Fitting the verdict, part by part and fold by fold.

Fits the parts of the verdict: boosted trees on words and on claims, regressions of answers and hidden states.

Fits the verdict with folds by source: what is said of a row comes from parts that were fitted on other sources.

Claims see the log odds that words of other folds gave, and answers those of claims: so a later part never learns from
an earlier one that knew its rows.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attribeam.attribution.verdict.fitted_parts import (
    HIGHEST,
    LOWEST,
    BoostedTrees,
    LogisticRegression,
    ProbeShares,
    mixed,
    probed_odds,
    state_names,
)
from attribeam.attribution.verdict.texts import RowKind
from attribeam.attribution.verdict.verdict_model import (
    CLAIM_NUMBERS,
    SCORE_NUMBERS,
    AnswerRegression,
    VerdictModel,
    answer_numbers,
    claim_log_odds,
    claim_numbers,
    score_numbers,
)
from attribeam.evaluation.measures import FOLDS
from attribeam.schemas.errors import UsageError
from lab.training.verdict.verdict_rows import NOISE, VerdictRow
from lab.training.verdict.written_sets import SCORED_SETS

_Numbers = npt.NDArray[np.float64]
Odds = Sequence[_Numbers]


@dataclass(frozen=True, slots=True)
class SetWeights:
    """How much a set counts in the fits of words, claims, answers and scores; with 0, it is only judged."""

    words: float = 0.0
    claims: float = 0.0
    answers: float = 0.0
    scores: float = 0.0


WEIGHTS: Mapping[str, SetWeights] = {
    "ragtruth": SetWeights(1.0, 1.0, 2.0),
    "ragtruth_qa": SetWeights(1.0, 1.0, 1.0),
    "log": SetWeights(1.0, 1.0, 2.0, 1.0),
    "made": SetWeights(1.0, 0.7),
    "made_variants": SetWeights(0.5, 0.5),
    "made_mixed": SetWeights(0.7, 0.7, 0.7),
    "trial": SetWeights(1.0, 2.0, 1.5),
    "begin": SetWeights(0.3, 1.0, 1.0),
    "pages": SetWeights(0.3, 0.5),
    "swapped": SetWeights(0.0, 0.25),
    "named": SetWeights(0.0, 0.25),
    "turned": SetWeights(0.0, 0.25),
    "summedits": SetWeights(0.5, 0.3),
    "bump": SetWeights(0.5, 0.3),
    "factcg": SetWeights(0.0, 0.5, 0.5),
    NOISE: SetWeights(0.0, 0.3, 0.3),
    "mtrag": SetWeights(),
    "hard_trial": SetWeights(0.0, 0.5),
    **dict.fromkeys(SCORED_SETS, SetWeights(scores=1.0)),
}
_FALLING = frozenset(
    {
        *(f"word_{name}" for name in (
            "seen", "seen_as_written", "run", "run_nearby", "previous_adjacent", "next_adjacent", "head_near",
            "clause_around", "sentence_around", "in_sentence_coverage", "in_clause_coverage", "similarity",
            "similarity_in_sentence", "similarity_in_clause",
        )),
        *(f"clause_{name}" for name in ("coverage", "pair_coverage", "similarity", "run")),
        *(f"sentence_{name}" for name in ("coverage", "pair_coverage", "similarity", "similarity_anywhere", "run")),
        *(f"answer_{name}" for name in ("similarity", "similarity_in_sentences", "copied_3", "copied_5", "copied_8")),
        "best", "window", "pair", "anywhere", "soft", "soft_least", "bigrams", "heads", "run", "attention_coverage",
        "attention_soft", "attention_window", "attention_best", "context", "attended_claims", "carried",
        "carried_clause",
    }
)  # fmt: skip
"""What is measured of a match: with more of one, and all else equal, nothing is more likely to be unsupported."""
_RISING = frozenset(
    {
        "word_unmatched_value", "clause_unseen_share", "clause_unseen", "sentence_unseen_share", "sentence_unseen",
        "sentence_previous_unseen_share", "sentence_next_unseen_share", "answer_unseen_share", "answer_unseen",
        "missing_weight", "missing_anywhere", "missing_anywhere_weight", "missing_names", "missing_numbers", "novel",
        "values_window", "values_anywhere", "swapped_numbers", "swapped_names", "name_gap", "number_gap", "subject_gap",
        "noun_gap", "name_clause_gap", "number_clause_gap", "subject_clause_gap", "noun_clause_gap", "denied",
        "opposed", "highest_word", "highest_three_words", "mean_word", "read",
    }
)  # fmt: skip
"""What is measured of a missing match: with more of one, and all else equal, nothing is less likely unsupported."""
_DIGITS = 6
_TREES: Mapping[str, Any] = {
    "max_iter": 150, "learning_rate": 0.06, "max_leaf_nodes": 15, "l2_regularization": 5, "max_features": 0.3,
    "early_stopping": False,
}  # fmt: skip
_WORD_TREES = {**_TREES, "max_depth": 5, "max_bins": 64, "min_samples_leaf": 80}
_CLAIM_TREES = {**_TREES, "max_iter": 400, "learning_rate": 0.03, "max_depth": 6, "min_samples_leaf": 60}
_PROBE_STRENGTH, _ANSWER_STRENGTH = 0.002, 0.02
_SCORE_WEIGHT, _UNSUPPORTED_COUNTS = 30.0, 1.25
"""What a claim of a set of one claim counts for the regression of claims, and how much more if it is unsupported: so
half of the risk of answers lies on those with something unsupported."""
_OWN_SCALE = 2.0
"""How much larger the numbers are for a kind's own weights, which so cost a quarter of what the common ones cost."""
_UNSURE = 0.25
"""The weight of a claim of an answer that was only found unsupported as a whole, but of the one with the worst words"""
PROBE_SETS: Mapping[str, float] = {
    "ragtruth": 1.0, "log": 1.0, "trial": 1.0, "begin": 0.5, **dict.fromkeys(SCORED_SETS, 0.0),
}  # fmt: skip
"""Sets whose answers a decoder reads, and how much each counts for the probe."""


def _sklearn(name: str) -> ModuleType:
    """A module of scikit-learn, which only the extra "training" brings.

    Raises:
        UsageError: if it is not installed.
    """
    from importlib import import_module

    try:
        return import_module(f"sklearn.{name}")
    except ImportError as error:
        raise UsageError("training the verdict needs scikit-learn; install attribeam[training]") from error


@dataclass(frozen=True, slots=True)
class FittedWords:
    """Trees in JSON form, and the probe's regression with its shares; no probe where the rows had no states."""

    trees: dict[str, Any]
    probe: LogisticRegression | None
    probe_shares: ProbeShares

    def log_odds(self, rows: Sequence[VerdictRow]) -> list[_Numbers]:
        """The log odds of the words of each row, as the verdict's model limits them."""
        loaded = BoostedTrees.from_json(self.trees)
        odds = [np.clip(loaded.log_odds(row.signals.values), LOWEST, HIGHEST) for row in rows]
        if self.probe is None:
            return odds
        return [_with_probe(*pair, self.probe, self.probe_shares) for pair in zip(odds, rows, strict=True)]


def _with_probe(odds: _Numbers, row: VerdictRow, probe: LogisticRegression, shares: ProbeShares) -> _Numbers:
    """Mixed with what a probe says, where the row has states."""
    return odds if row.states is None else mixed(odds, probed_odds(probe, row.states), share=shares[row.signals.kind])


def fit_words(rows: Sequence[VerdictRow], *, seed: int, probe_shares: ProbeShares) -> FittedWords:
    """Trees on the signals of words, and a probe if some rows have states; the other rows are left to the trees.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    some = [row for row in rows if WEIGHTS[row.set_name].words]
    names = some[0].signals.names
    values = np.concatenate([row.signals.values for row in some])
    labels = np.concatenate([row.marked_words for row in some])
    weights = np.concatenate([row.word_weights * WEIGHTS[row.set_name].words for row in some])
    return FittedWords(_trees(names, values, labels, weights, seed, _WORD_TREES), _probe(rows), probe_shares)


def _probe(rows: Sequence[VerdictRow]) -> LogisticRegression | None:
    read = [(row, row.states) for row in rows if row.states is not None]
    if not read:
        return None
    numbers = np.concatenate([states for _, states in read]).astype(np.float32)
    labels = np.concatenate([row.marked_words for row, _ in read])
    weights = np.concatenate([(row.word_weights > 0) * PROBE_SETS[row.set_name] for row, _ in read])
    mean, scale = numbers.mean(axis=0), numbers.std(axis=0) + 1e-6
    coefficients, bias = _fitted((numbers - mean) / scale, labels, weights, _PROBE_STRENGTH)
    return LogisticRegression(
        state_names(numbers.shape[1]), mean.astype(np.float64), scale.astype(np.float64), coefficients, bias
    )


def _fitted(
    numbers: npt.NDArray[Any], labels: npt.NDArray[np.bool_], weights: _Numbers, strength: float
) -> tuple[_Numbers, float]:
    """Weights and bias of a logistic regression with an L2 penalty of 1 / ``strength``."""
    model = _sklearn("linear_model").LogisticRegression(C=strength, max_iter=5000)
    model.fit(numbers, labels, sample_weight=weights)
    return model.coef_[0].astype(np.float64), float(model.intercept_[0])


def fit_claims(rows: Sequence[VerdictRow], odds: Odds, *, seed: int) -> dict[str, Any]:
    """Trees on claims, given the log odds of their words, as JSON; either label has half the weight of each set.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    some = [(row, words) for row, words in zip(rows, odds, strict=True) if WEIGHTS[row.set_name].claims]
    numbers = [numbers_of_claims(*pair) for pair in some]
    weights = np.concatenate([_claim_weights(row, values) for (row, _), values in zip(some, numbers, strict=True)])
    labels = np.concatenate([row.marked_claims for row, _ in some])
    sets = np.concatenate([[row.set_name] * len(row.claims) for row, _ in some])
    shares = {name: 1000 * weight.claims for name, weight in WEIGHTS.items()}
    balanced = _balanced(weights, labels, sets, shares)
    return _trees(CLAIM_NUMBERS, np.concatenate(numbers), labels, balanced, seed, _CLAIM_TREES)


def numbers_of_claims(row: VerdictRow, odds: _Numbers) -> npt.NDArray[np.float32]:
    """What the trees of claims see of a row, float32 [claims, CLAIM_NUMBERS]."""
    return claim_numbers(row.signals, odds, row.claims, list(row.premises), row.read)


def _claim_weights(row: VerdictRow, numbers: npt.NDArray[np.float32]) -> _Numbers:
    weights = row.claim_weights.copy()
    if row.is_marked and not row.has_marks:
        worst = int(np.argmax(numbers[:, CLAIM_NUMBERS.index("highest_three_words")]))
        weights[np.arange(len(weights)) != worst] *= _UNSURE
    return weights


def _balanced(
    weights: _Numbers, labels: npt.NDArray[np.bool_], sets: npt.NDArray[np.str_], shares: Mapping[str, float]
) -> _Numbers:
    """The weights so that either label of a set comes to half of the set's share."""
    balanced = weights.astype(np.float64)
    for name in np.unique(sets).tolist():
        for label in (True, False):
            inside = (sets == name) & (labels == label)
            balanced[inside] *= shares[name] / 2 / max(float(balanced[inside].sum()), 1e-9)
    return balanced


def fit_answers(rows: Sequence[VerdictRow], odds: Odds, ratios: Odds) -> AnswerRegression:
    """The regression of answers, with own weights for each kind of row.

    They stand beside common ones and are drawn to zero, so that a kind with few rows follows the others. Either label
    has half the weight of each set.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    some = [triple for triple in zip(rows, odds, ratios, strict=True) if WEIGHTS[triple[0].set_name].answers]
    named = [answer_numbers(row.signals, words, claims) for row, words, claims in some]
    names, numbers = named[0][0], np.concatenate([values for _, values in named])
    labels = np.array([row.is_marked for row, *_ in some])
    kinds = np.array([row.signals.kind for row, *_ in some])
    sets = np.array([row.set_name for row, *_ in some])
    weights = _balanced(np.ones(len(some)), labels, sets, {name: weight.answers for name, weight in WEIGHTS.items()})
    weights *= len(weights) / weights.sum()
    mean, scale = np.average(numbers, axis=0, weights=weights), numbers.std(axis=0) + 1e-6
    common = (numbers - mean) / scale
    own = np.concatenate([_OWN_SCALE * common, np.ones((len(common), 1))], axis=1)
    columns = [common, *(own * (kinds == kind)[:, None] for kind in RowKind)]
    coefficients, bias = _fitted(np.concatenate(columns, axis=1), labels, weights, _ANSWER_STRENGTH)
    shared, *owns = np.split(coefficients, np.cumsum([len(names), *[own.shape[1]] * (len(RowKind) - 1)]))
    return AnswerRegression(
        {
            kind: LogisticRegression(names, mean, scale, shared + _OWN_SCALE * part[:-1], bias + float(part[-1]))
            for kind, part in zip(RowKind, owns, strict=True)
        }
    )


def fit_scores(rows: Sequence[VerdictRow], numbers: Sequence[_Numbers]) -> LogisticRegression:
    """The regression of claims on their ``SCORE_NUMBERS``, those of each row.

    Claims that were only judged as parts of an answer are left out. A set counts by the root of its size; half of the
    weight of its answers is on those with something unsupported, and claims count as often as they are in these.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    own = [row.claim_weights * (row.has_marks or len(row.claims) == 1) for row in rows]
    sums, shares = defaultdict[str, float](float), defaultdict[str, list[bool]](list)
    for row, weights in zip(rows, own, strict=True):
        sums[row.set_name] += weights.sum()
        shares[row.set_name].append(row.is_marked)
    of_sets = {name: WEIGHTS[name].scores * _SCORE_WEIGHT / max(total, 1.0) ** 0.5 for name, total in sums.items()}
    of_rows = [of_sets[row.set_name] / 2 / np.mean(np.equal(shares[row.set_name], row.is_marked)) for row in rows]
    each = np.concatenate([weights * of_row for weights, of_row in zip(own, of_rows, strict=True)])
    marked = np.concatenate([row.marked_claims for row in rows])
    each *= np.where(marked, _UNSUPPORTED_COUNTS, 1.0)
    counts = each > 0
    values, labels, each = np.concatenate(numbers)[counts], marked[counts], each[counts]
    mean, scale = np.average(values, axis=0, weights=each), values.std(axis=0) + 1e-6
    fitted = _fitted((values - mean) / scale, labels, each, _ANSWER_STRENGTH)
    return LogisticRegression(SCORE_NUMBERS, mean, scale, *fitted)


def _trees(
    names: Sequence[str],
    values: npt.NDArray[np.float32],
    labels: npt.NDArray[np.bool_],
    weights: _Numbers,
    seed: int,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Boosted trees for the log odds of a label, in the JSON form of ``BoostedTrees``."""
    directions = [(name in _RISING) - (name in _FALLING) for name in names]
    model = _sklearn("ensemble").HistGradientBoostingClassifier(**options, monotonic_cst=directions, random_state=seed)
    model.fit(values, labels, sample_weight=weights)
    trees = [predictors[0].nodes for predictors in model._predictors]
    depth = max(int(nodes["depth"].max()) for nodes in trees)
    bias = float(model._baseline_prediction.ravel()[0])
    return {"bias": bias, "depth": depth, "trees": [_tree(nodes) for nodes in trees]}


def _tree(nodes: Any) -> dict[str, list[float]]:
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "columns": [int(column) for column in np.where(leaf, 0, nodes["feature_idx"])],
        "thresholds": [float(f"{value:.{_DIGITS}g}") for value in np.where(leaf, 0.0, nodes["num_threshold"])],
        "left": [int(value) for value in np.where(leaf, 0, nodes["left"])],
        "right": [int(value) for value in np.where(leaf, 0, nodes["right"])],
        "values": [float(f"{value:.{_DIGITS}g}") for value in np.where(leaf, nodes["value"], 0.0)],
    }


_Part = TypeVar("_Part")
_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class FittedParts:
    """Everything that is fitted; the trees of claims in JSON form."""

    words: FittedWords
    claims: dict[str, Any]
    answers: AnswerRegression
    scores: LogisticRegression


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
    """

    scores: tuple[Scored, ...]
    folds: npt.NDArray[np.intp]
    parts: tuple[FittedParts, ...]


def folds_of(rows: Sequence[VerdictRow], *, seed: int) -> npt.NDArray[np.intp]:
    """intp [rows], by a hash of the key alone: rows with one key, of whatever sets, share a fold."""
    return np.array([zlib.crc32(f"{seed}{row.key}".encode()) % FOLDS for row in rows], dtype=np.intp)


class _Folds:
    """Fits each part without each fold and on all rows; ``progress`` hears of each fit."""

    def __init__(self, rows: Sequence[VerdictRow], seed: int, progress: Callable[[], object]) -> None:
        self.folds, self._progress = folds_of(rows, seed=seed), progress

    def each(
        self, fit: Callable[[list[int]], _Part], say: Callable[[_Part, list[int]], Sequence[_Said]]
    ) -> tuple[list[_Said], list[_Part]]:
        """What the part of the other folds says of each row, given by indices, and the parts, the last one of all."""
        said, parts, count = dict[int, _Said](), [], len(self.folds)
        for fold in range(FOLDS):
            parts.append(fit(np.flatnonzero(self.folds != fold).tolist()))
            own = np.flatnonzero(self.folds == fold).tolist()
            said.update(zip(own, say(parts[fold], own), strict=True))
            self._progress()
        parts.append(fit(list(range(count))))
        self._progress()
        return [said[index] for index in range(count)], parts


def _only(indices: list[int], values: Sequence[_Said]) -> list[_Said]:
    return [values[index] for index in indices]


def cross_validated(
    rows: Sequence[VerdictRow],
    *,
    seed: int,
    probe_shares: ProbeShares,
    progress: Callable[[], object] = lambda: None,
) -> CrossValidation:
    """Fit words, claims, answers and scores in turn, without each fold and on all rows; ``progress`` hears of each."""
    folds = _Folds(rows, seed, progress)
    odds, words = folds.each(
        lambda some: fit_words(_only(some, rows), seed=seed, probe_shares=probe_shares),
        lambda part, own: part.log_odds(_only(own, rows)),
    )
    ratios, claims = folds.each(
        lambda some: fit_claims(_only(some, rows), _only(some, odds), seed=seed),
        lambda part, own: _ratios(BoostedTrees.from_json(part), _only(own, rows), _only(own, odds)),
    )
    risks, answers = folds.each(
        lambda some: fit_answers(_only(some, rows), _only(some, odds), _only(some, ratios)),
        lambda part, own: [part.log_odds(rows[index].signals, odds[index], ratios[index]) for index in own],
    )
    said, scores = _scored(rows, folds, odds, ratios, risks)
    return CrossValidation(said, folds.folds, tuple(map(FittedParts, words, claims, answers, scores)))


def scored_beside(
    rows: Sequence[VerdictRow], model: VerdictModel, *, seed: int
) -> tuple[tuple[Scored, ...], LogisticRegression]:
    """New scores beside the words, claims, answers and reader of a fitted verdict.

    They are what parts of other folds say of each row; the regression is that of all rows.
    """
    reader, probe = model.reader, model.probe
    read = rows
    if reader is not None:
        read = [replace(row, read=reader.log_odds(row.inputs)) for row in tqdm(rows, disable=None, leave=False)]
    odds = [np.clip(model.words.log_odds(row.signals.values), LOWEST, HIGHEST) for row in rows]
    if probe is not None:
        odds = [_with_probe(*pair, probe.regression, probe.shares) for pair in zip(odds, rows, strict=True)]
    ratios = _ratios(model.claims, read, odds, model.claim_names)
    risks = [model.answers.log_odds(row.signals, *pair) for row, *pair in zip(rows, odds, ratios, strict=True)]
    said, scores = _scored(read, _Folds(rows, seed, lambda: None), odds, ratios, risks)
    return said, scores[-1]


def _scored(
    rows: Sequence[VerdictRow], folds: _Folds, odds: Odds, ratios: Odds, risks: Sequence[float]
) -> tuple[tuple[Scored, ...], list[LogisticRegression]]:
    numbers = [
        score_numbers(numbers_of_claims(row, words), ratio)
        for row, words, ratio in zip(rows, odds, ratios, strict=True)
    ]
    scores, regressions = folds.each(
        lambda some: fit_scores(_only(some, rows), _only(some, numbers)),
        lambda part, own: [part.log_odds(SCORE_NUMBERS, some) for some in _only(own, numbers)],
    )
    claimed = [*map(claim_log_odds, scores, risks, [row.premises for row in rows])]
    return tuple(Scored(*pair, float(pair[1].max())) for pair in zip(odds, claimed, strict=True)), regressions


def _ratios(
    trees: BoostedTrees, rows: Sequence[VerdictRow], odds: Odds, names: Sequence[str] = CLAIM_NUMBERS
) -> list[_Numbers]:
    columns = [*map(CLAIM_NUMBERS.index, names)]
    return [trees.log_odds(numbers_of_claims(*pair)[:, columns]) for pair in zip(rows, odds, strict=True)]
