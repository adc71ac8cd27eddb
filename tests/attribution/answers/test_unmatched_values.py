"""Values of an answer: numbers, dates, times and measures, by hand-made trees and as people compare them."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from tests.attribution.trees import COMPANY_UNIVERSAL, tree

from attribeam.attribution.answers.numbers_and_dates import (
    DATE,
    QUANTITY,
    clock_times_in,
    numbers_in,
)
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.answers.quantities import conversions_in, quantities_in
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.schemas import CharRange, Passage


def plain(text: str) -> str:
    """A notation in which capitalised words inside the sentence are proper nouns and number words count the next."""
    items = []
    for place, word in enumerate(text.split()):
        name = word[0].isupper() and place > 0
        counts = word in ("one", "two", "three", "twelve")
        tag = "PROPN" if name else "NUM" if counts or word[0].isdigit() else "NOUN"
        items.append(f"{word}/{'nummod' if counts else 'dep'}/{2 if place == 0 else 1}/{tag}")
    items[0] = items[0].replace("/dep/2/", "/root/0/")
    return " ".join(items)


def unmatched(answer: str, *texts: str, title: str | None = None, notation: str | None = None) -> tuple[str, ...]:
    text, parsed = tree(notation or plain(answer))
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage(one, title) for one in texts])
    return matcher.unmatched_values(CharRange(0, len(text)), range(len(texts)))


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("it cost 1,234 euros", "The price was 1234 euros."),
        ("it cost 1234 euros", "The price was 1,234 euros."),
        ("it cost 1234 euros", "The price was 1 234 euros."),
        ("it cost 1234 euros", "The price was 1.234 euros."),
        ("it weighs 5.0 kg", "a weight of 5 kg"),
        ("it weighs 5,5 kg", "a weight of 5.5 kg"),
        ("about $1 million was paid", "They paid 1,000,000 dollars."),
        ("about 1,000,000 was paid", "They paid one million dollars."),
        ("about 1.2 million live there", "The census counted 1,204,300 people."),
        ("it sold 3bn units", "Sales reached 3 billion."),
        ("it has 12 moons", "It has twelve moons."),
        ("it has two moons", "It has 2 moons."),
        ("in the 1990s it grew", "Growth began in 1994."),
        ("the 21st of them", "number 21"),
        ("it opened on 12 May 2013", "On May 12, 2013 the doors opened."),
        ("it opened on 12 May 2013", "Opened: 2013-05-12"),
        ("it opened on 2013-05-12 then", "It opened on the 12th of May 2013."),
        ("it opened in Sept. 2001", "September 2001 was the start."),
        ("it opened in March", "Opened in Mar. of that year"),
        ("by Beyonce herself", "Beyoncé wrote it."),
        ("by Ada’s brother", "Ada's family"),
        ("in the U.S. today", "The US grew."),
        ("in the US today", "The United States grew."),
        ("the Canadians won", "Canada won."),
        ("people in Australia won", "An Australian won."),
        ("it was 42", "It was ٤٢."),
        ("a Report of Ｕｎｅｓｃｏ today", "unesco's report"),
        ("it costs **25** euros", "25 euros"),
        ("by Ada Byron herself", "the book _Ada Byron_ sold well"),
        ("about 80 percent of it", "four fifths of the price"),
        ("about 50% of it", "half of the price"),
        ("about 67% of it", "two thirds of the price"),
        ("it took 2.5 hours", "It lasted two and a half hours."),
        ("it took 18 months", "It lasted a year and a half."),
        ("it starts at 7.30 p.m.", "Beginning at half past seven."),
        ("after 30 minutes then", "half an hour later"),
        ("it took two weeks", "within 14 days"),
        ("it took 7 days", "for a week"),
        ("within 3 days", "within 3 working days"),
        ("it took two weeks", "two or three weeks"),
        ("about 1.2 million years ago", "1,204,300 years before today"),
        ("it came with 4.8.2 then", "The fix is in v4.8.2."),
        ("it came with 4.8 then", "The fix is in 4.8.2."),
        ("it opened on 05.05.2021 then", "It opened on 5 May 2021."),
        ("it opened on 5 May 2021", "Opened: 05.05.2021"),
        ("it opened on 05.05.2021 then", "Opened: 2021-05-05"),
    ],
)
def test_value_is_found_in_another_form(answer: str, passage: str) -> None:
    assert unmatched(answer, passage) == ()


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("it cost 1,234 euros", "The price was 1,243 euros.", ("1,234",)),
        ("it cost 234 euros", "The price was 1,234 euros.", ("234",)),
        ("about 1 million was paid", "They paid 5 million dollars.", ("1 million",)),
        ("about 1.2 million live there", "The census counted 1,304,300 people.", ("1.2 million",)),
        ("it has two moons", "It has three moons.", ("two",)),
        ("it opened on 12 May 2013", "On 12 June 2013 the doors opened.", ("12 May 2013",)),
        ("it opened on 12 May 2013", "On 13 May 2013 the doors opened.", ("12 May 2013",)),
        ("it opened in March", "Opened in May.", ("March",)),
        ("in the 1990s it grew", "Growth began in 1984.", ("1990s",)),
        ("by Ada Byron herself", "Charles wrote it.", ("Ada Byron",)),
        ("by Ada Byron herself", "Ada Lovelace wrote it.", ("Ada Byron",)),
        ("from Oslo to Bergen", "A train from Lund.", ("Oslo", "Bergen")),
        ("it took two weeks", "two months later", ("two",)),
        ("it took 30 days", "within 30 hours", ("30",)),
        ("about 60 percent of it", "half of the price", ("60",)),
        ("it has 50 rooms", "half of the rooms", ("50",)),
        ("it came with 4.8.2 then", "The fix is in 4.8.3, not 2, 4 or 8.", ("4.8.2",)),
        ("it came with 4.8.2 then", "The fix is in 14.8.2 and 4.8.21.", ("4.8.2",)),
        ("it answers at 10.0.0.1 only", "It answers at 10.0.0.2 now.", ("10.0.0.1",)),
        ("it came with version 2 then", "The fix is in 4.8.2.", ("2",)),
        ("it opened on 05.05.2021 then", "It opened on 6 May 2021.", ("05.05.2021",)),
        ("it opened on 05.05.2021 then", "It opened on 05.06.2021.", ("05.05.2021",)),
    ],
)
def test_value_that_the_passage_does_not_repeat_is_unmatched(
    answer: str, passage: str, expected: tuple[str, ...]
) -> None:
    assert unmatched(answer, passage) == expected


def test_title_counts_as_passage_text() -> None:
    assert unmatched("in the Oslo area", "A city.", title="Oslo") == ()


def test_date_must_occur_in_one_passage() -> None:
    assert unmatched("it opened on 12 May 2013", "On 12 May 1999.", "On 3 June 2013.") == ("12 May 2013",)


def test_value_in_any_of_the_evidence_passages_is_matched() -> None:
    assert unmatched("from Oslo to Bergen", "Oslo", "Bergen") == ()


def test_capitalised_first_word_is_no_name() -> None:
    assert unmatched("Meanwhile it rained", "Nothing.") == ()


def test_worded_numbers_beside_each_other_stay_two() -> None:
    passage = "The company earned $1,000,000 in 2012."
    assert unmatched("", passage, notation=COMPANY_UNIVERSAL) == ("two million", "2013")


def test_only_values_wholly_in_the_span_count() -> None:
    text, parsed = tree(plain("from Oslo to Bergen in 1999"))
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage("Nothing.")])
    assert matcher.unmatched_values(CharRange(5, 12), [0]) == ("Oslo",)
    assert matcher.unmatched_values(CharRange(5, 16), [0]) == ("Oslo",)


def test_span_without_evidence_passages_is_held_against_all() -> None:
    text, parsed = tree(plain("from Oslo to Bergen"))
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage("Oslo"), Passage("Lund")])
    assert matcher.unmatched_values(CharRange(0, len(text)), []) == ("Bergen",)
    assert matcher.unmatched_values(CharRange(0, len(text)), [1]) == ("Oslo", "Bergen")


def test_repeated_value_is_given_once() -> None:
    assert unmatched("from Oslo and to Oslo", "Nothing.") == ("Oslo",)


@pytest.mark.parametrize(
    "answer",
    [
        "it cost NOK 48 then",
        "it cost 48 NOK then",
        "it cost 48 million EUR then",
        "it has 48 °F now",
        "it has 48 GB now",
    ],
)
def test_unit_or_currency_beside_a_number_is_no_name(answer: str) -> None:
    assert unmatched(answer, "We read 48 and 48 million there.") == ()


@pytest.mark.parametrize("answer", ["it is in NOK now", "the F came", "about 48 Gebs then"])
def test_unit_that_stands_elsewhere_is_a_name(answer: str) -> None:
    assert unmatched(answer, "We read 48 there.") == (answer.split()[-2],)


def test_bracketed_numbers_of_parts_are_no_values() -> None:
    assert unmatched("it is (1) wet and (22) cold", "Nothing.") == ()
    assert unmatched("it is (1999) old", "Nothing.") == ("1999",)


def test_initials_of_the_words_before_them_are_no_value() -> None:
    name = "the/det/4/DET Iron/compound/4/PROPN Ore/compound/4/PROPN Board/root/0/PROPN (/punct/6/PUNCT "
    passage = "The Iron-Ore board met."
    assert unmatched("", passage, notation=name + "~IOB/appos/4/PROPN ~)/punct/6/PUNCT") == ()
    assert unmatched("", passage, notation=name + "~IOC/appos/4/PROPN ~)/punct/6/PUNCT") == ("IOC",)


def test_units_are_looked_up_and_not_searched_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[CharRange] = []
    overlaps = CharRange.overlaps
    monkeypatch.setattr(CharRange, "overlaps", lambda one, other: (compared.append(one), overlaps(one, other))[1])
    text, parsed = tree("Ada/root/0/PROPN " + "5/nummod/1/NUM km/dep/1/PROPN " * 300)
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage("Nothing.")])
    assert matcher.unmatched_values(CharRange(0, len(text)), [0]) == ("Ada", "5")
    assert len(compared) < 5 * len(parsed.words)


def test_texts_are_read_once_unless_they_are_long() -> None:
    read: list[int] = []

    @remembered
    def length(text: str) -> int:
        read.append(len(text))
        return len(text)

    assert [length("x" * size) for size in (3, 3, 20_000, 20_000)] == [3, 3, 20_000, 20_000]
    assert read == [3, 20_000, 20_000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", [["7"]]),
        ("1,234", [["1234"]]),
        ("1,234,567.5", [["1234567.5"]]),
        ("1.234.567,5", [["1234567.5"]]),
        ("1.234", [["1234", "1.234"]]),
        ("0,25", [["0.25"]]),
        ("12.05.2013", [["12", "5", "2013"]]),
        ("4.8.2", [["4", "4.8"]]),
        ("2.5 million", [["2500000"]]),
        ("5k", [["5", "5000"]]),
        ("5 million, 5million", [["5000000"], ["5000000"]]),
        ("one million", [["1000000"]]),
        ("twenty-one", [["21"]]),
        ("million", [["1000000"]]),
        ("one million and two million", [["1000000"], ["2000000"]]),
        ("twenty-three thousand and forty", [["23040"]]),
        ("five thousand and two hundred people came", [["5000"], ["200"]]),
        ("one thousand and one nights", [["1001"]]),
        ("three million and seventy-two", [["3000072"]]),
        ("two hundred and five thousand", [["205000"]]),
        ("one hundred and two hundred", [["100"], ["200"]]),
        ("between one hundred and twenty-two hundred", [["100"], ["2200"]]),
        ("twenty thousand and forty thousand", [["20000"], ["40000"]]),
        ("four million two hundred thousand and six", [["4200006"]]),
        ("six and seven", [["6"], ["7"]]),
        ("one hundred and million-year-old", [["100"], ["1000000"]]),
    ],
)
def test_number_may_amount_to(text: str, expected: list[list[str]]) -> None:
    assert [{*number.amounts} for number in numbers_in(text)] == [{*map(Decimal, one)} for one in expected]


MONTHS = ("12 May 2013", "May 12, 2013", "12th of May", "May 2013", "2013-05-12", "Sept. 3", "3 Feb. 1999")
DOTTED = ("05.05.2021", "5.5.2021", "31.12.1999")
UNITS = ("$4 million", "3.5%", "105 km²", "20 °C", "1990s", "10:30", "12 345 people", "€5bn")
SIGNS = ("600 W", "48.6 million NOK", "446 °F", "16 GB", "9 a.m.")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [*((DATE, text) for text in MONTHS + DOTTED), *((QUANTITY, text) for text in UNITS + SIGNS)],
    ids=str,
)
def test_a_date_or_a_quantity_with_its_unit_is_one_match(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.fullmatch(text)


@pytest.mark.parametrize("text", ["600 Watts", "3 Big ships", "5 c"])
def test_word_after_a_number_is_no_sign(text: str) -> None:
    assert QUANTITY.fullmatch(text) is None


@pytest.mark.parametrize("text", ["he may", "maybe 12", "marching 5", "4.8.2", "40.12.2021", "4.13.2021", "1.2.2021.4"])
def test_other_words_and_dotted_numbers_are_no_dates(text: str) -> None:
    assert DATE.search(text) is None


@pytest.mark.parametrize(
    "text", ["on 5 March.", "on 5 Sept. Then 20 came", "in the 5th of May. 2019 was dry", "on 5 Dec. It"]
)
def test_full_stop_behind_a_date_is_no_part_of_it(text: str) -> None:
    (found,) = DATE.finditer(text)
    assert not found.group().endswith(".")
    assert text[found.end()] == "."


DAY = 86_400


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("half of them", "percent", ["50"]),
        ("a third left", "percent", ["33"]),
        ("two thirds stayed", "percent", ["66", "67"]),
        ("three-quarters full", "percent", ["75"]),
        ("the third of May", "percent", []),
        ("behalf of the tenth", "percent", []),
        ("half past seven", "perhaps a minute of the day", ["450", "1170"]),
        ("a quarter to eight", "perhaps a minute of the day", ["465", "1185"]),
        ("quarter to one", "perhaps a minute of the day", ["765"]),
        ("half to nine", "perhaps a minute of the day", []),
        ("half past the hill", "perhaps a minute of the day", []),
        ("3 days", "seconds", [3 * DAY]),
        ("3-day", "seconds", [3 * DAY]),
        ("3 weeks", "seconds", [21 * DAY]),
        ("3 and a half hours", "seconds", [12_600]),
        ("3 years", "months", [36]),
        ("3 centuries", "months", [3600]),
        ("3 euros, 3 working days, 3 yearly", "seconds", []),
        ("a week, half an hour, three quarters of an hour", "seconds", [7 * DAY, 1800, 2700]),
        ("a year and a half", "months", [18]),
        ("2 hours and 15 minutes", "seconds", [7200, 900, 8100]),
        ("2 and a quarter miles", "amount of time", ["2.25"]),
        ("2 and a bit", "amount of time", []),
        ("half a litre", "volume", ["0.5"]),
        ("half a million", "other amount", [500_000]),
        ("one and a half million", "other amount", [1_500_000]),
    ],
)
def test_text_is_read_into_quantities(text: str, kind: str, expected: list[str | int]) -> None:
    found = {size for quantity in quantities_in(text) for of, size in quantity.readings if of == kind}
    assert found == {*map(Decimal, expected)}


def times(text: str) -> list[tuple[str, list[int]]]:
    return [(text[one.start : one.end], sorted(int(at) for _, at in one.readings)) for one in clock_times_in(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("at 5 PM", [("5 PM", [1020])]),
        ("at 5pm.", [("5pm", [1020])]),
        ("at 5 p.m. sharp", [("5 p.m.", [1020])]),
        ("at 12 AM and 12:30 pm", [("12 AM", [0]), ("12:30 pm", [750])]),
        ("at 21:00 PM", [("21:00 PM", [1260])]),
        ("at 17:00", [("17:00", [1020])]),
        ("at 5:30", [("5:30", [330, 1050])]),
        ("open 11:0-17:30", [("11:0", [660]), ("17:30", [1050])]),
        ("from 4-7 p.m.", [("4", [240, 960]), ("7 p.m.", [1140])]),
        ("9:30 to 5 pm", [("9:30", [570, 1290]), ("5 pm", [1020])]),
        ("at noon, not at midnight", [("noon", [720]), ("midnight", [0])]),
    ],
)
def test_times_are_minutes_after_midnight(text: str, found: list[tuple[str, list[int]]]) -> None:
    assert times(text) == found


@pytest.mark.parametrize("text", ["at 25:00", "at 5:75", "1:2:3", "$5 p", "4.5 stars", "3 amps", "ratio of 1:100"])
def test_other_numbers_are_no_times(text: str) -> None:
    assert times(text) == []


def pairs(text: str) -> list[tuple[str, str]]:
    found = conversions_in(numbers_in(text), text)
    return [(text[first.start :].split()[0], text[second.start :].split()[0]) for first, second in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dry them at 350°F (175°C) .", [("350°F", "175°C)")]),
        ("Dry them at 350 F (about 180 C) .", [("350", "180")]),
        ("Dry them at 200 °C / 400 °F .", [("200", "400")]),
        ("It was 79 degrees Fahrenheit (26 degrees Celsius) .", [("79", "26")]),
        ("It fell to 5°F [15°C] .", []),
        ("Keep it at 60-75°F (15-24°C) .", [("60-75°F", "15-24°C)"), ("75°F", "24°C)")]),
        ("Keep it at 60 to 75 °F (16 to 24 °C) .", [("60", "16"), ("75", "24")]),
        ("The canal is 2,350 miles (3,782 km) long.", [("2,350", "3,782")]),
        ("The canal is four miles (6.4 km) long.", [("four", "6.4")]),
        ("The mast is 10 feet (3 m) high, or 1 yard (0.91 metres) .", [("10", "3"), ("1", "0.91")]),
        ("It weighs 12 lb (5.4 kg) and 8 oz (225 g) .", [("12", "5.4"), ("8", "225")]),
        ("It blew at 10 mph (16 km/h) .", [("10", "16")]),
        ("A mile, or 1 mile (2 km) to be rough.", [("1", "2")]),
    ],
)
def test_a_measure_in_two_units_is_found_as_people_round(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Dry them at 350°F (190°C) .",
        "It was 79°F (29°C) .",
        "The canal is 10 miles (20 km) long.",
        "The canal is 10 miles (16 kg) long.",
        "The canal is 10 miles (10 miles) long.",
        "The canal is 10 miles long; 16 km are in use.",
        "The canal has 10 locks (16 km) .",
        "Keep it at 60-75°F (24°C) .",
    ],
)
def test_numbers_that_disagree_or_stand_apart_are_not_one_measure(text: str) -> None:
    assert pairs(text) == []
