"""A dependency-parsed text as plain data: what leaves spaCy and crosses process borders."""

from __future__ import annotations

from dataclasses import dataclass

from schemas import CharRange


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """Words, dependency tree and sentences of one answer.

    All tuples but ``sentence_starts`` and ``entities`` have one item a word. Whitespace tokens are not words.

    Attributes:
        words: the code points of each word.
        dependency_heads: index of each word's head; a root is its own head.
        dependency_labels: relation to the head, lower case, subtypes kept ("nsubj:pass").
        universal_tags: UPOS ("VERB", "AUX", "PROPN", ...).
        fine_tags: the parser's own tags, "" where it gives none.
        sentence_starts: index of the first word of each sentence, ascending; empty only where there are no words.
        entities: named entities, where the parser gives them.
        label_scheme: name of the scheme in ``attribution.answers.label_schemes``: "universal" or "spacy-english".
    """

    words: tuple[CharRange, ...]
    dependency_heads: tuple[int, ...]
    dependency_labels: tuple[str, ...]
    universal_tags: tuple[str, ...]
    fine_tags: tuple[str, ...]
    sentence_starts: tuple[int, ...]
    entities: tuple[CharRange, ...] = ()
    label_scheme: str = "universal"
