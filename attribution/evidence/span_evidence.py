"""The evidence of each target span of one answer: augmentation, union, filter, decisions on passage and support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attribeam.attribution.answers.atomic_facts import AtomicFactRanges, AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.answers.word_token_alignment import WordTokenAlignment
from attribeam.attribution.evidence.passage_evidence import UnionEvidence, scaled_pieces, union_evidence
from attribeam.attribution.evidence.span_weights import ResponseWeights, SentenceContext, SpanWeights, split_unions
from attribeam.attribution.evidence.union import ColumnContext, PassageScores, keep_best_windows
from attribeam.attribution.settings import Method, UnionSettings
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, QARecord, SpanEvidence, Support, TargetSpan

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
            self._context = SentenceContext(parsed=parsed, alignment=alignment, scores=self._passage_scores)
        self._ranges = AtomicFactRanges(answer=record.answer, words=parsed.words)
        self._values = ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)

    def evidence_of(self, span_indices: Sequence[int], spans: Sequence[TargetSpan]) -> Iterator[SpanEvidence]:
        """The evidence records of some spans, whose sums are made at once."""
        weights, context = self._weights_and_context([span.chars for span in spans])
        scores = keep_best_windows(
            self._passage_scores.unite(weights.unions, isolation_tau=self._settings.isolation_tau),
            encoded=self._encoded,
            passage_count=len(self._record.passages),
            window=self._settings.evidence_window,
            context=context,
        )
        united = union_evidence(scores, encoded=self._encoded, passages=self._record.passages)
        masses = self._passage_scores.mean_masses(
            scores.evidence, union_of_span=weights.union_of_span, firsts=weights.token_firsts, ends=weights.token_ends
        )
        for place, (index, span) in enumerate(zip(span_indices, spans, strict=True)):
            yield self._record_of(index, span, weights, place, united[weights.union_of_span[place]], mass=masses[place])

    def _weights_and_context(self, spans: Sequence[CharRange]) -> tuple[SpanWeights, ColumnContext | None]:
        """The weights of some spans, and what their sentences add to each column, None where nothing is added."""
        weights = self._weights.of_spans(spans)
        if self._context is None:
            return weights, None
        runs = self._context.sentences_of(weights.token_firsts, weights.token_ends)
        lengths = np.subtract(weights.token_ends, weights.token_firsts) / weights.factors
        weights, firsts = split_unions(weights, list(zip(lengths.tolist(), runs, strict=True)))
        added = self._context.of_spans([runs[place] for place in firsts])
        added *= self._settings.sentence_weight * lengths[firsts, None]
        return weights, (self._passage_scores.columns, added)

    def _record_of(
        self,
        span_index: int,
        span: TargetSpan,
        weights: SpanWeights,
        place: int,
        united: UnionEvidence,
        *,
        mass: float,
    ) -> SpanEvidence:
        factor, decision = weights.factors[place], united.decision
        unmatched = self._values.unmatched_values(span.chars, united.evidence_passages)
        return SpanEvidence(
            span_index=span_index,
            span_kind=span.kind,
            chars=span.chars,
            text=span.chars.of(self._record.answer),
            atomic_fact=self._ranges.around(span.chars, weights.facts[place]),
            evidence=scaled_pieces(united.pieces, factor),
            passage_scores=tuple([score * factor for score in decision.scores]),
            top_passage_index=decision.top_index,
            top_passage_id=decision.top_id,
            margin=decision.margin,
            evidence_mass=mass,
            evidence_isolated=united.evidence_isolated,
            support=decide_support(mass, bool(unmatched), self._settings),
            unmatched_values=unmatched,
        )


def decide_support(evidence_mass: float, has_unmatched_values: bool, settings: UnionSettings) -> Support:
    """``supported`` from ``supported_threshold`` on, ``weak`` from ``weak_threshold`` on, else ``unsupported``.

    A span with a number, date or name that occurs in none of its evidence passages is ``unsupported``, however much
    attention its other words have on evidence.
    """
    if has_unmatched_values or evidence_mass < settings.weak_threshold:
        return Support.UNSUPPORTED
    return Support.WEAK if evidence_mass < settings.supported_threshold else Support.SUPPORTED
