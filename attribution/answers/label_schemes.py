"""One small table per label scheme: everything that differs between dependency parsers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


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
        clause_labels: relations of a nested clause that states a fact of its own.
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
    clause_labels: frozenset[str]
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
    clause_labels=frozenset({"ccomp", "advcl", "acl", "parataxis", "csubj", "list"}),
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
    clause_labels=frozenset({"ccomp", "advcl", "acl", "relcl", "parataxis", "csubj", "csubjpass"}),
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
    clause_labels=frozenset({"ccomp", "advcl", "acl", "parataxis"}),
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
