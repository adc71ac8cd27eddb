"""One audited answer: what the models find, what the method says about its spans, and its evidence records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.evidence.union_results import MethodError, SpanResult, evidence_records
from attribeam.attribution.methods.answer_context import AnswerContext, LoadedModels
from attribeam.attribution.methods.method import Method
from attribeam.attribution.methods.models import ModelStage, stage_of
from attribeam.attribution.methods.probed_method import ProbedMethod, verified_answers
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.attribution.verdict.citations import with_citations
from attribeam.attribution.verdict.judge import RowToJudge, judge_of
from attribeam.attribution.verdict.state_probe import UNREAD
from attribeam.attribution.verdict.verified import VerifiedAnswer, calibrated_verifier, verified_records
from attribeam.schemas import EvidencePiece, Passage, QARecord, RowFault, SpanEvidence, TargetSpan

if TYPE_CHECKING:
    from attribeam.attribution.attention.attention_model import AttentionModel


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row that is ready for the method; ``encoded`` is None where no attention model reads it."""

    record: QARecord
    parsed: ParsedAnswer
    spans: tuple[TargetSpan, ...]
    encoded: EncodedRow | None


@dataclass(frozen=True, slots=True)
class RowResults:
    """What a method said about the spans of one row, in their order."""

    results: tuple[SpanResult, ...]


Reading: TypeAlias = tuple[float, ...] | VerifiedAnswer | None
"""The probe's log odds of each word of an answer, or what a verifier says of its claims; ``UNREAD`` for an answer that
is too long for the decoder or the verifier, None for one that it was not asked about."""


@dataclass(frozen=True, slots=True)
class ProbedRow:
    """What the models found of a row for the method, and what the verdict's own model read.

    ``judged`` are the records by the bundled verdict, where that judges first.
    """

    found: TokenAttribution | RowResults | None
    reading: Reading
    judged: tuple[SpanEvidence, ...] | None = None


Found: TypeAlias = TokenAttribution | RowResults | ProbedRow | None
"""What the model stage yields for a row: attributions for the method, or the method's results; None without a model."""
Outcome: TypeAlias = Found | RowFault


def model_outcomes(method: Method, models: LoadedModels, rows: Sequence[AuditRow]) -> list[Outcome]:
    """One outcome per row, in order: token-wise attributions, computed in batches, if the method needs no more.

    A method that looks further into its model runs here, row by row: what it looks at is too large to keep. A verdict's
    own model reads the rows that have an outcome, and lie in its band, in batches.
    """
    if isinstance(method, ProbedMethod):
        return [*_probed_outcomes(method, models, rows)]
    return [*_own_outcomes(method, models, rows)]


def _own_outcomes(
    method: Method, models: LoadedModels, rows: Sequence[AuditRow]
) -> Sequence[TokenAttribution | RowResults | RowFault | None]:
    if stage_of(method.needs) is ModelStage.METHOD:
        return [_method_outcome(method, models, row) for row in rows]
    return [None] * len(rows) if models.attention is None else attribute_block(models.attention, rows)


def _probed_outcomes(
    method: ProbedMethod, models: LoadedModels, rows: Sequence[AuditRow]
) -> Iterator[ProbedRow | RowFault]:
    """The outcomes of the method itself, each with what the verdict's own model reads of the row.

    Raises:
        RuntimeError: if that model was not loaded.
    """
    found = _judged_first(method, models, rows) if method.judges_first else _own_rows(method, models, rows)
    asked = {
        place: (row, one)
        for place, (row, one) in enumerate(zip(rows, found, strict=True))
        if isinstance(one, ProbedRow) and method.asks_about(one.judged)
    }
    readings = dict(zip(asked, _readings(method, models, [*asked.values()]), strict=True))
    for place, one in enumerate(found):
        reading = readings.get(place)
        if isinstance(one, RowFault):
            yield one
        else:
            yield reading if isinstance(reading, RowFault) else replace(one, reading=reading)


def _own_rows(method: ProbedMethod, models: LoadedModels, rows: Sequence[AuditRow]) -> list[ProbedRow | RowFault]:
    found = _own_outcomes(method.method, models, rows)
    return [one if isinstance(one, RowFault) else ProbedRow(one, None) for one in found]


