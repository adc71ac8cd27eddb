"""What an answer says is compared with the fields of a record."""

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
from attribeam.attribution.verdict.record_fields import record_lines
from attribeam.schemas import Passage

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
