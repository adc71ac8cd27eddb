"""Whether a span's best passage is the right one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
