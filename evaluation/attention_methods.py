"""The methods that read attention weights."""

from __future__ import annotations

from dataclasses import dataclass

from attribution.evidence import span_evidence
from attribution.model_options import MethodOptions
from attribution.settings import Method as UnionMethod
from evaluation.answer_context import AnswerContext
from evaluation.labelled_answer import PassageRange
from evaluation.method import Method, Need, SpanResult
from evaluation.method_settings import MethodSettings
from evaluation.scored_range import ScoredRange
from schemas import SpanEvidence, SpanKind, TargetSpan


def attention_methods(settings: MethodSettings) -> tuple[Method, ...]:
    """``attn-union`` and ``attn-union-dep``."""
    return tuple(AttentionUnion(settings.union_options(union)) for union in UnionMethod)


@dataclass(frozen=True, slots=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``: the paper's method, under the options given on the command line."""

    options: MethodOptions
    needs: frozenset[Need] = frozenset({Need.PARSER, Need.ATTENTION})

    @property
    def name(self) -> str:
        """The method's name in the paper, as the audit's options have it."""
        return str(self.options.method)

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``attribution.evidence``, as the audit computes them."""
        encoded, tokens = context.attended
        labelled = context.labelled
        found = span_evidence(
            record=labelled.record,
            parsed=context.parsed,
            spans=[TargetSpan(SpanKind.GIVEN, span) for span in labelled.spans],
            encoded=encoded,
            tokens=tokens,
            settings=context.model.union_settings(self.options),
        )
        return [SpanResult(one.passage_scores, _evidence_ranges(one)) for one in found]


def _evidence_ranges(found: SpanEvidence) -> tuple[ScoredRange, ...]:
    pieces = [piece for piece in found.evidence if not piece.in_title]
    return tuple(ScoredRange(PassageRange(piece.passage_index, piece.chars), piece.score) for piece in pieces)
