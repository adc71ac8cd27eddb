"""Is a span's best passage the right one, does its evidence match highlights, what does it cost?"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tqdm import tqdm

from attribeam.attribution.answers.parsed_answer import text_sentences
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import LoadedModels
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer, PassageRange, SkippedRow
from attribeam.evaluation.measures import (
    FailedRow,
    Interval,
    RowBootstrap,
    interval_cell,
    row_remarks,
    text_table,
    visible,
)
from attribeam.evaluation.methods import EvaluationMethod, LabelledContext, outcome_of
from attribeam.report.messages import one_line
from attribeam.schemas import EvidencePiece, Passage, RowFault

if TYPE_CHECKING:
    import torch

REFERENCE_METHOD = "words"


def with_progress(
    answers: Sequence[LabelledAnswer], description: str = "evaluate", unit: str = "answer"
) -> Iterable[LabelledAnswer]:
    """The answers, with a progress bar on a terminal."""
    return cast("Iterable[LabelledAnswer]", tqdm(answers, desc=description, unit=unit, disable=None))


def span_credit(passage_scores: Sequence[float], gold: Collection[int]) -> float:
    """The probability in [0, 1] that a passage drawn from those with the highest score is a gold passage.

    If no passage has a positive score, nothing was found, which counts as wrong.
    """
    tied = best_passages(passage_scores)
    return sum(index in gold for index in tied) / len(tied) if tied else 0.0


def best_passages(passage_scores: Sequence[float]) -> list[int]:
    """The passages with the highest score, equal to one part in 10^9, ascending; none if no score is positive."""
    best = max(passage_scores, default=0.0)
    return [index for index, score in enumerate(passage_scores) if score >= best * (1 - 1e-9)] if best > 0 else []


@dataclass(frozen=True, slots=True)
class HighlightOverlap:
    """Shares in [0, 1] of the characters that are not white space; both are 0 without evidence."""

    recall: float
    precision: float

    @property
    def f1(self) -> float:
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


def highlight_overlap(
    *, evidence: Iterable[PassageRange], gold: Iterable[PassageRange], passages: Sequence[Passage]
) -> HighlightOverlap:
    """The overlap of one span's evidence with its highlights; a character in several ranges counts once."""
    covered, marked = (
        {
            (part.passage_index, position)
            for part in ranges
            for position in visible([part.chars], passages[part.passage_index].text)
        }
        for ranges in (evidence, gold)
    )
    common = len(covered & marked)
    return HighlightOverlap(common / len(marked) if marked else 0.0, common / len(covered) if covered else 0.0)


def best_sentences(evidence: Sequence[EvidencePiece], passages: Sequence[Passage]) -> tuple[PassageRange, ...]:
    """The sentences in the best sentence's passage that reach at least half of its score.

    ``evidence`` are pieces of passage texts, not of titles; a piece counts in each sentence by the share of its
    characters there. Ties for the best sentence go to the first passage, then to the first sentence.
    """
    scores: defaultdict[PassageRange, float] = defaultdict(float)
    for piece in evidence:
        index, chars = piece.passage_index, piece.chars
        for sentence in text_sentences(passages[index].text):
            if sentence.overlaps(chars):
                common = min(sentence.char_end, chars.char_end) - max(sentence.char_start, chars.char_start)
                scores[PassageRange(index, sentence)] += piece.score * common / (chars.char_end - chars.char_start)
    if not scores:
        return ()
    best = min(scores, key=lambda sentence: (-scores[sentence], sentence))
    enough = (key for key in scores if key.passage_index == best.passage_index and 2 * scores[key] >= scores[best])
    return tuple(sorted(enough))


@dataclass(slots=True)
class Cost:
    """Total seconds of all answers, and their peak memory with the loaded models; ``peak_bytes`` is None if not known.

    On a GPU the memory is the most that torch had allocated there, elsewhere the process's largest size, on Linux only.
    """

    seconds: float = 0.0
    peak_bytes: int | None = None

    @contextmanager
    def measuring(self, models: LoadedModels) -> Iterator[None]:
        devices = [model.device for model in (models.attention, models.language) if model is not None]
        gpu = next((device for device in devices if device.type == "cuda"), None)
        is_known = _reset_peak(gpu)
        start = time.perf_counter()
        try:
            yield
        finally:
            peak = _peak_bytes(gpu) if is_known else None
            self.seconds += time.perf_counter() - start
            if peak is not None:
                self.peak_bytes = max(peak, self.peak_bytes or 0)


