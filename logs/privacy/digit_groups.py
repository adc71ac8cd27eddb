"""Finds runs of digits in a text, cut into the groups that people write: "+44 20 7946 0958" has four."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
"""Characters that show nothing, such as a soft hyphen; they may stand anywhere in a number or an address."""

_SAME = {"-": "\u2010\u2011\u2012\u2013\u2212\uff0d", " ": "\t\n\r\u00a0\u2007\u2009\u202f\u3000", ".": "·．"}
_PLAIN = str.maketrans(
    {**{mark: plain for plain, marks in _SAME.items() for mark in marks}, "（": "(", "）": ")", "＋": "+", "／": "/"}
)
_BETWEEN = rf"[{INVISIBLE}\- ./()]{{1,4}}"
_RUN = re.compile(rf"\d+(?:{_BETWEEN}\d+)*")
_GROUP = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class DigitGroup:
    """One group: its digits as ASCII, its range in the text, and what stands between it and the group before.

    ``before`` has no invisible characters, and a single blank for several or for a line's end.
    """

    digits: str
    char_start: int
    char_end: int
    before: str


def plain_marks(text: str) -> str:
    """The text with one kind of hyphen, blank, point, plus sign and parenthesis; every character keeps its place."""
    return text.translate(_PLAIN)


def digit_runs(text: str) -> Iterator[tuple[DigitGroup, ...]]:
    """The runs of a text of plain marks; anything but hyphens, blanks, points, slashes and parentheses ends a run."""
    for run in _RUN.finditer(text):
        groups: list[DigitGroup] = []
        last = run.start()
        for found in _GROUP.finditer(text, run.start(), run.end()):
            digits = "".join(str(int(digit)) for digit in found.group())
            visible = "".join(mark for mark in text[last : found.start()] if mark not in INVISIBLE)
            groups.append(DigitGroup(digits, found.start(), found.end(), visible.strip() or visible[:1]))
            last = found.end()
        yield tuple(groups)


def windows(groups: Sequence[DigitGroup], start: int, *, most_digits: int) -> list[tuple[int, int]]:
    """(end, digits) of the windows from ``start`` that have at most ``most_digits``, the longest window first."""
    found: list[tuple[int, int]] = []
    digits = 0
    for end in range(start, len(groups)):
        digits += len(groups[end].digits)
        if digits > most_digits:
            break
        found.append((end + 1, digits))
    return found[::-1]
