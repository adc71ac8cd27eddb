"""Does an answer rest on the passages that it or a method names? A second model judges.

An NLI model gives citation recall, precision and F1 as ALCE defines them (Gao et al. 2023), a language model
log-probability drops: what a span loses without the passage that a method names (Section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import LoadedModels
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation.datasets import AnswerChoice, SpanChoice
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer, SkippedRow
from attribeam.evaluation.measures import (
    Counts,
    FailedRow,
    Interval,
    RowBootstrap,
    interval_cell,
    percentile_interval,
    row_draws,
    row_remarks,
    text_table,
)
from attribeam.evaluation.measures.accuracy import best_passages
from attribeam.evaluation.methods import EvaluationMethod, LabelledContext, OraclePassage, RandomPassage, outcome_of
from attribeam.evaluation.methods.baselines import LanguageContext, language_of, sensitive_spans
from attribeam.report.messages import one_line
from attribeam.schemas import Passage, RowFault
from attribeam.schemas.errors import RunError

if TYPE_CHECKING:
    from attribeam.attribution.language_models import LanguageModel
    from attribeam.attribution.language_models.verifiers import Classifier, Row

Claim = tuple[str, str]
"""A premise and a statement."""
CitingSentence = tuple[str, tuple[int, ...]]
"""A sentence without its markers, and the 0-based passages that it cites, in order; some may not exist."""


class NliModel:
    """Judges a claim as entailed if the entailment label has the largest logit, each claim once.

    It is any sequence classifier of transformers with a label for entailment. If premise and statement together exceed
    what it reads, the longer one is cut at its end; ``cut_claims`` counts how often.
    """

    def __init__(self, classifier: Classifier, label: int) -> None:
        self._classifier, self._label = classifier, label
        self._verdicts: dict[Claim, bool] = {}
        self.identity = f"{classifier.directory.options.model}@{classifier.directory.commit or 'local'}"
        self.cut_claims = 0

    @classmethod
    def from_pretrained(cls, name: str, *, device: str = "cpu") -> NliModel:
        """Load a directory or a model of the Hugging Face hub.

        Raises:
            ModelLoadError: if there is no such model, or it is no sequence classifier with a label for entailment.
        """
        from attribeam.attribution.language_models.verifiers import load_nli_classifier

        options = ModelOptions(model=name, device=device, dtype="float32")
        return cls(*load_nli_classifier(options, option="--nli-model"))

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """Whether the premise of each claim entails its statement.

        Raises ``RunError`` if a claim does not fit into memory, or a logit is not finite.
        """
        new = [claim for claim in dict.fromkeys(claims) if claim not in self._verdicts]
        for claim, result in zip(new, self._classifier.probabilities([self._row(*pair) for pair in new]), strict=True):
            if isinstance(result, RowFault):
                raise RunError(f"the NLI model {self.identity} cannot judge a claim: {result}")
            self._verdicts[claim] = int(result.argmax()) == self._label
        return [self._verdicts[claim] for claim in claims]

    def _row(self, premise: str, statement: str) -> Row:
        tokenizer, longest = self._classifier.tokenizer, self._classifier.longest
        row: Row = tokenizer(premise, statement, verbose=False)
        if len(row["input_ids"]) > longest:
            self.cut_claims += 1
            row = tokenizer(premise, statement, truncation=True, max_length=longest)
        return row


@dataclass(frozen=True, slots=True)
class CitationCounts:
    """What was counted in one answer: sentences, those that their citations together entail, judged citations.

    ``needed`` are citations of supported sentences that entail the sentence alone, or without which the others do not.
    """

    sentences: int
    supported: int
    citations: int
    needed: int


MOST_CITATIONS = 3


def citation_counts(
    passages: Sequence[Passage],
    sentences: Sequence[CitingSentence],
    model: NliModel,
    *,
    most_citations: int = MOST_CITATIONS,
) -> CitationCounts:
    """The counts of one answer, which has at least one sentence.

    The first ``most_citations`` citations of each sentence are judged. A sentence without citations, or with a
    citation of a passage that does not exist, is not supported, and its citations are not counted.
    """

    shown = [f"Title: {part.title}\n{part.text}" if part.title else part.text for part in passages]

    def entailed(sentences: Sequence[CitingSentence]) -> list[bool]:
        return model.entails([("\n".join(shown[index] for index in cited), text) for text, cited in sentences])

    judged = [
        (text, cited[:most_citations])
        for text, cited in sentences
        if cited and all(0 <= passage < len(passages) for passage in cited)
    ]
    supported = [sentence for sentence, is_entailed in zip(judged, entailed(judged), strict=True) if is_entailed]
    # a citation is needed if it is the only one, if it suffices, or if the others do not suffice
    several = [(text, cited, index) for text, cited in supported if len(cited) > 1 for index in cited]
    suffices = entailed([(text, (index,)) for text, _, index in several])
    unsure = [triple for triple, is_enough in zip(several, suffices, strict=True) if not is_enough]
    without = entailed([(text, tuple(other for other in cited if other != index)) for text, cited, index in unsure])
    return CitationCounts(
        sentences=len(sentences),
        supported=len(supported),
        citations=sum(len(cited) for _, cited in judged),
        needed=sum(len(cited) for _, cited in supported) - sum(without),
    )


@dataclass(frozen=True, slots=True)
class CitationScore:
    """Means over answers in percent; ``f1`` is the harmonic mean of the two means, and intervals are over answers."""

    recall: float
    recall_interval: Interval
    precision: float
    precision_interval: Interval
    f1: float
    f1_interval: Interval
    citations_a_sentence: float


def citation_score(counts: Sequence[CitationCounts], row_counts: Counts) -> CitationScore:
    precise = [answer.needed / answer.citations if answer.citations else 0.0 for answer in counts]
    shares = np.array([[answer.supported / answer.sentences for answer in counts], precise])
    recalls, precisions = (np.append(own.mean(), row_counts @ own / len(counts)) for own in shares)
    both = recalls + precisions
    f1 = np.divide(2 * recalls * precisions, both, out=np.zeros_like(both), where=both > 0)
    return CitationScore(
        recall=100 * float(recalls[0]),
        recall_interval=percentile_interval(100 * recalls[1:]),
        precision=100 * float(precisions[0]),
        precision_interval=percentile_interval(100 * precisions[1:]),
        f1=100 * float(f1[0]),
        f1_interval=percentile_interval(100 * f1[1:]),
        citations_a_sentence=sum(answer.citations for answer in counts) / sum(answer.sentences for answer in counts),
    )


CITING_METHODS = ("hss-avg", "cci", "attn-union", "words")
"""The default methods: those of the paper's table, and ``words``."""
_THRESHOLDS: Mapping[str, float] = {"hss-avg": 0.55, "hss-avg-dep": 0.55}


