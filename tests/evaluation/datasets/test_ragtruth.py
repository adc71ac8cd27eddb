import pytest
from tests.evaluation.dataset_rows import ragtruth_response, ragtruth_source, write_ragtruth

from attribeam.evaluation.datasets.ragtruth import load_ragtruth
from attribeam.schemas import Passage
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import SkippedRow

PASSAGES = "passage 1:Ada lit the lamp.\n\npassage 2:A buoy lies\nthere. See passage 3: none.\n\n"
SOURCE = ragtruth_source("s", {"question": "Who lit it?", "passages": PASSAGES})


def load(directory, sources, responses):
    return load_ragtruth(write_ragtruth(directory, sources, responses))


def test_passages_of_one_string_are_separated_by_their_numbers(tmp_path):
    (answer,) = load(tmp_path, [SOURCE], [ragtruth_response("r", "s", "Ada did.")]).answers
    assert answer.record.passages == (
        Passage(text="Ada lit the lamp.", passage_id="1"),
        Passage(text="A buoy lies\nthere. See passage 3: none.", passage_id="2"),
    )
    assert (answer.record.record_id, answer.record.question, answer.record.generator) == ("r", "Who lit it?", "tiny")
    assert (answer.group, answer.split, answer.unsupported, answer.judged) == ("QA", "test", (), None)


@pytest.mark.parametrize(
    ("source_info", "texts"),
    [
        ("The whole article.", ["The whole article."]),
        ({"question": "?", "passages": ["One.", "Two."]}, ["One.", "Two."]),
        ({"question": "?", "passages": "No numbers here."}, ["No numbers here."]),
    ],
)
def test_article_list_and_unnumbered_string_become_passages(tmp_path, source_info, texts):
    (answer,) = load(tmp_path, [ragtruth_source("s", source_info)], [ragtruth_response("r", "s", "x")]).answers
    assert [passage.text for passage in answer.record.passages] == texts


def test_record_of_a_business_becomes_lines_and_one_passage_per_review(tmp_path):
    info = {
        "name": "Lamp & Co",
        "hours": {"Monday": "9:0-17:0"},
        "attributes": {"WiFi": None, "Parking": {"lot": True}},
        "stars": 3.5,
        "reviews": [{"stars": 4, "text": "Bright."}, {"stars": 2, "text": "Dim."}],
    }
    source = ragtruth_source("s", info, task="Data2txt")
    (answer,) = load(tmp_path, [source], [ragtruth_response("r", "s", "Lamps.")]).answers
    record, first, second = answer.record.passages
    assert record.text.splitlines() == [
        "name: Lamp & Co",
        "hours Monday: 9:0-17:0",
        "attributes WiFi: null",
        "attributes Parking lot: true",
        "stars: 3.5",
    ]
    assert first == Passage(text="stars: 4\ntext: Bright.", title="reviews 1", passage_id="reviews 1")
    assert second.text == "stars: 2\ntext: Dim."
    assert (answer.record.question, answer.group) == ("", "Data2txt")


def test_labels_are_ranges_of_the_answer_in_their_order(tmp_path):
    response = ragtruth_response("r", "s", "Ada lit ten lamps in May.", {"in May": "Baseless", "ten": "Conflict"})
    (answer,) = load(tmp_path, [SOURCE], [response]).answers
    found = [(one.chars.of(answer.record.answer), one.kind) for one in answer.unsupported]
    assert found == [("ten", "Conflict"), ("in May", "Baseless")]


def test_rows_that_cannot_be_used_are_skipped_with_their_reason(tmp_path):
    good = ragtruth_response("r", "s", "Ada did it.", {"did": "x"})
    beyond, other = ({**good, "labels": [{**good["labels"][0], **change}]} for change in ({"end": 99}, {"text": "was"}))
    rows = [good, {**good, "response": " "}, {**good, "source_id": "t"}, beyond, other, {**good, "source_id": "empty"}]
    dataset = load(tmp_path, [SOURCE, ragtruth_source("empty", " ")], rows)
    assert len(dataset.answers) == 1
    assert dataset.skipped == (
        SkippedRow(1, "empty_answer"),
        SkippedRow(2, "no_source"),
        SkippedRow(3, "label_out_of_range"),
        SkippedRow(4, "label_text_differs"),
        SkippedRow(5, "no_passages"),
    )


def test_split_is_chosen_if_the_data_set_has_it(tmp_path):
    rows = [ragtruth_response("a", "s", "x", split="train"), ragtruth_response("b", "s", "x")]
    dataset = load(tmp_path, [SOURCE], rows)
    assert [one.record.record_id for one in dataset.of_split("test").answers] == ["b"]
    assert len(dataset.of_split("dev").answers) == 2


def test_file_instead_of_a_directory_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"should be a directory with response\.jsonl and .* has no"):
        load_ragtruth(tmp_path / "response.jsonl")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (ragtruth_source("s", 3), r"source_info\.jsonl, line 1: field 'source_info' should be a string or an object"),
        (ragtruth_source("s", {"passages": 3}), "line 1, source_info: field 'passages' should be a string"),
    ],
)
def test_faulty_source_is_an_error_with_file_line_and_field(tmp_path, source, problem):
    with pytest.raises(DataError, match=problem):
        load(tmp_path, [source], [])
