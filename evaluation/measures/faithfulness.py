"""Log-probability drops: does the passage that a method names make the model write the span? (Section 4.3)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.language_models.language_model import LanguageModel
from attribeam.attribution.methods.method import LoadedModels
from attribeam.evaluation.datasets import AnswerChoice, SpanChoice
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer, SkippedRow
from attribeam.evaluation.measures.accuracy import best_passages
from attribeam.evaluation.measures.figures import (
    FailedRow,
    Interval,
    RowBootstrap,
    failure_remarks,
    interval_cell,
    text_table,
)
from attribeam.evaluation.methods import LabelledContext, LabMethod, OraclePassage, RandomPassage
from attribeam.evaluation.methods.gradients import LanguageContext, language_of, sensitive_spans
from attribeam.report.messages import one_line
from attribeam.schemas import RowFault


class TargetAnswers:
    """The answers of a data set with the chosen spans, produced lazily.

    Attributes:
        skipped: the answers left out so far: refused by the model, empty, or without a context-sensitive token.
    """

    def __init__(
        self, answers: Iterable[LabelledAnswer], model: LanguageModel, *, spans: SpanChoice, source: AnswerChoice
    ) -> None:
        self._answers, self._model, self._spans, self._source = answers, model, spans, source
        self.skipped: list[SkippedRow] = []

    def __iter__(self) -> Iterator[LabelledAnswer]:
        for labelled in self._answers:
            try:
                target = self._target(labelled)
            except RowFault as fault:
                target = str(fault.reason)
            if isinstance(target, str):
                self.skipped.append(SkippedRow(labelled.record.source.source_row, target))
            else:
                yield target

    def _target(self, labelled: LabelledAnswer) -> LabelledAnswer | str:
        """The answer, or the reason why it is left out."""
        record = labelled.record
        if self._source is AnswerChoice.GENERATED:
            record = replace(record, answer=self._model.generate(record), target_spans=None)
            if not record.answer:
                return "empty_answer"
        if self._spans is SpanChoice.LABELLED:
            return labelled
        context = LanguageContext(record, self._model)
        spans = sensitive_spans(context.divergences, context.encoded.response_chars)
        return LabelledAnswer(replace(record, target_spans=spans)) if spans else "no_context_sensitive_token"


RANDOM_DRAWS = 3


@dataclass(slots=True)
class DropTally:
    """The drops of one method; for each row ``drops`` holds the sum over its spans and ``spans`` their number."""

    name: str
    drops: list[float] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)
    spans_without_passage: int = 0
    failed: list[FailedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DropScore:
    """The figures of one method: the mean drop per span in nats, with its interval over resamples of rows.

    ``spans_without_passage`` counts spans for which the method named no passage; nothing is removed, so they drop by 0.
    """

    method: str
    log_probability_drop: float
    interval: Interval
    spans: int
    rows: int
    spans_without_passage: int
    failed_rows: tuple[FailedRow, ...]


def run_drops(
    answers: Iterable[LabelledAnswer], methods: Sequence[LabMethod], models: LoadedModels
) -> tuple[tuple[DropTally, ...], tuple[SkippedRow, ...]]:
    """Run every method on every answer; answers that the language model refuses count for no method and come second."""
    tallies, skipped = tuple(DropTally(method.name) for method in methods), []
    for labelled in answers:
        context = LabelledContext(labelled, models)
        try:
            context.once(language_of).read_whole()
        except RowFault as fault:
            skipped.append(SkippedRow(labelled.record.source.source_row, str(fault.reason)))
            continue
        for method, tally in zip(methods, tallies, strict=True):
            try:
                drops = _drops(method, context)
            except RowFault as fault:
                tally.failed.append(FailedRow.of(context.record, fault))
                drops = [None] * len(context.spans)
            tally.spans.append(len(drops))
            tally.drops.append(sum(drop for drop in drops if drop is not None))
            tally.spans_without_passage += drops.count(None)
    return tallies, tuple(skipped)


def _drops(method: LabMethod, context: LabelledContext) -> list[float | None]:
    """The drop of each span, None where the method names no passage."""
    if isinstance(method, OraclePassage):
        language, passages = context.once(language_of), range(len(context.record.passages))
        language.take_away(passages)
        return [max(language.drop(span, passage) for passage in passages) for span in context.spans]
    if isinstance(method, RandomPassage):
        draws = [_drops_of(replace(method, draw=draw).span_results(context), context) for draw in range(RANDOM_DRAWS)]
        return [sum(drop or 0.0 for drop in of_span) / RANDOM_DRAWS for of_span in zip(*draws, strict=True)]
    return _drops_of(method.span_results(context), context)


def _drops_of(results: Sequence[SpanResult], context: LabelledContext) -> list[float | None]:
    """The mean over passages that tie for the highest score, each of which is equally likely to be removed."""
    language = context.once(language_of)
    named = [best_passages(result.passage_scores) for result in results]
    language.take_away(sorted({passage for of_span in named for passage in of_span}))
    return [
        sum(language.drop(span, passage) for passage in passages) / len(passages) if passages else None
        for span, passages in zip(context.spans, named, strict=True)
    ]


def score_drops(tallies: Sequence[DropTally], *, draws: int, seed: int) -> tuple[DropScore, ...]:
    """The figures of all methods, over the same resamples of rows.

    Raises:
        ValueError: if there was no answer.
    """
    bootstrap = RowBootstrap(tallies[0].spans, draws=draws, seed=seed)
    return tuple(
        DropScore(
            method=tally.name,
            log_probability_drop=sum(tally.drops) / sum(tally.spans),
            interval=bootstrap.interval(tally.drops, scale=1),
            spans=sum(tally.spans),
            rows=len(tally.spans),
            spans_without_passage=tally.spans_without_passage,
            failed_rows=tuple(tally.failed),
        )
        for tally in tallies
    )


def drop_table(title: str, rows: Sequence[DropScore], remarks: Sequence[str]) -> str:
    """The figures in nats, one line per method, then the remarks and what failed."""
    header = ("method", "log-probability drop", "95% interval", "no passage")
    lines, failures = [], []
    for row in rows:
        drop, interval = f"{row.log_probability_drop:.2f}", interval_cell(row.interval, digits=2)
        lines.append((row.method, drop, interval, str(row.spans_without_passage)))
        failures += failure_remarks(row.failed_rows, consequence="count as a drop of 0", method=row.method)
    return "\n".join([one_line(title), text_table(header, lines), *remarks, *failures])
