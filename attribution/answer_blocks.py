"""What a parser should not see of an answer: markdown marks, citation marks, and line breaks between blocks."""

from __future__ import annotations

import re
from itertools import pairwise

from schemas import CharRange

_CITATION = re.compile(r"\[\^?\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\](?!\()")
_LINK_END = re.compile(r"\]\([^()\s]*\)")
_LINK_START = re.compile(r"\[(?=[^\[\]\n]*\]\([^()\s]*\))")
_MARKS = re.compile(
    r"^[ \t]*(?:[-*+•‣▪][ \t]+|#{1,6}[ \t]+|>+[ \t]*|(?:[-*_][ \t]*){3,}$|```\w*[ \t]*$)+|[*`]+|~~|__+|\|", re.MULTILINE
)
_LIST_NUMBER = re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+", re.MULTILINE)
_BLOCK_BREAK = re.compile(
    r"\n(?=[ \t]*(?:\r?\n|[-*+•‣▪][ \t]|#{1,6}[ \t]|>|\||\d{1,2}[.)][ \t]))"  # before an empty line, an item, a heading
    r"|(?<=[.!?:;。!?])[ \t\r]*\n"  # after the end of a sentence
    r"|(?<=\n)\n"
)


def without_marks(answer: str) -> str:
    """The answer with markdown and citation marks turned to blanks; every other code point keeps its place.

    Numbers of a list are marks where at least two lines start with one.
    """
    text = answer
    for marks in (_CITATION, _LINK_START, _LINK_END, _MARKS):
        text = marks.sub(_blank, text)
    return _LIST_NUMBER.sub(_blank, text) if len(_LIST_NUMBER.findall(text)) > 1 else text


def blocks(answer: str) -> tuple[CharRange, ...]:
    """Paragraphs, list items and headings of an answer, ascending, without those of white space only.

    A sentence never runs over a block's end; a line break inside a sentence ends no block.
    """
    breaks = [0, *(match.end() for match in _BLOCK_BREAK.finditer(answer)), len(answer)]
    return tuple(
        CharRange(start, end) for start, end in pairwise(breaks) if start < end and not answer[start:end].isspace()
    )


def _blank(match: re.Match[str]) -> str:
    return "".join(character if character.isspace() else " " for character in match.group())
