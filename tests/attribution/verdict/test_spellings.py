"""Values and names of an answer as its passages write them."""

import pytest
from tests.attribution.verdict.judged_rows import parse, record

from attribeam.attribution.answers.plain_text import numbers_in
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.spellings import passage_spellings
from attribeam.attribution.verdict.texts import carries_content
from attribeam.schemas import Support

NOWHERE = "\ue000"


def spellings(answer, *passages, question=""):
    parsed, row = parse(answer), record(answer, *passages, question=question)
    matcher = ValueMatcher(answer=answer, parsed=parsed, passages=row.passages)
    return {parsed.words[word].of(answer): text for word, text in passage_spellings(parsed, row, matcher).items()}


RETURNS = "You can return unused items within 30 days of delivery."


@pytest.mark.parametrize(("question", "answer", "unread"), [
    ("My order arrived 12 days ago. Can I return it?", "Since your order arrived 12 days ago, you can return it.",
        ["order", "arrived", "12", "ago"]),
    ("Which bags may I take on my 13-hour flight?", "Your 13-hour flight qualifies.", ["13", "hour", "flight"]),
    ("Can I fly to Oslo? It lands at 1:15 am.", "You land at 1:15 a.m.", ["1:15", "a.m."]),
    ("My order arrived 12 days ago.", "The order arrived 12 days ago.", []),
    ("It arrived late, i.e. after 12 weeks.", "You got it after 12 weeks.", []),
    ("Can I return it after 45 days?", "Yes, you can return it after 45 days.", []),
    ("I read that the mill dates from 1931.", "Yes, you are right: it dates from 1931.", []),
    ("Can I pay 3.50 euros in cash?", "Yes, you can pay 3.50 euros in cash.", []),
    ("I have 30 unused items.", "You can return your 30 unused items.", []),
])  # fmt: skip
def test_what_the_asker_told_of_himself_is_not_read_in_sentences_to_him(question, answer, unread):
    assert [*spellings(answer, RETURNS, question=question)] == unread


