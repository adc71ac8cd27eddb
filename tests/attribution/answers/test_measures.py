"""Measures that are given in two units, and numbers that only look so."""

from __future__ import annotations

import pytest

from attribeam.attribution.answers.amounts import converted_measures, measures_in


def pairs(text: str) -> list[tuple[str, str]]:
    return [
        (text[first:].split()[0], text[second:].split()[0])
        for first, second in converted_measures([*measures_in(text)], text)
    ]


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
