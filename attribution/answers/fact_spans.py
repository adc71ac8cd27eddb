"""Facts: each verb or copular predicate with its arguments, as one range of the answer."""

from __future__ import annotations

from collections.abc import Iterator

from attribution.answers.label_schemes import LabelScheme, base_label, label_scheme
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.sentence_tree import SentenceTree, sentence_bounds, sentence_tree
from attribution.answers.span_edges import is_content_word, trimmed_words, words_range
from schemas import CharRange


def fact_ranges(parsed: ParsedAnswer, answer: str) -> Iterator[CharRange]:
    """The facts of an answer; every word that carries content lies in at least one.

    A fact belongs to a sentence's root, to a conjoined predicate, or to the predicate of a nested clause with a
    subject of its own (or a relative clause). Every other word belongs to the fact of its closest such ancestor. A
    fact's range runs from its first to its last word without marks and joining words at the edges; a nested clause
    in its middle lies within it as well. A fragment of function words alone belongs to a fact beside it.
    """
    scheme = label_scheme(parsed.label_scheme)
    for start, end in sentence_bounds(parsed):
        tree = sentence_tree(parsed, start, end)
        owners = _owners(tree, _fact_words(tree, parsed.dependency_labels[start:end], scheme))
        owners = _without_fragments(parsed, answer, start, owners)
        for owner in dict.fromkeys(owners):
            owned = [start + word for word, its_owner in enumerate(owners) if its_owner == owner]
            words = trimmed_words(parsed, owned, answer)
            if words and not _is_function_word(parsed, words, answer):
                yield words_range(parsed, words)


def _without_fragments(parsed: ParsedAnswer, answer: str, start: int, owners: list[int]) -> list[int]:
    """The owners with those replaced that state nothing by themselves, by the fact before them, else the one after."""
    stating = [
        owner
        for owner in dict.fromkeys(owners)
        if not _is_fragment(parsed, answer, [start + word for word, one in enumerate(owners) if one == owner])
    ]
    if not stating:
        return [owners[0]] * len(owners)
    merged = list(owners)
    for place, owner in enumerate(owners):
        if owner not in stating:
            first = owners.index(owner)
            before = [one for one in owners[:first] if one in stating]
            merged[place] = before[-1] if before else next(one for one in owners[first:] if one in stating)
    return merged


def _is_fragment(parsed: ParsedAnswer, answer: str, owned: list[int]) -> bool:
    """True for words without content, and for a lone adverb."""
    content = [word for word in owned if is_content_word(parsed, word, answer)]
    return not content or (len(owned) == 1 and parsed.universal_tags[owned[0]] == "ADV")


def _is_function_word(parsed: ParsedAnswer, words: range, answer: str) -> bool:
    return len(words) == 1 and not is_content_word(parsed, words[0], answer)


def _fact_words(tree: SentenceTree, full_labels: tuple[str, ...], scheme: LabelScheme) -> list[bool]:
    """True for the roots and predicates that state a fact of their own; a conjunct does where its leader does."""
    with_subject = {tree.heads[word] for word, label in enumerate(tree.labels) if label in scheme.subject_labels}
    stating = [
        tree.heads[word] == word or (tree.predicates[word] and _is_full_clause(label, word in with_subject, scheme))
        for word, label in enumerate(full_labels)
    ]
    conjoined = [label in scheme.conjunct_labels for label in tree.labels]
    return [
        stating[word] or (conjoined[word] and tree.predicates[word] and stating[tree.heads[word]])
        for word in range(len(stating))
    ]


def _is_full_clause(label: str, has_subject: bool, scheme: LabelScheme) -> bool:
    if base_label(label) not in scheme.clause_labels:
        return False
    return has_subject or label.endswith("relcl") or base_label(label) in ("parataxis", "list")


def _owners(tree: SentenceTree, stating: list[bool]) -> list[int]:
    """For each word the closest of itself and its ancestors that states a fact."""
    owners = []
    for word in range(len(stating)):
        owner = word
        while not stating[owner]:
            owner = tree.heads[owner]
        owners.append(owner)
    return owners
