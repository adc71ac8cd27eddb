"""Accuracy of a method: is a span's best passage the right one, and how well does its evidence match highlights?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from attribeam.attribution.answers.text_sentences import text_sentences
from attribeam.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.schemas import EvidencePiece, Passage
from attribeam.schemas.labelled_answer import PassageRange

_TIE = 1e-9


def span_credit(passage_scores: Sequence[float], gold: Collection[int]) -> float:
    """The probability in [0, 1] that a passage drawn from those with the highest score is a gold passage.

    If n passages tie, each gold passage among them thus counts 1/n. If no passage has a positive score, nothing was
    found, which counts as wrong. Scores that differ by less than one part in 10^9 are equal.
    """
    tied = best_passages(passage_scores)
    return sum(index in gold for index in tied) / len(tied) if tied else 0.0


def best_passages(passage_scores: Sequence[float]) -> list[int]:
    """The passages with the highest score, ascending; none if no passage has a positive score."""
    best = max(passage_scores, default=0.0)
    if best <= 0:
        return []
    return [index for index, score in enumerate(passage_scores) if score >= best * (1 - _TIE)]


@dataclass(frozen=True, slots=True)
class HighlightOverlap:
    """Shares in [0, 1] of the characters that are not white space; both are 0 without evidence."""

    recall: float
    precision: float

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 0 if no character is common."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


@dataclass(frozen=True, slots=True)
class HighlightScore:
    """Means over the spans, in percent; ``f1`` is the mean of the spans' own F1, with its interval.

    The differences are in F1 to the reference method, None if it was not run.
    """

    recall: float
    precision: float
    f1: float
    f1_interval: Interval
    f1_difference_to_words: float | None
    f1_difference_interval: Interval | None


@dataclass(slots=True)
class HighlightTally:
    """One method's overlaps, one list per row of the data."""

    rows: list[list[HighlightOverlap]] = field(default_factory=list)

    def score(self, bootstrap: RowBootstrap, reference: HighlightTally | None = None) -> HighlightScore | None:
        """The figures of all spans, None if no span has highlights; ``bootstrap`` resamples the same rows."""
        overlaps = [overlap for row in self.rows for overlap in row]
        if not overlaps:
            return None
        difference = None
        if reference is not None:
            difference = [own - other for own, other in zip(self.f1_per_row(), reference.f1_per_row(), strict=True)]
        return HighlightScore(
            recall=_mean_percent([overlap.recall for overlap in overlaps]),
            precision=_mean_percent([overlap.precision for overlap in overlaps]),
            f1=_mean_percent([overlap.f1 for overlap in overlaps]),
            f1_interval=bootstrap.interval(self.f1_per_row()),
            f1_difference_to_words=None if difference is None else 100 * sum(difference) / len(overlaps),
            f1_difference_interval=None if difference is None else bootstrap.interval(difference),
        )

    def f1_per_row(self) -> list[float]:
        """The sum of the spans' F1 for each row."""
        return [sum(overlap.f1 for overlap in row) for row in self.rows]


def highlight_overlap(
    *, evidence: Iterable[PassageRange], gold: Iterable[PassageRange], passages: Sequence[Passage]
) -> HighlightOverlap:
    """The overlap of one span's evidence with its highlights; a character in several ranges counts once."""
    found, marked = _characters(evidence, passages), _characters(gold, passages)
    common = len(found & marked)
    return HighlightOverlap(_share(common, len(marked)), _share(common, len(found)))


def _characters(ranges: Iterable[PassageRange], passages: Sequence[Passage]) -> set[tuple[int, int]]:
    return {
        (one.passage_index, place)
        for one in ranges
        for place in range(one.chars.char_start, one.chars.char_end)
        if not passages[one.passage_index].text[place].isspace()
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _mean_percent(shares: Sequence[float]) -> float:
    return 100 * sum(shares) / len(shares)


_SHARE_OF_BEST = 0.5


def best_sentences(evidence: Sequence[EvidencePiece], passages: Sequence[Passage]) -> tuple[PassageRange, ...]:
    """The sentences in the best sentence's passage that reach at least half of its score.

    ``evidence`` are pieces of passage texts, not of titles. A sentence's score is the sum of the scores of the
    pieces in it, each weighted by the share of its characters that lies there. Ties for the best sentence go to the
    first passage, then to the first sentence.
    """
    scores = _sentence_scores(evidence, passages)
    if not scores:
        return ()
    best = min(scores, key=lambda sentence: (-scores[sentence], sentence))
    return tuple(
        sorted(
            sentence
            for sentence, score in scores.items()
            if sentence.passage_index == best.passage_index and score >= _SHARE_OF_BEST * scores[best]
        )
    )


def _sentence_scores(evidence: Sequence[EvidencePiece], passages: Sequence[Passage]) -> dict[PassageRange, float]:
    scores: defaultdict[PassageRange, float] = defaultdict(float)
    for piece in evidence:
        index, chars = piece.passage_index, piece.chars
        length = chars.char_end - chars.char_start
        for sentence in text_sentences(passages[index].text):
            if sentence.overlaps(chars):
                common = min(sentence.char_end, chars.char_end) - max(sentence.char_start, chars.char_start)
                scores[PassageRange(index, sentence)] += piece.score * common / length
    return dict(scores)
