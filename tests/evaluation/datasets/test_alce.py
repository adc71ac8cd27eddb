import pytest

from evaluation.datasets.alce import load_alce
from evaluation.datasets.dataset_file import DatasetError
from evaluation.datasets.labelled_answer import SkippedRow
from schemas import Passage
from tests.evaluation.label_rows import DOCUMENTS, alce_row, write_alce


@pytest.mark.parametrize("in_data", [True, False])
def test_every_sentence_is_a_target_span_with_what_it_cites(tmp_path, in_data):
    rows = [alce_row("Ada lit it [1]. A buoy lies there [2][3].")]
    (answer,) = load_alce(write_alce(tmp_path / "asqa.json", rows, in_data=in_data)).answers
    assert answer.record.answer == "Ada lit it. A buoy lies there."
    assert [span.of(answer.record.answer) for span in answer.spans] == ["Ada lit it.", "A buoy lies there."]
    assert answer.citations == ((0,), (1, 2))
    assert (answer.gold_passages, answer.gold_evidence) == ((), ())


def test_passages_are_the_documents_with_title_and_id(tmp_path):
    (answer,) = load_alce(write_alce(tmp_path / "a.json", [alce_row("Ada lit it.")])).answers
    assert answer.record.passages == (
        Passage(text=DOCUMENTS[0]["text"], title="Brigg Point", passage_id="17"),
        Passage(text=DOCUMENTS[1]["text"], title="Skell Rock", passage_id="18"),
        Passage(text=DOCUMENTS[2]["text"]),
    )


def test_answer_is_the_first_line_without_the_end_of_turn(tmp_path):
    rows = [alce_row("\n Ada lit it [1].<|im_end|>\nQuestion: x")]
    (answer,) = load_alce(write_alce(tmp_path / "a.json", rows)).answers
    assert answer.record.answer == "Ada lit it."


def test_only_a_line_feed_ends_the_first_line(tmp_path):
    rows = [alce_row("Ada lit it.\u2028A buoy lies there [2].\nQuestion: x")]
    (answer,) = load_alce(write_alce(tmp_path / "a.json", rows)).answers
    assert answer.record.answer.endswith("A buoy lies there.")


def test_citation_of_a_document_that_is_not_there_is_kept(tmp_path):
    (answer,) = load_alce(write_alce(tmp_path / "a.json", [alce_row("Ada lit it [9].")])).answers
    assert answer.citations == ((8,),)


def test_rows_without_an_answer_or_documents_are_skipped_and_said(tmp_path):
    rows = [alce_row(""), alce_row("Ada lit it.", []), alce_row("Ada lit it.")]
    dataset = load_alce(write_alce(tmp_path / "a.json", rows))
    assert [one.record.source.source_row for one in dataset.answers] == [2]
    assert dataset.skipped == (SkippedRow(0, "empty_answer"), SkippedRow(1, "no_passages"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"output": ["one", "two"]}, r"a\.json, data\[1\]: field 'output' should be one string, is a list; write each"),
        ({"output": None}, r"data\[1\]: field 'output' should be a string, was: NoneType"),
        ({"docs": [{"title": "x"}]}, r"data\[1\], docs\[0\]: field 'text' should be a string, is missing"),
        ({"question": 3}, r"data\[1\]: field 'question' should be a string, was: int"),
    ],
)
def test_faulty_row_is_an_error_with_file_row_and_field(tmp_path, change, problem):
    path = write_alce(tmp_path / "a.json", [alce_row("Fine."), alce_row("Fine.") | change])
    with pytest.raises(DatasetError, match=problem):
        load_alce(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "should be JSON, cannot be parsed"),
        ("3", "should be a list or an object, was: int"),
        ('{"rows": []}', r"field 'data' should be .* is missing; the row has: \['rows'\]"),
        ("[1]", "field 'data' should be a list of objects"),
    ],
)
def test_file_in_another_format_is_one_clear_error(tmp_path, content, problem):
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=problem):
        load_alce(path)