def _judged_first(method: ProbedMethod, models: LoadedModels, rows: Sequence[AuditRow]) -> list[ProbedRow | RowFault]:
    """The method's results for each row, which are made here once, and the records by the bundled verdict."""
    settings = None if models.attention is None else models.attention.settings
    first = method.options.first_verdict
    found: list[tuple[RowResults, RowToJudge] | RowFault] = []
    for row, one in zip(rows, _own_outcomes(method.method, models, rows), strict=True):
        try:
            if isinstance(one, RowFault):
                raise one
            results = one if isinstance(one, RowResults) else RowResults(_results(row, one, method, settings))
            found.append((results, _to_judge(row, results.results, method, first, settings)))
        except RowFault as fault:
            found.append(fault)
    asked, judge = [one[1] for one in found if not isinstance(one, RowFault)], judge_of(first)
    judged = iter([tuple(one.found) for one in asked] if judge is None else judge.judged(asked))
    return [one if isinstance(one, RowFault) else ProbedRow(one[0], None, next(judged)) for one in found]


def _readings(
    method: ProbedMethod, models: LoadedModels, asked: Sequence[tuple[AuditRow, ProbedRow]]
) -> Sequence[Reading | RowFault]:
    if method.probe is None:
        if models.verifier is None:
            raise RuntimeError("the verdict is a verifier's, but none was loaded")
        return verified_answers(models.verifier, [(row.record, one.judged or ()) for row, one in asked])
    if models.decoder is None:
        raise RuntimeError("the verdict has a probe, but no decoder was loaded")
    return method.word_log_odds(models.decoder, [(row.record, row.parsed) for row, _ in asked])


def is_unread(outcome: Outcome) -> bool:
    """Whether a row was too long for the verdict's own model, a decoder or a verifier."""
    return isinstance(outcome, ProbedRow) and outcome.reading == UNREAD


def is_asked(outcome: Outcome) -> bool:
    """Whether the verdict's own model was asked about a row."""
    return isinstance(outcome, ProbedRow) and outcome.reading is not None


def _method_outcome(method: Method, models: LoadedModels, row: AuditRow) -> RowResults | RowFault:
    spans = [span.chars for span in row.spans]
    context = AnswerContext(row.record, spans, models, method.needs, parsed=row.parsed, encoded=row.encoded)
    try:
        return RowResults(tuple(method.span_results(context)))
    except RowFault as fault:
        return fault


def attribute_block(model: AttentionModel, rows: Sequence[AuditRow]) -> list[TokenAttribution | RowFault]:
    """One outcome per row, in order.

    Raises:
        RuntimeError: if a row is not encoded, or the model gives a different number of outcomes; rows would be lost.
    """
    encoded = [row.encoded for row in rows if row.encoded is not None]
    outcomes = model.attribute(encoded, [len(row.record.passages) for row in rows]) if len(encoded) == len(rows) else []
    if len(outcomes) != len(rows):
        raise RuntimeError(f"the model should give one outcome for each of {len(rows)} rows, gave {len(outcomes)}")
    return outcomes


def evidence_of(
    rows: Sequence[tuple[AuditRow, Outcome]], *, method: Method, options: MethodOptions, settings: MethodOptions | None
) -> list[tuple[SpanEvidence, ...] | RowFault]:
    """The evidence of all spans of each row, or why it cannot be attributed; rows come with what the models found.

    ``settings`` are the ``options`` merged with the model's, None without one.

    Raises:
        MethodError: if the method breaks its protocol.
    """
    found = [_found(*pair, method, options, settings) for pair in rows]
    asked = [one for one in found if isinstance(one, RowToJudge)]
    judge = judge_of(options) if asked else None
    judged = iter([one.found for one in asked] if judge is None else judge.judged(asked))
    complete = [next(judged) if isinstance(one, RowToJudge) else one for one in found]
    return [
        one if isinstance(one, RowFault) else with_citations(row.record, row.parsed, one)
        for (row, _), one in zip(rows, complete, strict=True)
    ]


def _found(
    row: AuditRow, found: Outcome, method: Method, options: MethodOptions, settings: MethodOptions | None
) -> RowToJudge | Sequence[SpanEvidence] | RowFault:
    """The records of a row that are to be judged, or those that were judged before it came here."""
    reading: Reading = None
    if isinstance(found, ProbedRow):
        reading, judged, found = found.reading, found.judged, found.found
        if judged is not None and (reading is None or isinstance(reading, VerifiedAnswer) or options.has_verifier):
            if isinstance(reading, VerifiedAnswer):
                judged = verified_records(judged, reading, calibrated_verifier(options.verdict))
            return judged
    try:
        if isinstance(found, RowFault):
            return found
        results = found.results if isinstance(found, RowResults) else _results(row, found, method, settings)
        probed = reading if isinstance(reading, tuple) else None
        return _to_judge(row, results, method, options, settings, probed)
    except RowFault as fault:
        return fault


