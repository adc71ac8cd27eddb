"""The fitted parts of a verdict: logistic regressions, boosted trees, and the regression of answers.

A logistic regression with a named weight per number: what the verdict's regressions and its probe are.

Boosted decision trees as plain arrays that are kept in JSON, and the probabilities that they give.

The regression of answers: from its claims, the log odds of its words and what is measured of all of it, to its risk.

Its weights are the same for every row, or differ by the kind of row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, TypeAdapter, model_validator

from attribeam.attribution.verdict.record_fields import EACH, SAME, SAME_OR_EACH, EachKind, RowKind
from attribeam.attribution.verdict.signals import Signals
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import Form, Name, Number

OTHER_SIGNALS = "the verdict's model was fitted on other signals than this version measures; train it"
_Numbers = npt.NDArray[np.float64]
_MOST_INPUTS = 2**16


class _Input(Form):
    mean: Number
    scale: Annotated[Number, Field(ge=1e-9)]
    weight: Number


class RegressionForm(Form):
    """A regression in a file."""

    bias: Number
    inputs: Annotated[dict[Name, _Input], Field(min_length=1, max_length=_MOST_INPUTS)]


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """A logistic regression on standardised numbers.

    Attributes:
        names: of the numbers.
        mean, scale, weights: one item per number.
        bias: log odds where every number is its mean.
    """

    names: tuple[str, ...]
    mean: _Numbers
    scale: _Numbers
    weights: _Numbers
    bias: float

    def log_odds(self, names: tuple[str, ...], numbers: _Numbers) -> _Numbers:
        """The log odds of each row of ``numbers``, (rows, names).

        Raises:
            ModelLoadError: if the regression was fitted on other numbers.
        """
        if names != self.names:
            raise ModelLoadError(OTHER_SIGNALS)
        odds: _Numbers = self.bias + ((numbers - self.mean) / self.scale) @ self.weights
        return odds

    @classmethod
    def from_json(cls, found: RegressionForm | Mapping[str, Any]) -> LogisticRegression:
        """The regression that ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``RegressionForm``.
        """
        form = RegressionForm.model_validate(found)
        numbers = [(one.mean, one.scale, one.weight) for one in form.inputs.values()]
        mean, scale, weights = np.array(numbers).T
        return cls(tuple(form.inputs), mean, scale, weights, form.bias)

    def to_json(self) -> dict[str, object]:
        """One object per number, by name."""
        numbers = zip(self.names, self.mean, self.scale, self.weights, strict=True)
        return {
            "bias": self.bias,
            "inputs": {
                name: {"mean": float(mean), "scale": float(scale), "weight": float(weight)}
                for name, mean, scale, weight in numbers
            },
        }


_MOST_TREES, _MOST_NODES, _DEEPEST = 2_000, 10_000, 32
_Index = Annotated[int, Field(ge=0, lt=_MOST_NODES)]
_OfNodes = Field(min_length=1, max_length=_MOST_NODES)


class _Tree(Form):
    """One tree; its nodes count from 0, a node stands before its children, and 0 as left node marks a leaf."""

    columns: Annotated[list[_Index], _OfNodes]
    thresholds: Annotated[list[Number], _OfNodes]
    left: Annotated[list[_Index], _OfNodes]
    right: Annotated[list[_Index], _OfNodes]
    values: Annotated[list[Number], _OfNodes]

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths = {name: len(getattr(self, name)) for name in type(self).model_fields}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"all parts should have one item per node, have: {lengths}")
        for node, pair in enumerate(zip(self.left, self.right, strict=True)):
            if pair != (0, 0) and not all(node < child < len(self.left) for child in pair):
                last = len(self.left) - 1
                raise ValueError(f"the children of node {node} should be from {node + 1} to {last}, were: {pair}")
        return self

    @property
    def depth(self) -> int:
        """The largest number of steps from the root to a leaf."""
        steps = [0] * len(self.left)
        for node, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            for child in (left, right) if left else ():
                steps[child] = max(steps[child], steps[node] + 1)
        return max(steps)


class TreesForm(Form):
    """Trees in a file."""

    bias: Number
    depth: Annotated[int, Field(ge=0, le=_DEEPEST)]
    trees: Annotated[list[_Tree], Field(min_length=1, max_length=_MOST_TREES)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        deepest = max(tree.depth for tree in self.trees)
        if self.depth != deepest:
            raise ValueError(f"depth should be that of the deepest tree, {deepest}, was: {self.depth}")
        return self

    @property
    def column_count(self) -> int:
        """How many columns a row needs."""
        return 1 + max(max(tree.columns) for tree in self.trees)


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Trees whose leaves add up to log odds.

    The nodes of all trees stand one after the other. A row goes left at a node where its number in column ``columns``
    is at most ``thresholds``; a leaf is its own left and right node.

    Attributes:
        bias: log odds before the first tree.
        roots: index of each tree's first node, (trees,).
        columns, thresholds, values: one item per node; ``values`` are float32, and 0 but at leaves.
        children: the right and the left node of each node, one pair after the other.
        depth: the largest number of steps from a root to a leaf.
    """

    bias: float
    roots: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    thresholds: npt.NDArray[np.float32]
    children: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    depth: int

    def log_odds(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The log odds of each row of ``rows``, (rows, columns)."""
        nodes = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        numbers, starts = rows.ravel(), rows.shape[1] * np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            goes_left = numbers.take(self.columns.take(nodes) + starts) <= self.thresholds.take(nodes)
            nodes = self.children.take(2 * nodes + goes_left)
        odds: npt.NDArray[np.float64] = self.bias + self.values.take(nodes).sum(axis=1)
        return odds

    @classmethod
    def from_json(cls, found: TreesForm | Mapping[str, Any]) -> BoostedTrees:
        """The trees that ``trees_json`` gives.

        Raises:
            ValueError: if they do not fit ``TreesForm``.
        """
        form = TreesForm.model_validate(found)
        sizes = [len(tree.left) for tree in form.trees]
        first = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        parts = {
            name: np.concatenate([getattr(tree, name) for tree in form.trees])
            for name in ("columns", "thresholds", "left", "right", "values")
        }
        children = np.stack((parts["right"], parts["left"]), axis=1)
        children = np.where(parts["left"][:, None] == 0, np.arange(len(first))[:, None], first[:, None] + children)
        return cls(
            bias=form.bias,
            roots=np.unique(first),
            columns=parts["columns"],
            thresholds=parts["thresholds"].astype(np.float32),
            children=children.ravel(),
            values=parts["values"].astype(np.float32).astype(np.float64),
            depth=form.depth,
        )


def trees_json(*, bias: float, depth: int, trees: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, object]:
    """What ``BoostedTrees.from_json`` reads; within a tree, nodes count from 0, and 0 as left node marks a leaf."""
    return {"bias": bias, "depth": depth, "trees": [dict(tree) for tree in trees]}


_WHOLE_ANSWER = (
    "unseen_share", "unseen", "similarity", "similarity_in_sentences", "field_share", "field_mean", "field_conflicts",
    "time_conflicts",
)  # fmt: skip
"""What the regression of answers sees besides the words; more of it fits one data set and fails on others."""
_COUNTED = frozenset({"unseen", "field_conflicts", "time_conflicts"})
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
