"""Word vectors from counted neighbours, on text written for this test."""

import json
import lzma
from pathlib import Path

import numpy
import pytest
import spacy

from lab.training.parser.training_loop import (
    EDGE,
    WordVectors,
    _count_neighbours,
    _ranked,
    learn_vectors,
    load_vectors,
    read_paragraphs,
)

COLOURS = ["red", "green", "blue", "grey"]
ANIMALS = ["cat", "dog", "hen", "pig"]
TEXT = [f"the {colour} {animal} sleeps" for colour in COLOURS for animal in ANIMALS]


def nearest(vectors: WordVectors, word: str) -> list[str]:
    closeness = vectors.values @ vectors.values[vectors.words.index(word)]
    return [vectors.words[place] for place in numpy.argsort(-closeness)[:4]]


def test_words_with_the_same_role_have_similar_vectors() -> None:
    vectors = learn_vectors(TEXT, words=20, columns=3, seed=0)
    assert sorted(nearest(vectors, "green")) == sorted(COLOURS)
    assert sorted(nearest(vectors, "hen")) == sorted(ANIMALS)


def test_same_seed_gives_the_same_vectors_of_equal_length() -> None:
    first, second = (learn_vectors(TEXT, words=20, columns=3, seed=7) for _ in range(2))
    numpy.testing.assert_array_equal(first.values, second.values)
    numpy.testing.assert_allclose(numpy.linalg.norm(first.values, axis=1), 3**0.5, rtol=1e-5)


def test_only_the_most_frequent_words_have_vectors() -> None:
    vectors = learn_vectors([*TEXT, "one rare word"], words=6, columns=2, seed=0)
    assert vectors.words[:2] == ["the", "sleeps"]
    assert len(vectors.words) == len(vectors.values) == 6


def test_too_little_text_is_refused_with_what_was_found() -> None:
    with pytest.raises(ValueError, match="at least 5 different words in the pages, found 2"):
        learn_vectors(["too little"], words=10, columns=5, seed=0)


def test_words_are_split_as_the_parser_splits_them() -> None:
    forms, ranks = _ranked(["She don’t go!"])
    assert forms == ["she", "do", "n't", "go", "!"]
    assert ranks.tolist() == [EDGE, EDGE, 0, 1, 2, 3, 4, EDGE, EDGE]


def test_neighbours_are_counted_by_place_and_never_across_paragraphs() -> None:
    _, ranks = _ranked(["a b a", "b a"])  # a is word 0, b is word 1
    counts = _count_neighbours(ranks, words=2, contexts=1)  # contexts: a, border, rarer
    two_left, left, right, two_right = numpy.split(counts, 4, axis=1)
    assert left.tolist() == [[0, 1, 2], [1, 1, 0]]
    assert right.tolist() == [[0, 2, 1], [2, 0, 0]]
    assert two_left.tolist() == [[1, 2, 0], [0, 2, 0]]
    assert two_right.tolist() == [[1, 2, 0], [0, 2, 0]]


def test_saved_vectors_load_unchanged(tmp_path: Path) -> None:
    vectors = learn_vectors(TEXT, words=20, columns=3, seed=0)
    vectors.save(tmp_path / "new" / "vectors.npz")
    loaded = load_vectors(tmp_path / "new" / "vectors.npz")
    assert loaded.words == vectors.words
    numpy.testing.assert_array_equal(loaded.values, vectors.values)


def test_words_are_looked_up_in_any_case() -> None:
    nlp = spacy.blank("en")
    nlp.vocab.vectors = learn_vectors(TEXT, words=20, columns=3, seed=0).as_spacy(nlp.vocab.strings)
    doc = nlp("GREEN green purple")
    rows = nlp.vocab.vectors.find(keys=doc.to_array(nlp.vocab.vectors.attr))
    assert rows[0] == rows[1] >= 0
    assert rows[2] == -1


def test_paragraphs_are_read_plain_and_packed(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"title": "T", "paras": [f"one {place}", "two"]}) for place in range(2))
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.xz"
    plain.write_text(lines)
    packed.write_bytes(lzma.compress(lines.encode()))
    assert list(read_paragraphs([plain])) == list(read_paragraphs([packed])) == ["one 0", "two", "one 1", "two"]
