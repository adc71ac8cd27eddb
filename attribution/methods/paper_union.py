"""Algorithm 1 over any token-wise attributions, and the passage decision of Section 4.1, with nothing of our own."""

from __future__ import annotations

from collections.abc import Sequence

from attribeam.attribution.evidence.passage_evidence import UnscaledPiece, evidence_pieces
from attribeam.attribution.evidence.union import PassageScores
from attribeam.attribution.methods.answer_context import AnswerContext, Counts
from attribeam.attribution.methods.method import PassageScore, SpanResult, passage_scores
from attribeam.attribution.methods.scored_range import ScoredRange
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas.labelled_answer import PassageRange


def paper_union_results(
    context: AnswerContext,
    tokens: TokenAttribution,
    counts: Counts,
    *,
    isolation_tau: float,
    passage_score: PassageScore,
) -> list[SpanResult]:
    """One result a span, as the paper has it: nothing of our own is added to the decision.

    Args:
        context: the answer.
        tokens: attributions of its response tokens, by attention or another similarity.
        counts: int64 [spans, tokens], how often each of ``context.answer_tokens`` counts for a span.
        isolation_tau: of the filter; infinite switches it off.
        passage_score: how tokens' scores become a passage's.
    """
    encoded, passages = context.encoded, context.labelled.record.passages
    scores = PassageScores(encoded=encoded, tokens=tokens, responses=context.answer_tokens.covering).unite(
        counts, isolation_tau=isolation_tau
    )
    found = zip(
        passage_scores(scores, encoded=encoded, passage_count=len(passages), rule=passage_score).tolist(),
        evidence_pieces(scores, encoded=encoded, passages=passages),
        strict=True,
    )
    return [SpanResult(tuple(sums), _ranges(pieces)) for sums, pieces in found]


def _ranges(pieces: Sequence[UnscaledPiece]) -> tuple[ScoredRange, ...]:
    shown = [(passage, chars, score) for passage, _, in_title, chars, _, score in pieces if not in_title]
    return tuple(ScoredRange(PassageRange(passage, chars), score) for passage, chars, score in shown)
