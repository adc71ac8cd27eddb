"""The sentences of any text, found by its marks and lines alone: no parser reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attribeam.attribution.answers.parser_output import sentence_ends
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.answers.target_spans import has_letter_or_digit
from attribeam.schemas import CharRange

_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"""[^\s。！？；：]*[。！？；：]+["'”’»)\]」』）】]*|\S+""")
_CLAUSE_MARKS = (":", ";", "：", "；")
_CLOSING = "\"'”’»)]}*_」』）】"


@remembered
def text_sentences(text: str) -> tuple[CharRange, ...]:
    """The sentences of a text, ascending, without white space at their edges.

    They end where ``answers.parser_output`` ends sentences, at colons and semicolons, and at the end of each line.
    """
    return tuple(one for line in _LINE.finditer(text) for one in _line_sentences(text, line, at_clauses=True))


@remembered
def whole_sentences(text: str) -> tuple[CharRange, ...]:
    """Like ``text_sentences``, but no sentence ends at a colon or semicolon, and all contain a letter or digit."""
    found = [one for line in _LINE.finditer(text) for one in _line_sentences(text, line, at_clauses=False)]
    return tuple(one for one in found if has_letter_or_digit(one.of(text)))


def _line_sentences(text: str, line: re.Match[str], *, at_clauses: bool) -> Iterator[CharRange]:
    words = list(_WORD.finditer(text, line.start(), line.end()))
    forms = [word.group() for word in words]
    first = 0
    for place, ended in enumerate(sentence_ends(forms)):
        is_end = ended and (at_clauses or not forms[place].rstrip(_CLOSING).endswith(_CLAUSE_MARKS))
        if is_end or place == len(words) - 1:
            yield CharRange(words[first].start(), words[place].end())
            first = place + 1
