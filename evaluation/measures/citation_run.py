"""What each method cites for each sentence of an answer, and how good these citations are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.comparison import FailedRow
from evaluation.datasets.labelled_answer import LabelledAnswer
from evaluation.measures.bootstrap import row_draws
from evaluation.measures.citation_scores import (
    MOST_CITATIONS,
    CitationCounts,
    CitationScore,
    CitingSentence,
    citation_counts,
    citation_score,
)
from evaluation.measures.entailment import EntailmentModel
from evaluation.methods.answer_context import AnswerContext, LoadedModels
from evaluation.methods.method import Method, needs_of
from schemas import RowFault

SELF_CITATION = "self-citation"
_THRESHOLDS: Mapping[str, float] = {"hss-avg": 0.55, "hss-avg-dep": 0.55}


@dataclass(slots=True)
class CitationTally:
    """What came of one method, answer by answer."""

    name: str
    counts: list[CitationCounts] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CitationRow:
    """One line of the table; rows that a method could not attribute count as answers without citations."""

    method: str
    score: CitationScore
    answers: int
    sentences: int
    failed_rows: tuple[FailedRow, ...]


def run_citations(
    answers: Iterable[LabelledAnswer],
    methods: Sequence[Method],
    models: LoadedModels,
    entailment: EntailmentModel,
    *,
    most_citations: int = MOST_CITATIONS,
) -> tuple[CitationTally, ...]:
    """The answers' own citations first, then those of every method; a target span is a sentence.

    A method cites the passages whose score is above its threshold, the largest first: 0.55 for the cosines of
    ``hss-avg``, 0 for all others (Section 4.4 of the paper).
    """
    tallies = tuple(CitationTally(name) for name in (SELF_CITATION, *(method.name for method in methods)))
    for labelled in answers:
        context = AnswerContext(labelled, models, needs_of(methods))
        cited = [labelled.citations, *(_citations(*pair, context) for pair in zip(methods, tallies[1:], strict=True))]
        for tally, citations in zip(tallies, cited, strict=True):
            sentences = _sentences(labelled, citations)
            counts = citation_counts(labelled.record.passages, sentences, entailment, most_citations=most_citations)
            tally.counts.append(counts)
    return tallies


def score_citations(tallies: Sequence[CitationTally], *, draws: int, seed: int) -> tuple[CitationRow, ...]:
    """The figures of all methods, over the same resamples of answers.

    Raises:
        ValueError: if there was no answer.
    """
    row_counts = row_draws(len(tallies[0].counts), draws=draws, seed=seed)
    return tuple(
        CitationRow(
            method=tally.name,
            score=citation_score(tally.counts, row_counts),
            answers=len(tally.counts),
            sentences=sum(one.sentences for one in tally.counts),
            failed_rows=tuple(tally.failed),
        )
        for tally in tallies
    )


def cited_passages(scores: Sequence[float], *, threshold: float) -> tuple[int, ...]:
    """The passages above ``threshold``, the largest score first, of equal ones the first passage."""
    above = [index for index, score in enumerate(scores) if score > threshold]
    return tuple(sorted(above, key=lambda index: -scores[index]))


def _citations(method: Method, tally: CitationTally, context: AnswerContext) -> Sequence[tuple[int, ...]]:
    threshold = _THRESHOLDS.get(method.name, 0.0)
    labelled = context.labelled
    try:
        results = method.span_results(context)
    except RowFault as fault:
        tally.failed.append(FailedRow(labelled.record.source.source_row, str(fault.reason), str(fault)))
        return [()] * len(labelled.spans)
    return [cited_passages(result.passage_scores, threshold=threshold) for result in results]


def _sentences(labelled: LabelledAnswer, citations: Sequence[tuple[int, ...]]) -> list[CitingSentence]:
    answer = labelled.record.answer
    return [CitingSentence(span.of(answer), cited) for span, cited in zip(labelled.spans, citations, strict=True)]
