import json

import pytest
from tests.evaluation.dataset_rows import clapnq_row, write_rows
from tests.evaluation.evaluate_command import evaluate

from attribeam.evaluation.datasets.passage_qa import load_clapnq
from attribeam.schemas import CharRange
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import SkippedRow

FIRST, LAST = "Ada Thorne lit the lamp .", "Jon Reed tends it ."


def test_evidence_is_compared_with_the_chosen_sentences_of_a_directory_of_files(tmp_path, capsys):
    write_rows(tmp_path / "clapnq_dev_answerable.jsonl", [clapnq_row(("Ada Thorne lit the lamp .", [FIRST]))])
    write_rows(tmp_path / "clapnq_dev_unanswerable.jsonl", [clapnq_row(("", []))] * 30)
    output = tmp_path / "figures.json"
    asked = ("--dataset", "clapnq", "--data", tmp_path, "--method", "words", "--bootstrap-draws", 20)
    assert evaluate(*asked, "--output", output) == 0
    (figures,) = json.loads(output.read_text())
    assert (figures["spans"], figures["sentences"]["recall"], figures["sentences"]["precision"]) == (1, 100, 100)
    assert figures["skipped_rows"][0]["file"] == "clapnq_dev_unanswerable.jsonl"
    assert "30 rows skipped: unanswerable" in capsys.readouterr().out


def load(tmp_path, *rows):
    return load_clapnq(write_rows(tmp_path / "clapnq.jsonl", rows))


def test_whole_answer_is_the_span_and_the_chosen_sentences_are_its_evidence(tmp_path):
    (answer,) = load(tmp_path, clapnq_row((" Ada did. ", [LAST, FIRST]))).answers
    (passage,) = answer.record.passages
    assert answer.spans == (CharRange(1, 9),)
    assert [one.chars.of(passage.text) for one in answer.gold_evidence[0]] == [FIRST, LAST]
    assert (answer.gold_passages, passage.title) == ((frozenset({0}),), "Brigg Point")


def test_answers_of_several_people_are_answers_of_their_own_and_equal_ones_count_once(tmp_path):
    dataset = load(tmp_path, clapnq_row(("Ada.", [FIRST]), ("Jon.", [LAST]), ("Ada.", [FIRST]), ("", [])))
    assert [one.record.record_id for one in dataset.answers] == ["7-1", "7-2"]


def test_questions_without_an_answer_or_a_chosen_sentence_are_skipped(tmp_path):
    dataset = load(tmp_path, clapnq_row(("", [])), clapnq_row(("Ada.", [])), clapnq_row(("Ada.", [FIRST])))
    assert dataset.skipped == (SkippedRow(0, "unanswerable"), SkippedRow(1, "no_selected_sentence"))
    assert len(dataset.answers) == 1


def test_sentence_that_no_passage_has_is_an_error_with_its_place(tmp_path):
    with pytest.raises(DataError, match=r"line 1, output\[0\]: field 'selected_sentences' should be parts of a pass"):
        load(tmp_path, clapnq_row(("Ada.", ["Bob lit it ."])))
