"""Runs of digits in a text, cut into the groups that people write, and what neighbouring groups may be together."""

from __future__ import annotations

import re
from collections.abc import Iterator

_RUN = re.compile(r"\d+(?:(?:(?!--|\.\s)[ ().\-/~\n]){1,4}\d+)*")
_GROUP = re.compile(r"\d+")

Group = tuple[int, int]
"""The half-open range of some digits with none beside them."""


def digit_runs(text: str, *, fewest: int) -> Iterator[list[Group]]:
    """The groups of each run that is long enough for ``fewest`` digits."""
    for run in _RUN.finditer(text):
        if run.end() - run.start() >= fewest:
            yield [group.span() for group in _GROUP.finditer(text, run.start(), run.end())]


def windows(text: str, groups: list[Group], first: int, *, fewest: int, most: int) -> list[tuple[int, str]]:
    """(index behind its last group, digits) of what begins with the group ``first``, the longest first."""
    found: list[tuple[int, str]] = []
    digits = ""
    for last in range(first, len(groups)):
        digits += text[slice(*groups[last])]
        if len(digits) > most:
            break
        if len(digits) >= fewest:
            found.append((last + 1, digits))
    return found[::-1]