_RESET_PEAK = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def _reset_peak(gpu: torch.device | None) -> bool:
    """Forget earlier peaks; False if that is impossible, so that later peaks would be meaningless."""
    if gpu is not None:
        import torch

        torch.cuda.synchronize(gpu)
        torch.cuda.reset_peak_memory_stats(gpu)
        return True
    try:
        _RESET_PEAK.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _peak_bytes(gpu: torch.device | None) -> int | None:
    """The peak once all launched work is done."""
    if gpu is not None:
        import torch

        torch.cuda.synchronize(gpu)
        return int(torch.cuda.max_memory_allocated(gpu))
    lines = (line.split() for line in _STATUS.read_text(encoding="ascii").splitlines())
    return next((int(words[1]) * 1024 for words in lines if words and words[0] == "VmHWM:"), None)


@dataclass(slots=True)
class MethodTally:
    """What one method scored, answer by answer; the lists have one item per row."""

    name: str
    credits: list[float] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)
    spans_without_evidence: int = 0
    isolated_spans: int = 0
    failed: list[FailedRow] = field(default_factory=list)
    highlights: list[list[HighlightOverlap]] = field(default_factory=list)
    sentences: list[list[HighlightOverlap]] = field(default_factory=list)
    cost: Cost | None = None

    def count(self, labelled: LabelledAnswer, outcome: Sequence[SpanResult] | RowFault) -> None:
        """Add one answer; where it cannot be attributed, nothing is found for any span."""
        passages = labelled.record.passages
        if isinstance(outcome, RowFault):
            self.failed.append(FailedRow.of(labelled.record, outcome))
            outcome = [SpanResult((0.0,) * len(passages))] * len(labelled.spans)
        golds = zip(outcome, labelled.gold_passages, strict=True)
        self.credits.append(sum(span_credit(result.passage_scores, gold) for result, gold in golds))
        self.spans.append(len(outcome))
        self.spans_without_evidence += sum(not any(result.passage_scores) for result in outcome)
        self.isolated_spans += sum(result.isolated for result in outcome)
        if labelled.gold_evidence:
            shown = []  # the evidence in the text of the first passage with the largest score; titles apart
            for result in outcome:
                best = result.passage_scores.index(max(result.passage_scores))
                shown.append([piece for piece in result.evidence if piece.passage_index == best and not piece.in_title])
            pieces = [[PassageRange(piece.passage_index, piece.chars) for piece in own] for own in shown]
            self.highlights.append(_overlaps(labelled, pieces))
            self.sentences.append(_overlaps(labelled, [best_sentences(own, passages) for own in shown]))


def _overlaps(labelled: LabelledAnswer, evidence: Sequence[Sequence[PassageRange]]) -> list[HighlightOverlap]:
    pairs = zip(evidence, labelled.gold_evidence, strict=True)
    return [highlight_overlap(evidence=own, gold=gold, passages=labelled.record.passages) for own, gold in pairs]


def run_methods(
    answers: Iterable[LabelledAnswer],
    methods: Sequence[EvaluationMethod],
    models: LoadedModels,
    *,
    with_costs: bool = False,
) -> tuple[MethodTally, ...]:
    """Run every method on every answer; what several methods need is computed once, unless costs are measured."""
    tallies = tuple(MethodTally(method.name, cost=Cost() if with_costs else None) for method in methods)
    for labelled in answers:
        shared = LabelledContext(labelled, models)
        for method, tally in zip(methods, tallies, strict=True):
            if tally.cost is None:
                outcome = outcome_of(method, shared)
            else:
                context = LabelledContext(labelled, models)
                with tally.cost.measuring(models):
                    outcome = outcome_of(method, context)
            tally.count(labelled, outcome)
    return tallies


@dataclass(frozen=True, slots=True)
class HighlightScore:
    """Means over the spans, in percent; ``f1`` is the mean of the spans' own F1, differences may be None."""

    recall: float
    precision: float
    f1: float
    f1_interval: Interval
    f1_difference_to_words: float | None
    f1_difference_interval: Interval | None


