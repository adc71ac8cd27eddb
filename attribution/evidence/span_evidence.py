"""The evidence record of each target span of one answer, made of what a method says about it."""

from __future__ import annotations

from collections.abc import Sequence

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, cut_sentences
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.evidence.span_result import SpanResult, decide_passage
from attribeam.attribution.evidence.union_results import union_results
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, QARecord, SpanEvidence, Support, TargetSpan


def span_evidence(
    *,
    record: QARecord,
    parsed: ParsedAnswer,
    spans: Sequence[TargetSpan],
    encoded: EncodedRow,
    tokens: TokenAttribution,
    settings: MethodOptions,
) -> tuple[SpanEvidence, ...]:
    """One evidence record per target span by AttnUnion or AttnUnionDep, in the order of ``spans``."""
    results = union_results(
        answer=record.answer,
        passages=record.passages,
        parsed=parsed,
        spans=[span.chars for span in spans],
        encoded=encoded,
        tokens=tokens,
        settings=settings,
    )
    return evidence_records(record=record, parsed=parsed, spans=spans, results=results, thresholds=settings)


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
    triples = (
        (index, first.setdefault(span, index), span, result)
        for index, (span, result) in enumerate(zip(spans, results, strict=True))
    )
    return tuple(_evidence_record(record, *one, values, thresholds, cut) for one in triples)


def _evidence_record(
    record: QARecord,
    span_index: int,
    claim_index: int,
    span: TargetSpan,
    result: SpanResult,
    values: ValueMatcher,
    thresholds: MethodOptions | None,
    cut: Sequence[CharRange],
) -> SpanEvidence:
    decision = result.decision or decide_passage(result.passage_scores)
    top = decision.top_index
    unmatched = values.unmatched_values(span.chars, _value_passages(result))
    return SpanEvidence(
        span_index=span_index,
        span_kind=span.kind,
        chars=span.chars,
        text=span.chars.of(record.answer),
        atomic_fact=result.united or (span.chars,),
        evidence=result.evidence,
        passage_scores=result.passage_scores,
        top_passage_index=top,
        top_passage_id=None if top is None else record.passages[top].passage_id,
        margin=decision.margin,
        evidence_mass=result.mass,
        evidence_isolated=result.isolated,
        support=_support(result, bool(unmatched), thresholds),
        unmatched_values=unmatched,
        sentence_cut=any(sentence.overlaps(span.chars) for sentence in cut),
        token_evidence=result.tokens,
        claim_index=claim_index,
    )


def _value_passages(result: SpanResult) -> tuple[int, ...]:
    if result.value_passages is not None:
        return result.value_passages
    return tuple(index for index, score in enumerate(result.passage_scores) if score > 0)


def _support(result: SpanResult, has_unmatched_values: bool, thresholds: MethodOptions | None) -> Support:
    if result.mass is None or thresholds is None:
        return Support.NOT_CALIBRATED
    return decide_support(result.mass, has_unmatched_values, thresholds)


def decide_support(evidence_mass: float, has_unmatched_values: bool, settings: MethodOptions) -> Support:
    """``supported`` from ``supported_threshold`` on, ``weak`` from ``weak_threshold`` on, else ``unsupported``.

    A span with a number, date or name that occurs in none of its evidence passages is ``unsupported``, however much
    attention its other words have on evidence.
    """
    if has_unmatched_values or evidence_mass < settings.weak_threshold:
        return Support.UNSUPPORTED
    return Support.WEAK if evidence_mass < settings.supported_threshold else Support.SUPPORTED
