"""A dependency-parsed answer as plain data, and a tree per sentence that is the same for all parsers.

This is what leaves spaCy and crosses process borders.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attribeam.attribution.answers.citation_marks import CitationMark
from attribeam.attribution.answers.label_schemes import LabelScheme, base_label, label_scheme
from attribeam.schemas import CharRange


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """Words, dependency tree and sentences of one answer.

    All tuples but ``sentence_starts``, ``cut_starts`` and ``entities`` have one item per word. Whitespace tokens are
    not words.

    Attributes:
        words: the code points of each word.
        dependency_heads: index of each word's head; a root is its own head.
        dependency_labels: relation to the head, lower case, subtypes kept ("nsubj:pass").
        universal_tags: UPOS ("VERB", "AUX", "PROPN", ...).
        fine_tags: the parser's own tags, "" where it gives none.
        sentence_starts: index of the first word of each sentence, ascending; empty only where there are no words.
        cut_starts: those of ``sentence_starts`` before which a sentence was cut because it was too long.
        entities: named entities, where the parser gives them.
        label_scheme: name of the scheme in ``label_schemes``, such as "universal".
        marks: where it cites; no word lies in a mark.
    """

    words: tuple[CharRange, ...]
    dependency_heads: tuple[int, ...]
    dependency_labels: tuple[str, ...]
    universal_tags: tuple[str, ...]
    fine_tags: tuple[str, ...]
    sentence_starts: tuple[int, ...]
    entities: tuple[CharRange, ...] = ()
    label_scheme: str = "universal"
    cut_starts: tuple[int, ...] = ()
    marks: tuple[CitationMark, ...] = ()

    @property
    def marked(self) -> tuple[CharRange, ...]:
        """The code points of the marks."""
        return tuple(mark.chars for mark in self.marks)


@dataclass(frozen=True, slots=True)
class SentenceTree:
    """The tree of one sentence; words are counted from the sentence's first (``first_word`` of the answer).

    Conjuncts depend on the first conjunct, and a coordinator on the conjunct that follows it, whatever the parser does.

    Attributes:
        first_word: index in the answer of the sentence's first word.
        heads: index of each word's head; a root is its own head.
        labels: relation to the head, without subtype.
        predicates: True for verbs and copular predicates.
        punctuation: True for punctuation marks.
    """

    first_word: int
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    predicates: tuple[bool, ...]
    punctuation: tuple[bool, ...]

    def closest_predicate(self, word: int) -> int | None:
        """The word itself if it is a predicate, else its closest ancestor that is one, else None."""
        while not self.predicates[word]:
            if self.heads[word] == word:
                return None
            word = self.heads[word]
        return word


def sentence_bounds(parsed: ParsedAnswer) -> tuple[tuple[int, int], ...]:
    """Half-open word ranges of the sentences."""
    return tuple(pairwise((*parsed.sentence_starts, len(parsed.words))))


def sentence_of_word(parsed: ParsedAnswer, word: int) -> tuple[int, int]:
    """Half-open word range of the sentence that a word stands in."""
    place = bisect_right(parsed.sentence_starts, word)
    end = parsed.sentence_starts[place] if place < len(parsed.sentence_starts) else len(parsed.words)
    return parsed.sentence_starts[place - 1], end


def cut_sentences(parsed: ParsedAnswer) -> tuple[CharRange, ...]:
    """The code points of each sentence that was cut, with all its pieces together, ascending."""
    whole: list[CharRange] = []
    previous_end = -1
    for start in parsed.cut_starts:
        before, _ = sentence_of_word(parsed, start - 1)
        _, end = sentence_of_word(parsed, start)
        first = whole.pop().char_start if start == previous_end else parsed.words[before].char_start
        whole.append(CharRange(first, parsed.words[end - 1].char_end))
        previous_end = end
    return tuple(whole)


def sentence_tree(parsed: ParsedAnswer, start: int, end: int) -> SentenceTree:
    """The tree of the words ``[start, end)``; a head outside the sentence makes its word a root."""
    scheme = label_scheme(parsed.label_scheme)
    labels = [base_label(label) for label in parsed.dependency_labels[start:end]]
    tags = parsed.universal_tags[start:end]
    heads = [
        head - start if start <= head < end else word for word, head in enumerate(parsed.dependency_heads[start:end])
    ]
    predicates = _predicates(heads, labels, tags, scheme)
    if scheme.last_conjunct_leads:
        _let_first_conjuncts_lead(heads, labels, scheme)
    _flatten_coordination(heads, labels, scheme)
    punctuation = tuple(
        label in scheme.punctuation_labels or tag == "PUNCT" for label, tag in zip(labels, tags, strict=True)
    )
    return SentenceTree(start, tuple(heads), tuple(labels), predicates, punctuation)


def _predicates(
    heads: Sequence[int], labels: Sequence[str], tags: Sequence[str], scheme: LabelScheme
) -> tuple[bool, ...]:
    copular = {heads[word] for word, label in enumerate(labels) if label in scheme.copula_labels}
    return tuple(
        word in copular or _is_verb(label, tag, scheme)
        for word, (label, tag) in enumerate(zip(labels, tags, strict=True))
    )


def _is_verb(label: str, tag: str, scheme: LabelScheme) -> bool:
    if tag in scheme.clause_head_tags:
        return label not in scheme.auxiliary_labels and label not in scheme.modifier_labels
    return tag in scheme.predicate_tags and label not in scheme.modifier_labels | scheme.auxiliary_labels


def _let_first_conjuncts_lead(heads: list[int], labels: list[str], scheme: LabelScheme) -> None:
    """If the last conjunct leads its structure, put the first one in its place.

    The first conjunct gets the head and the label of the last, and the others become its conjuncts. Words before them
    all that depended on the last one, such as their subject, now depend on the first.
    """
    followers: dict[int, list[int]] = {}
    for word, label in enumerate(labels):
        if label in scheme.conjunct_labels and heads[word] != word:
            followers.setdefault(_chain_leader(word, heads, labels, scheme), []).append(word)
    for leader, members in followers.items():
        first = min(members)
        if first > leader:
            continue
        conjunct_label = labels[first]
        shared = [word for word in range(first) if heads[word] == leader and word not in members]
        is_root = heads[leader] == leader
        heads[first], labels[first] = (first if is_root else heads[leader]), labels[leader]
        for word in (*members, leader):
            if word != first:
                heads[word], labels[word] = first, conjunct_label
        for word in shared:
            heads[word] = first


def _flatten_coordination(heads: list[int], labels: Sequence[str], scheme: LabelScheme) -> None:
    """Attach each conjunct to its chain's first word, and each coordinator to the conjunct that follows it."""
    members: dict[int, list[int]] = {}
    leaders: dict[int, int] = {}
    for word, label in enumerate(labels):
        if label in scheme.conjunct_labels and heads[word] != word:
            leader = _chain_leader(word, heads, labels, scheme)
            leaders[word] = leader
            members.setdefault(leader, []).append(word)
    for word, label in enumerate(labels):
        if label in scheme.coordinator_labels and heads[word] < word:
            leader = leaders.get(heads[word], heads[word])
            heads[word] = next((member for member in members.get(leader, ()) if member > word), heads[word])
    for word, leader in leaders.items():
        heads[word] = leader


def _chain_leader(word: int, heads: Sequence[int], labels: Sequence[str], scheme: LabelScheme) -> int:
    while labels[word] in scheme.conjunct_labels and heads[word] != word:
        word = heads[word]
    return word
