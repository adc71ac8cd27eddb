"""Premises of claims, reasons of unsupported ones with what the evidence has instead, and how others are supported."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.attribution.verdict.judged_rows import RECORD, parse, record
from tests.evaluation.dataset_rows import WORDS

from attribeam import Attributor
from attribeam.attribution.verdict.claims import word_kinds
from attribeam.attribution.verdict.fitted_parts import word_table
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, claim_premises, is_attended
from attribeam.attribution.verdict.signals import AnswerRow
from attribeam.attribution.verdict.texts import PassageSentences, negated_words
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.schemas import CharRange, EvidencePiece, Support, SupportedHow, UnsupportedReason

MILL = "The mill at Orrin was built in 1874 by Clara Voss. It has four floors. The mill is open until six on Fridays."
INN = "The inn at Brigg was built in 1931 by Peter Lang. It has nine rooms."
FEES = "Admission: adults CHF 16, seniors CHF 12, students CHF 9, children CHF 4."
PLANS = ("The Fern plan costs $12 a month.", "The Moss plan has support by telephone.")


def claims(attributor, answer, *passages):
    found = attributor.attribute(question="", passages=passages, answer=answer)
    return [one for one in found if one.is_claim]


@pytest.mark.parametrize(("answer", "passages", "reason", "expected"), [
    ("The mill has nine floors.", (MILL,), UnsupportedReason.OTHER_VALUE, "four"),
    ("The inn has nine floors.", ("The inn has 40 beds and four floors.",), UnsupportedReason.OTHER_VALUE, "four"),
    ("The mill was built in 1931.", (MILL,), UnsupportedReason.OTHER_TIME, "1874"),
    ("Peter Lang built the mill in 1874.", (MILL,), UnsupportedReason.OTHER_ENTITY, "Clara Voss"),
    ("The mill is open until six on Sundays.", (MILL,), UnsupportedReason.OTHER_TIME, "Fridays"),
    ("A ticket costs 7.50 euros.", ("A ticket costs 6.50 euros. Line 9 leaves at 8:15 on 4 May.",),
        UnsupportedReason.OTHER_VALUE, "6.50"),
    ("The ride takes 35 hours.", ("Line 17: the ride takes 35 minutes and costs $4.",), UnsupportedReason.OTHER_VALUE,
        "35 minutes"),
    ("The fee is $50.", ("In Q3 the fee rose by 12% to $40 in 5 shops.",), UnsupportedReason.OTHER_VALUE, "$40"),
    ("The fine is $150 for a first offence.", ("The fine is $1500 for a first offence.",),
        UnsupportedReason.OTHER_VALUE, "$1500"),
    ("The fare is $1800 a year.", ("The fare is $1500 a year.",), UnsupportedReason.OTHER_VALUE, "$1500"),
    ("Racks are inspected monthly.", ("12 racks are inspected once a year.",),
        UnsupportedReason.OTHER_VALUE, "once a year"),
    ("The engine weighs 1300.5 kg with oil.", ("The engine weighs 1200.5 kg with oil.",), UnsupportedReason.OTHER_VALUE,
        "1200.5"),
    ("The tunnel is __30__ km long.", ("The tunnel is 45 km long and cost 12 million.",), UnsupportedReason.OTHER_VALUE,
        "45"),
    ("It opened on **May** 5.", ("It opened on June 9 at 10:30.",), UnsupportedReason.OTHER_TIME, "June 9"),
    ("The shop closes at 5 PM.", ("The shop closes at 8 PM today.",), UnsupportedReason.OTHER_TIME, "8 PM"),
    ("The talk is on 23 May.", ("The talk is on Tuesday, 22 May, at 18:30.",), UnsupportedReason.OTHER_TIME, "22 May"),
    ("The hut closes at the end of July.", ("The hut is open from early May until the end of June.",),
        UnsupportedReason.OTHER_TIME, "June"),
    ("It keeps 14300 maps and 212 boxes.", ("It keeps 14,300 maps and 97 boxes.",), UnsupportedReason.OTHER_VALUE,
        "97"),
    ("The talk is at 6 pm.", ("The talk is on Tuesday, 22 May, at 18:30.",), UnsupportedReason.OTHER_TIME, "18:30"),
    ("Both pay €7.40 (2 × €3.20).", ("Both of the 2 pay 3.20 euros.",), UnsupportedReason.NOT_IN_PASSAGES, None),
    ("Guests may bring their dogs.", (MILL,), UnsupportedReason.NOT_IN_PASSAGES, None),
    ("It has 16 GB of plans by Peter Lang.", ("It has 16 GB of plans by Dr. Clara Voss.",),
        UnsupportedReason.OTHER_ENTITY, "Clara Voss"),
    ("It has 16 GB of plans by Peter Lang.", ("It has 16 GB of plans and 8 kW of power on Mondays.",),
        UnsupportedReason.NOT_IN_PASSAGES, None),
    ("The firm of Peter Lang runs the mill.", ("Hewlett-Packard runs the mill at Torrow.",),
        UnsupportedReason.OTHER_ENTITY, "Hewlett-Packard"),
    ("Dogs are allowed on the pier.", ("Dogs are not allowed on the pier. The ferry leaves at noon.",),
        UnsupportedReason.NEGATED, "Dogs are not allowed on the pier."),
    ("You can have breakfast until eleven.",
        ("The inn has forty rooms. Breakfast is served from seven to ten in the hall.",),
        UnsupportedReason.OTHER_VALUE, "ten"),
    ("Breakfast is served until eleven.", ("Breakfast is served from seven to ten in the hall.",),
        UnsupportedReason.OTHER_VALUE, "ten"),
    ("Seniors pay CHF 14.", (FEES,), UnsupportedReason.OTHER_VALUE, "CHF 12"),
    ("Children pay CHF 6.", (FEES,), UnsupportedReason.OTHER_VALUE, "CHF 4"),
    ("Team costs $39 a month.", ("Plans: $9 for Starter, $29 for Team, $79 for Business.",),
        UnsupportedReason.OTHER_VALUE, "$29"),
    ("Ferrol is fourth with 48 points.", ("Brigg is third with 51 points, Ferrol fourth with 45.",),
        UnsupportedReason.OTHER_VALUE, "45"),
    ("The hut is open until 7 pm.", ("The hut is open from 10 am to 6 pm, on Thursdays until 9 pm.",),
        UnsupportedReason.OTHER_TIME, "6 pm"),
    ("The ferry leaves from pier B14.", ("The ferry to Torrow leaves from pier B12.",),
        UnsupportedReason.OTHER_ENTITY, "B12"),
    ("The mill cost £6.4 million, £1.9 million too much.", ("The mill cost £6.4m instead of £5.1m.",),
        UnsupportedReason.OTHER_VALUE, "£5.1m"),
    ("There are 4,130 millers.", ("There are 4,310 millers.",), UnsupportedReason.OTHER_VALUE, "4,310"),
    ("The mill earned NOK 397 million.", ("The mill earned NOK 387m.",), UnsupportedReason.OTHER_VALUE, "NOK 387m"),
])  # fmt: skip
def test_an_unsupported_claim_says_why_and_what_the_evidence_has(attributor, answer, passages, reason, expected):
    (claim,) = claims(attributor, answer, *passages)
    assert claim.support is Support.UNSUPPORTED
    assert (claim.reason, claim.expected, claim.how) == (reason, expected, None)


@pytest.mark.parametrize(("answer", "expected"), [
    ("The mill at Orrin was built in 1931 by Clara Voss.", "1874"),
    ("The mill at Orrin was built in 1874 by Peter Lang.", "Clara Voss"), ("It has nine floors.", "four"),
])  # fmt: skip
def test_a_value_that_only_another_passage_has_is_no_support(attributor, answer, expected):
    (claim,) = claims(attributor, answer, MILL, INN, *PLANS)
    assert (claim.support, claim.expected) == (Support.UNSUPPORTED, expected)


def test_a_record_that_an_answer_says_nothing_of_does_not_make_its_row_one(attributor):
    kettle = "Capacity: 1.7 l\nPower: 2200 W\nColour: white\nCordless: Yes\nWarranty: 24 months\nPrice: $59"
    answer, ferry = "Dogs are allowed on the pier.", "Dogs are not allowed on the pier. The ferry leaves at noon."
    (alone,) = claims(attributor, answer, ferry)
    (beside,) = claims(attributor, answer, ferry, kettle)
    assert beside.support is alone.support is Support.UNSUPPORTED


def test_a_copied_claim_is_quoted_and_words_of_two_places_of_a_sentence_are_no_quote(attributor):
    lake = "The lake is fed by the Rio Blanco and drained by the Tuelo."
    (claim,) = claims(attributor, "The lake is fed by the Rio Blanco.", lake)
    assert (claim.support, claim.how, claim.reason) == (Support.SUPPORTED, SupportedHow.QUOTED, None)
    (claim,) = claims(attributor, "The lake is drained by the Rio Blanco.", lake)
    assert claim.how is not SupportedHow.QUOTED


def test_a_fact_of_another_plan_scores_below_its_right_twin(attributor):
    (wrong,) = claims(attributor, "The Moss plan costs $12 a month.", *PLANS)
    (right,) = claims(attributor, "The Fern plan costs $12 a month.", *PLANS)
    assert wrong.support is Support.UNSUPPORTED
    assert right.support is Support.SUPPORTED
    assert numbers(wrong.text, *PLANS)["name_gap"] > 0.3
    assert numbers(right.text, *PLANS)["name_gap"] <= 0


@cache
def attributor_of_words():
    return Attributor.from_pretrained("bundled", method=WORDS)


def row_and_span(answer, *passages):
    """What is read of the row, its sentences, and the evidence of its first span."""
    row, parsed = record(answer, *passages), parse(answer)
    (found, *_) = attributor_of_words().attribute_many([row])[0]
    return AnswerRow.of(row, parsed, word_kinds(parsed, row)), PassageSentences(row.passages), found


def premise(answer, *passages, evidence=()):
    """That of the whole answer as one claim."""
    read, sentences, found = row_and_span(answer, *passages)
    claim = range(len(parse(answer).words)), replace(found, evidence=evidence, atomic_fact=())
    (premise,) = claim_premises(read, sentences, [claim], word_table(BUNDLED_VERDICT))
    return premise


@pytest.mark.parametrize(
    "answer", ["The mill has nine floors. It was not built by Clara Voss. Dogs are welcome.", "Mill.", "..."]
)  # fmt: skip
def test_claims_are_measured_together_as_one_by_one(monkeypatch, answer):
    read, sentences, found = row_and_span(answer, MILL, INN, *PLANS)
    runs = np.array_split(range(len(parse(answer).words)), 3)
    claims = [(run.tolist(), replace(found, atomic_fact=())) for run in runs if len(run)]
    together = claim_premises(read, sentences, claims, word_table(BUNDLED_VERDICT))
    monkeypatch.setattr("attribeam.attribution.verdict.premises._MOST_CELLS", 1)
    for one, alone in zip(together, claim_premises(read, sentences, claims, word_table(BUNDLED_VERDICT)), strict=True):
        assert replace(one, numbers=alone.numbers) == alone
        np.testing.assert_allclose(one.numbers, alone.numbers, atol=1e-6)


def numbers(answer, *passages):
    """What is measured of it, without any evidence."""
    found = premise(answer, *passages).numbers
    assert np.isfinite(found).all()
    return dict(zip(PREMISE_NUMBERS, found.tolist(), strict=True))


def test_a_value_of_another_sentence_is_missing_in_the_premise_but_not_anywhere():
    far = f"{MILL} Tickets are sold at the bridge. Children and dogs are welcome. Eleven steps lead to the door."
    found = numbers("The mill has eleven floors.", far)
    assert (found["values_window"], found["values_anywhere"]) == (1, 0)


@pytest.mark.parametrize(("answer", "swapped"), [
    ("The mill at Orrin was built in 1931 by Clara Voss.", (1, 0)),
    ("The mill at Orrin was built in 1874 by Peter Lang.", (0, 2)), ("It has nine floors.", (1, 0)),
    ("It has 4 floors.", (0, 0)), ("The mill at Orrin was built by Clara Voss in 1874.", (0, 0)),
    ("Peter Lang often slept there in 1931.", (0, 0)),
])  # fmt: skip
def test_values_are_swapped_where_the_sentence_has_another_in_their_place(answer, swapped):
    found = numbers(answer, MILL, INN)
    assert (found["swapped_numbers"], found["swapped_names"]) == swapped
    assert (found["aligned"] > 0.5) == any(swapped)


WARD = (
    "Flowers are not allowed in the ward because of allergies, but photographs are. Visitors can't smoke. "
    "Sales of coffee fell by a third. No later than ten, guests leave the ward. Bags must not exceed 55 cm. "
    "The deposit is not refunded unless the visa is refused. There is no entry fee. The shop is open until six. "
    "Up to 5 unused days may be carried over."
)


@pytest.mark.parametrize(("answer", "is_denied", "opposed"), [
    ("Flowers are allowed in the ward.", True, 0), ("Flowers are not allowed in the ward.", False, 0),
    ("Visitors smoke.", True, 0), ("Sales of coffee did not fall by a third.", True, 0),
    ("Sales of coffee increased by a third.", False, 1), ("Sales of coffee fell by a third.", False, 0),
    ("Guests leave the ward at ten.", False, 0), ("Bags must not exceed 55 cm.", False, 0),
    ("Bags of up to 55 cm must fit.", False, 0), ("Bags must exceed 55 cm.", True, 0),
    ("Unused days cannot be carried over.", True, 0),
    ("The deposit is only refunded where the visa is refused.", False, 0),
    ("The deposit is refunded where the visa is refused.", True, 0),
    ("The entry fee is free.", False, 0), ("There is an entry fee.", True, 0),
    ("The shop closes at six.", False, 0), ("The shop is closed until six.", True, 1),
])  # fmt: skip
def test_what_is_denied_is_compared_word_by_word(answer, is_denied, opposed):
    found = numbers(answer, WARD)
    assert (found["denied"] > 0, found["opposed"]) == (is_denied, opposed)


def test_an_opposite_that_is_denied_says_the_same():
    closed = "The shop is closed on Sundays."
    same, other = (numbers(f"The shop is {word} on Sundays.", closed) for word in ("not open", "open"))
    assert (same["denied"], same["opposed"], other["opposed"]) == (0, 0, 1)


@pytest.mark.parametrize(("text", "negated"), [
    ("it is not open on public holidays in may", "open on public holidays"), ("not only guests but members pay", ""),
    ("nobody pays , members swim", "pays ,"), ("they don't pay because members swim", "pay because"),
    ("members pay", ""), ("parking is free of charge", "of charge"), ("the swimming is free", ""),
    ("a non - refundable ticket", "- refundable ticket"),
])  # fmt: skip
def test_a_negation_reaches_three_words_of_content_up_to_a_mark_or_conjunction(text, negated):
    words = text.split()
    assert " ".join(word for word, is_so in zip(words, negated_words(words), strict=True) if is_so) == negated


def test_a_field_is_read_with_its_value_and_its_name_also_as_one_word():
    cafe = '{"RestaurantsTakeOut": true, "garage": false, "OutdoorSeating": true, "business_stars": 3.5}'
    assert numbers("It offers takeout.", cafe)["missing_nouns"] == 0
    assert numbers("It is rated 3.5 stars.", cafe)["missing_numbers"] == 0
    assert numbers("It is rated 4.5 stars.", cafe)["missing_numbers"] == 1
    watch = "Weight: 895 g\nWaterproof: No\nRange: 10 km"
    for answer, passage, denied in (
        ("It has a garage.", cafe, 1), ("It has no garage.", cafe, 0), ("It has outdoor seating.", cafe, 0),
        ("There is no outdoor seating.", cafe, 1), ("It is waterproof.", watch, 1), ("It is not waterproof.", watch, 0),
    ):  # fmt: skip
        assert numbers(answer, passage)["denied"] == denied


@pytest.mark.parametrize(
    ("amount", "missing"), [("1,250.50", 0), ("1250.50", 0), ("1250.5", 0), ("1,250.75", 1), ("1,250", 1), ("250.5", 1)]
)
def test_amounts_are_whole_words_in_any_format(amount, missing):
    found = numbers(f"The ticket costs {amount} crowns.", "The ticket costs 1,250.50 crowns.")
    assert found["missing_numbers"] == missing


def test_a_cell_is_judged_with_the_labels_that_passages_have(attributor):
    kettles = ("The Brisk kettle has a guarantee of 24 months.", "The Calm kettle has a guarantee of 36 months.")
    table = "| Model | Guarantee | Remarks |\n|---|---|---|\n| {} | 24 months | - |"
    (right,) = claims(attributor, table.format("Brisk"), *kettles)
    (wrong,) = claims(attributor, table.format("Calm"), *kettles)
    assert right.text == wrong.text == "24 months"
    assert right.support_score > wrong.support_score + 0.2


def test_evidence_agrees_with_a_claim_where_its_passage_says_the_same():
    far = " ".join(f"The {word} stands beside the harbour." for word in ("lamp", "ledger", "kettle", "ladder"))
    same = f"Voss laid ten stones. {MILL}"
    for passages, place, is_agreed in (
        ((MILL, far), 0, True), ((MILL, far), 1, False), ((far, far), 0, None), ((MILL, same), 1, True),
        ((MILL, INN), 1, False),
    ):  # fmt: skip
        piece = EvidencePiece(place, None, False, CharRange(0, len(passages[place])), passages[place], 0.5)
        found = premise("The mill has four floors.", *passages, evidence=(piece,))
        assert is_attended(found.numbers) is is_agreed, passages


def test_sentences_have_their_places_and_fields_of_json_have_none():
    (first, second, third) = PassageSentences(record("x", MILL).passages).all
    assert [MILL[one.start : one.end] for one in (first, second, third)] == [one.text for one in (first, second, third)]
    fields = PassageSentences(record("x", '{"name": "Orrin mill", "floors": 4}').passages).all
    assert [(one.text, one.start) for one in fields] == [("name: Orrin mill", -1), ("floors: 4", -1)]
    assert len(PassageSentences(record("x", RECORD).passages)) == len(RECORD.split("\n"))


@pytest.mark.parametrize(("answer", "passage", "named"), [
    ("The mill has nine floors.", MILL, ["nine"]),
    ("The ride takes 35 hours in all.", "The ride takes 35 minutes in all.", ["35 hours"]),
    ("The talk is on 23 May.", "The talk is on Tuesday, 22 May, at 18:30.", ["23"]),
    ("The talk takes 25 minutes on 15 May.", "The talk takes 25 minutes on 15 April.", ["15 May"]),
])  # fmt: skip
def test_of_a_claim_that_is_its_premise_with_another_value_only_this_is_named(attributor, answer, passage, named):
    (claim,) = claims(attributor, answer, passage)
    assert [chars.of(answer) for chars in claim.unsupported_words] == named


KEPT = "Invoices are kept for ten years. Log files are deleted after 14 days. Conversations are kept for two years."


@pytest.mark.parametrize(("answer", "supports"), [
    ("- **Invoices:** ten years\n- **Log files:** 14 days\n- **Conversations:** two years", [True, True, True]),
    ("- **Invoices:** two years\n- **Log files:** 14 days", [False, True]),
    ("- **Invoices:** ten years\n- **Passport scans:** ten years", [True, False]),
    ("- **Period:** Invoices are kept for ten years.\n- **Extent:** 14 days", [True, True]),
])  # fmt: skip
def test_a_bold_label_is_held_against_passages_with_its_claim(attributor, answer, supports):
    found = claims(attributor, answer, KEPT)
    assert [one.support is Support.SUPPORTED for one in found] == supports
