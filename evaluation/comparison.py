"""Running methods over a labelled data set, and the figures of each method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.evaluation.measures.accuracy import (
    HighlightOverlap,
    HighlightScore,
    HighlightTally,
    best_sentences,
    highlight_overlap,
    span_credit,
)
from attribeam.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.evaluation.measures.cost import Cost, CostMeter
from attribeam.evaluation.methods.registry import LabelledContext, LabMethod
from attribeam.schemas import EvidencePiece, RowFault
from attribeam.schemas.labelled_answer import LabelledAnswer, PassageRange

REFERENCE_METHOD = "words"


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a method could not attribute; all of its spans count as wrong. ``row`` is its 0-based number."""

    row: int
    reason: str
    message: str


@dataclass(slots=True)
class MethodTally:
    """What one method scored, answer by answer; the lists have one item per row."""

    name: str
    credits: list[float] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)
    spans_without_evidence: int = 0
    isolated_spans: int = 0
    failed: list[FailedRow] = field(default_factory=list)
    highlights: HighlightTally = field(default_factory=HighlightTally)
    sentences: HighlightTally = field(default_factory=HighlightTally)
    cost: Cost | None = None

    def count(self, labelled: LabelledAnswer, results: Sequence[SpanResult]) -> None:
        """Add one answer."""
        pairs = list(zip(results, labelled.gold_passages, strict=True))
        self.credits.append(sum(span_credit(result.passage_scores, gold) for result, gold in pairs))
        self.spans.append(len(pairs))
        self.spans_without_evidence += sum(not any(result.passage_scores) for result in results)
        self.isolated_spans += sum(result.isolated for result in results)
        passages = labelled.record.passages
        if labelled.gold_evidence:
            shown = [highlighted_pieces(result) for result in results]
            characters = [[PassageRange(piece.passage_index, piece.chars) for piece in pieces] for pieces in shown]
            sentences = [best_sentences(pieces, passages) for pieces in shown]
            self.highlights.rows.append(_overlaps(labelled, characters))
            self.sentences.rows.append(_overlaps(labelled, sentences))


@dataclass(frozen=True, slots=True)
class MethodScore:
    """The figures of one method; accuracies, intervals and differences are in percent.

    ``difference_to_words`` is None if ``words`` was not run. ``highlights`` compares a person's highlights with the
    evidence in the best passage, and ``sentences`` with the passage sentences that this evidence points to; both are
    None without highlights. ``isolated_spans`` counts spans with only isolated evidence. ``ms_per_span`` and
    ``peak_memory_mib`` are None if costs were not measured.
    """

    method: str
    passage_accuracy: float
    interval: Interval
    spans: int
    rows: int
    spans_without_evidence: int
    isolated_spans: int
    difference_to_words: float | None
    difference_interval: Interval | None
    highlights: HighlightScore | None
    sentences: HighlightScore | None
    failed_rows: tuple[FailedRow, ...]
    ms_per_span: float | None = None
    peak_memory_mib: float | None = None


def highlighted_pieces(result: SpanResult) -> tuple[EvidencePiece, ...]:
    """The evidence in the text of the passage with the largest score, of equal ones the first; titles apart."""
    best = result.passage_scores.index(max(result.passage_scores))
    return tuple(piece for piece in result.evidence if piece.passage_index == best and not piece.in_title)


def run_methods(
    answers: Iterable[LabelledAnswer], methods: Sequence[LabMethod], models: LoadedModels
) -> tuple[MethodTally, ...]:
    """Run every method on every answer; what several methods need is computed once."""
    tallies = tuple(MethodTally(method.name) for method in methods)
    for labelled in answers:
        count_answer(LabelledContext(labelled, models), methods, tallies)
    return tallies


def count_answer(context: LabelledContext, methods: Sequence[LabMethod], tallies: Sequence[MethodTally]) -> None:
    """Run every method on one answer and add it to the method's tally."""
    for method, tally in zip(methods, tallies, strict=True):
        tally.count(context.labelled, _results(method, context, tally))


def run_with_costs(
    answers: Iterable[LabelledAnswer], methods: Sequence[LabMethod], models: LoadedModels
) -> tuple[MethodTally, ...]:
    """Like ``run_methods``, but methods share no computations, and the cost of each one is measured."""
    costs = tuple(Cost() for _ in methods)
    tallies = tuple(MethodTally(method.name, cost=cost) for method, cost in zip(methods, costs, strict=True))
    meter = CostMeter(models)
    for labelled in answers:
        for method, tally, cost in zip(methods, tallies, costs, strict=True):
            context = LabelledContext(labelled, models)
            with meter.measuring(cost):
                results = _results(method, context, tally)
            tally.count(labelled, results)
    return tallies


def score_methods(tallies: Sequence[MethodTally], *, draws: int, seed: int) -> tuple[MethodScore, ...]:
    """The figures of all methods, over the same resamples of rows.

    Raises:
        ValueError: if there was no answer.
    """
    bootstrap = RowBootstrap(tallies[0].spans, draws=draws, seed=seed)
    reference = next((tally for tally in tallies if tally.name == REFERENCE_METHOD), None)
    return tuple(_score(tally, reference, bootstrap) for tally in tallies)


def _overlaps(labelled: LabelledAnswer, evidence: Sequence[Sequence[PassageRange]]) -> list[HighlightOverlap]:
    return [
        highlight_overlap(evidence=found, gold=gold, passages=labelled.record.passages)
        for found, gold in zip(evidence, labelled.gold_evidence, strict=True)
    ]


def _results(method: LabMethod, context: LabelledContext, tally: MethodTally) -> Sequence[SpanResult]:
    labelled = context.labelled
    try:
        return method.span_results(context)
    except RowFault as fault:
        tally.failed.append(FailedRow(labelled.record.source.source_row, str(fault.reason), str(fault)))
        nothing = SpanResult((0.0,) * len(labelled.record.passages))
        return [nothing] * len(labelled.spans)


def _score(tally: MethodTally, reference: MethodTally | None, bootstrap: RowBootstrap) -> MethodScore:
    spans = sum(tally.spans)
    difference = None
    reference = None if reference is tally else reference
    if reference is not None:
        difference = [own - other for own, other in zip(tally.credits, reference.credits, strict=True)]
    return MethodScore(
        method=tally.name,
        passage_accuracy=100 * sum(tally.credits) / spans,
        interval=bootstrap.interval(tally.credits),
        spans=spans,
        rows=len(tally.spans),
        spans_without_evidence=tally.spans_without_evidence,
        isolated_spans=tally.isolated_spans,
        difference_to_words=None if difference is None else 100 * sum(difference) / spans,
        difference_interval=None if difference is None else bootstrap.interval(difference),
        highlights=tally.highlights.score(bootstrap, None if reference is None else reference.highlights),
        sentences=tally.sentences.score(bootstrap, None if reference is None else reference.sentences),
        failed_rows=tuple(tally.failed),
        ms_per_span=None if tally.cost is None else tally.cost.ms_per_span(spans),
        peak_memory_mib=None if tally.cost is None else tally.cost.peak_mib,
    )
