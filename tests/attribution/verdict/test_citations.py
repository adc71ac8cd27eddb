"""What answers cite for their claims, whether the evidence lies there, and that marks change no verdict."""

import pytest
from tests.attribution.answers.test_citation_marks import ENDS, MARKS, PASSAGES
from tests.evaluation.dataset_rows import FACT_WORDS

from attribeam import Attributor
from attribeam.schemas import RowFault, Support

QUESTION = "What is known of the kettle and the house?"
KETTLE, DOGS = "The kettle holds two litres", "Dogs may stay on the terrace"


@pytest.fixture(scope="module")
def attributor():
    return Attributor.from_pretrained(method=FACT_WORDS)


def claims(attributor, answer):
    found = attributor.attribute(question=QUESTION, passages=PASSAGES, answer=answer)
    assert all(one.text == one.chars.of(answer) for one in found)
    return [one for one in found if one.is_claim]


def test_an_answer_with_marks_has_the_claims_and_the_verdict_of_the_same_answer_without(attributor):
    plain = claims(attributor, f"{KETTLE}. {DOGS}.")
    assert [one.text for one in plain] == [KETTLE, DOGS]
    expected = [(one.text, one.support, pytest.approx(one.support_score, abs=0.1)) for one in plain]  # trees step
    marked = [f"{KETTLE} {mark}. {DOGS} {mark}." for mark, _ in MARKS[::3]]
    answers = [*marked, *(f"{KETTLE}. {DOGS}.\n\n{end}" for end in ENDS[::3])]
    rows = [{"question": QUESTION, "passages": PASSAGES, "answer": answer} for answer in answers]
    for answer, found in zip(answers, attributor.attribute_many(rows), strict=True):
        assert not isinstance(found, RowFault)
        assert [(one.text, one.support, one.support_score) for one in found if one.is_claim] == expected, answer


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        (f"{KETTLE} [1]. {DOGS}. [2]", [(0,), (1,)]),
        (f"{KETTLE} [1][3]. {DOGS}.", [(0, 2), ()]),
        (f"[1] {KETTLE}.\n[2] {DOGS}.", [(0,), (1,)]),
        (f"- {KETTLE} [1]\n- {DOGS} [2]", [(0,), (1,)]),
        (f"{KETTLE} [9]. {DOGS} [2].", [(), (1,)]),
        (f"{KETTLE}. {DOGS}.\n\nSources:\n- kettle.pdf\n- House Rules", [(0, 1), (0, 1)]),
        (f"{KETTLE}. Passage 2 states that dogs may stay on the terrace.", [(), (1,)]),
        (f"{KETTLE}. {DOGS}.", [(), ()]),
    ],
)
def test_a_claim_has_the_marks_within_it_and_the_first_behind_it(attributor, answer, cited):
    assert [one.cited_passages for one in claims(attributor, answer)] == cited


def test_a_citation_agrees_where_the_evidence_lies_in_the_cited_passage(attributor):
    right, wrong, none = claims(attributor, f"{KETTLE} [1]. {DOGS} [1]. Breakfast ends at 11:30.")
    assert (right.citation_agrees, wrong.citation_agrees, none.citation_agrees) == (True, False, None)
    assert wrong.support is Support.SUPPORTED


def test_a_span_within_a_claim_cites_what_its_claim_cites(attributor):
    found = attributor.attribute(question=QUESTION, passages=PASSAGES, answer=f"{KETTLE} [1].")
    assert len(found) > 1
    assert {one.cited_passages for one in found} == {(0,)}


def test_an_invented_value_in_brackets_is_still_flagged(attributor):
    (claim,) = claims(attributor, f"{KETTLE} (up to 900 grams).")
    assert claim.support is Support.UNSUPPORTED
    assert claim.unmatched_values == ("900",)
