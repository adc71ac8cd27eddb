"""What a method is, and the options that all methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from attribeam.attribution.evidence.span_result import SpanResult
from attribeam.attribution.models.model_options import MethodOptions
from attribeam.attribution.settings import Method as UnionMethod

if TYPE_CHECKING:
    from attribeam.attribution.methods.answer_context import AnswerContext


class Need(StrEnum):
    """Parts of the ``AnswerContext`` that cost a model."""

    PARSER = "parser"
    ATTENTION = "attention"
    RESPONSE_ATTENTION = "response attention"
    HIDDEN_STATES = "hidden states"
    LANGUAGE_MODEL = "language model"


class Method(Protocol):
    """A way to say which passage each span of an answer comes from.

    Attributes:
        name: as ``--method`` gives it.
        needs: what it reads of the context.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """One result a target span of the context, in their order.

        Raises:
            RowFault: if the answer cannot be attributed.
        """
        ...


def needs_of(methods: Iterable[Method]) -> frozenset[Need]:
    """What the methods need together."""
    return frozenset[Need]().union(*(method.needs for method in methods))


class PassageScore(StrEnum):
    """The sum of all of a passage's evidence (Section 4.1), or the mean of its five best tokens (AttnTrace).

    A token that is no evidence has the score 0, and a passage of fewer than five tokens is the mean of all of them.
    """

    SUM = "sum"
    TOP5_MEAN = "top5-mean"


@dataclass(frozen=True, slots=True)
class MethodSettings:
    """The options of all methods; None leaves a value of the union to the model, then to the paper.

    ``seed`` is that of the passages drawn by lot.
    """

    top_k: int | None = None
    isolation_tau: float | None = None
    own_token_weight: int | None = None
    sentence_weight: float | None = None
    passage_score: PassageScore = PassageScore.SUM
    evidence_window: float | None = None
    seed: int = 0

    def union_options(self, method: UnionMethod) -> MethodOptions:
        """The same options as the audit has them, for the union of ``method``."""
        return MethodOptions(
            method=method,
            top_k=self.top_k,
            isolation_tau=self.isolation_tau,
            own_token_weight=self.own_token_weight,
            sentence_weight=self.sentence_weight,
            evidence_window=self.evidence_window,
        )
