"""What a union of token-wise attributions says: its pieces of text and its passage decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attribution.evidence_pieces import evidence_pieces
from attribution.token_attribution import EncodedRow
from attribution.union import SpanScores
from schemas import EvidencePiece, Passage


@dataclass(frozen=True, slots=True)
class UnitedEvidence:
    """The evidence of one union, shared by all spans whose tokens have the same atomic facts.

    ``evidence_passages`` are the passages with a piece, ascending; the other fields are those of ``SpanEvidence``.
    """

    scores: SpanScores
    pieces: tuple[EvidencePiece, ...]
    passage_scores: tuple[float, ...]
    evidence_passages: tuple[int, ...]
    top_passage_index: int | None
    top_passage_id: str | None
    margin: float | None


def united_evidence(scores: SpanScores, *, encoded: EncodedRow, passages: Sequence[Passage]) -> UnitedEvidence:
    """Cut the evidence into pieces and decide the passage (Section 4.1: the largest summed score)."""
    pieces = evidence_pieces(scores, encoded=encoded, passages=passages)
    sums = np.bincount(encoded.column_passage[scores.columns], weights=scores.scores, minlength=len(passages)).tolist()
    top, margin = _decide_passage(sums)
    return UnitedEvidence(
        scores=scores,
        pieces=pieces,
        passage_scores=tuple(sums),
        evidence_passages=tuple(sorted({piece.passage_index for piece in pieces})),
        top_passage_index=top,
        top_passage_id=None if top is None else passages[top].passage_id,
        margin=margin,
    )


def _decide_passage(sums: Sequence[float]) -> tuple[int | None, float | None]:
    """The passage with the largest score, ties towards the first, and its lead as a share of all scores."""
    total = sum(sums)
    if total <= 0:
        return None, None
    best, second = sorted([*sums, 0.0], reverse=True)[:2]
    return list(sums).index(best), (best - second) / total
