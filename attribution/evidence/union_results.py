"""AttnUnion and AttnUnionDep over one answer: augmentation, union, filter and passage decision of each span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attribeam.attribution.answers.atomic_facts import AtomicFactRanges, AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.word_token_alignment import WordTokenAlignment
from attribeam.attribution.evidence.passage_evidence import UnionEvidence, scaled_pieces, scaled_tokens, union_evidence
from attribeam.attribution.evidence.span_result import SpanResult, decide_passage
from attribeam.attribution.evidence.span_weights import ResponseWeights, SentenceContext, SpanWeights, split_unions
from attribeam.attribution.evidence.union import ColumnContext, PassageScores, keep_best_windows
from attribeam.attribution.evidence.word_overlap import SharedWords
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, Passage

_SPANS_AT_ONCE = 64
"""Arrays over these spans times the response's tokens stay small."""


def union_results(
    *,
    answer: str,
    passages: Sequence[Passage],
    parsed: ParsedAnswer,
    spans: Sequence[CharRange],
    encoded: EncodedRow,
    tokens: TokenAttribution,
    settings: MethodOptions,
) -> list[SpanResult]:
    """One result per span, in their order (Sections 3.2 and 3.3).

    Where the isolation filter leaves nothing, the unfiltered evidence stands and ``isolated`` says so. A span that no
    response token overlaps has no evidence.
    """
    response = _Response(
        answer=answer, passages=passages, parsed=parsed, encoded=encoded, tokens=tokens, settings=settings
    )
    groups = [spans[start : start + _SPANS_AT_ONCE] for start in range(0, len(spans), _SPANS_AT_ONCE)]
    return [result for group in groups for result in response.results_of(group)]


class _Response:
    """What all spans of one response share."""

    def __init__(
        self,
        *,
        answer: str,
        passages: Sequence[Passage],
        parsed: ParsedAnswer,
        encoded: EncodedRow,
        tokens: TokenAttribution,
        settings: MethodOptions,
    ) -> None:
        self._passages, self._encoded, self._settings = passages, encoded, settings
        covering = np.flatnonzero(encoded.response_char_start < encoded.response_char_end)
        alignment = WordTokenAlignment(
            words=parsed.words,
            token_char_start=encoded.response_char_start[covering],
            token_char_end=encoded.response_char_end[covering],
        )
        augmented = settings.is_augmented
        self._weights = ResponseWeights(
            alignment=alignment,
            facts=AtomicFacts(parsed) if augmented else None,
            own_token_weight=settings.own_token_weight,
        )
        self._passage_scores = PassageScores(encoded=encoded, tokens=tokens, responses=covering)
        self._context = None
        if augmented and settings.sentence_weight:
            self._context = SentenceContext(parsed=parsed, alignment=alignment, scores=self._passage_scores)
        self._words = None
        if augmented and settings.word_weight:
            self._words = SharedWords(answer=answer, parsed=parsed, passages=passages, weight=settings.word_weight)
        self._ranges = AtomicFactRanges(answer=answer, words=parsed.words)

    def results_of(self, spans: Sequence[CharRange]) -> Iterator[SpanResult]:
        """The results of some spans, whose sums are made at once."""
        weights, context = self._weights_and_context(spans)
        scores = keep_best_windows(
            self._passage_scores.unite(
                weights.unions, isolation_tau=self._settings.isolation_tau, strict=self._settings.strict_isolation
            ),
            encoded=self._encoded,
            passage_count=len(self._passages),
            window=self._settings.evidence_window,
            context=context,
        )
        united = union_evidence(
            scores, encoded=self._encoded, passages=self._passages, with_tokens=self._settings.token_evidence
        )
        masses = self._passage_scores.mean_masses(
            scores.evidence, union_of_span=weights.union_of_span, firsts=weights.token_firsts, ends=weights.token_ends
        )
        of_spans = [united[union] for union in weights.union_of_span]
        sums = [one.scores for one in of_spans]
        if self._words is not None:
            sums = [_with_words(*pair) for pair in zip(sums, self._words.parts(spans).tolist(), strict=True)]
        for place, span in enumerate(spans):
            yield self._result_of(span, weights, place, of_spans[place], sums[place], mass=masses[place])

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

    def _result_of(
        self,
        span: CharRange,
        weights: SpanWeights,
        place: int,
        united: UnionEvidence,
        scores: tuple[float, ...],
        *,
        mass: float,
    ) -> SpanResult:
        """The result of a span whose passages have these scores; the largest one decides (Section 4.1)."""
        factor = weights.factors[place]
        decision = decide_passage(scores)
        return SpanResult(
            passage_scores=tuple([score * factor for score in scores]),
            evidence=scaled_pieces(united.pieces(decision.top_index), factor),
            mass=mass,
            united=self._ranges.around(span, weights.facts[place]),
            isolated=united.evidence_isolated,
            decision=decision,
            value_passages=united.evidence_passages,
            tokens=None if united.tokens is None else scaled_tokens(united.tokens, factor),
        )


def _with_words(scores: Sequence[float], parts: Sequence[float]) -> tuple[float, ...]:
    """The scores of passages with the words' parts of their sum; a passage without a score of its own gets none."""
    total = sum(scores)
    return tuple([score + total * part if score > 0 else 0.0 for score, part in zip(scores, parts, strict=True)])
