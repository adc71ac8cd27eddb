"""Algorithm 1 over any tokens and the decision of Section 4.1, with nothing of our own, and the unions of attention.

``--passage-score`` applies to all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.attribution.evidence.passage_evidence import evidence_pieces, evidence_tokens, scaled_pieces
from attribeam.attribution.evidence.union import PassageScores, UnionScores
from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.methods.answer_context import AnswerContext, Counts
from attribeam.attribution.methods.method import MethodSettings, Need, PassageScore
from attribeam.attribution.options import ATTN_UNION, MethodOptions
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


_NEEDS = frozenset({Need.PARSER, Need.ATTENTION})


@dataclass(frozen=True, slots=True)
class ScoredUnion:
    """``attn-union`` and ``attn-union-dep``: the audit's method, with any ``--passage-score``.

    With the mean of the five best tokens, that mean alone decides the passage: the audit's sentence weight and evidence
    window do not apply.
    """

    name: str
    settings: MethodSettings
    needs: frozenset[Need] = _NEEDS

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence, as the audit computes them."""
        settings = context.settings_in_force(self.settings.union_options(self.name))
        return results_of_union(context, context.attended[1], settings, passage_score=self.settings.passage_score)


def results_of_union(
    context: AnswerContext, tokens: TokenAttribution, settings: MethodOptions, *, passage_score: PassageScore
) -> list[SpanResult]:
    """One result per span by ``settings.method``, from the attributions of the answer's tokens."""
    if passage_score is not PassageScore.SUM:
        spans, own_token_weight = context.spans, settings.own_token_weight
        tokens_of = context.answer_tokens
        own = settings.method == ATTN_UNION
        counts = tokens_of.of_spans(spans) if own else tokens_of.of_facts(spans, own_token_weight=own_token_weight)
        return paper_union_results(
            context, tokens, counts, settings=settings, passage_score=passage_score, mass_of_spans=True
        )
    return union_results(
        answer=context.record.answer,
        passages=context.record.passages,
        parsed=context.parsed,
        spans=context.spans,
        encoded=context.encoded,
        tokens=tokens,
        settings=settings,
    )


class SentenceUnion:
    """``attn-union-sent``: the union over the span's sentences, without atomic facts (SentComp, Section 4.2.1)."""

    name = "attn-union-sent"
    needs = _NEEDS
    gives_mass = True

    def __init__(self, settings: MethodSettings) -> None:
        self._settings = settings

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the counted tokens' evidence."""
        return paper_union_results(
            context,
            context.attended[1],
            self.counts(context),
            settings=context.settings_in_force(self._settings.union_options(ATTN_UNION)),
            passage_score=self._settings.passage_score,
            mass_of_spans=True,
        )

    def counts(self, context: AnswerContext) -> Counts:
        """int64 [spans, tokens]: how often each token counts for a span."""
        return context.answer_tokens.of_sentences(context.spans)


class AugmentedUnion(SentenceUnion):
    """``augment-by-attn``: to each token of the span, the later tokens that are attributed to it (last appendix)."""

    name = "augment-by-attn"
    needs = _NEEDS | {Need.RESPONSE_ATTENTION}

    def counts(self, context: AnswerContext) -> Counts:
        """w(t) sums, over the span's tokens r_i, those of r_i and of the later tokens that are attributed to r_i."""
        tokens = context.answer_tokens
        attributed = context.attributed_tokens[np.ix_(tokens.covering, tokens.covering)]
        own = tokens.of_spans(context.spans)
        return own + own @ attributed.T.astype(np.int64)


class AugmentedUnionInSentence(AugmentedUnion):
    """``augment-by-attn-sent``: the same, but only later tokens in the span's sentences."""

    name = "augment-by-attn-sent"

    def counts(self, context: AnswerContext) -> Counts:
        """As of ``AugmentedUnion``, 0 outside the sentences."""
        return super().counts(context) * context.answer_tokens.of_sentences(context.spans)
