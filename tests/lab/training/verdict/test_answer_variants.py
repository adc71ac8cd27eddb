"""Sentences of made-up answers, and answers beside passages of other rows."""

from __future__ import annotations

import pytest

from attribeam.lab.training.verdict.answer_variants import (
    UNRELATED,
    beside_other_passages,
    single_sentences,
    variants,
)
from attribeam.lab.training.verdict.made_answers import load_made_answers
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import JudgedAnswer, UnsupportedRange

FIRST = "The pier has ten lamps. It also has two bells. Boats stop there."


def judged(name: str, answer: str, passage: str, *marks: str) -> JudgedAnswer:
    starts = [answer.index(one) for one in marks]
    ranges = [CharRange(start, start + len(one)) for start, one in zip(starts, marks, strict=True)]
    record = QARecord(name, f"What of {name}?", (Passage(passage),), answer, source=RowSource("made.jsonl", 1))
    return JudgedAnswer(record, tuple(UnsupportedRange(one, "invented detail") for one in ranges), group="made up")


ANSWERS = (
    judged("pier", FIRST, "Ten lamps line the pier."),
    judged("mill", "The mill grinds rye. It runs at night, by steam.", "The mill grinds rye at night.", ", by steam"),
    judged("hut", "The hut is shut.", "The hut is shut."),
)


def texts(answer: JudgedAnswer) -> list[str]:
    return [one.chars.of(answer.record.answer) for one in answer.unsupported or ()]


def test_a_sentence_stands_alone_with_its_marks_and_passages() -> None:
    first, second = single_sentences(ANSWERS)
    assert (first.record.answer, texts(first)) == ("The pier has ten lamps.", [])
    assert (second.record.answer, texts(second)) == ("It runs at night, by steam.", [", by steam"])
    assert [one.record.passages for one in (first, second)] == [one.record.passages for one in ANSWERS[:2]]


def test_a_mark_over_two_sentences_is_cut_to_the_one() -> None:
    (found,) = single_sentences([judged("pier", FIRST, "A pier.", "lamps. It also has two bells")])
    assert texts(found) == ["lamps."]


def test_an_answer_that_nobody_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="'pier' should be judged"):
        single_sentences([JudgedAnswer(ANSWERS[0].record, None, answer_supported=True)])


def test_beside_other_passages_all_of_an_answer_is_unsupported() -> None:
    found = beside_other_passages(ANSWERS)
    assert [one.record.passages[0].text for one in found] == [
        "The mill grinds rye at night.",
        "The hut is shut.",
        "Ten lamps line the pier.",
    ]
    assert [texts(one) for one in found] == [[one.record.answer] for one in ANSWERS]
    assert {mark.kind for one in found for mark in one.unsupported or ()} == {UNRELATED}


def test_every_variant_has_an_id_of_its_own() -> None:
    made = load_made_answers()
    found = [*made, *variants(made)]
    assert len({one.record.record_id for one in found}) == len(found) > 3 * len(made)


def test_no_made_up_answer_is_given_passages_that_it_was_written_from() -> None:
    own = {one.record.record_id: one.record.passages for one in load_made_answers()}
    for one in beside_other_passages(load_made_answers()):
        assert one.record.passages != own[one.record.record_id.split("|")[0]]
