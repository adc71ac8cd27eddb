"""What a method is, what it says about a span, and the options that all methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.methods.answer_context import AnswerContext
from attribeam.attribution.methods.answer_context import Need as Need
from attribeam.attribution.methods.scored_range import ScoredRange
from attribeam.attribution.models.model_options import MethodOptions
from attribeam.attribution.settings import Method as UnionMethod
from attribeam.attribution.token_attribution import EncodedRow


@dataclass(frozen=True, slots=True)
class SpanResult:
    """What a method says about one span.

    Attributes:
        passage_scores: one a passage, not negative; all zero where nothing was found.
        evidence: the passage characters that it names as evidence, with their scores; titles apart.
    """

    passage_scores: tuple[float, ...]
    evidence: tuple[ScoredRange, ...]

    def evidence_of_best_passage(self) -> tuple[ScoredRange, ...]:
        """The evidence in the passage with the largest score, of equal ones the first."""
        best = self.passage_scores.index(max(self.passage_scores))
        return tuple(piece for piece in self.evidence if piece.where.passage_index == best)


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
        """One result a target span of ``context.labelled``, in their order.

        Raises:
            RowFault: if the answer cannot be attributed.
        """
        ...


def needs_of(methods: Iterable[Method]) -> frozenset[Need]:
    """What the methods need together."""
    return frozenset[Need]().union(*(method.needs for method in methods))


BEST_TOKENS = 5


class PassageScore(StrEnum):
    """The sum of all of a passage's evidence (Section 4.1), or the mean of its five best tokens (AttnTrace).

    A token that is no evidence has the score 0, and a passage of fewer than five tokens is the mean of all of them.
    """

    SUM = "sum"
    TOP5_MEAN = "top5-mean"


def passage_scores(
    scores: UnionScores, *, encoded: EncodedRow, passage_count: int, rule: PassageScore
) -> npt.NDArray[np.float64]:
    """The score of every passage for every union: float64 [unions, passages]."""
    size = (len(scores.evidence_isolated), passage_count)
    places = scores.unions * passage_count + encoded.column_passage[scores.columns]
    counted = scores.scores if rule is PassageScore.SUM else np.where(_among_best(places, scores), scores.scores, 0.0)
    sums = np.bincount(places, weights=counted, minlength=size[0] * size[1]).astype(np.float64).reshape(size)
    if rule is PassageScore.SUM:
        return sums
    visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
    tokens = np.bincount(encoded.column_passage[visible], minlength=passage_count)
    means: npt.NDArray[np.float64] = sums / np.clip(tokens, 1, BEST_TOKENS)
    return means


def _among_best(places: npt.NDArray[np.intp], scores: UnionScores) -> npt.NDArray[np.bool_]:
    """bool [evidence]: whether a token is one of the five best of its passage and union."""
    order = np.lexsort((-scores.scores, places))
    ordered = places[order]
    firsts = np.searchsorted(ordered, ordered, side="left")
    best = np.zeros(len(places), dtype=np.bool_)
    best[order] = np.arange(len(places)) - firsts < BEST_TOKENS
    return best


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
