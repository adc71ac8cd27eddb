"""Numbers, dates and worded amounts in running text."""

from __future__ import annotations

from decimal import Decimal

import pytest

from attribeam.attribution.answers.numbers_and_dates import (
    DATE,
    NUMBER,
    QUANTITY,
    VERSION,
    WORDED_NUMBER,
    amounts,
    clock_times,
    durations_of,
    fractions_in_percent,
    is_percentage,
    mixed_number,
    unit_durations,
    worded_amount,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", {"7"}),
        ("1,234", {"1234"}),
        ("1,234,567.5", {"1234567.5"}),
        ("1.234.567,5", {"1234567.5"}),
        ("1.234", {"1234", "1.234"}),
        ("0,25", {"0.25"}),
        ("12.05.2013", {"12", "5", "2013"}),
        ("2.5 million", {"2500000.0"}),
        ("5k", {"5", "5000"}),
    ],
)
def test_number_may_amount_to(text: str, expected: set[str]) -> None:
    match = NUMBER.fullmatch(text)
    assert match is not None
    assert set(amounts(match)) == {Decimal(one) for one in expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one million", 1_000_000),
        ("twenty-one", 21),
        ("two hundred and five thousand", 205_000),
        ("three hundred", 300),
        ("million", 1_000_000),
    ],
)
def test_number_in_words_amounts_to(text: str, expected: int) -> None:
    match = WORDED_NUMBER.fullmatch(text)
    assert match is not None
    assert worded_amount(match.group()) == expected


def test_and_joins_no_two_amounts() -> None:
    assert [match.group() for match in WORDED_NUMBER.finditer("one million and two million")] == [
        "one million", "two million",
    ]  # fmt: skip


def test_scale_after_digits_is_no_number_of_its_own() -> None:
    assert WORDED_NUMBER.search("5 million, 5million") is None


@pytest.mark.parametrize(
    "text", ["12 May 2013", "May 12, 2013", "12th of May", "May 2013", "2013-05-12", "Sept. 3", "3 Feb. 1999"]
)
def test_date_is_one_match(text: str) -> None:
    assert DATE.fullmatch(text)


@pytest.mark.parametrize(
    "text", ["on 5 March.", "on 5 Sept. Then 20 came", "in the 5th of May. 2019 was dry", "on 5 Dec. It"]
)
def test_full_stop_behind_a_date_is_no_part_of_it(text: str) -> None:
    (found,) = DATE.finditer(text)
    assert not found.group().endswith(".")
    assert text[found.end()] == "."


@pytest.mark.parametrize("text", ["he may 2", "maybe 12", "marching 5"])
def test_word_that_starts_like_a_month_is_no_date(text: str) -> None:
    assert DATE.search(text.removesuffix(" 2")) is None


@pytest.mark.parametrize("text", ["$4 million", "3.5%", "105 km²", "20 °C", "1990s", "10:30", "12 345 people", "€5bn"])
def test_quantity_is_one_match_with_its_unit(text: str) -> None:
    assert QUANTITY.fullmatch(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("twenty-three thousand and forty", [23_040]),
        ("five thousand and two hundred people came", [5_000, 200]),
        ("one thousand and one nights", [1_001]),
        ("three million and seventy-two", [3_000_072]),
        ("two hundred and five thousand", [205_000]),
        ("one hundred and two hundred", [100, 200]),
        ("between one hundred and twenty-two hundred", [100, 2_200]),
        ("twenty thousand and forty thousand", [20_000, 40_000]),
        ("four million two hundred thousand and six", [4_200_006]),
        ("six and seven", [6, 7]),
        ("one hundred and million-year-old", [100, 1_000_000]),
    ],
)
def test_and_within_a_number_joins_only_what_is_below_its_scale(text: str, expected: list[int]) -> None:
    assert [worded_amount(match.group()) for match in WORDED_NUMBER.finditer(text)] == expected


