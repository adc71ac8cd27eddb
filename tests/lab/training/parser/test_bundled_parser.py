"""The parser that comes with the package, on sentences written for this test."""

import pytest
import spacy
from spacy.language import Language

from attribeam.attribution.answers.answer_parser import BUNDLED_PARSER


@pytest.fixture(scope="module")
def nlp() -> Language:
    return spacy.load(BUNDLED_PARSER)


def test_worked_example_has_its_conjuncts_under_earned(nlp: Language) -> None:
    doc = nlp("The company earned one million dollars and two million dollars in 2012 and 2013, respectively.")
    (earned,) = (word for word in doc if word.text == "earned")
    dollars, more_dollars = (word for word in doc if word.text == "dollars")
    (early,), (late,) = ([word for word in doc if word.text == year] for year in ("2012", "2013"))
    assert earned.dep_ == "ROOT"
    assert earned.pos_ == "VERB"
    assert (dollars.head, dollars.dep_) == (earned, "obj")
    assert (more_dollars.head, more_dollars.dep_) == (dollars, "conj")
    assert (early.head, early.dep_) == (earned, "obl")
    assert (late.head, late.dep_) == (early, "conj")
    assert [word.text for word in dollars.subtree][:3] == ["one", "million", "dollars"]


def test_predicate_noun_of_a_copular_clause_is_its_root(nlp: Language) -> None:
    doc = nlp("The heart is a muscle that pumps blood.")
    (muscle,) = (word for word in doc if word.text == "muscle")
    assert muscle.dep_ == "ROOT"
    assert "cop" in [child.dep_ for child in muscle.children]


@pytest.mark.parametrize(
    "sentences",
    [
        ["The bridge opened in 1932.", "It carries trains, cars and cyclists."],
        ["Dr. Weber moved to St. Louis in March.", "She retired there."],
        ["Who built the tower?", "Nobody knows for certain.", "It may date from 1200 B.C."],
        ["The dam holds 3.5 million litres, i.e. a week's supply.", "In dry years, the U.S. plant closes early."],
    ],
)
def test_plain_sentences_are_separated(nlp: Language, sentences: list[str]) -> None:
    assert [sentence.text for sentence in nlp(" ".join(sentences)).sents] == sentences


def test_paragraph_break_ends_a_sentence_that_has_no_full_stop(nlp: Language) -> None:
    sentences = [sentence.text.strip() for sentence in nlp("A short history\n\nThe town was founded in 1790.").sents]
    assert sentences == ["A short history", "The town was founded in 1790."]
