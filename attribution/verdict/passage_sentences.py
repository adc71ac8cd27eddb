"""The sentences of passages, and where evidence lies in them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.answer_names import PassageContent
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.verdict.record_fields import RecordLine, is_json, record_lines
from attribeam.attribution.verdict.word_forms import WORD_OR_MARK, stem
from attribeam.schemas import EvidencePiece, Passage, SpanEvidence

_SENTENCE_END = re.compile(r"""[.!?](?=$|[ \t"'”’)\]])""")
_CLAUSE_BREAKS = frozenset([",", ";", ":", "and", "but", "while", "whereas", "which", "although", "–", "—"])
_PRONOUNS = frozenset(["he", "she", "it", "they", "his", "her", "its", "their", "this", "these", "those", "that"])

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; ``start`` and ``end`` lie in its title or text, and are -1 in JSON, read field by field.

    ``line`` is its line among those that are not blank, and ``named`` says of each clause whether it has a name.
    """

    text: str
    start: int
    end: int
    line: int
    words: tuple[str, ...]
    lowered: tuple[str, ...]
    stems: tuple[str, ...]
    clauses: tuple[range, ...]
    named: tuple[bool, ...]

    @property
    def is_carried_on(self) -> bool:
        """Whether a pronoun at its beginning names what the sentence before is about."""
        return not _PRONOUNS.isdisjoint(self.lowered[:2])


class PassageSentences:
    """The sentences of one row's passages, titles included, in their order."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.all: list[Sentence] = []
        self._text_of: list[tuple[int, bool]] = []
        self._in_text: dict[tuple[int, bool], range] = {}
        for index, passage in enumerate(passages):
            for key, text in (((index, True), passage.title or ""), ((index, False), passage.text)):
                self.all += read_sentences(text)
                self._in_text[key] = range(len(self._text_of), len(self.all))
                self._text_of += [key] * len(self._in_text[key])
        self._contents: dict[tuple[int, ...], PassageContent] = {}
        self._sequences: dict[int, tuple[dict[str, list[int]], frozenset[tuple[str, ...]]]] = {}

    def __len__(self) -> int:
        return len(self.all)

    def titles_of(self, place: int) -> range:
        """The sentences of the title over a sentence of a text."""
        index, in_title = self._text_of[place]
        return range(0) if in_title else self._in_text[index, True]

    def titles_and_texts(self) -> Iterator[tuple[range, range]]:
        """For each passage the sentences of its title, and of its text."""
        return zip(*([*self._in_text.values()][part::2] for part in (0, 1)), strict=True)

    def carried(self) -> list[int]:
        """The sentences whose pronoun at the beginning refers to the one before, in the same passage; ascending."""
        same = (place for place in range(1, len(self)) if self._text_of[place - 1][0] == self._text_of[place][0])
        return [place for place in same if self.all[place].is_carried_on]

    def window(self, place: int) -> list[int]:
        """A sentence with its neighbours in the same text, and the title, ascending."""
        text = self._in_text[self._text_of[place]]
        return [*self.titles_of(place), *range(max(place - 1, text.start), min(place + 2, text.stop))]

    def content_of(self, places: Sequence[int]) -> PassageContent:
        """What these sentences say, in the form in which values are compared."""
        key = tuple(places)
        if key not in self._contents:
            self._contents[key] = PassageContent(Passage(" ".join(self.all[one].text for one in places)))
        return self._contents[key]

    def places_and_runs(self, place: int) -> tuple[dict[str, list[int]], frozenset[tuple[str, ...]]]:
        """Where each stem stands in the window of a sentence, by number, and its runs of three stems."""
        if place not in self._sequences:
            sequence = [one for where in self.window(place) for one in self.all[where].stems]
            places: dict[str, list[int]] = {}
            for at, one in enumerate(sequence):
                places.setdefault(one, []).append(at)
            self._sequences[place] = places, frozenset(zip(sequence, sequence[1:], sequence[2:], strict=False))
        return self._sequences[place]

    def attention(self, evidence: SpanEvidence) -> _Floats:
        """float64 [sentences]: the scores of the evidence, spread over the sentences that it overlaps."""
        found = np.zeros(len(self.all))
        for piece in evidence.evidence:
            shared = self._shared(piece)
            total = sum(shared.values())
            score = float(np.float32(piece.score))  # as it is written
            for place, count in shared.items():
                found[place] += score * count / total
        return found

    def _shared(self, piece: EvidencePiece) -> dict[int, int]:
        """How many code points of the piece each sentence has, or in JSON, how many of its stems."""
        own = self._in_text.get((piece.passage_index, piece.in_title), range(0))
        if own and self.all[own.start].start < 0:
            stems = {stem(word) for word in WORD_OR_MARK.findall(piece.text)}
            counts = ((place, len(stems.intersection(self.all[place].stems))) for place in own)
            return {place: count for place, count in counts if count}
        start, end = piece.chars.char_start, piece.chars.char_end
        first = bisect_right(self.all, start, own.start, own.stop, key=lambda one: one.end)
        overlapping = takewhile(lambda place: self.all[place].start < end, range(first, own.stop))
        return {place: min(end, self.all[place].end) - max(start, self.all[place].start) for place in overlapping}


@remembered
def read_sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of a title or text."""
    if is_json(text):
        return tuple(one for line, field in enumerate(record_lines(text)) for one in _of_field(field, line))
    found: list[Sentence] = []
    offset = line = 0
    for one in text.split("\n"):
        found += (_sentence(sentence, line, offset + start) for start, sentence in _sentences(one))
        offset += len(one) + 1
        line += bool(one.strip())
    return tuple(found)


def _of_field(field: RecordLine, line: int) -> Iterator[Sentence]:
    """The sentences of a field; the first has the name, also written as one word, which stands for its value."""
    for place, (_, text) in enumerate(_sentences(field.text)):
        if place:
            yield _sentence(text, line, None)
        else:
            yield _sentence(text, line, None, also=field.joined_names, breaks=_CLAUSE_BREAKS - {":"})


def _sentences(line: str) -> Iterator[tuple[int, str]]:
    """Where each sentence of a line begins, and its text."""
    for start, end in pairwise((0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line))):
        text = line[start:end].lstrip()
        if text:
            yield end - len(text), text.rstrip()


def _sentence(
    text: str,
    line: int,
    start: int | None,
    *,
    also: Sequence[str] = (),
    breaks: frozenset[str] = _CLAUSE_BREAKS,
) -> Sentence:
    """A sentence that begins at ``start``, None in JSON; ``also`` are words besides."""
    texts = (*WORD_OR_MARK.findall(text), *also)
    lowered = tuple(map(str.lower, texts))
    bounds = [0, *(place for place, word in enumerate(lowered) if word in breaks), len(texts)]
    clauses = tuple([range(one, two) for one, two in pairwise(bounds) if two - one > 1])
    is_capital = [word[:1].isupper() for word in texts]
    return Sentence(
        text,
        -1 if start is None else start,
        -1 if start is None else start + len(text),
        line,
        texts,
        lowered,
        tuple(map(stem, texts)),
        clauses,
        tuple([any(is_capital[max(one.start, 1) : one.stop]) for one in clauses]),
    )
