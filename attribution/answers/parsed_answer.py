"""A dependency-parsed answer as plain data, and a tree per sentence that is the same for all parsers.

This is what leaves spaCy and crosses process borders. All that differs between dependency parsers is in one small table
per label scheme.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from attribeam.attribution.answers.citation_marks import CitationMark
from attribeam.schemas import CharRange


@dataclass(frozen=True, slots=True)
class LabelScheme:
    """How a parser names what the method asks for; labels are given without their subtype ("nsubj:pass" -> "nsubj").

    Attributes:
        name: value of ``ParsedAnswer.label_scheme``.
        predicate_tags: UPOS of verbs.
        clause_head_tags: UPOS of auxiliaries; they are predicates only where they carry a clause themselves.
        auxiliary_labels: relations of an auxiliary that carries no clause of its own.
        copula_labels: relation of a copula to its predicate; empty where the copula is the head.
        modifier_labels: relations under which a verb form is not a predicate ("including" as ``case``).
        conjunct_labels, coordinator_labels, punctuation_labels, subject_labels: as named.
        noun_chunk_labels: relations of a noun's children that stand within its noun chunk.
        noun_tags: UPOS of a noun chunk's own noun.
        last_conjunct_leads: the other conjuncts hang on the last one, rather than on the first or on each other.
    """

    name: str
    predicate_tags: frozenset[str]
    clause_head_tags: frozenset[str]
    auxiliary_labels: frozenset[str]
    copula_labels: frozenset[str]
    modifier_labels: frozenset[str]
    conjunct_labels: frozenset[str]
    coordinator_labels: frozenset[str]
    punctuation_labels: frozenset[str]
    subject_labels: frozenset[str]
    noun_chunk_labels: frozenset[str]
    noun_tags: frozenset[str] = frozenset({"NOUN", "PROPN"})
    last_conjunct_leads: bool = False


_MODIFIERS = frozenset({"amod", "case", "cc", "compound", "det", "fixed", "flat", "goeswith", "mark", "prep", "punct"})

UNIVERSAL = LabelScheme(
    name="universal",
    predicate_tags=frozenset({"VERB"}),
    clause_head_tags=frozenset({"AUX"}),
    auxiliary_labels=frozenset({"aux", "cop"}),
    copula_labels=frozenset({"cop"}),
    modifier_labels=_MODIFIERS,
    conjunct_labels=frozenset({"conj"}),
    coordinator_labels=frozenset({"cc"}),
    punctuation_labels=frozenset({"punct"}),
    subject_labels=frozenset({"nsubj", "csubj", "expl"}),
    noun_chunk_labels=frozenset({"det", "amod", "compound", "nummod", "nmod:poss", "flat", "fixed", "goeswith"}),
)

SPACY_ENGLISH = LabelScheme(
    name="spacy-english",
    predicate_tags=frozenset({"VERB"}),
    clause_head_tags=frozenset({"AUX"}),
    auxiliary_labels=frozenset({"aux", "auxpass"}),
    copula_labels=frozenset({"cop"}),
    modifier_labels=_MODIFIERS,
    conjunct_labels=frozenset({"conj"}),
    coordinator_labels=frozenset({"cc"}),
    punctuation_labels=frozenset({"punct"}),
    subject_labels=frozenset({"nsubj", "nsubjpass", "csubj", "csubjpass", "expl"}),
    noun_chunk_labels=frozenset({"det", "amod", "compound", "nummod", "poss", "nmod", "quantmod", "predet"}),
)

UNIVERSAL_CHINESE = replace(
    UNIVERSAL,
    name="universal-chinese",
    predicate_tags=frozenset({"VERB", "ADJ"}),  # an adjective needs no copula
    modifier_labels=_MODIFIERS | {"advmod", "clf", "nmod"},
    noun_chunk_labels=UNIVERSAL.noun_chunk_labels | {"clf", "nmod"},
    noun_tags=frozenset({"NOUN", "PROPN", "PART"}),  # suffixes are separate words, and head the noun
)

SPACY_CHINESE = LabelScheme(
    name="spacy-chinese",
    predicate_tags=frozenset({"VERB", "ADJ"}),
    clause_head_tags=frozenset({"AUX"}),
    auxiliary_labels=frozenset({"aux", "auxpass", "cop"}),
    copula_labels=frozenset({"cop"}),
    modifier_labels=_MODIFIERS | {"name", "neg", "etc", "nmod", "advmod"},
    conjunct_labels=frozenset({"conj"}),
    coordinator_labels=frozenset({"cc"}),
    punctuation_labels=frozenset({"punct"}),
    subject_labels=frozenset({"nsubj", "nsubjpass"}),
    noun_chunk_labels=frozenset({"det", "amod", "compound", "nummod", "nmod", "name", "mark:clf"}),
    last_conjunct_leads=True,
)

_SCHEMES = {scheme.name: scheme for scheme in (UNIVERSAL, SPACY_ENGLISH, UNIVERSAL_CHINESE, SPACY_CHINESE)}
_SPACYS_OWN = frozenset({"dobj", "pobj", "nsubjpass", "auxpass", "attr", "acomp"})
_CHINESE = "zh"


def label_scheme(name: str) -> LabelScheme:
    """The scheme of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in _SCHEMES:
        raise ValueError(f"label scheme should be one of {sorted(_SCHEMES)}, was: {name!r}")
    return _SCHEMES[name]


def scheme_of_labels(labels: Iterable[str], *, language: str = "en") -> LabelScheme:
    """The scheme of a parser with these labels: spaCy's own where a label gives it away, else universal.

    ``language`` is the pipeline's, as spaCy names it. Chinese has its own schemes; all other languages share two.
    """
    spacys_own = not _SPACYS_OWN.isdisjoint(labels)
    if language == _CHINESE:
        return SPACY_CHINESE if spacys_own else UNIVERSAL_CHINESE
    return SPACY_ENGLISH if spacys_own else UNIVERSAL


def base_label(label: str) -> str:
    """The label without its subtype: "nsubj:pass" -> "nsubj"."""
    return label.partition(":")[0]


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
