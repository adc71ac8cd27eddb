from __future__ import annotations

import pytest

from attribeam.attribution.answers.amounts import clock_times_in


def times(text: str) -> list[tuple[str, list[int]]]:
    return [(text[one.start : one.end], sorted(one.minutes)) for one in clock_times_in(text)]


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
