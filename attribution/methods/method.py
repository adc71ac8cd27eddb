"""What a method is, and the options that all methods share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.option_declaration import Value, option
from attribeam.attribution.option_types import WholeNumber
from attribeam.attribution.options import MethodOptions

if TYPE_CHECKING:
    from attribeam.attribution.methods.answer_context import AnswerContext


class Need(StrEnum):
    """What a method reads of an answer that takes a model."""

    PARSER = "parser"
    ATTENTION = "attention"
    RESPONSE_ATTENTION = "response attention"
    HIDDEN_STATES = "hidden states"
    LANGUAGE_MODEL = "language model"


class Method(Protocol):
    """A way to say which passage each span of an answer comes from.

    Attributes:
        name: as given to ``--method``.
        needs: what it reads; this decides which models are loaded.
        gives_mass: whether its results have a mass, a share of the span's attention.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    @property
    def gives_mass(self) -> bool: ...

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """One result per target span of the context, in their order.

        Raises:
            RowFault: if the answer cannot be attributed.
        """
        ...


class PassageScore(StrEnum):
    """The sum of all of a passage's evidence (Section 4.1), or the mean of its five best tokens (AttnTrace).

    A token that is not evidence scores 0. A passage of fewer than five tokens scores the mean of all of them.
    """

    SUM = "sum"
    TOP5_MEAN = "top5-mean"


SCORE = "score"
"""The group of ``--passage-score``, see ``add_options``."""


class MethodSettings(MethodOptions):
    """The options of all methods: those of the audit, and those that only a comparison needs."""

    passage_score: Value[PassageScore] = option(
        default=PassageScore.SUM, group=SCORE, paper="4.1",
        help="how the scores of a passage's tokens become its own, in the union methods",
    )  # fmt: skip
    seed: Value[WholeNumber] = option(default=0, help="seed of the passages that are drawn at random")

    @classmethod
    def of(cls, options: MethodOptions) -> MethodSettings:
        """The audit's options, with defaults for those that only a comparison needs."""
        return options if isinstance(options, cls) else cls().replaced(**options.explicit())

    def union_options(self, method: str) -> MethodOptions:
        """The audit's options among these, for the union of ``method``."""
        return self.only(MethodOptions).replaced(method=method)
