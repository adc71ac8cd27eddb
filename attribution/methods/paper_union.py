"""Algorithm 1 over any token-wise attributions, and the passage decision of Section 4.1, with nothing of our own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attribeam.attribution.evidence.passage_evidence import evidence_pieces, evidence_tokens, scaled_pieces
from attribeam.attribution.evidence.union import PassageScores, UnionScores
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.answer_context import AnswerContext, Counts
from attribeam.attribution.methods.method import PassageScore
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution


def paper_union_results(
    context: AnswerContext,
    tokens: TokenAttribution,
    counts: Counts,
    *,
    settings: MethodOptions,
    passage_score: PassageScore,
    mass_of_spans: bool = False,
) -> list[SpanResult]:
    """One result per span, as in the paper: nothing of our own is added to the decision.

    Args:
        context: the answer.
        tokens: attributions of its response tokens, by attention or another similarity.
        counts: int64 [spans, tokens], how often each of ``context.answer_tokens`` counts for a span.
        settings: the settings of the isolation filter.
        passage_score: how tokens' scores become a passage's.
        mass_of_spans: whether ``tokens`` are attention, so that each span has a mass, its share on the evidence.
    """
    encoded, passages = context.encoded, context.record.passages
    token_scores = PassageScores(encoded=encoded, tokens=tokens, responses=context.answer_tokens.covering)
    scores = token_scores.unite(counts, isolation_tau=settings.isolation_tau, strict=settings.strict_isolation)
    count = len(counts)
    found = zip(
        passage_scores(scores, encoded=encoded, passage_count=len(passages), rule=passage_score).tolist(),
        evidence_pieces(scores, encoded=encoded, passages=passages),
        _masses(context, token_scores, scores) if mass_of_spans else [None] * count,
        scores.evidence_isolated,
        evidence_tokens(scores, encoded=encoded) if settings.token_evidence else [None] * count,
        strict=True,
    )
    return [
        SpanResult(tuple(sums), scaled_pieces(pieces, 1.0), mass=mass, isolated=isolated, tokens=of_span)
        for sums, pieces, mass, isolated, of_span in found
    ]


def _masses(context: AnswerContext, token_scores: PassageScores, scores: UnionScores) -> list[float]:
    firsts, ends = context.answer_tokens.runs_of(context.spans)
    return token_scores.mean_masses(scores, union_of_span=range(len(firsts)), firsts=firsts, ends=ends)


BEST_TOKENS = 5


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
