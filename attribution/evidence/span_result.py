"""What a method says about one span, and the passage that follows from its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribeam.schemas import CharRange, EvidencePiece, TokenEvidence
from attribeam.schemas.errors import RunError


class MethodError(RunError):
    """A method breaks its protocol; the message names method and row, and what was expected and found."""


@dataclass(frozen=True, slots=True)
class PassageDecision:
    """The best passage, None where nothing scores, and its lead over the second as a share of all scores."""

    top_index: int | None
    margin: float | None


@dataclass(frozen=True, slots=True)
class SpanResult:
    """What a method says about one span.

    Attributes:
        passage_scores: one per passage, finite and not negative; all zero where nothing was found.
        evidence: the passage texts that it names, best score first; scores are positive, in the method's own unit.
        mass: share of the span's attention that lies on its evidence, in [0, 1]; None where the method has no such
            share.
        united: ranges of the answer whose attributions were united, the span included; empty for the span alone.
        isolated: whether the isolation filter left nothing of the span's evidence.
        decision: None for that of ``decide_passage``.
        value_passages: the passages that the span's numbers, dates and names are looked up in; None for all passages
            with a score.
        tokens: every evidence token of the span with its score, in the order of the prompt; None unless asked for.
    """

    passage_scores: tuple[float, ...]
    evidence: tuple[EvidencePiece, ...] = ()
    mass: float | None = None
    united: tuple[CharRange, ...] = ()
    isolated: bool = False
    decision: PassageDecision | None = None
    value_passages: tuple[int, ...] | None = None
    tokens: tuple[TokenEvidence, ...] | None = None


def decide_passage(scores: Sequence[float]) -> PassageDecision:
    """The passage with the largest score, of equal ones the first (Section 4.1)."""
    total = sum(scores)
    if total <= 0:
        return PassageDecision(None, None)
    best, second = sorted([*scores, 0.0], reverse=True)[:2]
    return PassageDecision(list(scores).index(best), (best - second) / total)