@dataclass(slots=True)
class CitationTally:
    name: str
    counts: list[CitationCounts] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CitationRow:
    """One line of the table; rows that the method could not attribute count as answers without citations."""

    method: str
    score: CitationScore
    answers: int
    sentences: int
    failed_rows: tuple[FailedRow, ...]


def run_citations(
    answers: Iterable[LabelledAnswer],
    methods: Sequence[EvaluationMethod],
    models: LoadedModels,
    entailment: NliModel,
    *,
    most_citations: int = MOST_CITATIONS,
) -> tuple[CitationTally, ...]:
    """The answers' own citations first, then those of every method; a target span is a sentence.

    A method cites the passages whose score exceeds its threshold, highest score first: 0.55 for the cosines of
    ``hss-avg``, 0 for all others (Section 4.4 of the paper).
    """
    tallies = tuple(CitationTally(name) for name in ("self-citation", *(method.name for method in methods)))
    for labelled in answers:
        context = LabelledContext(labelled, models)
        texts = [span.of(labelled.record.answer) for span in labelled.spans]
        cited = [labelled.citations, *(_citations(*pair, context) for pair in zip(methods, tallies[1:], strict=True))]
        for tally, citations in zip(tallies, cited, strict=True):
            sentences = list(zip(texts, citations, strict=True))
            counts = citation_counts(labelled.record.passages, sentences, entailment, most_citations=most_citations)
            tally.counts.append(counts)
    return tallies