@pytest.mark.parametrize(("answer", "passage", "expected"), [
    ("The last tram leaves at 23:00.", "The last tram leaves at 11 p.m. sharp.", {"23:00": "11"}),
    ("Doors open at half past six.", "Doors open at 18:30.", {"half": "18:30", "past": "", "six": ""}),
    ("It is open from 9 to 7.", "It is open from 9:00 to 19:00.", {"7": "19:00"}),
    ("It is open from 9 to 7.", "It has 9 to 7 rooms, and is open from 10:00 to 18:00.", {}),
    ("Doors open at nine.", "Doors open at 21:00.", {"nine": "21:00"}),
    ("Doors open at 9 pm.", "Doors open at 21.00 (all days).", {"9": "21.00", "pm": ""}),
    ("They grew from 5 to 7 percent.", "They sell it from 17:00 to 19:00.", {}),
    ("It is open on weekdays.", "It is open Mon-Fri.", {"weekdays": ""}),
    ("It is shut on weekends.", "It is shut on Saturdays and Sundays.", {"weekends": ""}),
    ("It is open on weekends.", "It is open Monday to Saturday.", {}),
    ("The talk is on 4 December.", "The talk is on Dec. 4.", {"4": "Dec", "December": "4"}),
    ("It was launched on 2009-02-17.", "It was launched on 17 February 2009.",
        {"2009": "17", "02": "February", "17": "2009"}),
    ("It leaves from pier No. 5.", "It leaves from pier 5.", {"No.": ""}),
    ("It leaves from pier number 5.", "It leaves from pier No. 5.", {"number": ""}),
    ("A ticket costs 18 dollars.", "A ticket costs $18.", {"dollars": ""}),
    ("The wall is 2.4 m high.", "The wall is 240 cm high.", {"2.4": "240"}),
    (r"It weighs $3\,\text{kg}$.", "It weighs 3 kg.", {}),
    ("The trial lasted 36 months.", "The trial lasted three years.", {"36": "three", "months": "years"}),
    ("It takes 30 seconds.", "It takes 30 s.", {"seconds": ""}),
    ("Use two tablespoons.", "Use 2 tbsp.", {"two": "2", "tablespoons": "tbsp"}),
    ("Use one kilogram of it.", "Use 1 kg of it.", {"one": "1", "kilogram": "kg"}),
    ("A ride costs $0.75.", "A ride costs 75 cents.", {"0.75": "75"}),
    ("The fee is 45 pence.", "The fee is £0.45.", {"45": "0.45", "pence": ""}),
    ("Add half a teaspoon.", "Add ½ tsp.", {"half": "1⁄2", "teaspoon": "tsp"}),
    ("Use 1.5 cups.", "Use 1 1/2 cups.", {"1.5": "1"}),
    ("It came with version 4.1.3.", "It came with v4.1.3.", {"version": "v"}),
    ("It was built around 1913.", "It was built c. 1913.", {"around": "c"}),
    ("It grew in the second quarter.", "It grew in Q2.", {"second": "Q2", "quarter": ""}),
    ("It costs $12 per month.", "It costs $12/mo.", {"month": "mo"}),
    ("It costs $12 a month.", "It costs $12/month.", {}), ("It costs $12 a week.", "It costs $12/week.", {}),
    ("Sales were NOK 812 million.", "| NOK m | 2025 |\n|---|---|\n| Sales | 812 |", {"million": ""}),
    ("Sales fell by 4.9%.", "Sales: -4.9%", {"fell": ""}),
    ("Twelve ships sank.", "A dozen ships sank.", {"Twelve": "dozen"}),
    ("About 20% of them left.", "A fifth of them left.", {"20": "fifth"}),
    ("They meet every three months.", "They meet quarterly.", {"every": "quarterly", "three": "", "months": ""}),
    ("One in 500 gets it.", "Some 0.2% get it.", {"One": "0.2", "500": ""}),
    ("Sales grew by 100%.", "Sales doubled.", {"grew": "doubled", "100": ""}),
    ("Sales doubled.", "Sales grew by 100%.", {"doubled": "grew"}),
    ("They pay 100% of it.", "They get full pay.", {"100": "full"}),
    ("Both pay €6.40 (2 × €3.20).", "Both of the 2 pay 3.20 euros.", {"6.40": "3.20"}),
    ("The 3rd volume is lost.", "The third volume is lost.", {"3rd": "third"}),
    ("The United Kingdom left.", "The UK left in 2020.", {"United": "UK", "Kingdom": ""}),
    ("She is from Denmark.", "She is a Danish painter.", {"Denmark": "Danish"}),
    ("The fund has 85 thousand pounds.", "The fund has £85,000.", {"85": "85,000", "thousand": "", "pounds": ""}),
    ("He resigned on January 5th, 2020.", "He resigned on 5 January 2020.", {"January": "5", "5th": "January"}),
    ("It was sent on 2 May 2024.", '{"sent": "2024-05-02T16:45:00Z"}', {"2": "2024", "May": "05", "2024": "02"}),
    ("It was sent at 4:45 pm.", '{"sent": "2024-05-02T16:45:00Z"}', {"4:45": "16:45", "pm": ""}),
    ("Fast for one day.", "Fast for 24 hours.", {"one": "24", "day": "hours"}),
    ("The exam lasts 180 minutes.", "The exam lasts 3 h.", {"180": "3", "minutes": "h"}),
    ("It comes with 16 gigabytes.", "It comes with 16 GB of RAM.", {"gigabytes": "GB"}),
    ("Wait three quarters of an hour.", "Wait 30-45 minutes.", {"three": "45", "quarters": "minutes", "hour": ""}),
    ("It was the worst since the 1990s.", "It was the worst since the nineties.", {"1990s": "nineties"}),
    ("We open on Tuesdays.", "We open Tue and Thu.", {"Tuesdays": "Tue"}),
    ("The World Health Assembly met.", "The WHA met.", {"World": "WHA", "Health": "", "Assembly": ""}),
    ("The toll is 12 Swiss francs.", "The toll is CHF 12.", {"Swiss": "CHF", "francs": ""}),
    ("The second lap took fifty-eight seconds.", "The second lap took 58 seconds.", {"fifty": "58", "eight": ""}),
])  # fmt: skip
def test_a_value_that_is_written_otherwise_is_read_as_the_passage_writes_it(answer, passage, expected):
    assert spellings(answer, passage) == expected


@pytest.mark.parametrize(("answer", "passage", "expected"), [
    ("The ride takes 35 hours.", "The ride takes 35 minutes.", {"35"}),
    ("It runs at 68 mph.", "It runs at 68 km/h.", {"68"}),
    ("A permit costs 40 dollars.", "A permit costs €40.", {"40"}),
    ("The excess is 100% per claim.", "The excess is €100 per claim.", {"100"}),
    ("It closed on 3 June 2023.", "It closed on 5 March 2023.|On 3 days in June it was full.", {"3", "June", "2023"}),
])  # fmt: skip
def test_words_of_a_value_that_no_passage_repeats_are_read_as_words_that_none_has(answer, passage, expected):
    assert spellings(answer, *passage.split("|")) == {word: NOWHERE + word for word in expected}


