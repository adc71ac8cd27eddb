import re
from collections import Counter

import pytest
from tests.lab.evaluation.dataset_rows import write_rows

from attribeam.lab.evaluation.support.support_rows import EVERYDAY_ROWS, SHIPPED_ROWS, SpanTruth, load_support_rows
from attribeam.schemas.errors import DataError


def support_row(*spans: dict[str, object], answer: str = "The bell rang and the bell fell.") -> dict[str, object]:
    passages = [{"passage_id": "a", "title": None, "text": "A bell fell."}]
    return {"record_id": "r", "question": "What fell?", "passages": passages, "answer": answer, "spans": list(spans)}


def span(text: str, *, kind: str = "supported", supported: bool = True, **fields: object) -> dict[str, object]:
    return {"text": text, "supported": supported, "kind": kind, **fields}


def load(tmp_path, *spans):
    return load_support_rows(write_rows(tmp_path / "rows.jsonl", [support_row(*spans)]))


def test_span_is_found_by_its_text_and_keeps_its_truth(tmp_path):
    (answer,) = load(
        tmp_path, span("the bell fell", kind="paraphrase"), span("rang", kind="contradicted", supported=False)
    )
    chars = [one.of(answer.record.answer) for one in answer.record.target_spans]
    assert chars == ["the bell fell", "rang"]
    assert answer.truths == (SpanTruth.PARAPHRASE, SpanTruth.CONTRADICTED)
    assert answer.record.passages[0].title is None


def test_occurrence_counts_from_one(tmp_path):
    (answer,) = load(tmp_path, span("bell", occurrence=2))
    (chars,) = answer.record.target_spans
    assert chars.char_start == answer.record.answer.rindex("bell")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (span("gong"), r"rows\.jsonl, line 1, spans\[0\]: field 'text' should be part of the row's answer"),
        (span(""), "field 'text' should be part"),
        (span("bell"), "field 'text' occurs 2 times in the answer; 'occurrence' should say"),
        (span("bell", occurrence=3), r"field 'occurrence' should be from 1 to 2, was: 3"),
        (span("rang", kind="wrong colour"), "field 'kind' should be one of"),
        (span("rang", kind="wrong name"), "field 'supported' should be false for kind 'wrong name'"),
        ({"text": "rang", "kind": "supported"}, "field 'supported' should be true or false, is missing"),
    ],
)
def test_broken_span_is_an_error_that_names_row_and_field(tmp_path, broken, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, broken)


def test_error_does_not_hold_the_answer(tmp_path):
    with pytest.raises(DataError) as error:
        load(tmp_path, span("gong"))
    assert "rang" not in str(error.value)
    assert "gong" not in str(error.value)


def test_same_range_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match="field 'spans' should have 2 different ranges"):
        load(tmp_path, span("rang"), span("rang", kind="paraphrase"))


def test_row_without_spans_is_refused(tmp_path):
    with pytest.raises(DataError, match="field 'spans' should have at least one item"):
        load(tmp_path)


def test_shipped_rows_are_like_production():
    answers = load_support_rows(SHIPPED_ROWS)
    assert len(answers) >= 60
    assert len({answer.record.record_id for answer in answers}) == len(answers)
    for answer in answers:
        assert 2 <= len(answer.record.passages) <= 6
        assert all(40 <= len(passage.text.split()) <= 120 for passage in answer.record.passages)
        assert 25 <= len(answer.record.answer.split()) <= 80
        assert 4 <= len(answer.truths) <= 6
        assert sum(not truth.supported for truth in answer.truths) <= 2


def test_everyday_rows_are_others_and_half_of_them_faithful():
    answers = load_support_rows(EVERYDAY_ROWS)
    assert len(answers) >= 50
    ids = [answer.record.record_id for answer in (*answers, *load_support_rows(SHIPPED_ROWS))]
    assert len(set(ids)) == len(ids)
    faultless = sum(all(truth.supported for truth in answer.truths) for answer in answers)
    assert 0.35 <= faultless / len(answers) <= 0.65


def test_shipped_rows_have_several_spans_of_every_kind_and_rows_without_fault():
    answers = load_support_rows(SHIPPED_ROWS)
    counts = Counter(truth for answer in answers for truth in answer.truths)
    assert all(counts[truth] >= 9 for truth in SpanTruth)
    faultless = sum(all(truth.supported for truth in answer.truths) for answer in answers)
    assert faultless >= 0.15 * len(answers)


def test_shipped_spans_called_verbatim_have_their_words_in_one_passage():
    for answer in load_support_rows(SHIPPED_ROWS):
        texts = [set(re.findall(r"\w+", f"{one.title} {one.text}".lower())) for one in answer.record.passages]
        for chars, truth in answer.truth_of.items():
            if truth is SpanTruth.SUPPORTED:
                words = set(re.findall(r"\w+", chars.of(answer.record.answer).lower()))
                assert any(len(words - text) <= len(words) / 3 for text in texts), answer.record.record_id
