"""The evidence of each target span of one answer: augmentation, union, filter, decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attribution.answer_ranges import AnswerRanges
from attribution.atomic_facts import AtomicFacts
from attribution.evidence_pieces import scaled_pieces
from attribution.parsed_answer import ParsedAnswer
from attribution.sentence_context import SentenceContext
from attribution.settings import Method, UnionSettings
from attribution.span_weights import ResponseWeights, SpanWeights
from attribution.support import decide_support
from attribution.token_attribution import EncodedRow, TokenAttribution
from attribution.union import PassageScores
from attribution.united_evidence import PassageDecision, UnitedEvidence, decide_passage, united_evidence
from attribution.unmatched_values import ValueMatcher
from attribution.word_token_alignment import WordTokenAlignment
from schemas import QARecord, SpanEvidence, TargetSpan

_SPANS_AT_ONCE = 64
"""Arrays over these spans times the response's tokens stay small."""


def span_evidence(
    *,
    record: QARecord,
    parsed: ParsedAnswer,
    spans: Sequence[TargetSpan],
    encoded: EncodedRow,
    tokens: TokenAttribution,
    settings: UnionSettings,
) -> tuple[SpanEvidence, ...]:
    """One evidence record a target span, in the order of ``spans`` (Sections 3.2 and 3.3).

    Where the isolation filter leaves nothing, the unfiltered evidence stands and ``evidence_isolated`` says so. A span
    that no response token overlaps has no evidence and is unsupported.
    """
    response = _Response(record=record, parsed=parsed, encoded=encoded, tokens=tokens, settings=settings)
    groups = [range(start, min(start + _SPANS_AT_ONCE, len(spans))) for start in range(0, len(spans), _SPANS_AT_ONCE)]
    return tuple(evidence for group in groups for evidence in response.evidence_of(group, [spans[i] for i in group]))


class _Response:
    """What all spans of one response share."""

    def __init__(
        self,
        *,
        record: QARecord,
        parsed: ParsedAnswer,
        encoded: EncodedRow,
        tokens: TokenAttribution,
        settings: UnionSettings,
    ) -> None:
        self._record, self._encoded, self._settings = record, encoded, settings
        covering = np.flatnonzero(encoded.response_char_start < encoded.response_char_end)
        alignment = WordTokenAlignment(
            words=parsed.words,
            token_char_start=encoded.response_char_start[covering],
            token_char_end=encoded.response_char_end[covering],
        )
        augmented = settings.method is Method.ATTN_UNION_DEP
        self._weights = ResponseWeights(
            alignment=alignment,
            facts=AtomicFacts(parsed) if augmented else None,
            own_token_weight=settings.own_token_weight,
        )
        self._passage_scores = PassageScores(encoded=encoded, tokens=tokens, responses=covering)
        self._context = None
        if augmented and settings.sentence_weight:
            mass = tokens.passage_mass[covering]
            self._context = SentenceContext(parsed=parsed, alignment=alignment, passage_mass=mass)
        self._ranges = AnswerRanges(answer=record.answer, words=parsed.words)
        self._values = ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)

    def evidence_of(self, span_indices: Sequence[int], spans: Sequence[TargetSpan]) -> Iterator[SpanEvidence]:
        """The evidence records of some spans, whose sums are made at once."""
        weights = self._weights.of_spans([span.chars for span in spans])
        scores = self._passage_scores.unite(weights.unions, isolation_tau=self._settings.isolation_tau)
        united = united_evidence(scores, encoded=self._encoded, passages=self._record.passages)
        masses = self._passage_scores.mean_masses(
            scores, union_of_span=weights.union_of_span, firsts=weights.token_firsts, ends=weights.token_ends
        )
        contexts = self._contexts(weights)
        for place, (index, span) in enumerate(zip(span_indices, spans, strict=True)):
            one = united[weights.union_of_span[place]]
            decision = self._decision(one, factor=weights.factors[place], context=contexts[place])
            yield self._record_of(index, span, weights, place, united=one, decision=decision, mass=masses[place])

    def _contexts(self, weights: SpanWeights) -> Sequence[Sequence[float] | None]:
        """For each span what its sentences add to each passage's score; None where nothing is added."""
        if self._context is None:
            return [None] * len(weights.factors)
        contexts = self._context.of_spans(weights.token_firsts, weights.token_ends)
        rows: list[list[float]] = (contexts * self._settings.sentence_weight).tolist()
        return rows

    def _decision(self, united: UnitedEvidence, *, factor: int, context: Sequence[float] | None) -> PassageDecision:
        """The passage decision of one span; without evidence of its own a span has no passage."""
        found = united.decision
        if context is None or found.top_index is None:
            return PassageDecision(
                tuple([score * factor for score in found.scores]), found.top_index, found.top_id, found.margin
            )
        sums = [score * factor + extra for score, extra in zip(found.scores, context, strict=True)]
        return decide_passage(sums, self._record.passages)

    def _record_of(
        self,
        span_index: int,
        span: TargetSpan,
        weights: SpanWeights,
        place: int,
        *,
        united: UnitedEvidence,
        decision: PassageDecision,
        mass: float,
    ) -> SpanEvidence:
        factor = weights.factors[place]
        unmatched = self._values.unmatched_values(span.chars, united.evidence_passages)
        return SpanEvidence(
            span_index=span_index,
            span_kind=span.kind,
            chars=span.chars,
            text=span.chars.of(self._record.answer),
            atomic_fact=self._ranges.around(span.chars, weights.facts[place]),
            evidence=scaled_pieces(united.pieces, factor),
            passage_scores=decision.scores,
            top_passage_index=decision.top_index,
            top_passage_id=decision.top_id,
            margin=decision.margin,
            evidence_mass=mass,
            evidence_isolated=united.evidence_isolated,
            support=decide_support(mass, bool(unmatched), self._settings),
            unmatched_values=unmatched,
        )
