"""The methods that read attention weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.methods.answer_context import AnswerContext, Counts
from attribeam.attribution.methods.method import (
    OWN_OPTIONS,
    THRESHOLDS,
    UNION_OPTIONS,
    Method,
    MethodSettings,
    Need,
    PassageScore,
)
from attribeam.attribution.methods.paper_union import paper_union_results
from attribeam.attribution.options import ATTN_UNION, UNIONS, MethodOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import CharRange

_NEEDS = frozenset({Need.PARSER, Need.ATTENTION})
_RESPONSE_NEEDS = _NEEDS | {Need.RESPONSE_ATTENTION}


def attention_methods(settings: MethodSettings) -> tuple[Method, ...]:
    """``attn-union``, ``attn-union-dep`` and their alternatives."""
    return (
        *(AttentionUnion(union, settings) for union in UNIONS),
        WidenedUnion("attn-union-sent", _sentence_counts, settings),
        WidenedUnion("augment-by-attn", _attended_counts, settings, _RESPONSE_NEEDS),
        WidenedUnion("augment-by-attn-sent", _attended_counts_in_sentence, settings, _RESPONSE_NEEDS),
    )


@dataclass(frozen=True, slots=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``: the audit's method, under the options given on the command line.

    With the mean of the five best tokens, that mean alone decides the passage: the audit's sentence weight and evidence
    window do not apply.
    """

    union: str
    settings: MethodSettings
    needs: frozenset[Need] = _NEEDS
    gives_mass: bool = True
    calibrated: bool = True
    reads: frozenset[str] | None = UNION_OPTIONS | OWN_OPTIONS | THRESHOLDS

    @property
    def name(self) -> str:
        """The method's name in the paper, as the audit's options have it."""
        return str(self.union)

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``evidence.union_results``, as the audit computes them."""
        settings = context.settings_in_force(self.settings.union_options(self.union))
        return results_of_union(context, context.attended[1], settings, passage_score=self.settings.passage_score)


def results_of_union(
    context: AnswerContext, tokens: TokenAttribution, settings: MethodOptions, *, passage_score: PassageScore
) -> list[SpanResult]:
    """One result per span by ``settings.method``, from the attributions of the answer's tokens."""
    if passage_score is not PassageScore.SUM:
        counts = _union_counts(context, settings)
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


@dataclass(frozen=True, slots=True)
class WidenedUnion:
    """The union over more than the span's own tokens, without atomic facts; ``counts`` says over which.

    ``attn-union-sent`` takes the span's sentences (SentComp, Section 4.2.1). ``augment-by-attn`` adds to each token of
    the span the later tokens that are attributed to it, and ``augment-by-attn-sent`` only those in the span's sentences
    (Appendix, "An Additional Alternative of Dep").
    """

    name: str
    counts: Callable[[AnswerContext], Counts]
    settings: MethodSettings
    needs: frozenset[Need] = _NEEDS
    gives_mass: bool = True
    calibrated: bool = False
    reads: frozenset[str] | None = UNION_OPTIONS | THRESHOLDS

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the counted tokens' evidence."""
        union = context.settings_in_force(self.settings.union_options(ATTN_UNION))
        return paper_union_results(
            context,
            context.attended[1],
            self.counts(context),
            settings=union,
            passage_score=self.settings.passage_score,
            mass_of_spans=True,
        )


def _union_counts(context: AnswerContext, settings: MethodOptions) -> Counts:
    spans = context.spans
    if settings.method == ATTN_UNION:
        return context.answer_tokens.of_spans(spans)
    return context.answer_tokens.of_facts(spans, own_token_weight=settings.own_token_weight)


def _sentence_counts(context: AnswerContext) -> Counts:
    return context.answer_tokens.of_sentences(context.spans)


def _attended_counts(context: AnswerContext) -> Counts:
    """w(t) sums, over the span's tokens r_i, those of r_i and of the later tokens that are attributed to r_i."""
    return _augmented(context, context.spans)


def _attended_counts_in_sentence(context: AnswerContext) -> Counts:
    spans = context.spans
    return _augmented(context, spans) * context.answer_tokens.of_sentences(spans)


def _augmented(context: AnswerContext, spans: Sequence[CharRange]) -> Counts:
    tokens = context.answer_tokens
    attributed = context.attributed_tokens[np.ix_(tokens.covering, tokens.covering)]
    own = tokens.of_spans(spans)
    return own + own @ attributed.T.astype(np.int64)
