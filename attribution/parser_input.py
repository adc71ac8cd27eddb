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
        starts: place in the answer of each word's first code point, by its place in ``doc``.
        ends: the same for the end of each word.
        is_row: True for a row of a table, which is one sentence.
    """

    doc: Doc
    starts: dict[int, int]
    ends: dict[int, int]
    is_row: bool

    def range_of(self, char_start: int, char_end: int) -> CharRange:
        """The answer's code points for those of one or more whole words of ``doc``."""
        return CharRange(self.starts[char_start], self.ends[char_end])


def parser_input(nlp: Language, text: str, *, char_start: int, whole: Sequence[CharRange], is_row: bool) -> ParserInput:
    """The words of a block's ``text``, which begins at ``char_start`` of the answer.

    White space is no word: blanked marks would else look like words that no parser was trained on. Each of the
    ``whole`` ranges of the answer is one word, however the tokeniser splits it.
    """
    tokens = nlp.make_doc(text)
    ranges = [
        CharRange(char_start + token.idx, char_start + token.idx + len(token)) for token in tokens if not token.is_space
    ]
    places = _joined(ranges, whole)
    words = [text[one.char_start - char_start : one.char_end - char_start] for one in places]
    spaces = [one.char_end < following.char_start for one, following in pairwise(places)]
    doc = type(tokens)(nlp.vocab, words=words, spaces=[*spaces, False] if words else [])
    starts = {token.idx: place.char_start for token, place in zip(doc, places, strict=True)}
    ends = {token.idx + len(token): place.char_end for token, place in zip(doc, places, strict=True)}
    return ParserInput(doc, starts, ends, is_row)


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