def test_a_value_is_read_as_in_the_sentence_that_speaks_of_the_same():
    passages = "The bath has a mile of pipes and opens at noon.", "The library closes at 6:30 p.m. in winter."
    assert spellings("The library closes at 18:30 in winter, the bath at 12:00.", *passages) == {
        "18:30": "6:30", "12:00": "noon",
    }  # fmt: skip
    rivals = "A swim in the bath takes 60 minutes, and guests pay at the door. The tour of the library takes an hour."
    assert spellings("The library tour takes 1 hour.", rivals) == {"1": ""}


@pytest.mark.parametrize(("answer", "passage", "expected"), [
    ("By noon dozen of dogs had left the shop.", "Dogs stay at the shop.", {}),
    ("The mill has four floors.", "The mill has four floors.", {}),
    ("The mill has four floors.", "The mill has nine floors.", {}),
    ("Priority was lowered from P2 to P3.", "On 2 May it was raised from P3 to P2 by 3 people.", {}),
    ("They met on Wednesday.", "The shop is open from Monday to Friday.", {}),
    ("Its share is three fifths.", "On 3 May it rose for 3 days.", {}),
    ("He has ALS and lives in a house.", "He lives in a house in Alabama with MND.", {}),
    ("It lasts fifteen months.", "It lasts fifteen years and three months.", {"fifteen": "\ue000fifteen"}),
    ("The fair begins at 5:30 p.m. on Monday.", "The fair is 5:30-7 pm on Monday.", {"p.m.": ""}),
    ("It opens on March 3.", "It opens on the 3rd of march, and closes in june.", {"March": "3rd", "3": "march"}),
])  # fmt: skip
def test_words_that_only_look_like_a_value_or_name_are_read_as_they_are(answer, passage, expected):
    assert spellings(answer, passage) == expected
    assert all(map(carries_content, filter(None, expected.values())))


@pytest.mark.parametrize(("answer", "passage", "support"), [
    ("The last tram leaves the depot at 23:00.", "The last tram leaves the depot at 11 p.m.", Support.SUPPORTED),
    ("A permit costs 40 euros a year.", "A permit costs €40 a year.", Support.SUPPORTED),
    ("A permit costs 40 dollars a year.", "A permit costs €40 a year.", Support.UNSUPPORTED),
    ("The ride takes 35 hours in all.", "The ride takes 35 minutes in all.", Support.UNSUPPORTED),
])  # fmt: skip
def test_the_verdict_reads_values_and_not_their_spelling(attributor, answer, passage, support):
    found = attributor.attribute(question="", passages=[passage], answer=answer)
    assert {one.support for one in found if one.is_claim} == {support}


@pytest.mark.parametrize(("answer", "passage"), [
    ("It is three times as fast.", "Release 2022-05-03 is twice as fast."),
    ("The lap took two seconds.", "The second lap took 58 seconds."),
    ("The room costs 3 euros.", "The third room costs more euros."),
    ("Guests leave by 11 p.m. today.", "Guests arrive at 3pm and leave by 11:00."),
    ("The dividend is €0.40 a share.", "The dividend is 40 pence a share."),
    ("The Australians won.", "The game was played in Austria."),
    ("Its share is three quarters.", "Its share is two thirds."), ("The bond pays 40 yen.", "The bond pays 40 cents."),
])  # fmt: skip
def test_values_of_another_kind_are_no_spellings(answer, passage):
    assert not {*spellings(answer, passage).values()} - {NOWHERE + word for word in answer.split()}


@pytest.mark.parametrize(("answer", "passage"), [
    ("A breach is fined with up to $5,000.", "A breach is fined with up to £5,000.|The port has 5,000 jobs."),
    ("Breakfast costs 18 AUD.", "Breakfast costs 18 USD."), ("The toll is 12 euros.", "The toll is 12 francs."),
])  # fmt: skip
def test_the_same_number_of_another_currency_is_nowhere(answer, passage):
    found = spellings(answer, *passage.split("|"))
    assert found
    assert all(word.startswith(NOWHERE) for word in found.values())


def test_a_long_answer_and_long_passages_are_read_once(monkeypatch):
    read = []
    monkeypatch.setattr(
        "attribeam.attribution.verdict.spellings.numbers_in", lambda text: read.append(len(text)) or numbers_in(text)
    )
    answer = "".join(f"Mill {place} has {place + 300} windows. " for place in range(12, 600))
    passage = "".join(f"Mill {place} has {place + 300}k window panes. " for place in range(12, 600))
    assert min(len(answer), len(passage)) > 10_000
    spellings(answer, passage)
    assert len(read) <= 2
