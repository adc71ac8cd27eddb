"""A parser for answers that these tests parse by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.schemas import CharRange, Passage


@dataclass(frozen=True, slots=True)
class HandParser:
    """Knows some answers by heart; counts nothing, loads nothing."""

    answers: Mapping[str, ParsedAnswer]
    identity: str = "by-hand"

    def parse(self, text: str, _passages: Sequence[Passage] = ()) -> ParsedAnswer:
        return self.answers[text]


def parsed(text: str, rows: list[tuple[str, int, str, str]], sentence_starts: tuple[int, ...]) -> ParsedAnswer:
    """``rows`` are (word, head, label, tag); words are looked up in ``text`` one after the other."""
    words, position = [], 0
    for word, _, _, _ in rows:
        start = text.index(word, position)
        position = start + len(word)
        words.append(CharRange(start, position))
    return ParsedAnswer(
        words=tuple(words),
        dependency_heads=tuple(head for _, head, _, _ in rows),
        dependency_labels=tuple(label for _, _, label, _ in rows),
        universal_tags=tuple(tag for _, _, _, tag in rows),
        fine_tags=("",) * len(rows),
        sentence_starts=sentence_starts,
    )


ANSWER = "Ada sings and Jon dances. Bells ring."
PARSED = parsed(
    ANSWER,
    [
        ("Ada", 1, "nsubj", "PROPN"), ("sings", 1, "root", "VERB"), ("and", 4, "cc", "CCONJ"),
        ("Jon", 4, "nsubj", "PROPN"), ("dances", 1, "conj", "VERB"), (".", 1, "punct", "PUNCT"),
        ("Bells", 7, "nsubj", "NOUN"), ("ring", 7, "root", "VERB"), (".", 7, "punct", "PUNCT"),
    ],
    (0, 6),
)  # fmt: skip
PARSER = HandParser({ANSWER: PARSED})
