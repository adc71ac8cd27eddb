"""Tables and JSON within answers, read without a parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers.markup import fenced_code, hide_markup, unspoken_ranges
from attribeam.attribution.answers.structured_text import structured_text
from attribeam.schemas import ClaimKind


def values(answer: str) -> list[str]:
    found = structured_text(answer)
    return [one.of(answer) for one, kind in zip(found.parts, found.kinds, strict=True) if kind is ClaimKind.CLAIM]


def test_names_of_fields_are_labels_and_what_tells_of_the_answer_is_no_text() -> None:
    answer = '{"weight_kg": 3, "confidence": 0.9, "parts": ["lid", "spout"], "sealed": true, "page": 7}'
    assert values(answer) == ["3", "lid", "spout"]
    assert hide_markup(answer, ()).split() == ["weight", "kg", "3", "parts", "lid", "spout", "sealed", "true"]


def test_empty_values_are_no_parts() -> None:
    assert values('{"colour": "", "": "red", "parts": ["", "lid"]}') == ["red", "lid"]
    assert values('["') == []


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        (
            "| Kettle | Holds |\n|---|---|\n| Brisk | 1.7 l |\n| Calm | 1.2 l |",
            [("1.7 l", "Brisk", "Holds"), ("1.2 l", "Calm", "Holds")],
        ),
        ("Kettle\tHolds\nBrisk\tplenty", [("plenty", "Brisk"), ("Holds", "Kettle")]),
        (
            '{"holds": "1.7 l", "colours": ["red", "blue"]}',
            [("1.7 l", "holds"), ("red", "colours"), ("blue", "colours")],
        ),
    ],
)
def test_cells_and_values_know_what_they_are_about(answer: str, labels: list[tuple[str, ...]]) -> None:
    found = structured_text(answer)
    told = [
        (part.of(answer), *(one.of(answer) for one in own))
        for part, kind, own in zip(found.parts, found.kinds, found.labels, strict=True)
        if kind is ClaimKind.CLAIM
    ]
    assert sorted(told) == sorted(labels)


def test_brackets_in_prose_are_no_json() -> None:
    for answer in ("It is {name} who calls.", "See [1] and [2, 3].", "The set {1, 2} is small.", 'Say "a": now.'):
        assert structured_text(answer).parts == ()


def test_a_fence_around_text_is_no_code() -> None:
    assert fenced_code("```\nThe lid of the kettle is blue.\n```") == ()
    assert fenced_code('```json\n{"a": 1}\n```') == ()
    for code in ("```\nkettle --clean --all\n```", "```sh\nThe lid of it.\n```", "```python\nx = 1\n```"):
        assert len(fenced_code(code)) == 1


@pytest.mark.parametrize(
    ("answer", "spoken"),
    [
        ("<think>Perhaps.</think>It is blue.", "It is blue."),
        ("Perhaps.</think>It is blue.", "It is blue."),
        ("<think>Perhaps it is", ""),
        ("It is <b>blue</b>.", "It is <b>blue</b>."),
        ("Action: none\nIt is blue.", "Action: none\nIt is blue."),
        ("Thought: look\nAction: find\nFinal Answer: blue", "Final Answer: blue"),
    ],
)
def test_thoughts_and_calls_are_not_spoken(answer: str, spoken: str) -> None:
    characters = list(answer)
    for one in unspoken_ranges(answer):
        characters[one.char_start : one.char_end] = [""] * (one.char_end - one.char_start)
    assert "".join(characters) == spoken


@given(st.text(alphabet="ab1{}[]\"':,|\t\n <>-\\\\`", max_size=60))
def test_parts_are_ascending_disjoint_and_inside(answer: str) -> None:
    for ranges in (structured_text(answer).parts, structured_text(answer).signs):
        end = 0
        for one in ranges:
            assert end <= one.char_start < one.char_end <= len(answer)
            end = one.char_end
