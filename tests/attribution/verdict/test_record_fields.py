"""Passages that are records are read as fields."""

from __future__ import annotations

import pytest
from tests.attribution.verdict.judged_rows import RECORD, parse

from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.field_agreement import (
    ABSENT,
    AGREES,
    CONFLICTS,
    UNTOLD,
    field_agreement,
    time_agreement,
)
from attribeam.attribution.verdict.record_fields import Truth, open_days, record_lines
from attribeam.schemas import Passage


def test_fields_say_yes_no_or_nothing() -> None:
    truths = {line.key: line.truth for line in record_lines(RECORD)}
    assert truths["attributes OutdoorSeating"] is Truth.YES
    assert truths["attributes RestaurantsTakeOut"] is Truth.NO
    assert truths["attributes WiFi"] is Truth.NO
    assert truths["attributes Music"] is Truth.ABSENT
    assert truths["name"] is Truth.OTHER


def test_words_of_a_key_are_told_apart_and_joined() -> None:
    lines = {line.key: line for line in record_lines(RECORD)}
    assert lines["attributes RestaurantsTakeOut"].key_stems == ("take", "out")
    assert lines["attributes RestaurantsTakeOut"].joined_key == "takeout"
    assert "Take Out" in lines["attributes RestaurantsTakeOut"].text


def test_json_is_read_as_lines_of_paths() -> None:
    text = '{"name": "Kettle", "attributes": {"WiFi": true, "Music": null}, "tags": ["tea", "cake"]}'
    lines = [(line.key, line.value, line.truth) for line in record_lines(text)]
    assert lines == [
        ("name", "Kettle", Truth.OTHER),
        ("attributes WiFi", "true", Truth.YES),
        ("attributes Music", "null", Truth.ABSENT),
        ("tags", "tea", Truth.OTHER),
        ("tags", "cake", Truth.OTHER),
    ]


def test_text_that_only_begins_like_json_stays_text() -> None:
    (line,) = record_lines("{not json at all")
    assert (line.key, line.text) == (None, "{not json at all")


def test_open_days_are_those_with_hours() -> None:
    closed = "hours Sunday: 0:0-0:0"
    assert open_days([*record_lines(RECORD), *record_lines(closed)]) == {0, 1}
    assert open_days([*record_lines("We open on Monday: come early")]) == frozenset()


def test_a_deep_record_keeps_the_last_names_of_a_path() -> None:
    text = '{"a": {"b": {"c": {"d": {"WiFi": false}}}}}'
    (line,) = record_lines(text)
    assert (line.key, line.truth) == ("c d WiFi", Truth.NO)


def test_a_deep_record_is_read_and_one_too_deep_for_json_stays_text() -> None:
    (read,) = record_lines('{"a": ' * 900 + "true" + "}" * 900)
    assert (read.key, read.truth) == ("a a a", Truth.YES)
    too_deep = '{"a":' * 200_000
    (text,) = record_lines(too_deep)
    assert text.text == too_deep


SOURCES = (Passage(text=RECORD),)
LINES = [*record_lines(RECORD)]


def verdicts(answer: str) -> dict[str, int]:
    words = AnswerWords(parse(answer), answer)
    found = field_agreement(words, LINES)
    return {text: one for text, one in zip(words.lowered, found, strict=True) if one != UNTOLD}


def times(answer: str) -> dict[str, int]:
    words = AnswerWords(parse(answer), answer)
    found = time_agreement(words, LINES, SOURCES)
    return {text: one for text, one in zip(words.lowered, found, strict=True) if one != UNTOLD}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The cafe has outdoor seating.", {"outdoor": AGREES, "seating": AGREES}),
        ("The cafe has no outdoor seating.", {"outdoor": CONFLICTS, "seating": CONFLICTS}),
        ("The cafe offers takeout.", {"takeout": CONFLICTS}),
        ("The cafe does not offer takeout, but it has outdoor seating.",
         {"takeout": AGREES, "outdoor": AGREES, "seating": AGREES}),
        ("There is live music.", {"music": ABSENT}),
        ("Guests can park in the garage.", {"garage": CONFLICTS}),
        ("The tea is good.", {}),
    ],
)  # fmt: skip
def test_what_is_offered_is_compared_with_its_field(answer: str, expected: dict[str, int]) -> None:
    assert verdicts(answer) == expected


def test_two_words_of_a_key_must_stand_side_by_side() -> None:
    assert verdicts("Take the bus out of town.") == {}


def test_days_are_compared_with_opening_hours() -> None:
    assert set(times("It is open from Monday to Tuesday.").values()) == {AGREES}
    assert set(times("It is open from Monday to Sunday.").values()) == {CONFLICTS}
    assert times("It is open on Wednesday.") == {"wednesday": CONFLICTS}
    assert times("It is closed on Wednesday.") == {"wednesday": AGREES}
    assert set(times("It is open seven days a week.").values()) == {CONFLICTS}


def test_times_of_day_are_compared_in_either_form() -> None:
    assert set(times("It closes at 5 pm.").values()) == {AGREES}
    assert set(times("It closes at 7:30 pm.").values()) == {CONFLICTS}
