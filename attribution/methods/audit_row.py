"""One audited answer: what the models find, what the method says about its spans, and its evidence records.

What this depends on besides the input is said here, too, for file metadata and the run manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.evidence.union_results import SpanResult, decide_support, evidence_records
from attribeam.attribution.methods.method import AnswerContext, LoadedModels, Method, Need, UserMethod, has_own_model
from attribeam.attribution.option_declaration import option_texts
from attribeam.attribution.options import THRESHOLDS, UNIONS, MethodOptions
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.attribution.verdict.citations import with_citations
from attribeam.attribution.verdict.judge import RowToJudge, judge_of
from attribeam.attribution.verdict.texts import as_seen
from attribeam.schemas import QARecord, RowFault, SpanEvidence, TargetSpan

if TYPE_CHECKING:
    from attribeam.attribution.verdict.verified import Reading, VerdictReader


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row that is ready for the method; ``encoded`` is None where no attention model reads it."""

    record: QARecord
    parsed: ParsedAnswer
    spans: tuple[TargetSpan, ...]
    encoded: EncodedRow | None


@dataclass(frozen=True, slots=True)
class RowFindings:
    """What models and method found of a row so far; a part is None until it is computed.

    Attributes:
        attention: the attention model's token-wise attributions.
        results: the method's results, one per span, where the method runs beside the models.
        records: evidence records judged by the bundled verdict, where a verifier or a band comes after it.
        reading: what the verdict's own model, a decoder or a verifier, says.
    """

    attention: TokenAttribution | None = None
    results: tuple[SpanResult, ...] | None = None
    records: tuple[SpanEvidence, ...] | None = None
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class ReusedRecords:
    """The evidence records that an earlier audit wrote of a row (``--reuse``)."""

    records: tuple[SpanEvidence, ...]


Outcome: TypeAlias = RowFindings | ReusedRecords | RowFault
_Row = TypeVar("_Row", bound=RowFindings | ReusedRecords)
_Result = TypeVar("_Result")


def runs_models(method: Method, options: MethodOptions) -> bool:
    """Whether an audit needs more than the parser."""
    return bool(method.needs - {Need.PARSER}) or has_own_model(options)


def reads_attention_alone(method: Method, options: MethodOptions) -> bool:
    """Whether the models yield no more of a row than its token-wise attributions."""
    return method.needs - {Need.PARSER} == {Need.ATTENTION} and not has_own_model(options)


def model_outcomes(
    method: Method, options: MethodOptions, models: LoadedModels, rows: Sequence[AuditRow]
) -> Sequence[Outcome]:
    """One outcome per row, in order, from batches of attributions, and of what the verdict's own model reads.

    A method that looks further into its models runs here, row by row: what it looks at is too large to keep. Raises
    ``RuntimeError`` if a row is not encoded, or a model gives a different number of outcomes, so that rows would be
    lost, or the verdict's own model was not loaded.
    """
    outcomes: Sequence[RowFindings | RowFault] = [RowFindings() for _ in rows]
    if Need.ATTENTION in method.needs:
        encoded = [row.encoded for row in rows if row.encoded is not None]
        outcomes = attention_outcomes(models, encoded, [len(row.record.passages) for row in rows])
    if method.needs - {Need.PARSER, Need.ATTENTION}:
        outcomes = _map_rows(
            rows, outcomes, lambda row, findings: RowFindings(results=_results(row, findings, method, models, None))
        )
    if not has_own_model(options):
        return outcomes
    if models.verdict is None:
        raise RuntimeError(f"the verdict {options.verdict!r} has a model of its own, but none was loaded")
    if options.has_verifier or options.verdict_band is not None:
        outcomes = _map_rows(rows, outcomes, partial(_judged_first, method=method, options=options, models=models))
    return _with_readings(rows, outcomes, options, models.verdict)


