"""The package's labelled rows: every label points at text, and no place in the row gives the passage away."""

from __future__ import annotations

from collections import Counter

from attribeam.evaluation.datasets.labelled_log import load_log
from attribeam.evaluation.model_check.model_trial import LABELLED_ROWS, labelled_answers
from attribeam.logs.columns import LogOptions

DATASET = load_log(LABELLED_ROWS, LogOptions(format="jsonl"))
ANSWERS = DATASET.answers


def test_a_few_dozen_rows_of_different_topics_are_all_usable() -> None:
    assert DATASET.skipped == ()
    assert len(ANSWERS) == 40
    assert len({answer.record.record_id for answer in ANSWERS}) == 40
    assert sum(len(answer.spans) for answer in ANSWERS) == 82
    assert labelled_answers(None, LogOptions()) == ANSWERS


def test_every_row_has_distractors() -> None:
    for answer in ANSWERS:
        named = frozenset[int]().union(*answer.gold_passages)
        assert len(answer.record.passages) - len(named) >= 1, answer.record.record_id


def test_spans_and_evidence_begin_and_end_at_words() -> None:
    for answer in ANSWERS:
        record = answer.record
        texts = [(record.answer, span) for span in answer.spans]
        texts += [(record.passages[one.passage_index].text, one.chars) for of in answer.gold_evidence for one in of]
        for text, chars in texts:
            before, after = text[: chars.char_start], text[chars.char_end :]
            assert chars.of(text).strip() == chars.of(text) != ""
            assert not (before + " ")[-1:].isalnum() or not before, (record.record_id, chars)
            assert not after[:1].isalnum(), (record.record_id, chars)


def test_evidence_lies_in_the_labelled_passages() -> None:
    for answer in ANSWERS:
        for gold, evidence in zip(answer.gold_passages, answer.gold_evidence, strict=True):
            assert {one.passage_index for one in evidence} == gold


def test_no_answer_copies_its_passage() -> None:
    """Else counting words would find every passage, and the rows would tell nothing."""
    for answer in ANSWERS:
        for span in answer.spans:
            assert all(span.of(answer.record.answer) not in passage.text for passage in answer.record.passages)


def test_no_place_in_the_row_is_right_for_most_spans() -> None:
    places = Counter(place for answer in ANSWERS for gold in answer.gold_passages for place in gold)
    assert max(places.values()) < 0.45 * sum(places.values())
