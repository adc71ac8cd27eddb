"""What a sentence says in the place of a claim's words, and what only looks like it."""

import numpy as np
import pytest
from tests.attribution.verdict.judged_rows import parse, record

from attribeam.attribution.verdict.claims import word_kinds
from attribeam.attribution.verdict.contradictions import find_contradiction
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS
from attribeam.attribution.verdict.signals import AnswerRow
from attribeam.attribution.verdict.texts import PassageSentences
from attribeam.attribution.verdict.verdict_model import claim_log_odds
from attribeam.schemas import Support, UnsupportedReason

REVERSED, ENTITY = UnsupportedReason.REVERSED, UnsupportedReason.OTHER_ENTITY


def instead(answer: str, *passages: str):
    """The reason, the answer's words and what a sentence has instead of them; None for nothing."""
    row = record(answer, *passages)
    words = AnswerRow.of(row, parse(answer), word_kinds(parse(answer), row)).words
    sentences = PassageSentences(row.passages)
    found = find_contradiction(words, range(len(words)), sentences, range(len(sentences)))
    return found and (found.reason, [words.texts[word] for word in found.words], found.expected)


@pytest.mark.parametrize(("answer", "passage", "expected"), [
    ("The wind turns easterly in the evening.", "The wind turns westerly in the evening and brings rain.",
        (REVERSED, ["easterly"], "westerly")),
    ("Rents were higher than in 2018.", "Rents came to 71 crowns, four lower than in 2018.",
        (REVERSED, ["higher"], "lower")),
    ("Frost reaches four degrees in the north.", "Frost reaches four degrees in the south and ten in the north.",
        (REVERSED, ["north"], "south")),
    ("The third act has a song.", "The second act has a song for the choir.", (REVERSED, ["third"], "second")),
    ("The shop closes at noon on Monday.", "On Friday it opens. The shop closes at noon on Tuesday.",
        (UnsupportedReason.OTHER_TIME, ["Monday"], "Tuesday")),
    ("The tower was burned by Danish troops in 1643.", "The tower was burned by Swedish troops in 1643.",
        (ENTITY, ["Danish"], "Swedish")),
    ("The Mill Lane bridge will close in May.",
        "The Sable Street bridge will close in May. Cars take the ferry at Mill Lane.",
        (ENTITY, ["Mill", "Lane"], "Sable Street")),
    ("Only Ada Roth voted against it.", "Ada Roth spoke first; only Ole Brun voted against it.",
        (ENTITY, ["Ada", "Roth"], "Ole Brun")),
    ("A child's ticket costs 6.50 euros.", "A child's ticket costs 2.80 euros, a day ticket 6.50 euros.",
        (UnsupportedReason.OTHER_VALUE, ["6.50"], "2.80")),
    ("Delivery takes seven days in the UK.", "Delivery takes three days in the UK and seven in the EU.",
        (UnsupportedReason.OTHER_VALUE, ["seven"], "three")),
    ("The vitamin A drops are free of sugar.", "The vitamin D drops are free of sugar.", (ENTITY, ["A"], "D")),
    ("With leave questions, contact PR.", "With leave questions, contact HR.", (ENTITY, ["PR"], "HR")),
])  # fmt: skip
def test_a_sentence_says_something_else_in_the_same_place(answer, passage, expected):
    assert instead(answer, passage) == expected


@pytest.mark.parametrize(("answer", "passage"), [
    ("Oakham Town beat Ferrol Rovers.", "Ferrol Rovers beat Oakham Town on Sunday."),
    ("The lake is fed by the Tuelo and drained by the Blanca.", "It is fed by the Blanca and drained by the Tuelo."),
    ("Mr. Dunn took the school over from Ms. Ada Roth.", "Ms. Ada Roth took the school over from Mr. Dunn in May."),
])  # fmt: skip
def test_two_names_have_changed_places(answer, passage):
    reason, _, expected = instead(answer, passage)
    assert (reason, expected) == (REVERSED, passage)