def _to_judge(
    row: AuditRow,
    results: Sequence[SpanResult],
    method: Method,
    options: MethodOptions,
    settings: MethodOptions | None,
    probed: Sequence[float] | None = None,
) -> RowToJudge:
    """The records of the results, for the verdict of the ``options`` where they ask for a fitted one."""
    matcher = ValueMatcher(answer=row.record.answer, parsed=row.parsed, passages=row.record.passages)
    records = evidence_records(
        record=row.record,
        parsed=row.parsed,
        spans=row.spans,
        results=results,
        thresholds=thresholds_of(method, options, settings),
        matcher=matcher,
    )
    return RowToJudge(row.record, row.parsed, row.spans, records, matcher, probed)


def _results(
    row: AuditRow, attention: TokenAttribution | None, method: Method, settings: MethodOptions | None
) -> tuple[SpanResult, ...]:
    context = AnswerContext(
        row.record,
        [span.chars for span in row.spans],
        LoadedModels(),
        method.needs,
        parsed=row.parsed,
        encoded=row.encoded,
        attention=attention,
        settings=settings,
    )
    return tuple(method.span_results(context))


def thresholds_of(method: Method, options: MethodOptions, in_force: MethodOptions | None) -> MethodOptions | None:
    """The settings whose thresholds judge the method's mass; None if none were calibrated for it and none are given.

    ``options`` are the user's, ``in_force`` those merged with the model's, None before a model is loaded.
    """
    thresholds = {"supported_threshold", "weak_threshold"}
    given = thresholds <= options.model_fields_set
    calibrated = method.calibrated and (in_force is None or thresholds <= in_force.model_fields_set)
    return in_force or options if method.gives_mass and (calibrated or given) else None


def checked_results(method: Method, given: Sequence[SpanResult], context: AnswerContext) -> tuple[SpanResult, ...]:
    """What the method says about each span.

    Raises:
        MethodError: if a result cannot become an evidence record.
    """
    results = tuple(given)
    complaint = _complaint(results, context, gives_mass=method.gives_mass)
    if complaint is not None:
        source = context.record.source
        where = f"row {source.source_row} of {source.source_file!r}"
        raise MethodError(f"method {method.name!r} gave a wrong result at {where}: {complaint}")
    return results


def _complaint(results: Sequence[SpanResult], context: AnswerContext, *, gives_mass: bool) -> str | None:
    if len(results) != len(context.spans):
        return f"there should be one result per span, {len(context.spans)}, there were {len(results)}"
    passages = context.record.passages
    found = ((index, _span_complaint(one, passages, gives_mass=gives_mass)) for index, one in enumerate(results))
    return next((f"span {index}: {text}" for index, text in found if text is not None), None)


def _span_complaint(result: SpanResult, passages: Sequence[Passage], *, gives_mass: bool) -> str | None:
    if not isinstance(result, SpanResult):
        return f"a result should be a SpanResult, was: {type(result).__name__}"
    if len(result.passage_scores) != len(passages):
        return f"passage_scores should have one score per passage, {len(passages)}, had {len(result.passage_scores)}"
    if not all(0 <= score < math.inf for score in result.passage_scores):
        return f"passage_scores should be finite and not negative, were: {result.passage_scores}"
    if (result.mass is not None) is not gives_mass:
        return f"mass should be {'given' if gives_mass else 'None, as gives_mass says'}, was: {result.mass}"
    if result.mass is not None and not 0 <= result.mass <= 1:
        return f"mass should be from 0 to 1, was: {result.mass}"
    return next(filter(None, (_piece_complaint(piece, passages) for piece in result.evidence)), None)


def _piece_complaint(piece: EvidencePiece, passages: Sequence[Passage]) -> str | None:
    if not 0 <= piece.passage_index < len(passages):
        return f"passage_index of evidence should be from 0 to {len(passages) - 1}, was: {piece.passage_index}"
    passage = passages[piece.passage_index]
    text = (passage.title or "") if piece.in_title else passage.text
    if piece.chars.char_end > len(text) or piece.chars.of(text) != piece.text:
        place = f"passage {piece.passage_index}, {piece.chars.char_start} to {piece.chars.char_end}"
        return f"the text of evidence should be what its passage has at its range, is not: {place} of {len(text)}"
    return (
        None if 0 < piece.score < math.inf else f"a score of evidence should be finite and positive, was: {piece.score}"
    )
