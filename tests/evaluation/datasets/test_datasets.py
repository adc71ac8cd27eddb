"""QuoteSum, VERI-GRAN and LFQA, and the mark-up that the first two carry."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.dataset_rows import lfqa_row, quotesum_row, veri_gran_row, write_rows

from attribeam.evaluation.datasets.loaders import CITED_LOADERS, JUDGED_LOADERS, LOADERS
from attribeam.evaluation.datasets.marked_datasets import load_lfqa, load_quotesum, load_veri_gran, remove_markup
from attribeam.pipeline.command_line import main
from attribeam.schemas import CharRange, Passage
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import LabelledAnswer, SkippedRow


def marked_texts(marked: str) -> list[tuple[str, int]]:
    cleaned = remove_markup(marked)
    return [(span.chars.of(cleaned.text), span.number) for span in cleaned.spans]


@pytest.mark.parametrize(
    ("marked", "text", "spans"),
    [
        ("Boats reach [ 2 the north pier ] at noon.", "Boats reach the north pier at noon.", [("the north pier", 2)]),
        *((f"It is [ 1 red ] {mark} Then", f"It is red{mark} Then", [("red", 1)]) for mark in ".,;:!?)"),
        ("It was [ 1 red ] , later [ 3 blue ] .", "It was red, later blue.", [("red", 1), ("blue", 3)]),
        ('[ 1 Red ] (or [ 2 blue ] "pale")', 'Red (or blue "pale")', [("Red", 1), ("blue", 2)]),
        ("Oddly , [ 1 red ] .", "Oddly , red.", [("red", 1)]),
        ("[ 1 The keeper ] [ 2 left. ]", "The keeper left.", [("The keeper", 1), ("left.", 2)]),
        ("It was shot[ 24  at the castle ] in June.", "It was shot at the castle in June.", [("at the castle", 24)]),
        ("Seen in 1874 [1], again [sic] in [ x ].", "Seen in 1874 [1], again [sic] in [ x ].", []),
    ],
)
def test_marked_text_replaces_its_bracket_and_keeps_its_number(marked, text, spans):
    assert remove_markup(marked).text == text
    assert marked_texts(marked) == spans


@pytest.mark.parametrize(
    ("marked", "start"), [("Ada met Ada, then [ 1 Ada ] left.", len("Ada met Ada, then ")), ("🙂🙂 [ 1 灯台 🗼 ] .", 3)]
)
def test_a_span_is_where_it_was_marked_counted_in_code_points(marked, start):
    assert remove_markup(marked).spans[0].chars.char_start == start


@pytest.mark.parametrize(
    ("marked", "problem"),
    [
        ("It is [ 1 red.", "never closed"),
        ("It is [ 1 red and [ 2 blue ].", "before the next opens"),
        ("It is [ 1   ] .", "contains no text"),
    ],
)
def test_broken_markup_is_refused(marked, problem):
    with pytest.raises(ValueError, match=problem):
        remove_markup(marked)


words = st.text(alphabet="abc é灯🙂", min_size=1, max_size=8).filter(
    lambda text: text.strip() == text and "  " not in text
)


@given(st.lists(st.tuples(words, words, st.integers(1, 99)), max_size=4))
def test_every_span_holds_the_text_that_was_marked(pieces):
    marked = " ".join(f"{plain} [ {number} {inner} ]" for plain, inner, number in pieces)
    assert marked_texts(marked) == [(inner, number) for _, inner, number in pieces]
    assert remove_markup(marked).text == " ".join(f"{plain} {inner}" for plain, inner, _ in pieces)


def span_texts(labelled: LabelledAnswer) -> list[str]:
    return [span.of(labelled.record.answer) for span in labelled.spans]


def test_quotesum_passage_is_title_and_source(tmp_path):
    path = write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 2 Jon Reed ] tends it.")])
    (labelled,) = load_quotesum(path).answers
    assert labelled.record.answer == "Jon Reed tends it."
    assert labelled.record.passages[0] == Passage(
        text="Its lamp is kept by Ada Thorne since 1874.", title="Brigg Point", passage_id="source1"
    )
    assert (span_texts(labelled), labelled.gold_passages) == (["Jon Reed"], (frozenset({1}),))


def test_quotesum_number_names_the_source_even_after_a_gap(tmp_path):
    row = quotesum_row("It is [ 4 grey ] .", source2="", source4="The rock is grey.")
    (labelled,) = load_quotesum(write_rows(tmp_path / "q.jsonl", [row])).answers
    assert labelled.record.passages[1] == Passage(text="The rock is grey.", title=None, passage_id="source4")
    assert labelled.gold_passages == (frozenset({1}),)


def test_row_without_a_marked_span_is_skipped_and_listed(tmp_path):
    rows = [quotesum_row("No mark."), quotesum_row("[ 1 Ada Thorne ] keeps it.")]
    dataset = load_quotesum(write_rows(tmp_path / "q.jsonl", rows))
    assert [one.record.source.source_row for one in dataset.answers] == [1]
    assert dataset.skipped == (SkippedRow(0, "no_span"),)


def test_quotesum_number_without_a_source_is_an_error_with_line_and_field(tmp_path):
    path = write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 1 Ada ] ."), quotesum_row("[ 7 Ada ] .")])
    with pytest.raises(DataError, match=r"q\.jsonl, line 2: field 'summary' marks source 7"):
        load_quotesum(path)


def test_broken_markup_is_an_error_with_line_and_field(tmp_path):
    path = write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 1 Ada")])
    with pytest.raises(DataError, match="line 1: field 'summary' has broken mark-up"):
        load_quotesum(path)
    with pytest.raises(DataError, match=r"^[^,]*q\.jsonl, line 1: field 'summary' should be a string, is missing"):
        load_quotesum(write_rows(path, [{}]))


def test_veri_gran_passages_are_sentences_counted_from_one(tmp_path):
    row = veri_gran_row("A buoy lies[ 2  off the rock ] today.", ["It is grey.", "A buoy lies off the rock."])
    (labelled,) = load_veri_gran(write_rows(tmp_path / "v.jsonl", [row])).answers
    assert labelled.record.answer == "A buoy lies off the rock today."
    assert labelled.record.passages == (Passage(text="It is grey."), Passage(text="A buoy lies off the rock."))
    assert (span_texts(labelled), labelled.gold_passages) == (["off the rock"], (frozenset({1}),))


@pytest.mark.parametrize("number", [0, 3])
def test_veri_gran_number_outside_the_passages_is_an_error(tmp_path, number):
    path = write_rows(tmp_path / "v.jsonl", [veri_gran_row(f"It is [ {number} grey ] .", ["Grey.", "Red."])])
    with pytest.raises(DataError, match=f"marks sentence {number}, but the row has 2 passages"):
        load_veri_gran(path)


def test_lfqa_sentence_gathers_the_documents_highlighted_for_it(tmp_path):
    response, documents = "A lamp burns. A bell rings.", ["The lamp burns on.", "Bells ring.", "lamp, bell"]
    highlights = [("A lamp burns.", 2, "lamp"), ("A bell rings.", 1, "Bells ring"), ("A lamp burns.", 0, "lamp burns")]
    path = write_rows(tmp_path / "l.jsonl.xz", [lfqa_row(response, documents, highlights)])
    (labelled,) = load_lfqa(path).answers
    assert span_texts(labelled) == ["A lamp burns.", "A bell rings."]
    assert labelled.gold_passages == (frozenset({0, 2}), frozenset({1}))
    texts = [
        [(gold.passage_index, gold.chars.of(documents[gold.passage_index])) for gold in one]
        for one in labelled.gold_evidence
    ]
    assert texts == [[(0, "lamp burns"), (2, "lamp")], [(1, "Bells ring")]]


def test_lfqa_repeated_row_and_row_without_highlights_are_skipped(tmp_path):
    row = lfqa_row("A lamp burns.", ["The lamp burns."], [("A lamp burns.", 0, "lamp")])
    bare = lfqa_row("A bell rings.", ["The lamp burns."], [])
    dataset = load_lfqa(write_rows(tmp_path / "l.jsonl", [row, row, bare]))
    assert len(dataset.answers) == 1
    assert dataset.skipped == (SkippedRow(1, "duplicate"), SkippedRow(2, "no_highlight"))


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("scuSentCharIdx", 3, "should be the place of scuSentence"),
        ("documentFile", "d9", "should be one of the row's 1 documents"),
        ("docSpanOffsets", [[4, 99]], "should lie within the document's 15 characters"),
        ("docSpanOffsets", [[4]], "list of \\[start, end\\] pairs"),
        ("docSpanOffsets", [], "at least one range"),
        ("scuSentCharIdx", True, "whole number, was: bool"),
    ],
)
def test_lfqa_faulty_highlight_is_an_error_with_its_place(tmp_path, field, value, problem):
    row = lfqa_row("A lamp burns.", ["The lamp burns."], [("A lamp burns.", 0, "lamp")])
    row["set_of_highlights_in_context"][0][field] = value
    where = rf"line 1, set_of_highlights_in_context\[0\]: field '{field}'.*{problem}"
    with pytest.raises(DataError, match=where):
        load_lfqa(write_rows(tmp_path / "l.jsonl", [row]))


def test_missing_field_is_named_with_the_existing_ones(tmp_path):
    with pytest.raises(DataError, match=r"line 1: field 'summary' should be a string, is missing; .*\['question'\]"):
        load_veri_gran(write_rows(tmp_path / "v.jsonl", [{"question": "?"}]))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\n{]\n", "line 2: should be one JSON object, could not be parsed"),
        (b"[1]\n", "line 1: should be one JSON object, was: list"),
        (b'"\xff"\n', "readable UTF-8"),
    ],
)
def test_file_in_another_format_is_one_clear_error(tmp_path, content, problem):
    path = tmp_path / "q.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        load_quotesum(path)


def test_file_that_is_not_xz_is_one_clear_error(tmp_path):
    path = tmp_path / "l.jsonl.xz"
    path.write_bytes(b"plain text")
    with pytest.raises(DataError, match="readable UTF-8"):
        load_lfqa(path)


def test_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.jsonl does not exist; --data should name"):
        load_quotesum(tmp_path / "nowhere.jsonl")


def test_first_answers_keep_the_rows_skipped_before_them(tmp_path):
    rows = [quotesum_row(summary) for summary in ("None.", "[ 1 Ada ] .", "None.", "[ 1 Ada ] .")]
    dataset = load_quotesum(write_rows(tmp_path / "q.jsonl", rows)).first(1)
    assert [one.record.source.source_row for one in dataset.answers] == [1]
    assert dataset.skipped == (SkippedRow(0, "no_span"),)


def test_gold_passage_outside_the_record_is_refused(tmp_path):
    (labelled,) = load_quotesum(write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 1 Ada ] .")])).answers
    with pytest.raises(ValueError, match=r"gold passages should lie in \[0, 2\)"):
        LabelledAnswer(labelled.record, (frozenset({2}),))
    assert labelled.spans == (CharRange(0, 3),)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_json_that_python_cannot_hold_is_an_error_with_its_line(tmp_path, line):
    path = tmp_path / "q.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match="line 1: should be one JSON object, could not be parsed"):
        load_quotesum(path)


def test_lfqa_documents_with_the_same_name_are_refused(tmp_path):
    row = lfqa_row("A lamp burns.", ["The lamp burns.", "Fog."], [("A lamp burns.", 0, "lamp")])
    row["documents"] = [document | {"documentFile": "d0"} for document in row["documents"]]
    with pytest.raises(DataError, match="should have different documentFiles, 2 documents have 1"):
        load_lfqa(write_rows(tmp_path / "l.jsonl", [row]))


DAMAGED = {
    "NUL": b"\0" * 99,
    "cut": b'{"query": "q',
    "list": b"[]",
    "Latin-1": b'{"query": "\xe9"}',
    "deep": b"[" * 100_000,
    "digits": b'{"query": ' + b"9" * 5000 + b"}",
    "fields": b'{"a": 1}',
    "null": b'{"query": null, "question": null, "claim": null, "sources": null, "input": null}',
}


@pytest.mark.parametrize("name", sorted({*LOADERS, *CITED_LOADERS, *JUDGED_LOADERS} - {"log", "ragtruth", "alce"}))
def test_damaged_data_of_every_kind_end_evaluate_with_file_and_place(name, tmp_path, capsys):
    data = tmp_path / f"{name}.jsonl"
    for kind, content in DAMAGED.items():
        data.write_bytes(content)
        assert main(["evaluate", "--dataset", name, "--data", str(data)]) == 2, kind
        assert str(data) in capsys.readouterr().err, kind
    data.unlink()
    os.mkfifo(data)
    assert main(["evaluate", "--dataset", name, "--data", str(data)]) == 2
    assert f"data file {data} should be a file, is a folder, a pipe or a device" in capsys.readouterr().err
