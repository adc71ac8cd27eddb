"""Values and names of an answer as its passages write them."""

import pytest

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.spellings import passage_spellings
from attribeam.schemas import Passage, Support

NOWHERE = "\u2060"


def spellings(answer, *passages):
    parsed = AnswerParser.from_pretrained("bundled").parse(answer)
    matcher = ValueMatcher(answer=answer, parsed=parsed, passages=[Passage(text=one) for one in passages])
    return {parsed.words[word].of(answer): text for word, text in passage_spellings(parsed, answer, matcher).items()}


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("The last tram leaves at 23:00.", "The last tram leaves at 11 p.m. sharp.", {"23:00": "11"}),
        ("Doors open at half past six.", "Doors open at 18:30.", {"half": "18:30", "past": "", "six": ""}),
        ("The talk is on 4 December.", "The talk is on Dec. 4.", {"4": "Dec", "December": "4"}),
        ("It was launched on 2009-02-17.", "It was launched on 17 February 2009.", {"2009": "17", "02": "February", "17": "2009"}),
        ("A ticket costs 18 dollars.", "A ticket costs $18.", {"dollars": ""}),
        ("The wall is 2.4 m high.", "The wall is 240 cm high.", {"2.4": "240"}),
        ("The trial lasted 36 months.", "The trial lasted three years.", {"36": "three", "months": "years"}),
        ("Twelve ships sank.", "A dozen ships sank.", {"Twelve": "dozen"}),
        ("About 20% of them left.", "A fifth of them left.", {"20": "fifth"}),
        ("The 3rd volume is lost.", "The third volume is lost.", {"3rd": "third"}),
        ("The United Kingdom left.", "The UK left in 2020.", {"United": "UK", "Kingdom": ""}),
        ("She is from Denmark.", "She is a Danish painter.", {"Denmark": "Danish"}),
        ("The fund has 85 thousand pounds.", "The fund has £85,000.", {"85": "85,000", "thousand": "", "pounds": ""}),
    ],
)
def test_a_value_that_is_written_otherwise_is_read_as_the_passage_writes_it(answer, passage, expected):
    assert spellings(answer, passage) == expected


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("The mill has four floors.", "The mill has four floors."),
        ("The mill has four floors.", "The mill has nine floors."),
        ("Priority was lowered from P2 to P3.", "On 2 May it was raised from P3 to P2 by 3 people."),
        ("They met on Wednesday.", "The shop is open from Monday to Friday."),
        ("Its share is three fifths.", "On 3 May it rose for 3 days."),
    ],
)  # fmt: skip
def test_other_words_stay(answer, passage):
    assert spellings(answer, passage) == {}


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("The ride takes 35 hours.", "The ride takes 35 minutes.", {"35"}),
        ("It runs at 68 mph.", "It runs at 68 km/h.", {"68"}),
        ("A permit costs 40 dollars.", "A permit costs €40.", {"40"}),
        ("The excess is 100% per claim.", "The excess is €100 per claim.", {"100"}),
        (
            "It closed on 3 June 2023.",
            "It closed on 5 March 2023.|On 3 days in June it was full.",
            {"3", "June", "2023"},
        ),
    ],
)
def test_words_of_a_value_that_no_passage_repeats_are_read_as_words_that_none_has(answer, passage, expected):
    assert spellings(answer, *passage.split("|")) == {word: NOWHERE + word for word in expected}


def test_a_value_is_read_as_in_the_sentence_that_speaks_of_the_same():
    passages = "The bath has a mile of pipes and opens at noon.", "The library closes at 6:30 p.m. in winter."
    assert spellings("The library closes at 18:30 in winter, the bath at 12:00.", *passages) == {
        "18:30": "6:30", "12:00": "noon",
    }  # fmt: skip
    rivals = "A swim in the bath takes 60 minutes, and guests pay at the door. The tour of the library takes an hour."
    assert spellings("The library tour takes 1 hour.", rivals) == {"1": ""}


@pytest.mark.parametrize(
    ("answer", "passage", "support"),
    [
        ("The last tram leaves the depot at 23:00.", "The last tram leaves the depot at 11 p.m.", Support.SUPPORTED),
        ("A permit costs 40 euros a year.", "A permit costs €40 a year.", Support.SUPPORTED),
        ("A permit costs 40 dollars a year.", "A permit costs €40 a year.", Support.UNSUPPORTED),
        ("The ride takes 35 hours in all.", "The ride takes 35 minutes in all.", Support.UNSUPPORTED),
    ],
)
def test_the_verdict_reads_values_and_not_their_spelling(attributor, answer, passage, support):
    found = attributor.attribute(question="", passages=[passage], answer=answer)
    assert {one.support for one in found if one.is_claim} == {support}