@dataclass(frozen=True, slots=True)
class MethodScore:
    """The figures of one method; accuracies, intervals and differences are in percent.

    ``highlights`` compares a person's highlights with the evidence in the best passage, ``sentences`` with the passage
    sentences that this evidence points to. ``isolated_spans`` counts spans with only isolated evidence.
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


def score_methods(tallies: Iterable[MethodTally], *, draws: int, seed: int) -> tuple[MethodScore, ...]:
    """The figures of all methods, over the same resamples of rows, of which there is at least one."""
    tallies = list(tallies)
    bootstrap = RowBootstrap(tallies[0].spans, draws=draws, seed=seed)
    words = next((tally for tally in tallies if tally.name == REFERENCE_METHOD), None)
    return tuple(_score(tally, None if words is tally else words, bootstrap) for tally in tallies)


def _score(tally: MethodTally, words: MethodTally | None, bootstrap: RowBootstrap) -> MethodScore:
    spans, cost = sum(tally.spans), tally.cost
    ahead, interval = _lead_over_words(tally.credits, words.credits if words else None, spans, bootstrap)
    return MethodScore(
        method=tally.name,
        passage_accuracy=100 * sum(tally.credits) / spans,
        interval=bootstrap.interval(tally.credits),
        spans=spans,
        rows=len(tally.spans),
        spans_without_evidence=tally.spans_without_evidence,
        isolated_spans=tally.isolated_spans,
        difference_to_words=ahead,
        difference_interval=interval,
        highlights=highlight_score(tally.highlights, bootstrap, words.highlights if words else None),
        sentences=highlight_score(tally.sentences, bootstrap, words.sentences if words else None),
        failed_rows=tuple(tally.failed),
        ms_per_span=None if cost is None else 1000 * cost.seconds / spans,
        peak_memory_mib=None if cost is None or cost.peak_bytes is None else cost.peak_bytes / 2**20,
    )


_Overlaps = Sequence[Sequence[HighlightOverlap]]
"""The overlap of each span, one list per row."""


def highlight_score(rows: _Overlaps, bootstrap: RowBootstrap, words: _Overlaps | None = None) -> HighlightScore | None:
    """The figures of all spans, None if no span has highlights; ``bootstrap`` resamples the same rows."""
    overlaps = [overlap for row in rows for overlap in row]
    if not overlaps:
        return None

    def f1_sums(of_rows: _Overlaps) -> list[float]:
        return [sum(overlap.f1 for overlap in row) for row in of_rows]

    count, sums = len(overlaps), f1_sums(rows)
    return HighlightScore(
        100 * sum(overlap.recall for overlap in overlaps) / count,
        100 * sum(overlap.precision for overlap in overlaps) / count,
        100 * sum(overlap.f1 for overlap in overlaps) / count,
        bootstrap.interval(sums),
        *_lead_over_words(sums, None if words is None else f1_sums(words), count, bootstrap),
    )


def _lead_over_words(
    sums: Sequence[float], word_sums: Sequence[float] | None, spans: int, bootstrap: RowBootstrap
) -> tuple[float, Interval] | tuple[None, None]:
    """How much larger the sums of each row are than those of words, per span in percent, and its interval."""
    if word_sums is None:
        return None, None
    difference = [mine - other for mine, other in zip(sums, word_sums, strict=True)]
    return 100 * sum(difference) / spans, bootstrap.interval(difference)


def comparison_table(scores: Sequence[MethodScore], remarks: Sequence[str], *, title: str) -> str:
    """The figures of all methods, one line each, between a title and remarks."""
    lines = [(score.method, *accuracy_cells(score), str(score.spans_without_evidence)) for score in scores]
    compared = ("95% interval", "vs words", "95% interval")
    parts = [one_line(title), text_table(("method", "accuracy %", *compared, "nothing found"), lines)]
    for name in ("highlights", "sentences"):
        if pairs := [(score.method, overlap) for score in scores if (overlap := getattr(score, name)) is not None]:
            cells = [(method, *_overlap_cells(overlap)) for method, overlap in pairs]
            parts.append(text_table((name, "recall %", "precision %", "F1 %", *compared), cells))
    if any(score.ms_per_span is not None for score in scores):
        costs = [(score.method, *map(_number, (score.ms_per_span, score.peak_memory_mib))) for score in scores]
        parts.append(text_table(("cost", "ms per span", "peak memory MiB"), costs))
    return "\n".join([*parts, *map(one_line, remarks)])


def accuracy_cells(score: MethodScore) -> tuple[str, ...]:
    ahead, interval = _number(score.difference_to_words, "+"), interval_cell(score.difference_interval, sign="+")
    return (_number(score.passage_accuracy), interval_cell(score.interval), ahead, interval)


def _overlap_cells(score: HighlightScore) -> tuple[str, ...]:
    ahead, interval = _number(score.f1_difference_to_words, "+"), interval_cell(score.f1_difference_interval, sign="+")
    return (*map(_number, (score.recall, score.precision, score.f1)), interval_cell(score.f1_interval), ahead, interval)


def _number(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.1f}"


def comparison_remarks(
    scores: Sequence[MethodScore], skipped: Sequence[SkippedRow], *, single_passage_spans: int, strict_isolation: bool
) -> list[str]:
    """What was skipped, and which spans and rows of each method count in a way of their own."""
    remarks = [f"skipped row {skip.row}: {skip.reason}" for skip in skipped]
    if len(skipped) > 20:
        remarks = row_remarks(skipped)
    if single_passage_spans:
        remarks.append(f"{single_passage_spans} spans have only one passage to choose from")
    for score in scores:
        if score.isolated_spans:
            without = "left without evidence, because all of it is isolated"
            how = without if strict_isolation else "decided by isolated evidence, because they have no other"
            remarks.append(f"{score.method}: {score.isolated_spans} of {score.spans} spans {how}")
        if score.failed_rows:
            reasons = ", ".join(sorted({failed.reason for failed in score.failed_rows}))
            remarks.append(f"{score.method}: {len(score.failed_rows)} rows failed and count as wrong: {reasons}")
    return remarks
