"""Mark-up ``[ N text ]`` in an answer: removed, with the characters of every marked text counted while building."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schemas import CharRange

_OPENING = re.compile(r"\[ (\d+) ")
_MARKED = re.compile(r"\[ (\d+) (.*?) ?\]", re.DOTALL)
_SPACE_BEFORE_MARK = re.compile(r" (?=[.,;:!?)\]}%])")


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A marked text: its characters in the text without mark-up, and the number N that it was marked with."""

    chars: CharRange
    number: int


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text without its mark-up, and what was marked in it."""

    text: str
    spans: tuple[MarkedSpan, ...]


def remove_markup(marked: str) -> MarkedText:
    """The text with every ``[ N text ]`` replaced by ``text``, and the characters that each ``text`` then has.

    A blank between ``]`` and a closing punctuation mark is an artefact of tokenisation and is dropped. Blanks at the
    ends of a marked text stay in the text and out of its span. Brackets without a number and blanks, such as a
    citation ``[1]``, are left alone.

    Raises:
        ValueError: if a bracket is not closed, or holds nothing but blanks.
    """
    text, position = "", 0
    spans: list[MarkedSpan] = []
    for match in _MARKED.finditer(marked):
        inner = match.group(2)
        _check(match, inner)
        text += _without_artefact(marked[position : match.start()], after_bracket=bool(spans))
        start = len(text) + len(inner) - len(inner.lstrip())
        spans.append(MarkedSpan(CharRange(start, len(text) + len(inner.rstrip())), int(match.group(1))))
        text += inner
        position = match.end()
    rest = marked[position:]
    if _OPENING.search(rest):
        raise ValueError("a bracket '[ N ' is never closed by ']'")
    return MarkedText(text + _without_artefact(rest, after_bracket=bool(spans)), tuple(spans))


def _check(match: re.Match[str], inner: str) -> None:
    if not inner.strip():
        raise ValueError(f"bracket {match.group(1)} at character {match.start()} holds no text")
    if _OPENING.search(inner):
        raise ValueError(f"bracket {match.group(1)} at character {match.start()} is not closed before the next opens")


def _without_artefact(text: str, *, after_bracket: bool) -> str:
    return text[1:] if after_bracket and _SPACE_BEFORE_MARK.match(text) else text
