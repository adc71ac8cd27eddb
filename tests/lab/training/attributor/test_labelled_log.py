"""A log of made-up answers: every label names the passage that its span was copied from."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from attribeam.lab.evaluation.datasets.labelled_log import load_log
from attribeam.lab.evaluation.datasets.log_writer import write_log
from attribeam.lab.training.attributor import labelled_log
from attribeam.lab.training.attributor.corpus import Corpus
from attribeam.lab.training.attributor.labelled_log import draw_labelled_answers
from attribeam.lab.training.attributor.training_rows import draw_row
from attribeam.schemas.labelled_answer import LabelledAnswer


@pytest.fixture(scope="module")
def answers(corpus: Corpus, tokenizer: Tokenizer) -> list[LabelledAnswer]:
    return list(draw_labelled_answers(corpus, tokenizer, count=40, tokens=384, seed=3))


def test_labelled_passage_holds_words_of_its_span(answers: list[LabelledAnswer]) -> None:
    shared = []
    for labelled in answers:
        assert len(labelled.record.passages) >= 2
        for span, gold in zip(labelled.spans, labelled.gold_passages, strict=True):
            (passage,) = (labelled.record.passages[index] for index in gold)
            words = span.of(labelled.record.answer).lower().split()
            text = f"{passage.title} {passage.text}".lower()
            shared.append(sum(word.strip("*.,;:") in text for word in words) / len(words))
    assert len(shared) >= 40
    assert sum(one > 0.5 for one in shared) > 0.9 * len(shared)


def test_rows_depend_on_the_seed_alone(corpus: Corpus, tokenizer: Tokenizer, answers: list[LabelledAnswer]) -> None:
    again = list(draw_labelled_answers(corpus, tokenizer, count=40, tokens=384, seed=3))
    other = list(draw_labelled_answers(corpus, tokenizer, count=40, tokens=384, seed=4))
    assert again == answers != other


def test_log_is_read_with_its_labels(answers: list[LabelledAnswer], tmp_path: Path) -> None:
    assert write_log(tmp_path / "log.parquet", answers) == 40
    found = load_log(tmp_path / "log.parquet").answers
    assert [(one.record.answer, one.spans, one.gold_passages) for one in found] == [
        (one.record.answer, one.spans, one.gold_passages) for one in answers
    ]


def test_pages_that_yield_too_few_rows_are_refused(
    corpus: Corpus, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = draw_row(corpus, tokenizer, random.Random(0), tokens=192)
    monkeypatch.setattr(labelled_log, "draw_row", lambda *_, **__: replace(row, claims=[]))
    with pytest.raises(ValueError, match="expected 1 rows with spans of one passage"):
        list(draw_labelled_answers(corpus, tokenizer, count=1, tokens=192, seed=0))
