"""The options of the method, with the paper's defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """How the attributions of a span's tokens are aggregated."""

    ATTN_UNION = "attn-union"
    ATTN_UNION_DEP = "attn-union-dep"


class QueryPosition(StrEnum):
    """Whose attention is row i of S: the position that predicts r_i (decoders), or r_i's own (encoders)."""

    PREDICTING = "predicting"
    SELF = "self"


class SoftmaxOver(StrEnum):
    """Which columns a row of the attention is normalised over: all that its token sees, or the prompt's alone.

    ``PROMPT`` is for encoders that were trained so: a response token never attends to the response itself.
    """

    VISIBLE = "visible"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class UnionSettings:
    """Settings of the union (Section 3.2), of the augmentation (Section 3.3) and of the support decision.

    With augmentation, a span's token counts ``own_token_weight`` times beside the other tokens of its atomic fact: 1 is
    the paper's, more keeps long facts from outvoting the span itself. In the passage decision each token of a span also
    brings ``sentence_weight`` times the scores of its sentence's tokens: 0 is the paper's. Of each passage only its
    title and the best ``evidence_window`` successive tokens count: infinite is the paper's.

    Raises:
        ValueError: if a value is out of its range.
    """

    method: Method = Method.ATTN_UNION_DEP
    top_k: int = 2
    isolation_tau: float = 2
    own_token_weight: int = 1
    sentence_weight: float = 0.0
    evidence_window: float = math.inf
    supported_threshold: float = 0.5
    weak_threshold: float = 0.25

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ValueError(f"top_k should be at least 1, was: {self.top_k}")
        if not (self.isolation_tau >= 0 and (math.isinf(self.isolation_tau) or self.isolation_tau % 1 == 0)):
            raise ValueError(f"isolation_tau should be a whole number of tokens >= 0 or inf, was: {self.isolation_tau}")
        if self.own_token_weight < 1:
            raise ValueError(f"own_token_weight should be at least 1, was: {self.own_token_weight}")
        if not 0 <= self.sentence_weight < math.inf:
            raise ValueError(f"sentence_weight should be a number of at least 0, was: {self.sentence_weight}")
        if not (self.evidence_window >= 1 and (math.isinf(self.evidence_window) or self.evidence_window % 1 == 0)):
            raise ValueError(
                f"evidence_window should be a whole number of tokens >= 1 or inf, was: {self.evidence_window}"
            )
        if not 0 <= self.weak_threshold <= self.supported_threshold <= 1:
            raise ValueError(
                "thresholds should satisfy 0 <= weak_threshold <= supported_threshold <= 1, were: "
                f"{self.weak_threshold} and {self.supported_threshold}"
            )
