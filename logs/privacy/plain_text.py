"""A text as a reader sees it: no escapes of JSON, HTML, URLs and Markdown, no bold type, digits of any script as ASCII.

Every character of it knows which characters of the text stand for it, so what is found in it can be masked in the text.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import regex

from attribeam.schemas import CharRange

_ESCAPE = regex.compile(
    r"\\u[0-9A-Fa-f]{4}|%[2-7][0-9A-Fa-f]|&(?:\#[0-9]{1,6}|\#[xX][0-9A-Fa-f]{1,5}|[A-Za-z]{2,8});|\\[!-/:-@\[-`{-~]"
    r"|[^\x00-\x7f\p{L}\p{M}]|[\u30fc\uff21-\uff3a\uff41-\uff5a]|(?<=\w)\*{1,3}|\*{1,3}(?=\w)"
)
"""What may show something else than itself."""

_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u30fc\ufe58\uff0d")
_LINE_ENDS = frozenset("\u0085\u2028\u2029")


@dataclass(frozen=True, slots=True)
class PlainText:
    """What a text says; character ``i`` stands for ``starts[i]`` to ``ends[i]`` of the text, or for itself."""

    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] = ()

    @classmethod
    def of(cls, text: str) -> PlainText:
        """Takes time in proportion to the text's length."""
        shown: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        last = 0
        for match in _ESCAPE.finditer(text):
            start, end = match.span()
            plain = _shown(match.group())
            shown += [text[last:start], plain]
            starts += [*range(last, start), *[start] * len(plain)]
            ends += [*range(last + 1, start + 1), *[end] * len(plain)]
            last = end
        if not shown:
            return cls(text)
        shown.append(text[last:])
        starts += range(last, len(text))
        ends += range(last + 1, len(text) + 1)
        return cls("".join(shown), starts, ends)

    def in_text(self, start: int, end: int) -> CharRange:
        """The characters of the text that the half-open range stands for."""
        if self.starts is None:
            return CharRange(start, end)
        return CharRange(self.starts[start], self.ends[end - 1])


def _shown(written: str) -> str:
    """What one character, or one escape, shows; invisible characters and the marks of bold type show nothing."""
    if written.startswith("*"):
        return ""
    if len(written) > 1:
        written = _unescaped(written)
    if written.isascii():
        return written
    return "".join(map(_plain, written))


def _unescaped(escape: str) -> str:
    if escape.startswith("\\u"):
        return chr(int(escape[2:], 16))
    if escape.startswith("&"):
        return html.unescape(escape)
    return chr(int(escape[1:], 16)) if escape.startswith("%") else escape[1:]


def _plain(char: str) -> str:
    kind = unicodedata.category(char)
    if char in _DASHES:
        return "-"
    if char in _LINE_ENDS:
        return "\n"
    if kind == "Nd":
        return str(unicodedata.decimal(char))
    if kind in ("Zs", "Cf"):
        return " " if kind == "Zs" else ""
    same = unicodedata.normalize("NFKC", char)
    return same if same.isascii() else char