def attention_outcomes(
    models: LoadedModels, encoded: Sequence[EncodedRow], passage_counts: Sequence[int]
) -> list[RowFindings | RowFault]:
    """The attributions of rows in batches; raises ``RuntimeError`` as ``model_outcomes``."""
    is_complete = len(encoded) == len(passage_counts)
    attributions = models.attention.attribute(encoded, passage_counts) if models.attention and is_complete else []
    if len(attributions) != len(passage_counts):
        raise RuntimeError(
            f"the model should give one outcome for each of {len(passage_counts)} rows, gave {len(attributions)}"
        )
    return [
        attribution if isinstance(attribution, RowFault) else RowFindings(attribution) for attribution in attributions
    ]


def _map_rows(
    rows: Sequence[AuditRow], outcomes: Sequence[_Row | RowFault], function: Callable[[AuditRow, _Row], _Result]
) -> list[_Result | RowFault]:
    """The ``function`` of each row and its outcome; a fault stays, and one that is raised becomes the result."""
    results: list[_Result | RowFault] = []
    for row, outcome in zip(rows, outcomes, strict=True):
        try:
            results.append(outcome if isinstance(outcome, RowFault) else function(row, outcome))
        except RowFault as fault:
            results.append(fault)
    return results


def _results(
    row: AuditRow, findings: RowFindings, method: Method, models: LoadedModels, settings: MethodOptions | None
) -> tuple[SpanResult, ...]:
    if findings.results is not None:
        return findings.results
    context = AnswerContext(
        row.record,
        [span.chars for span in row.spans],
        models,
        parsed=row.parsed,
        encoded=row.encoded,
        attention=findings.attention,
        settings=settings,
    )
    return tuple(method.span_results(context))


def _judged_first(
    row: AuditRow, findings: RowFindings, method: Method, options: MethodOptions, models: LoadedModels
) -> RowFindings:
    """With the method's results, which are made here once, and the records by the bundled verdict."""
    settings = None if models.attention is None else models.attention.settings
    results = _results(row, findings, method, models, settings)
    asked = _to_judge(row, results, method, options.first_verdict, settings)
    judge = judge_of(options.first_verdict)
    return RowFindings(results=results, records=tuple(asked.evidence) if judge is None else judge.judged([asked])[0])


def _is_asked_about(findings: RowFindings, options: MethodOptions) -> bool:
    """Whether an answer is read, given what the bundled verdict says of it, if it was asked.

    Without a span there is nothing to read, and a band leaves out answers without a risk.
    """
    if findings.records is None:
        return True
    band = options.verdict_band
    if band is None or not findings.records:
        return bool(findings.records)
    risk = findings.records[0].answer_risk
    return risk is not None and band[0] <= risk <= band[1]


def _with_readings(
    rows: Sequence[AuditRow], outcomes: Sequence[RowFindings | RowFault], options: MethodOptions, verdict: VerdictReader
) -> list[Outcome]:
    """With what the verdict's own model says of the rows that have an outcome and lie in its band."""
    from attribeam.attribution.verdict.verified import AnswerToRead

    answered: list[Outcome] = [*outcomes]
    asked = [
        (index, findings)
        for index, findings in enumerate(outcomes)
        if not isinstance(findings, RowFault) and _is_asked_about(findings, options)
    ]
    answers = [AnswerToRead(rows[index].record, rows[index].parsed, findings.records) for index, findings in asked]
    for (index, findings), reading in zip(asked, verdict.read(answers), strict=True):
        if reading is not None:
            answered[index] = reading if isinstance(reading, RowFault) else replace(findings, reading=reading)
    return answered


