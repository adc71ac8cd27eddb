"""What a method says about each span of an answer, and the evidence records that are made of it.

AttnUnion and AttnUnionDep say it here, by augmentation, union, filter and passage decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attribeam.attribution.answers.atomic_facts import AtomicFactRanges, AtomicFacts, WordTokenAlignment
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, cut_sentences, sentence_bounds
from attribeam.attribution.answers.target_spans import words_range
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.evidence.passage_evidence import WordOverlap, scaled_pieces, union_evidence
from attribeam.attribution.evidence.union import (
    ColumnContext,
    PassageScores,
    ResponseWeights,
    SentenceContext,
    keep_best_windows,
    split_unions,
)
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import (
    CharRange,
    EvidencePiece,
    Passage,
    QARecord,
    SpanEvidence,
    Support,
    TargetSpan,
    TokenEvidence,
)
from attribeam.schemas.errors import RunError


class MethodError(RunError):
    """A method breaks its protocol; the message names method and row, and what was expected and found."""


@dataclass(frozen=True, slots=True)
class SpanResult:
    """What a method says about one span.

    Attributes:
        passage_scores: one per passage, finite and not negative; all zero where nothing was found.
        evidence: the passage texts that it names, best score first; scores are positive, in the method's own unit.
        mass: share of the span's attention on its evidence, in [0, 1]; None where the method has no such share.
        united: ranges of the answer whose attributions were united, the span included; empty for the span alone.
        isolated: whether the isolation filter left nothing of the span's evidence.
        decision: the best passage and its margin; None for those of ``decide_passage``.
        value_passages: where the span's numbers, dates and names are looked up; None for all passages with a score.
        tokens: every evidence token of the span with its score, in the order of the prompt; None unless asked for.
    """

    passage_scores: tuple[float, ...]
    evidence: tuple[EvidencePiece, ...] = ()
    mass: float | None = None
    united: tuple[CharRange, ...] = ()
    isolated: bool = False
    decision: tuple[int | None, float | None] | None = None
    value_passages: tuple[int, ...] | None = None
    tokens: tuple[TokenEvidence, ...] | None = None


def decide_passage(scores: Sequence[float]) -> tuple[int | None, float | None]:
    """The passage with the largest score, of equal ones the first (Section 4.1), and its margin.

    That is its lead over the second as a share of all scores. Both are None where nothing scores.
    """
    total = sum(scores)
    if total <= 0:
        return None, None
    best, second = sorted([*scores, 0.0], reverse=True)[:2]
    return list(scores).index(best), (best - second) / total


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
    response = _Response(answer, passages, parsed, encoded, tokens, settings)
    groups = (spans[start : start + _SPANS_AT_ONCE] for start in range(0, len(spans), _SPANS_AT_ONCE))
    return [result for group in groups for result in response.results_of(group)]


class _Response:
    """What all spans of one response share."""

    def __init__(
        self,
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
        self._sentences = [words_range(parsed, range(*bounds)) for bounds in sentence_bounds(parsed)]
        self._context = self._words = None
        if augmented and settings.sentence_weight:
            self._context = SentenceContext(self._sentences, alignment=alignment, scores=self._passage_scores)
        if augmented and settings.word_weight:
            self._words = WordOverlap(answer, passages)
        self._ranges = AtomicFactRanges(answer=answer, words=parsed.words)

    def results_of(self, spans: Sequence[CharRange]) -> Iterator[SpanResult]:
        """The results of some spans, whose sums are made at once; the passage with the largest score decides."""
        settings, passage_scores = self._settings, self._passage_scores
        weights = self._weights.of_spans(spans)
        context: ColumnContext | None = None  # what the spans' sentences add to each column
        if self._context is not None:
            runs = self._context.sentences_of(weights.token_firsts, weights.token_ends)
            lengths = np.subtract(weights.token_ends, weights.token_firsts) / weights.factors
            weights, firsts = split_unions(weights, list(zip(lengths.tolist(), runs, strict=True)))
            added = self._context.of_spans([runs[span] for span in firsts])
            added *= settings.sentence_weight * lengths[firsts, None]
            context = passage_scores.columns, added
        kept, passage_sums = keep_best_windows(
            passage_scores.unite(
                weights.unions, isolation_tau=settings.isolation_tau, strict=settings.strict_isolation
            ),
            encoded=self._encoded,
            passage_count=len(self._passages),
            window=settings.evidence_window,
            context=context,
        )
        united = union_evidence(
            kept, passage_sums, encoded=self._encoded, passages=self._passages, with_tokens=settings.token_evidence
        )
        masses = passage_scores.mean_masses(
            kept, union_of_span=weights.union_of_span, firsts=weights.token_firsts, ends=weights.token_ends
        )
        of_spans = [united[union] for union in weights.union_of_span]
        sums = [evidence.scores for evidence in of_spans]
        if self._words is not None:
            parts = settings.word_weight * self._words.parts(spans, self._sentences)
            sums = [_with_words(*pair) for pair in zip(sums, parts.tolist(), strict=True)]
        parts_of_spans = zip(spans, of_spans, sums, masses, weights.factors, weights.facts, strict=True)
        for span, evidence, own_sums, mass, factor, facts in parts_of_spans:
            decision, tokens = decide_passage(own_sums), evidence.tokens
            yield SpanResult(
                passage_scores=tuple([score * factor for score in own_sums]),
                evidence=scaled_pieces(evidence.pieces(decision[0]), factor),
                mass=mass,
                united=self._ranges.around(span, facts),
                isolated=evidence.evidence_isolated,
                decision=decision,
                value_passages=evidence.evidence_passages,
                tokens=tokens and tuple([replace(token, score=token.score * factor) for token in tokens]),
            )


def _with_words(scores: Sequence[float], parts: Sequence[float]) -> tuple[float, ...]:
    """The scores of passages with the words' parts of their sum; a passage without a score of its own gets none."""
    total = sum(scores)
    return tuple([score + total * part if score > 0 else 0.0 for score, part in zip(scores, parts, strict=True)])


