"""What a spaCy pipeline is given of one block: its words, without white space between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from schemas import CharRange

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


@dataclass(frozen=True, slots=True)
class ParserInput:
    """One block of an answer as a document to be parsed.

    Attributes:
        doc: the block's words, one blank between those that white space parts.
        places: the answer's code points of each word that ``doc`` began with.
        is_row: True for a row of a table, which is one sentence.
    """

    doc: Doc
    places: list[CharRange]
    is_row: bool

    def ranges(self) -> list[CharRange]:
        """The answer's code points for each word of ``doc``, of which the parser may have merged some."""
        if len(self.doc) == len(self.places):
            return self.places
        starts, ends, length = {}, {}, 0
        for place, gap in zip(self.places, (*_gaps(self.places), False), strict=True):
            starts[length] = place.char_start
            length += place.char_end - place.char_start
            ends[length] = place.char_end
            length += gap
        return [CharRange(starts[token.idx], ends[token.idx + len(token)]) for token in self.doc]


def parser_input(nlp: Language, text: str, *, char_start: int, whole: Sequence[CharRange], is_row: bool) -> ParserInput:
    """The words of a block's ``text``, which begins at ``char_start`` of the answer.

    White space is no word: blanked marks would else look like words that no parser was trained on. Each of the
    ``whole`` ranges of the answer is one word, however the tokeniser splits it.
    """
    tokens = nlp.make_doc(text)
    ranges = [
        CharRange(char_start + start, char_start + start + len(word))
        for start, word in ((token.idx, token.text) for token in tokens)
        if not word.isspace()
    ]
    places = _joined(ranges, whole) if whole else ranges
    words = [text[one.char_start - char_start : one.char_end - char_start] for one in places]
    doc = type(tokens)(nlp.vocab, words=words, spaces=[*_gaps(places), False] if words else [])
    return ParserInput(doc, places, is_row)


def _gaps(places: Sequence[CharRange]) -> list[bool]:
    """For each word but the last whether the next one stands apart from it."""
    return [one.char_end < following.char_start for one, following in pairwise(places)]


def _joined(words: Iterable[CharRange], whole: Sequence[CharRange]) -> list[CharRange]:
    """The words, those that share a code point with one of ``whole`` joined to one."""
    joined: list[CharRange] = []
    last: CharRange | None = None
    for word in words:
        around = next((one for one in whole if one.overlaps(word)), None)
        if around is not None and around == last:
            joined[-1] = CharRange(joined[-1].char_start, word.char_end)
        else:
            joined.append(word)
        last = around
    return joined
