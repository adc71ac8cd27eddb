"""The options that the methods under comparison share."""

from __future__ import annotations

from dataclasses import dataclass

from attribution.models.model_options import MethodOptions
from attribution.settings import Method as UnionMethod
from evaluation.methods.passage_score import PassageScore


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
