"""Atomic facts of the bundled parser: coordination and copulas in sentences written for this test, checked by hand."""

import pytest

from attribution.answers.answer_parser import AnswerParser
from attribution.answers.atomic_facts import AtomicFacts
from tests.attribution.trees import forms, word_index

PAPER = "The company earned one million dollars and two million dollars in 2012 and 2013, respectively."


@pytest.fixture(scope="module")
def bundled() -> AnswerParser:
    return AnswerParser.from_pretrained("bundled")


def fact_of(parser: AnswerParser, text: str, word: str) -> str:
    parsed = parser.parse(text)
    return forms(text, parsed, AtomicFacts(parsed).words_of(word_index(text, parsed, word)))


@pytest.mark.parametrize(
    ("word", "fact"),
    [
        ("one", "The company earned one million dollars in 2012 respectively"),
        ("2012", "The company earned one million dollars in 2012 respectively"),
        ("two", "The company earned and two million dollars and 2013 respectively"),
        ("2013", "The company earned and two million dollars and 2013 respectively"),
    ],
)
def test_worked_example_of_the_paper(bundled: AnswerParser, word: str, fact: str) -> None:
    assert fact_of(bundled, PAPER, word) == fact


COORDINATIONS = [
    ("Ada sells apples, pears and plums.", "pears", "Ada sells pears"),
    ("Ada sells apples, pears and plums.", "plums", "Ada sells and plums"),
    ("She wrote novels and raised sheep.", "novels", "She wrote novels"),
    ("She wrote novels and raised sheep.", "sheep", "and raised sheep"),
    ("Anna and Ben founded the school in 1921.", "Anna", "Anna founded the school in 1921"),
    ("Anna and Ben founded the school in 1921.", "Ben", "and Ben founded the school in 1921"),
    ("The bridge was built in 1932 and closed in 1988.", "1932", "The bridge was built in 1932"),
    ("The bridge was built in 1932 and closed in 1988.", "1988", "and closed in 1988"),
    ("The farm grows wheat, barley and oats in the valley.", "barley", "The farm grows barley in the valley"),
    ("The mill burned down, and the owner moved to Leeds.", "Leeds", "and the owner moved to Leeds"),
    ("The council bought the land but never used it.", "used", "but never used it"),
    ("The committee met in Bonn, Kiel or Jena.", "Kiel", "The committee met Kiel"),
]

COPULAS = [
    ("The flag is red, white and blue.", "flag", "The flag is red"),
    ("The heart is a muscle that pumps blood.", "heart", "The heart is a muscle that pumps blood"),
    ("The heart is a muscle that pumps blood.", "blood", "that pumps blood"),
    ("Oslo is the capital of Norway.", "Norway", "Oslo is the capital of Norway"),
    ("The lake is deep and the river is shallow.", "deep", "The lake is deep"),
    ("The lake is deep and the river is shallow.", "river", "and the river is shallow"),
    ("The museum is in Vienna.", "museum", "The museum is in Vienna"),
    ("The soup contains beans, but it is not salty.", "salty", "but it is not salty"),
    ("He was a teacher and a poet.", "teacher", "He was a teacher"),
    ("Tea and coffee are popular drinks.", "coffee", "and coffee are popular drinks"),
    ("The tower is 90 metres tall.", "90", "The tower is 90 metres tall"),
    ("The mill was sold because the owner was ill.", "ill", "because the owner was ill"),
    ("The first ship was slow, but the second was fast.", "fast", "but the second was fast"),
]


MISSED = [  # the parser takes "freezes" for a noun
    ("Water boils at 100 degrees and freezes at 0 degrees.", "100", "Water boils at 100 degrees"),
    ("Water boils at 100 degrees and freezes at 0 degrees.", "0", "and freezes at 0 degrees"),
]


@pytest.mark.parametrize(("text", "word", "fact"), COORDINATIONS)
def test_conjuncts_of_others_are_left_out(bundled: AnswerParser, text: str, word: str, fact: str) -> None:
    assert fact_of(bundled, text, word) == fact


@pytest.mark.parametrize(("text", "word", "fact"), COPULAS)
def test_copular_clause_is_one_fact(bundled: AnswerParser, text: str, word: str, fact: str) -> None:
    assert fact_of(bundled, text, word) == fact


@pytest.mark.xfail(strict=True, reason="the bundled parser does not read these right")
@pytest.mark.parametrize(("text", "word", "fact"), MISSED)
def test_cases_that_the_bundled_parser_still_gets_wrong(bundled: AnswerParser, text: str, word: str, fact: str) -> None:
    assert fact_of(bundled, text, word) == fact
