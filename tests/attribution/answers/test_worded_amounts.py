"""Fractions, lengths of time and times of day in words."""

from decimal import Decimal

import pytest

from attribution.answers.worded_amounts import (
    clock_times,
    durations_of,
    is_percentage,
    mixed_number,
    shares,
    unit_durations,
)

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
    assert set(shares(text)) == expected


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
