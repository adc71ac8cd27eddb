"""Prepares texts of a log for a terminal: breaks them into lines, and marks ranges in them.

Offsets stay valid, because each character is replaced by one character. Each line comes with a row of letters below it
that shows what is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from attribeam.report.messages import harmless

_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Mark:
    """Marks ``[char_start, char_end)`` of a text with a letter and a style, and its start with ``label``.

    Where marks overlap, the one with the larger ``rank`` shows.
    """

    char_start: int
    char_end: int
    letter: str
    style: str
    rank: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class MarkedLine:
    """One styled line of a text, and the letters below it, which are empty if nothing is marked."""

    text: Text
    letters: str


def marked_lines(text: str, marks: Sequence[Mark], *, width: int) -> Iterator[MarkedLine]:
    """The lines of ``text``, at most ``width`` cells wide, each with its letters."""
    shown = harmless(text)
    seen: list[Mark | None] = [None] * len(shown)
    for mark in sorted(marks, key=lambda one: (one.rank, one.char_start)):
        for place in range(mark.char_start, min(mark.char_end, len(shown))):
            seen[place] = mark
    letters = _letters(shown, seen, marks)
    for start, end in line_ranges(shown, width):
        yield MarkedLine(_styled(shown, seen, start, end), "".join(letters[start:end]).rstrip())


def line_ranges(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of the lines, broken between words; white space at a break and line feeds are in none."""
    start = 0
    for paragraph in text.split("\n"):
        yield from _paragraph_ranges(text, start, start + len(paragraph), width)
        start += len(paragraph) + 1


def _paragraph_ranges(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    line = start
    for word in _WORD.finditer(text, start, end):
        word_end = word.start() + len(word.group().rstrip())
        if line < word.start() and _end_of_fit(text, line, word_end, width) < word_end:
            yield line, line + len(text[line : word.start()].rstrip())
            line = word.start()
        while (cut := _end_of_fit(text, line, word_end, width)) < word_end:
            yield line, cut
            line = cut
    yield line, line + len(text[line:end].rstrip())


def _end_of_fit(text: str, start: int, end: int, width: int) -> int:
    """The end of the longest part of ``[start, end)`` that fits; at least one character."""
    cells = 0
    for place in range(start, end):
        cells += cell_len(text[place])
        if cells > width and place > start:
            return place
    return end


def _letters(text: str, seen: Sequence[Mark | None], marks: Sequence[Mark]) -> list[str]:
    """What stands below each character, as wide as it is; labels at the starts of marks that have room for them."""
    letters = [(mark.letter if mark else " ") * cell_len(char) for char, mark in zip(text, seen, strict=True)]
    taken: set[int] = set()
    for mark in marks:
        places = range(mark.char_start, mark.char_start + len(mark.label))
        narrow = all(cell_len(text[place]) == 1 for place in places if place < len(text))
        if mark.label and places.stop < min(mark.char_end, len(text)) and narrow and taken.isdisjoint(places):
            taken.update(places)
            letters[places.start : places.stop] = list(mark.label)
    return letters


def _styled(text: str, seen: Sequence[Mark | None], start: int, end: int) -> Text:
    line = Text(text[start:end])
    for mark, places in groupby(range(start, end), key=lambda place: seen[place]):
        run = list(places)
        if mark is not None:
            line.stylize(mark.style, run[0] - start, run[-1] - start + 1)
    return line
