"""Citation markers ``[1][2]`` in an answer: removed, with the sentence that each of them belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evaluation.measures.passage_sentences import whole_sentences
from schemas import CharRange

_MARKER = re.compile(r"\s*\[\s*\d{1,9}(?:\s*[,;]\s*\d{1,9})*\s*\]")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer and the passages it cites: 0-based, in their order, each once; some may not exist."""

    chars: CharRange
    citations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CitedText:
    """A text without its markers, and its sentences."""

    text: str
    sentences: tuple[CitedSentence, ...]


@dataclass(frozen=True, slots=True)
class _Marker:
    """Numbers of one bracket; ``place`` is where it stood, in the text without markers."""

    place: int
    numbers: tuple[int, ...]


def remove_citations(cited: str) -> CitedText:
    """The text without ``[1]``, ``[1][2]`` and ``[1, 2]``, the white space before them included.

    A number of more than nine digits is no citation, and stays.

    A marker belongs to the sentence whose last character before it is the nearest, so that both "ends [1]." and
    "ends. [1]" cite for the same sentence; one at the very start belongs to the first sentence.
    """
    text, position = "", 0
    markers = []
    for match in _MARKER.finditer(cited):
        text = (text + cited[position : match.start()]).lstrip()
        markers.append(_Marker(len(text), tuple(int(number) for number in _NUMBER.findall(match.group()))))
        position = match.end()
    text = (text + cited[position:]).lstrip()
    sentences = whole_sentences(text)
    cited_by = [_owner(marker, sentences) for marker in markers]
    return CitedText(
        text,
        tuple(
            CitedSentence(
                chars, _citations([one for one, owner in zip(markers, cited_by, strict=True) if owner == index])
            )
            for index, chars in enumerate(sentences)
        ),
    )


def _owner(marker: _Marker, sentences: tuple[CharRange, ...]) -> int:
    """The last sentence that begins before the marker, else the first one."""
    return max(0, sum(one.char_start < marker.place for one in sentences) - 1)


def _citations(markers: list[_Marker]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number - 1 for marker in markers for number in marker.numbers))
