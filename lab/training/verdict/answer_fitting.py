"""Fits the regression of answers: with weights that all kinds of rows share, and own ones beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.answer_regression import AnswerRegression, answer_numbers
from attribeam.attribution.verdict.logistic_regression import LogisticRegression
from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.lab.training.verdict.fitting import fit_regression
from attribeam.lab.training.verdict.verdict_rows import VerdictRow

_STRENGTH = 0.02
_OWN_SCALE = 2.0
"""How much larger the numbers are for a kind's own weights, which so cost a quarter of what the common ones cost."""
_Numbers = npt.NDArray[np.float64]


def fit_answers(rows: Sequence[VerdictRow], odds: Sequence[_Numbers]) -> AnswerRegression:
    """The regression of answers on the log odds of their words, with own weights for each kind of row.

    They stand beside common ones and are drawn to zero, so that a kind with few rows follows the others. If all rows
    are of one kind, there are only common ones.
    """
    found = [answer_numbers(row.signals, one) for row, one in zip(rows, odds, strict=True)]
    names, numbers = found[0][0], np.concatenate([one for _, one in found])
    labels = np.array([row.is_marked for row in rows])
    kinds = np.array([row.signals.kind for row in rows])
    if len(set(kinds.tolist())) == 1:
        return AnswerRegression.common(fit_regression(names, numbers, labels, strength=_STRENGTH))
    return _with_own_weights(names, numbers, labels, kinds)


def _with_own_weights(
    names: tuple[str, ...], numbers: _Numbers, labels: npt.NDArray[np.bool_], kinds: npt.NDArray[np.str_]
) -> AnswerRegression:
    from sklearn.linear_model import LogisticRegression as Fitted

    mean, scale = numbers.mean(axis=0), numbers.std(axis=0) + 1e-6
    common = (numbers - mean) / scale
    own = np.concatenate([_OWN_SCALE * common, np.ones((len(common), 1))], axis=1)
    columns = [common, *(own * (kinds == kind)[:, None] for kind in RowKind)]
    fitted = Fitted(C=_STRENGTH, max_iter=5000).fit(np.concatenate(columns, axis=1), labels)
    shared, *owns = np.split(fitted.coef_[0].astype(np.float64), np.cumsum([len(names), *[own.shape[1]] * 2]))
    bias = float(fitted.intercept_[0])
    return AnswerRegression(
        {
            kind: LogisticRegression(names, mean, scale, shared + _OWN_SCALE * one[:-1], bias + float(one[-1]))
            for kind, one in zip(RowKind, owns, strict=True)
        }
    )
