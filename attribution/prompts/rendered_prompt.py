"""A rendered prompt: its text, and where the passages' texts, their titles and the question stand in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextRegion:
    """The half-open code points of one passage's text, or of its title, within a rendered prompt; never empty."""

    passage_index: int
    in_title: bool
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A rendered prompt without the answer; ``regions`` are disjoint and ascending, the question is one more range.

    ``passage_index`` counts in the whole row, also where the prompt shows only some of its passages.
    """

    text: str
    regions: tuple[TextRegion, ...]
    question_char_start: int
    question_char_end: int

    @property
    def data_ranges(self) -> list[tuple[int, int]]:
        """The ranges of titles, texts and question, ascending; all of them come from the log."""
        ranges = [(region.char_start, region.char_end) for region in self.regions]
        if self.question_char_start < self.question_char_end:
            ranges.append((self.question_char_start, self.question_char_end))
        return sorted(ranges)

    def literal_ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges that the template itself wrote, ascending; no two of them touch."""
        place = 0
        for start, end in [*self.data_ranges, (len(self.text), len(self.text))]:
            if place < start:
                yield place, start
            place = end


class PromptPage:
    """A text that grows at its end and knows how long it is."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(self._parts)

    def write(self, text: str) -> tuple[int, int]:
        """Append ``text``; the half-open range it now has."""
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        return start, self._length