def evidence_of(
    rows: Sequence[tuple[AuditRow, Outcome]], *, method: Method, options: MethodOptions, settings: MethodOptions | None
) -> list[tuple[SpanEvidence, ...] | RowFault]:
    """The evidence of all spans of each row, or why it cannot be attributed; rows come with what the models found.

    ``settings`` are the ``options`` merged with the model's, None without one. Raises ``MethodError`` if the method
    breaks its protocol.
    """
    audited, outcomes = [row for row, _ in rows], [outcome for _, outcome in rows]
    records = _map_rows(audited, outcomes, partial(_records, method=method, options=options, settings=settings))
    asked = [item for item in records if isinstance(item, RowToJudge)]
    judge = judge_of(options) if asked else None
    judged = iter([row.evidence for row in asked] if judge is None else judge.judged(asked))
    complete = [next(judged) if isinstance(item, RowToJudge) else item for item in records]
    return [
        item if isinstance(item, RowFault) else with_citations(_as_seen(row.record), row.parsed, item)
        for row, item in zip(audited, complete, strict=True)
    ]


def _records(
    row: AuditRow,
    outcome: RowFindings | ReusedRecords,
    method: Method,
    options: MethodOptions,
    settings: MethodOptions | None,
) -> RowToJudge | Sequence[SpanEvidence]:
    """The records of a row that are to be judged, or those that were judged before it came here."""
    if isinstance(outcome, ReusedRecords):
        return _reused_to_judge(row, outcome.records, options)
    records, reading = outcome.records, outcome.reading
    probed = reading if isinstance(reading, tuple) else None
    if records is not None and (reading is None or options.has_verifier):
        if reading is None or isinstance(reading, tuple):
            return records
        from attribeam.attribution.verdict.verified import calibrated_verifier, verified_records

        return verified_records(records, reading, calibrated_verifier(options.verdict))
    results = _results(row, outcome, method, LoadedModels(), settings)
    return _to_judge(row, results, method, options, settings, probed)


def _to_judge(
    row: AuditRow,
    results: Sequence[SpanResult],
    method: Method,
    options: MethodOptions,
    settings: MethodOptions | None,
    probed: Sequence[float] | None = None,
) -> RowToJudge:
    """The records of the results, for the verdict of the ``options`` where they ask for a fitted one."""
    seen = _as_seen(row.record)
    matcher = ValueMatcher(answer=seen.answer, parsed=row.parsed, passages=seen.passages)
    records = evidence_records(
        record=row.record,
        parsed=row.parsed,
        spans=row.spans,
        results=results,
        thresholds=thresholds_of(method, options, settings),
        matcher=matcher,
    )
    return RowToJudge(seen, row.parsed, row.spans, records, matcher, probed)


def _as_seen(record: QARecord) -> QARecord:
    """The record with its passages as their reader sees them, in the same places; itself where nothing differs."""
    passages = [
        replace(passage, text=text, title=title) if (text, title) != (passage.text, passage.title) else passage
        for passage in record.passages
        for text in [as_seen(passage.text, record.answer)]
        for title in [passage.title and as_seen(passage.title, record.answer)]
    ]
    is_same = all(map(is_, passages, record.passages))
    return record if is_same else replace(record, passages=tuple(passages))


def _reused_to_judge(row: AuditRow, stored: Sequence[SpanEvidence], options: MethodOptions) -> RowToJudge:
    """The records that an audit wrote, for another verdict."""
    if options.judges_by_mass:
        first: dict[TargetSpan, int] = {}
        stored = [
            replace(
                record,
                support=decide_support(record.measured_mass, bool(record.unmatched_values), options),
                claim_index=first.setdefault(span, record.span_index),
            )
            for record, span in zip(stored, row.spans, strict=True)
        ]
    seen = _as_seen(row.record)
    matcher = ValueMatcher(answer=seen.answer, parsed=row.parsed, passages=seen.passages)
    return RowToJudge(seen, row.parsed, row.spans, stored, matcher)


