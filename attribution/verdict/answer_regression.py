"""The regression of answers: from its claims, the log odds of its words and what is measured of all of it, to its risk.

Its weights are the same for every row, or differ by the kind of row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from attribeam.attribution.verdict.logistic_regression import LogisticRegression, RegressionForm
from attribeam.attribution.verdict.row_kind import EACH, SAME, SAME_OR_EACH, EachKind, RowKind
from attribeam.attribution.verdict.signals import Signals

_WHOLE_ANSWER = (
    "unseen_share", "unseen", "similarity", "similarity_in_sentences", "field_share", "field_mean", "field_conflicts",
    "time_conflicts",
)  # fmt: skip
"""What the regression of answers sees besides the words; more of it fits one data set and fails on others."""
_COUNTED = frozenset({"unseen", "field_conflicts", "time_conflicts"})
_Numbers = npt.NDArray[np.float64]
AnswersForm = Annotated[
    Annotated[RegressionForm, SAME] | Annotated[EachKind[RegressionForm], EACH],
    SAME_OR_EACH,
]


@dataclass(frozen=True, slots=True)
class AnswerRegression:
    """One regression for each kind of row; that of a verdict without weights by kind is the same for all."""

    of_kinds: Mapping[RowKind, LogisticRegression]

    @classmethod
    def common(cls, regression: LogisticRegression) -> AnswerRegression:
        """The same for every kind."""
        return cls(dict.fromkeys(RowKind, regression))

    def log_odds(self, signals: Signals, word_log_odds: _Numbers, claims: _Numbers) -> float:
        """The log odds that an answer, which has at least one judged word and one claim, has an unsupported claim.

        ``claims`` are the likelihood ratios of its claims.


        Raises:
            ModelLoadError: if the regression was fitted on other numbers.
        """
        return float(self.of_kinds[signals.kind].log_odds(*answer_numbers(signals, word_log_odds, claims))[0])

    @classmethod
    def from_json(cls, found: AnswersForm | Mapping[str, Any]) -> AnswerRegression:
        """What ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``AnswersForm``.
        """
        form = TypeAdapter[AnswersForm](AnswersForm).validate_python(found)
        if isinstance(form, EachKind):
            return cls({kind: LogisticRegression.from_json(one) for kind, one in form.by_kind().items()})
        return cls.common(LogisticRegression.from_json(form))

    def to_json(self) -> dict[str, object]:
        """One regression, or one by the name of each kind."""
        first, *others = self.of_kinds.values()
        if all(one is first for one in others):
            return first.to_json()
        return {kind.value: regression.to_json() for kind, regression in self.of_kinds.items()}


def answer_numbers(signals: Signals, log_odds: _Numbers, claims: _Numbers) -> tuple[tuple[str, ...], _Numbers]:
    """What the regression of answers sees: names, and one row for the answer, which has at least one judged word."""
    riskiest, count = np.sort(claims)[::-1], float(np.log(len(claims)))
    ranked = np.sort(log_odds)[::-1]
    chances = 1 / (1 + np.exp(-ranked))
    sentence = signals.values[:, signals.names.index("sentence_place")]
    by_sentence = [np.sort(log_odds[sentence == one])[::-1] for one in np.unique(sentence)]
    highest = sorted((one[0] for one in by_sentence), reverse=True)
    threes = sorted((one[:3].mean() for one in by_sentence), reverse=True)
    numbers = {
        **{f"word_{place + 1}": _item(ranked, place) for place in (0, 2, 5, 9)},
        "mean_word": ranked.mean(),
        "expected_words": np.log1p(chances.sum()),
        "doubtful_words": np.log1p((chances > 0.1).sum()),
        "suspect_words": np.log1p((chances > 0.2).sum()),
        "doubtful_share": (chances > 0.1).mean(),
        **{f"sentence_{place + 1}": _item(highest, place) for place in range(3)},
        **{f"sentence_three_{place + 1}": _item(threes, place) for place in range(3)},
        "any_sentence": _any_of(highest),
        "any_sentence_three": _any_of(threes),
        **{f"claim_{place + 1}": _item(riskiest, place) for place in range(3)},
        "any_claim": float(np.log(np.exp(riskiest).sum())),
        "mean_claim": riskiest.mean(),
        "claims": count,
        "claim_1_of_many": count * riskiest[0],
    }
    for name in _WHOLE_ANSWER:
        number = signals.values[0, signals.names.index(f"answer_{name}")]
        numbers[f"answer_{name}"] = np.log(number + 0.05) if name in _COUNTED else number
    return tuple(numbers), np.array([*numbers.values()], dtype=np.float64)[None, :]


def _item(ranked: Sequence[float] | _Numbers, place: int) -> float:
    """The number at that place, the last one if there are fewer: a short answer is judged by all that it has."""
    return float(ranked[min(place, len(ranked) - 1)])


def _any_of(log_odds: Sequence[float]) -> float:
    """The log of the expected number of events with these log odds, as of a Poisson process."""
    none = np.log1p(np.exp(np.array(log_odds))).sum()
    return float(np.log(none + 1e-3))
