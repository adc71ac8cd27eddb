"""The parses of an answer's blocks, joined into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attribution.answers.parsed_answer import ParsedAnswer
from schemas import CharRange


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """The fields of ``ParsedAnswer`` for one block; code points count in the answer, words in the block."""

    words: list[CharRange]
    dependency_heads: list[int]
    dependency_labels: list[str]
    universal_tags: list[str]
    fine_tags: list[str]
    sentence_starts: list[int]
    entities: list[CharRange]


def joined_blocks(parsed: Sequence[ParsedBlock], *, label_scheme: str) -> ParsedAnswer:
    """One answer of all blocks, which ascend and do not overlap."""
    first_words = [0]
    for block in parsed:
        first_words.append(first_words[-1] + len(block.words))
    pairs = list(zip(first_words, parsed, strict=False))
    return ParsedAnswer(
        words=tuple(word for _, block in pairs for word in block.words),
        dependency_heads=tuple(first + head for first, block in pairs for head in block.dependency_heads),
        dependency_labels=tuple(label for _, block in pairs for label in block.dependency_labels),
        universal_tags=tuple(tag for _, block in pairs for tag in block.universal_tags),
        fine_tags=tuple(tag for _, block in pairs for tag in block.fine_tags),
        sentence_starts=tuple(first + start for first, block in pairs for start in block.sentence_starts),
        entities=tuple(entity for _, block in pairs for entity in block.entities),
        label_scheme=label_scheme,
    )


def heads_within(distances: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Index of each word's head from its distance; a word whose head is in another sentence becomes a root."""
    heads: list[int] = []
    for start, end in pairwise((*starts, len(distances))):
        for word in range(start, end):
            head = word + distances[word]
            heads.append(head if start <= head < end else word)
    return heads


def with_code_as_names(tags: list[str], words: Sequence[CharRange], code: Sequence[CharRange]) -> list[str]:
    """The tags, those of words in a range of ``code`` replaced by a name's."""
    if not code:
        return tags
    return ["PROPN" if any(one.overlaps(word) for one in code) else tag for tag, word in zip(tags, words, strict=True)]
