"""The methods of an evaluation: those of an audit, the paper's others and baselines, and two reference points.

The paper's others are classes that also serve as ``--method module:Class`` of an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import AnswerContext, LoadedModels, MethodSettings, Need, method_named
from attribeam.attribution.options import UNIONS
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.methods import unions
from attribeam.evaluation.methods.baselines import ContrastiveGradients, FactWords, SentenceWords, SpanWords
from attribeam.schemas import RowFault


class LabelledContext(AnswerContext):
    def __init__(self, labelled: LabelledAnswer, models: LoadedModels) -> None:
        super().__init__(labelled.record, labelled.spans, models)
        self.labelled = labelled


class EvaluationMethod(Protocol):
    """A method that may read the labels; every ``attribution.methods.method.Method`` is one."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    def span_results(self, context: LabelledContext) -> Sequence[SpanResult]:
        """One result per target span, in their order; ``RowFault`` if the answer cannot be attributed."""
        ...


def outcome_of(method: EvaluationMethod, context: LabelledContext) -> Sequence[SpanResult] | RowFault:
    """What a method says of an answer, or why it cannot be attributed."""
    try:
        return method.span_results(context)
    except RowFault as fault:
        return fault


def needs_of(methods: Iterable[EvaluationMethod]) -> frozenset[Need]:
    return frozenset[Need]().union(*(method.needs for method in methods))


@dataclass(frozen=True, slots=True)
class RandomPassage:
    """``random``: one passage per span, all equally likely, determined by seed, draw, row and span."""

    seed: int = 0
    draw: int = 0
    name: str = "random"
    needs: frozenset[Need] = frozenset()

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        count, row = len(context.record.passages), context.record.source.source_row
        keys = ([self.seed, self.draw, row, index] for index in range(len(context.spans)))
        return [_of_passages({int(np.random.default_rng(key).integers(count))}, count) for key in keys]


@dataclass(frozen=True, slots=True)
class OraclePassage:
    """``oracle``: the labelled passages of each span; for log-probability drops, the passage with the largest drop."""

    name: str = "oracle"
    needs: frozenset[Need] = frozenset()

    def span_results(self, context: LabelledContext) -> list[SpanResult]:
        golds = context.labelled.gold_passages or (frozenset[int](),) * len(context.spans)
        return [_of_passages(gold, len(context.record.passages)) for gold in golds]


def _of_passages(chosen: set[int] | frozenset[int], count: int) -> SpanResult:
    return SpanResult(tuple(float(index in chosen) for index in range(count)))


_OTHERS: tuple[Callable[[MethodSettings], EvaluationMethod], ...] = (
    unions.SentenceUnion, unions.AugmentedUnion, unions.AugmentedUnionInSentence, unions.HiddenAverage,
    unions.HiddenAverageDep, unions.HiddenUnion, unions.HiddenUnionDep, ContrastiveGradients, SpanWords, FactWords,
    SentenceWords,
)  # fmt: skip


def evaluation_methods(settings: MethodSettings | None = None) -> Mapping[str, EvaluationMethod]:
    """Every method by its name, in the order of the tables."""
    settings = settings or MethodSettings()
    audited = [unions.ScoredUnion(union, settings) for union in UNIONS]
    others = [make(settings) for make in _OTHERS]
    ends: tuple[EvaluationMethod, ...] = (RandomPassage(settings.seed), OraclePassage())
    return {method.name: method for method in (*audited, *others, *ends)}


def audit_name(name: str) -> str:
    """What names the method to ``attribeam audit --method``: the audit's own name, else ``module:Class``."""
    method = evaluation_methods()[name]
    return name if name in UNIONS else f"{type(method).__module__}:{type(method).__name__}"


def chosen_methods(
    available: Mapping[str, EvaluationMethod],
    names: Sequence[str] | None,
    *,
    with_language_model: bool,
    settings: MethodSettings | None = None,
) -> list[EvaluationMethod]:
    """The named methods, each once; by default all, those that need a language model only if one is named.

    A name may also be ``module:Name``, the user's own method, which is created with ``settings``. Raises ``UsageError``
    if there is no such method; the message names the available ones.
    """
    if names is not None:
        return [method_named(name, available, settings or MethodSettings()) for name in dict.fromkeys(names)]
    return [method for method in available.values() if with_language_model or Need.LANGUAGE_MODEL not in method.needs]
