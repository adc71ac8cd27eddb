"""Fits the parts of the verdict: boosted trees on words, logistic regressions on claims and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.boosted_trees import BoostedTrees, trees_json
from attribeam.attribution.verdict.logistic_regression import LogisticRegression
from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.schemas.errors import UsageError

_DIGITS = 6
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
    }
)  # fmt: skip
"""The signals of a match: with more of one, and all else equal, a word is no more likely to be unsupported."""
_RISING = frozenset(
    {
        "word_unmatched_value", "clause_unseen_share", "clause_unseen", "sentence_unseen_share", "sentence_unseen",
        "sentence_previous_unseen_share", "sentence_next_unseen_share", "answer_unseen_share", "answer_unseen",
    }
)  # fmt: skip
"""The signals of a missing match: with more of one, and all else equal, a word is no less likely to be unsupported."""
_WORDS_OF_FULL_WEIGHT = 3
_LEAST_WEIGHT = 0.2
_MARK_EXPONENT = 0.6
"""A word of a long marked range counts less than one of a short range: (3 / words of the range) to this power."""


def fit_trees(rows: Sequence[VerdictRow], *, seed: int) -> dict[str, Any]:
    """Boosted trees for the log odds that a word is marked, in the JSON form of ``BoostedTrees``.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # only the extra "training" brings it
    except ImportError as error:
        raise UsageError("training the verdict needs scikit-learn; install attribeam[training]") from error
    values = np.concatenate([row.signals.values for row in rows])
    labels = np.concatenate([row.marked_words for row in rows])
    weights = np.concatenate([_weights(row) for row in rows])
    fitted = HistGradientBoostingClassifier(
        max_iter=150,
        learning_rate=0.06,
        max_leaf_nodes=15,
        max_depth=5,
        max_bins=64,
        min_samples_leaf=80,
        l2_regularization=5,
        max_features=0.3,
        early_stopping=False,
        monotonic_cst=[_direction(name) for name in rows[0].signals.names],
        random_state=seed,
    ).fit(values, labels, sample_weight=weights)
    trees = [_tree(predictors[0].nodes) for predictors in fitted._predictors]
    depth = max(int(predictors[0].nodes["depth"].max()) for predictors in fitted._predictors)
    return trees_json(bias=float(fitted._baseline_prediction.ravel()[0]), depth=depth, trees=trees)


def _direction(signal: str) -> int:
    return (signal in _RISING) - (signal in _FALLING)


def _tree(nodes: Any) -> dict[str, list[float]]:
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "columns": [int(column) for column in np.where(leaf, 0, nodes["feature_idx"])],
        "thresholds": [float(f"{one:.{_DIGITS}g}") for one in np.where(leaf, 0.0, nodes["num_threshold"])],
        "left": [int(one) for one in np.where(leaf, 0, nodes["left"])],
        "right": [int(one) for one in np.where(leaf, 0, nodes["right"])],
        "values": [float(f"{one:.{_DIGITS}g}") for one in np.where(leaf, nodes["value"], 0.0)],
    }


def _weights(row: VerdictRow) -> npt.NDArray[np.float64]:
    share = np.clip(_WORDS_OF_FULL_WEIGHT / row.mark_sizes, _LEAST_WEIGHT, 1.0) ** _MARK_EXPONENT
    return np.where(row.marked_words, share, 1.0)


def word_log_odds(trees: dict[str, Any], rows: Sequence[VerdictRow]) -> list[npt.NDArray[np.float64]]:
    """The log odds of the words of each row, as the verdict's model limits them."""
    loaded = BoostedTrees.from_json(trees)
    return [np.clip(loaded.log_odds(row.signals.values), -7.0, 7.0) for row in rows]


def fit_regression(
    names: Sequence[str],
    numbers: npt.NDArray[np.floating[Any]],
    labels: npt.NDArray[np.bool_],
    *,
    strength: float,
) -> LogisticRegression:
    """A logistic regression on standardised ``numbers``, (rows, names), with an L2 penalty of 1 / ``strength``."""
    from sklearn.linear_model import LogisticRegression as Fitted

    mean, scale = numbers.mean(axis=0), numbers.std(axis=0) + 1e-6
    fitted = Fitted(C=strength, max_iter=5000).fit((numbers - mean) / scale, labels)
    return LogisticRegression(
        tuple(names), mean, scale, fitted.coef_[0].astype(np.float64), float(fitted.intercept_[0])
    )
