"""How much of a person's highlights a method's evidence covers, and how much of the evidence is highlighted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.labelled_answer import PassageRange
from schemas import Passage


@dataclass(frozen=True, slots=True)
class HighlightOverlap:
    """Shares in [0, 1] of the characters that are no white space; both are 0 where there is no evidence."""

    recall: float
    precision: float


def highlight_overlap(
    *, evidence: Sequence[PassageRange], gold: Sequence[PassageRange], passages: Sequence[Passage]
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
