"""How right a method is: whether a span's best passage is the right one, and how well its evidence meets highlights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from attribeam.lab.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.schemas import Passage
from attribeam.schemas.labelled_answer import PassageRange

_TIE = 1e-9


def span_credit(passage_scores: Sequence[float], gold: Collection[int]) -> float:
    """The chance in [0, 1] that a passage drawn from those with the largest score is a gold one.

    A tie among n passages thus counts 1/n for each gold one among them. Where no passage has a positive score
    nothing was found, which counts as wrong. Scores that differ by less than one part in 10^9 are equal.
    """
    tied = best_passages(passage_scores)
    return sum(index in gold for index in tied) / len(tied) if tied else 0.0


def best_passages(passage_scores: Sequence[float]) -> list[int]:
    """The passages with the largest score, ascending; none where no passage has a positive one."""
    best = max(passage_scores, default=0.0)
    if best <= 0:
        return []
    return [index for index, score in enumerate(passage_scores) if score >= best * (1 - _TIE)]


@dataclass(frozen=True, slots=True)
class HighlightOverlap:
    """Shares in [0, 1] of the characters that are no white space; both are 0 where there is no evidence."""

    recall: float
    precision: float

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 0 where no character is common."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


@dataclass(frozen=True, slots=True)
class HighlightScore:
    """Means over the spans, in percent; ``f1`` is the mean of the spans' own F1, with its interval.

    The differences are those of F1 to the reference method, None where it was not run.
    """

    recall: float
    precision: float
    f1: float
    f1_interval: Interval
    f1_difference_to_words: float | None
    f1_difference_interval: Interval | None


@dataclass(slots=True)
class HighlightTally:
    """One method's overlaps, one list a row of the data."""

    rows: list[list[HighlightOverlap]] = field(default_factory=list)

    def score(self, bootstrap: RowBootstrap, reference: HighlightTally | None = None) -> HighlightScore | None:
        """The figures of all spans, None where no span has highlights; ``bootstrap`` draws rows of as many spans."""
        overlaps = [overlap for row in self.rows for overlap in row]
        if not overlaps:
            return None
        difference = None
        if reference is not None:
            difference = [own - other for own, other in zip(self.f1_a_row(), reference.f1_a_row(), strict=True)]
        return HighlightScore(
            recall=_mean_percent([overlap.recall for overlap in overlaps]),
            precision=_mean_percent([overlap.precision for overlap in overlaps]),
            f1=_mean_percent([overlap.f1 for overlap in overlaps]),
            f1_interval=bootstrap.interval(self.f1_a_row()),
            f1_difference_to_words=None if difference is None else 100 * sum(difference) / len(overlaps),
            f1_difference_interval=None if difference is None else bootstrap.interval(difference),
        )

    def f1_a_row(self) -> list[float]:
        """For each row the sum of its spans' F1."""
        return [sum(overlap.f1 for overlap in row) for row in self.rows]


def highlight_overlap(
    *, evidence: Iterable[PassageRange], gold: Iterable[PassageRange], passages: Sequence[Passage]
) -> HighlightOverlap:
    """Overlap of one span's evidence with its highlights; a character in several ranges counts once."""
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