def _citations(method: EvaluationMethod, tally: CitationTally, context: LabelledContext) -> Sequence[tuple[int, ...]]:
    """For each span the passages above the method's threshold, highest score first; ties keep their order."""
    outcome = outcome_of(method, context)
    if isinstance(outcome, RowFault):
        tally.failed.append(FailedRow.of(context.record, outcome))
        return [()] * len(context.spans)
    threshold, cited = _THRESHOLDS.get(method.name, 0.0), []
    for result in outcome:
        above = [(score, index) for index, score in enumerate(result.passage_scores) if score > threshold]
        cited.append(tuple(index for _, index in sorted(above, key=lambda pair: -pair[0])))
    return cited


def score_citations(tallies: Sequence[CitationTally], *, draws: int, seed: int) -> tuple[CitationRow, ...]:
    row_counts = row_draws(len(tallies[0].counts), draws=draws, seed=seed)
    return tuple(
        CitationRow(
            method=tally.name,
            score=citation_score(tally.counts, row_counts),
            answers=len(tally.counts),
            sentences=sum(answer.sentences for answer in tally.counts),
            failed_rows=tuple(tally.failed),
        )
        for tally in tallies
    )


def citation_table(title: str, rows: Sequence[CitationRow], remarks: Sequence[str]) -> str:
    """The figures, one line per method, then the remarks and what failed."""
    interval = "95% interval"
    header = ("method", "recall %", interval, "precision %", interval, "F1 %", interval, "per sentence")
    lines, failures = [], []
    for row in rows:
        of = row.score
        figures = ((of.recall, of.recall_interval), (of.precision, of.precision_interval), (of.f1, of.f1_interval))
        cells = [cell for value, limits in figures for cell in (f"{value:.1f}", interval_cell(limits))]
        lines.append((row.method, *cells, f"{of.citations_a_sentence:.2f}"))
        consequence = "failed and count as answers without citations"
        failures += row_remarks(row.failed_rows, consequence, before=f"{row.method}: ")
    return "\n".join([one_line(title), text_table(header, lines), *map(one_line, remarks), *failures])


def target_answers(
    answers: Iterable[LabelledAnswer], model: LanguageModel, *, spans: SpanChoice, source: AnswerChoice
) -> Iterator[LabelledAnswer | SkippedRow]:
    """The answers of a data set with the chosen spans.

    Those that the model refuses, that are empty, or that have no context-sensitive token are skipped with the reason.
    """

    def target(labelled: LabelledAnswer) -> LabelledAnswer | str:
        record = labelled.record
        if source is AnswerChoice.GENERATED:
            record = replace(record, answer=model.generate(record), target_spans=None)
            if not record.answer:
                return "empty_answer"
        if spans is SpanChoice.LABELLED:
            return labelled
        context = LanguageContext(record, model)
        sensitive = sensitive_spans(context.divergences, context.encoded.response_chars)
        return LabelledAnswer(replace(record, target_spans=sensitive)) if sensitive else "no_context_sensitive_token"

    for labelled in answers:
        try:
            outcome = target(labelled)
        except RowFault as fault:
            outcome = str(fault.reason)
        yield SkippedRow(labelled.record.source.source_row, outcome) if isinstance(outcome, str) else outcome


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
    answers: Iterable[LabelledAnswer | SkippedRow], methods: Sequence[EvaluationMethod], models: LoadedModels
) -> tuple[tuple[DropTally, ...], tuple[SkippedRow, ...]]:
    """Run every method on every answer; those skipped before or refused by the language model count for no method.

    They come second, the refused ones last.
    """
    tallies, skipped, refused = tuple(DropTally(method.name) for method in methods), list[SkippedRow](), []
    for labelled in answers:
        if isinstance(labelled, SkippedRow):
            skipped.append(labelled)
            continue
        context = LabelledContext(labelled, models)
        try:
            context.once(language_of).read_whole()
        except RowFault as fault:
            refused.append(SkippedRow(labelled.record.source.source_row, str(fault.reason)))
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
    return tallies, (*skipped, *refused)


def _drops(method: EvaluationMethod, context: LabelledContext) -> list[float | None]:
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
    """The figures of all methods, over the same resamples of rows, of which there is at least one."""
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
        failures += row_remarks(row.failed_rows, "failed and count as a drop of 0", before=f"{row.method}: ")
    return "\n".join([one_line(title), text_table(header, lines), *remarks, *failures])
