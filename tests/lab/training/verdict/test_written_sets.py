"""The answers that were made up for the verdict: how they are read, what they are like, and what they count for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from attribeam.schemas.errors import DataError
from lab.benchmarks.support_check import EVERYDAY_ROWS, SHIPPED_ROWS, load_support_rows
from lab.training.verdict.shared_sets import TrainingAnswer
from lab.training.verdict.written_sets import load_made_answers, written_sets

ROW = {
    "record_id": "lamp-1",
    "question": "How many lamps are there?",
    "passages": [{"passage_id": "p", "title": None, "text": "Ten lamps line the pier."}],
    "answer": "The pier has ten lamps and two bells.",
    "unsupported": [{"text": "and two bells", "occurrence": 1, "kind": "invented detail"}],
}


def written(directory: Path, **fields: object) -> Path:
    file = directory / "made.jsonl"
    file.write_text(json.dumps(ROW | fields) + "\n", encoding="utf-8")
    return file


def test_a_row_is_an_answer_with_its_marks(tmp_path: Path) -> None:
    (answer,) = load_made_answers(written(tmp_path))
    assert answer.unsupported is not None
    (mark,) = answer.unsupported
    assert (mark.chars.of(answer.record.answer), mark.kind) == ("and two bells", "invented detail")
    assert load_made_answers(written(tmp_path, unsupported=[]))[0].unsupported == ()


def test_a_mark_that_is_not_in_the_answer_is_refused_with_its_row(tmp_path: Path) -> None:
    marks = [{"text": "three bells", "occurrence": 1, "kind": "wrong number"}]
    with pytest.raises(DataError, match=r"made\.jsonl, line 1, unsupported\[0\]: field 'text'"):
        load_made_answers(written(tmp_path, unsupported=marks))


def test_rows_that_figures_are_measured_on_are_not_among_them() -> None:
    made = [twelve_words_each(passage.text) for one in load_made_answers() for passage in one.record.passages]
    rows = [*load_support_rows(SHIPPED_ROWS), *load_support_rows(EVERYDAY_ROWS)]
    measured = [twelve_words_each(passage.text) for one in rows for passage in one.record.passages]
    assert not set().union(*made) & set().union(*measured)


def twelve_words_each(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[start:] for start in range(12)), strict=False))


def write_rows(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def made_row(name: str, answer: str, passage: str, *marks: str) -> dict[str, object]:
    unsupported = [{"text": one, "occurrence": 1, "kind": "invented detail"} for one in marks]
    passages = [{"passage_id": "p", "title": None, "text": passage}]
    return {**ROW, "record_id": name, "answer": answer, "passages": passages, "unsupported": unsupported}


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, list[TrainingAnswer]]:
    made = [
        made_row("pier", "The pier has ten lamps. It also has two bells.", "Ten lamps line the pier.", "two bells"),
        made_row("mill", "The mill grinds rye. It runs by steam.", "The old mill grinds rye at night.", "by steam"),
        made_row("hut", "The hut is shut.", "The hut is shut all winter long."),
    ]
    trial = {
        "id": "inn-1", "question": "What does the inn offer?",
        "passages": [{"title": "Inn", "text": "The inn has nine rooms. Bicycles cost 8 euros."}],
        "copied": ["The inn has nine rooms.", "Bicycles cost 8 euros."], "paraphrases": ["There are 9 rooms."],
        "invented": ["Dogs may stay."], "right_twins": ["A bicycle is 8 euros."],
        "wrong": [{"text": "Bicycles cost 9 euros.", "claim": "9 euros", "reason": "other_value"}],
    }  # fmt: skip
    found = written_sets(write_rows(tmp_path / "made.jsonl", made), write_rows(tmp_path / "trials.jsonl", [trial]))
    by_name: dict[str, list[TrainingAnswer]] = {}
    for one in found:
        by_name.setdefault(one.set_name, []).append(one)
    return by_name


def marked(one: TrainingAnswer) -> tuple[str, list[str]]:
    answer = one.judged.record.answer
    return answer, [mark.chars.of(answer) for mark in one.judged.unsupported or ()]


def test_variants_are_single_sentences_and_whole_answers_beside_other_passages(
    sets: dict[str, list[TrainingAnswer]],
) -> None:
    found = [marked(one) for one in sets["made_variants"]]
    assert found[:2] == [("The pier has ten lamps.", []), ("It runs by steam.", ["by steam"])]
    assert all(marks == [answer] for answer, marks in found[2:])
    assert len(found) == 2 + 2 + 3
    assert {one.key for one in sets["made_variants"]} <= {one.key for one in sets["made"]}


def test_a_copied_sentence_stands_beside_an_own_or_a_foreign_one(sets: dict[str, list[TrainingAnswer]]) -> None:
    for one in sets["made_mixed"]:
        answer, marks = marked(one)
        assert one.judged.record.passages[0].text in answer
        assert all(mark and mark in answer for mark in marks)


def test_trials_stand_alone_beside_a_copy_and_among_many_passages(sets: dict[str, list[TrainingAnswer]]) -> None:
    found = [marked(one) for one in sets["trial"]]
    for expected in (
        ("Dogs may stay.", ["Dogs may stay."]),
        ("The inn has nine rooms. Dogs may stay.", ["Dogs may stay."]),
        ("The inn has nine rooms. There are 9 rooms.", []),
        ("Bicycles cost 9 euros.", ["9 euros"]),
        ("A bicycle is 8 euros.", []),
        ("The inn has nine rooms. Bicycles cost 8 euros.", []),
    ):
        assert expected in found
    combined = [one for one in sets["trial"] if "combined" in one.judged.record.record_id]
    assert [bool(one.judged.unsupported) for one in combined] == [False, False, True, True]
    for answer, marks in map(marked, combined):
        first, second = (part for part in re.split(r"(?:, and|;|, while) (?=\w+ \w+ )", answer) if part)
        assert all(mark in (first, second) for mark in marks)
    assert {len(one.judged.record.passages) for one in combined} == {1, 2}
    assert len(found) == 4 + 2 + 2 + 4 + 5
    assert {one.key for one in sets["trial"]} == {"trial inn-1"}


def test_every_shipped_row_has_an_id_of_its_own() -> None:
    found = [one.judged.record.record_id for one in written_sets()]
    assert len(set(found)) == len(found) > 10_000