def evidence_records(
    *,
    record: QARecord,
    parsed: ParsedAnswer,
    spans: Sequence[TargetSpan],
    results: Sequence[SpanResult],
    thresholds: MethodOptions | None,
    matcher: ValueMatcher | None = None,
) -> tuple[SpanEvidence, ...]:
    """One evidence record per target span from its result, whatever method gave it.

    ``thresholds`` are None where none were made for the method's mass. Each span is a claim of its own; one that is
    given again belongs to the claim of the first. ``matcher`` is one for this answer and its passages, where the caller
    has it already.
    """
    values = matcher or ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)
    cut = cut_sentences(parsed)
    first: dict[TargetSpan, int] = {}
    evidence = []
    for index, (span, result) in enumerate(zip(spans, results, strict=True)):
        top, margin = result.decision or decide_passage(result.passage_scores)
        scored = tuple(passage for passage, score in enumerate(result.passage_scores) if score > 0)
        unmatched = values.unmatched_values(
            span.chars, scored if result.value_passages is None else result.value_passages
        )
        support = Support.NOT_CALIBRATED
        if result.mass is not None and thresholds is not None:
            support = decide_support(float(np.float32(result.mass)), bool(unmatched), thresholds)
        evidence.append(
            SpanEvidence(
                span_index=index,
                span_kind=span.kind,
                chars=span.chars,
                text=span.chars.of(record.answer),
                atomic_fact=result.united or (span.chars,),
                evidence=result.evidence,
                passage_scores=result.passage_scores,
                top_passage_index=top,
                top_passage_id=None if top is None else record.passages[top].passage_id,
                margin=margin,
                evidence_mass=result.mass,
                evidence_isolated=result.isolated,
                support=support,
                unmatched_values=unmatched,
                sentence_cut=bool(cut) and any(sentence.overlaps(span.chars) for sentence in cut),
                token_evidence=result.tokens,
                claim_index=first.setdefault(span, index),
            )
        )
    return tuple(evidence)


def decide_support(evidence_mass: float, has_unmatched_values: bool, settings: MethodOptions) -> Support:
    """``supported`` from ``supported_threshold`` on, ``weak`` from ``weak_threshold`` on, else ``unsupported``.

    A span with a number, date or name that occurs in none of its evidence passages is ``unsupported``, however much
    attention its other words have on evidence.
    """
    if has_unmatched_values or evidence_mass < settings.weak_threshold:
        return Support.UNSUPPORTED
    return Support.WEAK if evidence_mass < settings.supported_threshold else Support.SUPPORTED
