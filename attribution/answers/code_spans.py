"""Inline code and fenced code of a markdown answer: where it is, and how it is shielded from other marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schemas import CharRange

_LONGEST_INLINE_CODE = 120
_INLINE_CODE = re.compile(rf"(?<!`)(`{{1,2}})(?!`)([^`\n]{{1,{_LONGEST_INLINE_CODE}}})(?<!`)\1(?!`)")
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)


def inline_code(answer: str) -> tuple[CharRange, ...]:
    """What stands between single or double backticks on one line, ascending, without blanks at its edges."""
    fences = fenced_code(answer)
    found = []
    for match in _INLINE_CODE.finditer(answer):
        inside = match.group(2)
        start = match.start(2) + len(inside) - len(inside.lstrip())
        end = match.end(2) - len(inside) + len(inside.rstrip())
        if start < end and not any(fence.overlaps(CharRange(start, end)) for fence in fences):
            found.append(CharRange(start, end))
    return tuple(found)


def fenced_code(answer: str) -> tuple[CharRange, ...]:
    """The code blocks between fences, fences included; one that is never closed runs to the end."""
    return tuple(CharRange(*match.span()) for match in _FENCE.finditer(answer))


def shielded(answer: str, code: Sequence[CharRange]) -> str:
    """The answer with every code point of its inline code turned to "x", so that nothing in it looks like a mark."""
    return _replaced(answer, code, ["x" * (one.char_end - one.char_start) for one in code])


def unshielded(text: str, answer: str, code: Sequence[CharRange]) -> str:
    """A text of the answer's length with the answer's inline code put back."""
    return _replaced(text, code, [one.of(answer) for one in code])


def _replaced(text: str, ranges: Sequence[CharRange], parts: Sequence[str]) -> str:
    pieces, place = [], 0
    for one, part in zip(ranges, parts, strict=True):
        pieces += [text[place : one.char_start], part]
        place = one.char_end
    return "".join((*pieces, text[place:]))
