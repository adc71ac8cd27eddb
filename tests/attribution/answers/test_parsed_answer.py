"""The trees of sentences, and the label schemes that they are read with."""

from __future__ import annotations

import pytest
from tests.attribution.trees import tree

from attribeam.attribution.answers.parsed_answer import (
    SPACY_ENGLISH,
    UNIVERSAL,
    base_label,
    label_scheme,
    scheme_of_labels,
    sentence_bounds,
    sentence_of_word,
    sentence_tree,
)

TWO = "Dogs/nsubj/2/NOUN bark/root/0/VERB ~./punct/2/PUNCT || Cats/nsubj:outer/2/NOUN purr/root/0/VERB"


def test_sentences_cover_all_words() -> None:
    _, parsed = tree(TWO)
    assert sentence_bounds(parsed) == ((0, 3), (3, 5))
    assert [sentence_of_word(parsed, word) for word in (0, 2, 3, 4)] == [(0, 3), (0, 3), (3, 5), (3, 5)]


def test_words_are_counted_within_the_sentence_and_labels_lose_subtypes() -> None:
    _, parsed = tree(TWO)
    second = sentence_tree(parsed, 3, 5)
    assert (second.first_word, second.heads, second.labels) == (3, (1, 1), ("nsubj", "root"))


def test_head_outside_the_sentence_makes_a_root() -> None:
    _, parsed = tree(TWO)
    assert sentence_tree(parsed, 1, 3).heads == (0, 0)
    assert sentence_tree(parsed, 2, 3).heads == (0,)


def test_chain_of_conjuncts_hangs_on_its_first() -> None:
    _, parsed = tree("a/root/0/NOUN b/conj/1/NOUN c/conj/2/NOUN and/cc/3/CCONJ d/conj/3/NOUN")
    assert sentence_tree(parsed, 0, 5).heads == (0, 0, 0, 4, 0)


def test_coordinator_without_a_following_conjunct_stays() -> None:
    _, parsed = tree("a/root/0/NOUN b/conj/1/NOUN etc/cc/2/CCONJ")
    assert sentence_tree(parsed, 0, 3).heads == (0, 0, 1)


def test_closest_predicate_is_none_in_a_fragment() -> None:
    _, parsed = tree("Blue/amod/2/ADJ whales/root/0/NOUN")
    assert sentence_tree(parsed, 0, 2).closest_predicate(0) is None


def test_scheme_is_read_from_the_pipelines_labels() -> None:
    assert scheme_of_labels(["nsubj", "dobj", "pobj", "ROOT"]) is SPACY_ENGLISH
    assert scheme_of_labels(["nsubj:pass", "obj", "obl", "root"]) is UNIVERSAL
    assert scheme_of_labels([]) is UNIVERSAL


def test_scheme_is_found_by_its_name() -> None:
    assert label_scheme("universal") is UNIVERSAL
    assert label_scheme("spacy-english") is SPACY_ENGLISH


def test_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'spacy-english', 'universal'"):
        label_scheme("stanford")


def test_base_label_drops_the_subtype() -> None:
    assert [base_label(label) for label in ("nsubj:pass", "obj")] == ["nsubj", "obj"]