@pytest.mark.parametrize("text", ["4.8.2", "192.168.0.1", "10.0.19045.3", "v1.0.0", "quill==4.8.2"])
def test_number_of_three_dotted_parts_is_one_version(text: str) -> None:
    assert [match.group() for match in VERSION.finditer(f"in {text}, and {text}.")] == [
        text.lstrip("v").removeprefix("quill==")
    ] * 2


def test_version_amounts_to_its_first_parts_only() -> None:
    match = NUMBER.fullmatch("4.8.2")
    assert match is not None
    assert set(amounts(match)) == {Decimal("4"), Decimal("4.8")}


@pytest.mark.parametrize("text", ["05.05.2021", "5.5.2021", "31.12.1999"])
def test_dotted_date_is_a_date(text: str) -> None:
    assert DATE.fullmatch(text)


@pytest.mark.parametrize("text", ["4.8.2", "40.12.2021", "4.13.2021", "1.2.2021.4"])
def test_dotted_number_that_is_no_day_is_no_date(text: str) -> None:
    assert DATE.search(text) is None


@pytest.mark.parametrize("text", ["600 W", "48.6 million NOK", "446 °F", "16 GB", "9 a.m."])
def test_quantity_takes_its_sign_along(text: str) -> None:
    assert QUANTITY.fullmatch(text)


@pytest.mark.parametrize("text", ["600 Watts", "3 Big ships", "5 c"])
def test_word_after_a_number_is_no_sign(text: str) -> None:
    assert QUANTITY.fullmatch(text) is None


DAY = 86_400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("half of them", {50}),
        ("a third left", {33}),
        ("two thirds stayed", {66, 67}),
        ("three-quarters full", {75}),
        ("the third of May", set()),
        ("behalf of the tenth", set()),
    ],
)
def test_fraction_in_words_is_percent(text: str, expected: set[int]) -> None:
    assert set(fractions_in_percent(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("half past seven", {"7", "30", "7.3"}),
        ("a quarter to eight", {"7", "45", "7.45"}),
        ("quarter to one", {"12", "45", "12.45"}),
        ("half to nine", set()),
        ("half past the hill", set()),
    ],
)
def test_time_of_day_in_words(text: str, expected: set[str]) -> None:
    assert set(clock_times(text)) == {Decimal(one) for one in expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 days", ("seconds", 3 * DAY)),
        ("3-day", ("seconds", 3 * DAY)),
        ("3 weeks", ("seconds", 21 * DAY)),
        ("3 and a half hours", ("seconds", 12_600)),
        ("3 years", ("months", 36)),
        ("3 centuries", ("months", 3600)),
    ],
)
def test_number_before_a_unit_of_time_is_a_duration(text: str, expected: tuple[str, int]) -> None:
    assert [*durations_of(text, 1, [Decimal(3)])] == [expected]


@pytest.mark.parametrize("text", ["3 euros", "3 working days", "3 yearly", "3"])
def test_number_before_anything_else_is_none(text: str) -> None:
    assert [*durations_of(text, 1, [Decimal(3)])] == []


def test_unit_alone_counts_once_with_its_fraction() -> None:
    text = "a week, half an hour, three quarters of an hour, a year and a half"
    assert [*unit_durations(text)] == [("seconds", 7 * DAY), ("seconds", 1800), ("seconds", 2700), ("months", 18)]


def test_fraction_behind_a_number_is_added_and_its_end_found() -> None:
    text = "2 and a quarter miles"
    assert mixed_number(text, 1, Decimal(2)) == (Decimal("2.25"), text.index(" miles"))
    assert mixed_number("2 and a bit", 1, Decimal(2)) == (2, 1)


@pytest.mark.parametrize("text", ["5%", "5 %", "5 percent", "5 per cent"])
def test_percent_sign_or_word_is_seen(text: str) -> None:
    assert is_percentage(text, 1)
    assert not is_percentage("5 persons", 1)