def thresholds_of(method: Method, options: MethodOptions, in_force: MethodOptions | None) -> MethodOptions | None:
    """The settings whose thresholds judge the method's mass; None if none were calibrated for it and none are given.

    ``options`` are the user's, ``in_force`` those merged with the model's, None before a model is loaded. Thresholds of
    models are for the mass of the unions of attention.
    """
    given = options.model_fields_set >= THRESHOLDS
    calibrated = options.method in UNIONS and (in_force is None or in_force.model_fields_set >= THRESHOLDS)
    return in_force or options if method.gives_mass and (calibrated or given) else None


_OF_UNIONS = frozenset(
    """
    top_k isolation_tau strict_isolation token_evidence own_token_weight sentence_weight evidence_window word_weight
    supported_threshold weak_threshold
    """.split()  # noqa: SIM905
)
"""The options of the unions of attention; a method of the user's own may read any."""
OF_VERDICTS = frozenset({"verdict", "verdict_band", "strictness", "prior", "assume_language"})
_OF_DECODERS = frozenset({"language_model", "language_model_dtype", "language_model_quantization"})
_AS_LOADED = frozenset({"hidden_layer", "language_model_dtype", "language_model_quantization"})
"""Options that the models say better: with what was loaded."""


def audit_provenance(method: Method, options: MethodOptions, models: LoadedModels) -> dict[str, str]:
    """Models, method and versions; ``device`` is always present.

    Raises ``UsageError`` if the code of a user's own method cannot be identified.
    """
    fields = {"device": "cpu"}
    for model in (models.language, models.verdict):
        if model is not None:
            fields |= {"device": model.device.type, **model.provenance()}
    if models.attention is not None:
        of_model = models.attention.provenance()
        fields |= {name: value for name, value in of_model.items() if name not in MethodOptions.model_fields}
    if Need.HIDDEN_STATES in method.needs and models.attention is not None:
        layer = models.hidden_layer
        fields["hidden_layer"] = str(models.attention.layer_count // 2 if layer is None else layer)
    if isinstance(method, UserMethod):
        fields["method_code"] = method.code
    merged = models.attention.settings if models.attention is not None and Need.ATTENTION in method.needs else None
    read = options_read(options) - _AS_LOADED
    if thresholds_of(method, options, merged) is None or not options.judges_by_mass:
        read -= THRESHOLDS
    return {**fields, **_verdict_texts(options), **_texts(merged or options, read)}


def reused_provenance(before: Mapping[str, str], options: MethodOptions) -> dict[str, str]:
    """What ``audit_provenance`` gives where the evidence is that of an audit with the provenance ``before``.

    ``options`` differ from that audit's in the verdict only, which has no model of its own.
    """
    of_verdict = OF_VERDICTS | THRESHOLDS | {"answer_risk_threshold", "support_score_threshold"}
    kept = {name: text for name, text in before.items() if name not in of_verdict and "verdict" not in name}
    read = OF_VERDICTS | (THRESHOLDS if options.judges_by_mass else frozenset())
    return {**kept, **_verdict_texts(options), **_texts(options, read)}


def options_read(options: MethodOptions) -> frozenset[str]:
    """The names of the options that affect the method and the verdict."""
    of_method = _OF_UNIONS if options.method in UNIONS else frozenset(options.explicit())
    return of_method | OF_VERDICTS | {"method"} | (_OF_DECODERS if has_own_model(options) else frozenset())


def _verdict_texts(options: MethodOptions) -> dict[str, str]:
    """What the verdict depends on besides its own model, and the thresholds in force."""
    judge, first = judge_of(options.asked_verdict), judge_of(options.first_verdict)
    fields = {} if judge is None else judge.provenance()
    if options.has_verifier:
        from attribeam.attribution.verdict.verified import calibration_texts

        fields = {"verdict_model": fields["verdict_model"], **calibration_texts(options.verdict)}
    if options.verdict_band is not None and first is not None:
        fields["bundled_verdict_model"] = first.provenance()["verdict_model"]
    return fields


def _texts(options: MethodOptions, read: frozenset[str]) -> dict[str, str]:
    return {name: text for name, text in option_texts(options).items() if name in read}
