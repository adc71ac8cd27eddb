"""Made-up answers to web questions and summaries of news, which verdicts are measured on and not fitted to."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.logs.columns import LogOptions
from attribeam.schemas.labelled_answer import JudgedDataset

WEB_ANSWERS = Path(str(files("lab.benchmarks"))) / "web_answers.jsonl"
MADE_ANSWERS = Path(str(files("lab.training.verdict"))) / "made_answers.jsonl"


@pytest.fixture(scope="module")
def dataset() -> JudgedDataset:
    return load_judged_log(WEB_ANSWERS, LogOptions(format="jsonl"))


def test_every_row_is_read_and_has_the_marks_that_the_documents_count(dataset: JudgedDataset) -> None:
    assert dataset.skipped == ()
    assert Counter(one.group for one in dataset.answers) == {"web": 1588, "news": 268}
    assert Counter(one.group for one in dataset.answers if one.unsupported) == {"web": 740, "news": 90}
    assert len({one.record.record_id for one in dataset.answers}) == len(dataset.answers)


def test_a_mark_is_text_without_blanks_around_it(dataset: JudgedDataset) -> None:
    for answer in dataset.answers:
        for mark in answer.unsupported or ():
            text = mark.chars.of(answer.record.answer)
            assert text == text.strip() != "", answer.record.record_id


def test_no_verdict_is_fitted_to_an_answer_of_it(dataset: JudgedDataset) -> None:
    fitted = MADE_ANSWERS.read_text(encoding="utf-8")
    assert not [one.record.record_id for one in dataset.answers if one.record.answer in fitted]
