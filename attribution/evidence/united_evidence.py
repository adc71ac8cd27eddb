"""What a union of token-wise attributions says: its pieces of text and its passage decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribution.evidence.evidence_pieces import UnscaledPiece, evidence_pieces
from attribution.evidence.evidence_window import WindowedScores
from attribution.token_attribution import EncodedRow
from schemas import Passage


@dataclass(frozen=True, slots=True)
class PassageDecision:
    """The score of each passage, the best one (None where nothing scores), and its lead as a share of all scores."""

    scores: tuple[float, ...]
    top_index: int | None
    top_id: str | None
    margin: float | None


@dataclass(frozen=True, slots=True)
class UnitedEvidence:
    """The evidence of one union, shared by all spans whose tokens have the same atomic facts.

    ``evidence_passages`` are the passages with a piece, ascending; the other fields are those of ``SpanEvidence``.
    """

    pieces: list[UnscaledPiece]
    decision: PassageDecision
    evidence_passages: tuple[int, ...]
    evidence_isolated: bool


def united_evidence(
    scores: WindowedScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> list[UnitedEvidence]:
    """For each union, cut the evidence into pieces and decide the passage (Section 4.1: the largest summed score).

    Without evidence there is no passage, whatever the context says.
    """
    evidence = scores.evidence
    found = zip(
        evidence_pieces(evidence, encoded=encoded, passages=passages),
        scores.passage_scores.tolist(),
        evidence.evidence_isolated,
        strict=True,
    )
    return [_united_evidence(pieces, sums, isolated, passages) for pieces, sums, isolated in found]


def _united_evidence(
    pieces: list[UnscaledPiece], sums: list[float], isolated: bool, passages: Sequence[Passage]
) -> UnitedEvidence:
    return UnitedEvidence(
        pieces=pieces,
        decision=_decide_passage(sums if pieces else [0.0] * len(sums), passages),
        evidence_passages=tuple(sorted({piece[0] for piece in pieces})),
        evidence_isolated=isolated,
    )


def _decide_passage(sums: Sequence[float], passages: Sequence[Passage]) -> PassageDecision:
    """The passage with the largest sum, ties towards the first."""
    total = sum(sums)
    if total <= 0:
        return PassageDecision(tuple(sums), None, None, None)
    best, second = sorted([*sums, 0.0], reverse=True)[:2]
    top = list(sums).index(best)
    return PassageDecision(tuple(sums), top, passages[top].passage_id, (best - second) / total)
