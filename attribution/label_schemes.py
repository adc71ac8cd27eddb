"""One small table per label scheme: all that differs between dependency parsers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelScheme:
    """How a parser names what the method asks for; labels are given without their subtype ("nsubj:pass" -> "nsubj").

    Attributes:
        name: value of ``ParsedAnswer.label_scheme``.
        predicate_tags: UPOS of verbs.
        clause_head_tags: UPOS of auxiliaries, predicates only where they carry a clause themselves.
        auxiliary_labels: relations of an auxiliary that carries no clause of its own.
        copula_labels: relation of a copula to its predicate; empty where the copula is the head.
        modifier_labels: relations under which a verb form is no predicate ("including" as ``case``).
        conjunct_labels, coordinator_labels, punctuation_labels, subject_labels: as named.
        clause_labels: relations of a nested clause that states a fact of its own.
        noun_chunk_labels: relations of a noun's children that stand within its noun chunk.
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

_SCHEMES = {scheme.name: scheme for scheme in (UNIVERSAL, SPACY_ENGLISH)}
_ONLY_SPACY_ENGLISH = frozenset({"dobj", "pobj", "nsubjpass", "auxpass", "attr", "acomp"})


def label_scheme(name: str) -> LabelScheme:
    """The scheme of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in _SCHEMES:
        raise ValueError(f"label scheme should be one of {sorted(_SCHEMES)}, was: {name!r}")
    return _SCHEMES[name]


def scheme_of_labels(labels: Iterable[str]) -> LabelScheme:
    """The scheme that a parser with these labels speaks: spaCy's own English where its labels show, else universal."""
    return SPACY_ENGLISH if not _ONLY_SPACY_ENGLISH.isdisjoint(labels) else UNIVERSAL


def base_label(label: str) -> str:
    """The label without its subtype: "nsubj:pass" -> "nsubj"."""
    return label.partition(":")[0]