@pytest.mark.parametrize(("answer", "passages"), [
    ("The wind turns westerly in the evening.", ("The wind turns westerly in the evening.",)),
    ("The wind turns easterly in the evening.",
        ("The wind turns westerly in the evening.", "In the evening the wind turns easterly.")),
    ("The tower was burned by Danish troops.", ("The tower was burned by Swedish and Danish troops.",)),
    ("Ada Roth said that profits rose.", ("Ada Roth, the head of Acme Foods, said that profits rose.",)),
    ("US troops burned the tower.", ("American troops burned the tower.",)),
    ("Mayor Roth opened the bridge.", ("Mayor Ada Roth opened the bridge.",)),
    ("The tower at Lahore, Pakistan, was burned.", ("The tower at Lahore, Parkistan, was burned.",)),
    ("The Merak is cheaper than the Vantus.", ("The Vantus is dearer than the Merak.",)),
    ("Set the iron to cotton without steam.", ("Set the iron to cotton with no steam.",)),
    ("It is not easy to sell the house.", ("It is difficult to sell the house.",)),
    ("The bond pays 3.2 per cent in the third year.",
        ("The bond pays 2.1 per cent in the first year and 3.2 in the third.",)),
    ("The big pool has 27 degrees.", ("The small pool has 34 degrees, the big one 27.",)),
    ("The bridge opens in May.", ("Anna lives in Oslo.",)), ("Anna met Bela.", ("Bela met Anna.",)),
    ("Anna shares a flat with Bela.", ("Bela shares a flat with Anna.",)),
    ("Anna is a cousin of Bela.", ("Bela is a cousin of Anna.",)),
    ("Heat the pan before you add oil.", ("Soak the pan before you add oil.",)), ("Anna wrote.", ("Bela wrote.",)),
    ("Anna lives in Oslo.", ("",)), ("The pool is open in winter.", ("Is the pool closed in winter? No.",)),
    ("The pool is closed on Monday.", ("The pool is open every day but Monday.",)),
    ("Blue wires carry current in the box.", ("Red wires carry no current in the box.",)),
    ("Close the glove box.", ("Open the glove box. Shut it again.",)),
    ("The shop is open on Tuesday.", ("The shop is open on Monday to Friday.",)),
    ("The shop sells new books.", ("The shop sells old books and new ones.",)),
    ("You shift to the largest gear.", ("You shift to the smallest gear first. Then shift to the biggest.",)),
    ("The light turns red when the tank is empty.", ("The light turns green when the tank is full.",)),
    ("The first edition sold 3,000 copies.", ("The second edition sold 9,000 copies.",)),
    ("After dinner, guests meet in the hall.", ("After lunch, guests meet outside; dinner ends in the hall.",)),
    ("Article 5 of the treaty covers trade.", ("Article 4 of the treaty covers fishing, 5 trade.",)),
    ("Tony Blair resigned as leader in 2007.", ("The Prime Minister resigned as leader in 2007.",)),
    ("The album was made by Kelley.", ("The album was made by Elijah.", "Elijah Kelley sings.")),
    ("Ole Brun followed Ada Roth.", ("Ada Roth, followed by Ole Brun, went in.",)),
    ("Ole Brun beat Ada Roth in July.", ("Ada Roth beat Ole Brun in June.",)),
    ("Ole Brun beat Ada Roth away.", ("Ada Roth beat Ole Brun at home, and Ole Brun beat Ada Roth on grass.",)),
])  # fmt: skip
def test_what_only_looks_like_a_contradiction_is_none(answer, passages):
    assert instead(answer, *passages) is None


def test_a_contradicted_claim_is_unsupported_and_names_what_differs(attributor):
    answer = "The tower was burned by Danish troops in 1643."
    passages = ["The tower was burned by Swedish troops in 1643 and fell later."]
    found = attributor.attribute(question="", passages=passages, answer=answer)
    (claim,) = (span for span in found if span.is_claim)
    assert (claim.support, claim.reason, claim.expected) == (Support.UNSUPPORTED, ENTITY, "Swedish")
    assert [chars.of(answer) for chars in claim.unsupported_words] == ["Danish"]


def test_contradicted_claims_are_never_above_the_balanced_threshold():
    numbers = np.zeros((2, len(PREMISE_NUMBERS)), dtype=np.float32)
    numbers[0, PREMISE_NUMBERS.index("contradicted")] = 1
    odds = claim_log_odds(np.array([-4.0, -4.0]), -4.0, numbers)
    assert odds[0] > 0 > odds[1]


def test_long_lists_are_not_compared():
    places = " ".join(f"past mast{number}" for number in range(50))
    short, long = f"The wind turns easterly {places[:40]}.", f"The wind turns easterly {places}."
    assert instead(short, short.replace("easterly", "westerly"))
    assert instead(long, long.replace("easterly", "westerly")) is None
