"""What answers cite for their claims, whether the evidence lies there, and that marks change no verdict."""

import pytest
from tests.attribution.answers.test_citation_marks import ENDS, MARKS, PASSAGES
from tests.evaluation.dataset_rows import FACT_WORDS

from attribeam import Attributor
from attribeam.attribution.verdict.citations import LiteralIndex, comparable_units
from attribeam.schemas import Passage, RowFault, Support

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


@pytest.mark.parametrize(("answer", "cited"), [
    (f"{KETTLE} [1]. {DOGS}. [2]", [(0,), (1,)]), (f"{KETTLE} [1][3]. {DOGS}.", [(0, 2), ()]),
    (f"[1] {KETTLE}.\n[2] {DOGS}.", [(0,), (1,)]), (f"- {KETTLE} [1]\n- {DOGS} [2]", [(0,), (1,)]),
    (f"[1] {KETTLE}. [2] {DOGS}.", [(0,), (1,)]), (f"{KETTLE}. [1] {DOGS}. [2]", [(0,), (1,)]),
    (f"[3] {KETTLE}. {DOGS} [2].", [(2,), (1,)]), (f"In [1]: the kettle holds two litres. {DOGS}.", [(0,), ()]),
    (f"{KETTLE} [9]. {DOGS} [2].", [(), (1,)]),
    (f"{KETTLE}. {DOGS}.\n\nSources:\n- kettle.pdf\n- House Rules", [(0, 1), (0, 1)]),
    (f"{KETTLE}. Passage 2 states that dogs may stay on the terrace.", [(), (1,)]), (f"{KETTLE}. {DOGS}.", [(), ()]),
])  # fmt: skip
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


def index(*texts):
    return LiteralIndex([Passage(text) for text in texts])


@pytest.mark.parametrize(("text", "passage"), [
    ("the OLD mill", "Near the old mill lies a pond."), ("Wi-Fi is free", "Our Wi Fi is free."),
    ("cafe Zürich", "the café Zurich"), ("白瓷茶具", "最有名的是一套白瓷茶具。"),
    ("התעלה הישנה", "לאורך הַתְּעָלָה הישנה."), ("पुस्तक मेला", "सोनपुरा का पुस्तक मेला लगता है।"),
    ("ｗｉｄｅ letters", "wide letters"), ("the old mill stands", "The\u200b o\u00adld mi\u00adll stands."),
    ("the old mill stands", "The ol\0d mill\x07 stands."),
])  # fmt: skip
def test_the_same_words_are_found_in_any_script(text, passage):
    assert index("Something else.", passage).literal_passages(text) == (1,)
    assert index("Something else.", passage).copied(text)[1] == 1


def test_no_run_crosses_from_the_title_into_the_text():
    both = LiteralIndex([Passage("Mill of Stone", title="The Old")])
    assert both.literal_passages("old mill") == ()
    assert both.literal_passages("the old") == (0,)


@pytest.mark.parametrize("text", ["the grey cat slept", "grey cat"])
@pytest.mark.parametrize(("preferred", "named"), [(None, 0), (0, 0), (1, 0), (2, 2)])
def test_of_passages_that_are_copied_equally_the_preferred_one_is_named(text, preferred, named):
    passages = index("So the grey cat slept.", "A dog.", "And the grey cat slept, too.")
    assert passages.copied(text, preferred=preferred)[1] == named


def test_a_share_is_what_a_naive_search_counts():
    passage = "one two three four five six seven one two nine"
    text = "one two three six seven one two four five six zero"
    units, words = comparable_units(text), passage.split()
    runs = {tuple(words[place : place + 3]) for place in range(len(words) - 2)}
    covered = {
        place + step for place in range(len(units) - 2) if tuple(units[place : place + 3]) in runs for step in range(3)
    }
    assert index("nine two", passage).copied(text) == (len(covered) / len(units), 1)
    assert index("a b c").copied("x y z") == (0, None)


def test_the_first_spans_and_those_looked_up_in_the_index_are_found_alike():
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    texts = [" ".join(words[start:end]) for start in range(8) for end in range(start + 1, 9)]
    found = index("six seven eight one two three", " ".join(words), "two three four six seven")
    first = [found.literal_passages(text) for text in texts]
    for _ in range(3):
        assert [found.literal_passages(text) for text in texts] == first
    assert first[texts.index("six seven")] == (0, 1, 2)
    assert first[texts.index("two three four")] == (1, 2)
