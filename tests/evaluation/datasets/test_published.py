"""The data sets that ``attribeam evaluate`` reads: their formats, labels, citation marks and mark-up."""

import json
import os

import pytest
from tests.evaluation.dataset_rows import (
    alce_row,
    bump_row,
    clapnq_row,
    evaluate,
    lfqa_row,
    mtrag_row,
    quotesum_row,
    ragtruth_response,
    ragtruth_source,
    summedits_row,
    veri_gran_row,
    write_alce,
    write_ragtruth,
    write_rows,
)

from attribeam.evaluation.datasets import CITED_LOADERS, JUDGED_LOADERS, LOADERS
from attribeam.evaluation.datasets.dataset_file import JudgedAnswer, SkippedRow, of_split
from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.evaluation.datasets.published import (
    load_alce,
    load_bump,
    load_clapnq,
    load_lfqa,
    load_mtrag,
    load_quotesum,
    load_ragtruth,
    load_summedits,
    load_veri_gran,
    remove_citations,
    remove_markup,
)
from attribeam.pipeline.command_line import main
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError


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
    found, marks = remove_markup(marked)
    assert (found, [(chars.of(found), number) for chars, number in marks]) == (text, spans)


@pytest.mark.parametrize(
    ("marked", "problem"),
    [("[ 1 red.", "never closed"), ("[ 1 red and [ 2 blue ].", "before the next opens"), ("[ 1   ] .", "no text")],
)
def test_broken_markup_is_refused(marked, problem):
    with pytest.raises(ValueError, match=problem):
        remove_markup(marked)


def span_texts(labelled):
    return [span.of(labelled.record.answer) for span in labelled.spans]


def test_quotesum_passage_is_title_and_source(tmp_path):
    path = write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 2 Jon Reed ] tends it.")])
    (labelled,) = load_quotesum(path).answers
    assert labelled.record.answer == "Jon Reed tends it."
    first = Passage("Its lamp is kept by Ada Thorne since 1874.", "Brigg Point", "source1")
    assert labelled.record.passages[0] == first
    assert (span_texts(labelled), labelled.gold_passages) == (["Jon Reed"], (frozenset({1}),))


def test_quotesum_number_names_the_source_even_after_a_gap(tmp_path):
    row = quotesum_row("It is [ 4 grey ] .", source2="", source4="The rock is grey.")
    (labelled,) = load_quotesum(write_rows(tmp_path / "q.jsonl", [row])).answers
    assert labelled.record.passages[1] == Passage(text="The rock is grey.", title=None, passage_id="source4")
    assert labelled.gold_passages == (frozenset({1}),)


def test_veri_gran_passages_are_sentences_counted_from_one(tmp_path):
    row = veri_gran_row("A buoy lies[ 2  off the rock ] today.", ["It is grey.", "A buoy lies off the rock."])
    (labelled,) = load_veri_gran(write_rows(tmp_path / "v.jsonl", [row])).answers
    assert labelled.record.answer == "A buoy lies off the rock today."
    assert labelled.record.passages == (Passage(text="It is grey."), Passage(text="A buoy lies off the rock."))
    assert (span_texts(labelled), labelled.gold_passages) == (["off the rock"], (frozenset({1}),))


def test_lfqa_sentence_gathers_the_documents_highlighted_for_it(tmp_path):
    response, documents = "A lamp burns. A bell rings.", ["The lamp burns on.", "Bells ring.", "lamp, bell"]
    highlights = [("A lamp burns.", 2, "lamp"), ("A bell rings.", 1, "Bells ring"), ("A lamp burns.", 0, "lamp burns")]
    path = write_rows(tmp_path / "l.jsonl.xz", [lfqa_row(response, documents, highlights)])
    (labelled,) = load_lfqa(path).answers
    assert span_texts(labelled) == ["A lamp burns.", "A bell rings."]
    assert labelled.gold_passages == (frozenset({0, 2}), frozenset({1}))
    gold = [[(piece.passage_index, piece.chars) for piece in one] for one in labelled.gold_evidence]
    texts = [[(index, chars.of(documents[index])) for index, chars in one] for one in gold]
    assert texts == [[(0, "lamp burns"), (2, "lamp")], [(1, "Bells ring")]]


def lfqa(**highlight):
    """A row of one highlight, in which these fields are others."""
    row = lfqa_row("A lamp burns.", ["The lamp burns."], [("A lamp burns.", 0, "lamp")])
    row["set_of_highlights_in_context"][0] |= highlight
    return row


TWICE = [{"documentFile": "d0", "rawDocumentText": text} for text in ("The lamp burns.", "Fog.")]
OF_HIGHLIGHT = r"line 1, set_of_highlights_in_context\[0\]: field "
FINE = alce_row("Fine.")


def loaded_rows(load, folder, rows):
    write, name = (write_alce, "data.json") if load is load_alce else (write_rows, "data.jsonl")
    return load(write(folder / name, rows))


@pytest.mark.parametrize(
    ("load", "rows", "problem"),
    [
        (load_quotesum, [quotesum_row("[ 1 A ] ."), quotesum_row("[ 7 A ] .")], "line 2: field 'summary' marks sour"),
        (load_quotesum, [quotesum_row("[ 1 Ada")], "line 1: field 'summary' has broken mark-up"),
        (load_quotesum, [{}], "line 1: field 'summary' should be a string, is missing"),
        (load_veri_gran, [{"question": "?"}], r"should be a string, is missing; .*\['question'\]"),
        (load_veri_gran, [veri_gran_row("It is [ 0 red ] .", ["Grey.", "Red."])], "marks sentence 0, but the row has"),
        (load_veri_gran, [veri_gran_row("It is [ 3 red ] .", ["Grey.", "Red."])], "marks sentence 3, but the row has"),
        (load_lfqa, [lfqa() | {"documents": TWICE}], "should have different documentFiles, 2 documents have 1"),
        (load_lfqa, [lfqa(scuSentCharIdx=3)], f"{OF_HIGHLIGHT}'scuSentCharIdx' should be the place of scuSentence"),
        (load_lfqa, [lfqa(scuSentCharIdx=True)], f"{OF_HIGHLIGHT}'scuSentCharIdx' should be a whole number, was: bool"),
        (load_lfqa, [lfqa(documentFile="d9")], f"{OF_HIGHLIGHT}'documentFile' should be one of the row's 1 documents"),
        (load_lfqa, [lfqa(docSpanOffsets=[[4, 99]])], f"{OF_HIGHLIGHT}'docSpanOffsets' should lie within the docu"),
        (load_lfqa, [lfqa(docSpanOffsets=[[4]])], r"should be a list of \[start, end\] pairs"),
        (load_lfqa, [lfqa(docSpanOffsets=[])], "should have at least one range"),
        (load_alce, [FINE, FINE | {"output": ["one"]}], r"data\[1\]: field 'output' should be one string, was a list"),
        (load_alce, [FINE, FINE | {"output": None}], r"data\[1\]: field 'output' should be a string, was: NoneType"),
        (load_alce, [FINE | {"docs": [{"title": "x"}]}], r"data\[0\], docs\[0\]: field 'text' should be a string"),
        (load_alce, [FINE | {"question": 3}], r"data\[0\]: field 'question' should be a string, was: int"),
        (load_clapnq, [clapnq_row(("Ada.", ["Bob lit it ."]))], r"output\[0\]: field 'selected_sentences' should be"),
        (load_mtrag, [mtrag_row("Ada.", "4", "5")], "field 'faithfulness' should have grades from 1 to 4, has: '5'"),
        (load_mtrag, [mtrag_row("Ada.", faithfulness=[4])], "field 'faithfulness' should be a list of strings"),
        (load_mtrag, [mtrag_row("Ada.", "4", conversation=[])], "field 'conversation' should end with a turn"),
        (load_mtrag, [mtrag_row("Ada.", "4", passages="none")], "field 'passages' should be a list of objects"),
        (load_summedits, [summedits_row("Ada.", label=2)], "line 1: field 'label' should be 0 or 1, was: 2"),
    ],
)  # fmt: skip
def test_faulty_row_is_an_error_with_file_row_and_field(tmp_path, load, rows, problem):
    with pytest.raises(DataError, match=rf"data\.json.*{problem}"):
        loaded_rows(load, tmp_path, rows)


@pytest.mark.parametrize(
    ("load", "rows", "reasons"),
    [
        (load_lfqa, [lfqa(), lfqa(), lfqa_row("A bell rings.", ["Fog."], [])], (None, "duplicate", "no_highlight")),
        (load_alce, [alce_row(""), alce_row("Ada lit it.", []), FINE], ("empty_answer", "no_passages", None)),
        (load_clapnq, [clapnq_row(("", [])), clapnq_row(("Ada.", [])), clapnq_row(("Ada.", ["Jon Reed tends it ."]))],
            ("unanswerable", "no_selected_sentence", None)),
        (load_mtrag, [mtrag_row(" ", "4"), mtrag_row("Ada.", "1", passages=[]), mtrag_row("Ada."), mtrag_row("Ada.",
            "1")], ("empty_answer", "no_passages", "not_judged", None)),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used_are_skipped_with_their_reason(tmp_path, load, rows, reasons):
    dataset = loaded_rows(load, tmp_path, rows)
    skipped = [SkippedRow(row, reason) for row, reason in enumerate(reasons) if reason]
    assert list(dataset.skipped) == skipped
    assert [one.record.source.source_row for one in dataset.answers] == [reasons.index(None)]


DAMAGED = {
    "NUL": b"\0" * 99, "cut": b'{"query": "q', "list": b"[]", "Latin-1": b'{"query": "\xe9"}', "deep": b"[" * 100_000,
    "digits": b'{"query": ' + b"9" * 5000 + b"}", "fields": b'{"a": 1}',
    "null": b'{"query": null, "question": null, "claim": null, "sources": null, "input": null}',
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A lamp burns [1]. A bell rings. [2] It is cold.",  # before and after the full stop
            [("A lamp burns.", (0,)), ("A bell rings.", (1,)), ("It is cold.", ())]),
        ("A lamp [3] burns [1][3].", [("A lamp burns.", (2, 0))]),
        *((f"A lamp burns{one}.", [("A lamp burns.", (0, 1))]) for one in ("[1][2]", "[1, 2]", "[1; 2]", " [1] [2]")),
        ("[2] A lamp burns. It is cold.", [("A lamp burns.", (1,)), ("It is cold.", ())]),
        ("Two burn: one here; one at St. Ann. The rest do not.",
            [("Two burn: one here; one at St. Ann.", ()), ("The rest do not.", ())]),
        ("灯亮了[1]。钟响了！[2]冬天结冰。", [("灯亮了。", (0,)), ("钟响了！", (1,)), ("冬天结冰。", ())]),
        ("A [lamp] burns [x].", [("A [lamp] burns [x].", ())]),
        ("[1][2]", []),
        (f"A lamp burns [{'9' * 5000}].", [(f"A lamp burns [{'9' * 5000}].", ())]),  # too large for a citation
    ],
)  # fmt: skip
def test_sentences_and_what_they_cite(text, sentences):
    answer, found = remove_citations(text)
    assert [(chars.of(answer), citations) for chars, citations in found] == sentences


@pytest.mark.parametrize("in_data", [True, False])
def test_every_sentence_is_a_target_span_with_what_it_cites(tmp_path, in_data):
    rows = [alce_row("Ada lit it [1]. A buoy lies there [2][3].")]
    (answer,) = load_alce(write_alce(tmp_path / "asqa.json", rows, in_data=in_data)).answers
    assert answer.record.answer == "Ada lit it. A buoy lies there."
    assert [span.of(answer.record.answer) for span in answer.spans] == ["Ada lit it.", "A buoy lies there."]
    assert answer.citations == ((0,), (1, 2))
    assert (answer.gold_passages, answer.gold_evidence) == ((), ())


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("\n Ada lit it [1].<|im_end|>\nQuestion: x", "Ada lit it."),
        ("Ada lit it.\u2028A buoy lies there [2].\nQuestion: x", "Ada lit it.\u2028A buoy lies there."),
    ],
)
def test_answer_is_the_first_line_without_the_end_of_turn(tmp_path, output, answer):
    (found,) = load_alce(write_alce(tmp_path / "a.json", [alce_row(output)])).answers
    assert found.record.answer == answer


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


def test_whole_answer_is_the_span_and_the_chosen_sentences_are_its_evidence(tmp_path):
    (answer,) = loaded_rows(load_clapnq, tmp_path, [clapnq_row((" Ada did. ", [LAST, FIRST]))]).answers
    (passage,) = answer.record.passages
    assert answer.spans == (CharRange(1, 9),)
    assert [one.chars.of(passage.text) for one in answer.gold_evidence[0]] == [FIRST, LAST]
    assert (answer.gold_passages, passage.title) == ((frozenset({0}),), "Brigg Point")


def test_answers_of_several_people_are_answers_of_their_own_and_equal_ones_count_once(tmp_path):
    row = clapnq_row(("Ada.", [FIRST]), ("Jon.", [LAST]), ("Ada.", [FIRST]), ("", []))
    dataset = loaded_rows(load_clapnq, tmp_path, [row])
    assert [one.record.record_id for one in dataset.answers] == ["7-1", "7-2"]


PASSAGES = "passage 1:Ada lit the lamp.\n\npassage 2:A buoy lies\nthere. See passage 3: none.\n\n"
SOURCE = ragtruth_source("s", {"question": "Who lit it?", "passages": PASSAGES})


def loaded(directory, sources, responses):
    return load_ragtruth(write_ragtruth(directory, sources, responses))


def test_passages_of_one_string_are_separated_by_their_numbers(tmp_path):
    (answer,) = loaded(tmp_path, [SOURCE], [ragtruth_response("r", "s", "Ada did.")]).answers
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
    (answer,) = loaded(tmp_path, [ragtruth_source("s", source_info)], [ragtruth_response("r", "s", "x")]).answers
    assert [passage.text for passage in answer.record.passages] == texts


def test_record_of_a_business_becomes_lines_and_one_passage_per_review(tmp_path):
    reviews = [{"stars": 4, "text": "Bright."}, {"stars": 2, "text": "Dim."}]
    info = {"name": "Lamp & Co", "hours": {"Monday": "9:0-17:0"}}
    info |= {"attributes": {"WiFi": None, "Parking": {"lot": True}}, "stars": 3.5, "reviews": reviews}
    source = ragtruth_source("s", info, task="Data2txt")
    (answer,) = loaded(tmp_path, [source], [ragtruth_response("r", "s", "Lamps.")]).answers
    record, first, second = answer.record.passages
    attributes = "attributes WiFi: null", "attributes Parking lot: true"
    assert record.text.splitlines() == ["name: Lamp & Co", "hours Monday: 9:0-17:0", *attributes, "stars: 3.5"]
    assert first == Passage(text="stars: 4\ntext: Bright.", title="reviews 1", passage_id="reviews 1")
    assert second.text == "stars: 2\ntext: Dim."
    assert (answer.record.question, answer.group) == ("", "Data2txt")


def test_labels_are_ranges_of_the_answer_in_their_order(tmp_path):
    response = ragtruth_response("r", "s", "Ada lit ten lamps in May.", {"in May": "Baseless", "ten": "Conflict"})
    (answer,) = loaded(tmp_path, [SOURCE], [response]).answers
    found = [(one.chars.of(answer.record.answer), one.kind) for one in answer.unsupported]
    assert found == [("ten", "Conflict"), ("in May", "Baseless")]


def test_ragtruth_rows_that_cannot_be_used_are_skipped_with_their_reason(tmp_path):
    good = ragtruth_response("r", "s", "Ada did it.", {"did": "x"})
    beyond, other = ({**good, "labels": [{**good["labels"][0], **change}]} for change in ({"end": 99}, {"text": "was"}))
    rows = [good, {**good, "response": " "}, {**good, "source_id": "t"}, beyond, other, {**good, "source_id": "empty"}]
    dataset = loaded(tmp_path, [SOURCE, ragtruth_source("empty", " ")], rows)
    assert len(dataset.answers) == 1
    reasons = ("empty_answer", "no_source", "label_out_of_range", "label_text_differs", "no_passages")
    assert dataset.skipped == tuple(SkippedRow(number, reason) for number, reason in enumerate(reasons, start=1))


def test_split_is_chosen_if_the_data_set_has_it(tmp_path):
    rows = [ragtruth_response("a", "s", "x", split="train"), ragtruth_response("b", "s", "x")]
    dataset = loaded(tmp_path, [SOURCE], rows)
    assert [one.record.record_id for one in of_split(dataset, "test").answers] == ["b"]
    assert len(of_split(dataset, "dev").answers) == 2


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
        loaded(tmp_path, [source], [])


def test_mtrag_answer_has_the_last_question_and_the_mean_grade(tmp_path):
    path = write_rows(tmp_path / "mtrag.jsonl", [mtrag_row("Ada did.", "4", "4", "3")])
    (answer,) = load_mtrag(path).answers
    assert answer.record.question == "Who lit it?"
    assert answer.record.passages == (Passage("Ada Thorne lit the lamp in 1874.", "Brigg Point", "p"),)
    assert (answer.record.generator, answer.split) == ("tiny", "test")
    assert answer.faithfulness == pytest.approx(11 / 3)
    assert (answer.is_supported, answer.unsupported) == (True, None)


@pytest.mark.parametrize(
    ("grades", "supported"), [("222", False), ("114", False), ("223", True), ("1", False), ("23", True)]
)
def test_mtrag_answer_with_a_mean_of_at_most_two_is_unsupported(tmp_path, grades, supported):
    (answer,) = load_mtrag(write_rows(tmp_path / "m.jsonl", [mtrag_row("Ada did.", *grades)])).answers
    assert answer.is_supported is supported


def test_summedits_document_is_the_passage_and_the_file_names_the_domain(tmp_path):
    rows = [summedits_row("Ada lit it."), summedits_row("Jon lit it.", "entity_modification", row_id="b")]
    good, edited = load_summedits(write_rows(tmp_path / "summedits_sea_mail.jsonl.xz", rows)).answers
    assert good.record.passages == (Passage("Ada Thorne lit the lamp at Brigg Point in 1874."),)
    assert (good.record.record_id, good.record.question, good.group) == ("a", "", "sea_mail")
    assert (good.is_supported, good.error_kinds) == (True, ())
    assert (edited.is_supported, edited.error_kinds) == (False, ("entity_modification",))


def test_summedits_repeated_summary_is_skipped_also_in_another_file(tmp_path):
    row = summedits_row("Ada lit it.")
    write_rows(tmp_path / "summedits_b.jsonl", [summedits_row("Jon lit it.", "swap"), row])
    write_rows(tmp_path / "summedits_a.jsonl", [row, row])
    write_rows(tmp_path / "others.jsonl", [{"no": "summary"}])
    dataset = load_summedits(tmp_path)
    assert [answer.group for answer in dataset.answers] == ["a", "b"]
    assert dataset.skipped == tuple(SkippedRow(1, "duplicate", f"summedits_{name}.jsonl") for name in "ab")
    assert dataset.first(1).skipped == ()


def test_bump_reference_counts_once_and_every_different_edit_once(tmp_path):
    rows = [bump_row(number, "Jon Reed lit the lamp.") for number in range(3)]
    rows[1] |= {"edited_summary": "Ada Thorne lit the bell.", "corrected_error_type": "Extrinsic Entity Error"}
    dataset = load_bump(write_rows(tmp_path / "bump_task1.jsonl", rows))
    found = [(one.record.record_id, one.is_supported, one.error_kinds) for one in dataset.answers]
    assert found == [
        ("bump_task1-0-reference", True, ()),
        ("bump_task1-0-edited", False, ("Intrinsic Entity",)),
        ("bump_task1-1-edited", False, ("Extrinsic Entity",)),
    ]
    assert dataset.skipped == (SkippedRow(2, "duplicate"),)
    assert {one.group for one in dataset.answers} == {"bump_task1"}


def test_directory_without_files_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"should be a file or a directory with bump\*\.jsonl or \.jsonl\.xz, has none"):
        load_bump(tmp_path)


def test_plain_file_is_read_in_place_of_its_packed_twin(tmp_path):
    write_rows(tmp_path / "bump.jsonl", [bump_row(0, "Jon lit it.")])
    write_rows(tmp_path / "bump.jsonl.xz", [bump_row(1, "Jon lit it again.")])
    assert [one.record.record_id for one in load_bump(tmp_path).answers] == ["bump-0-reference", "bump-0-edited"]


@pytest.mark.parametrize(
    ("source", "load", "rows"),
    [
        ("mtrag", load_mtrag, [mtrag_row("Ada did.", "1", "4"), mtrag_row("Jon.", "4", model="reference")]),
        ("summedits", load_summedits, [summedits_row("Ada."), summedits_row("Jon.", "swap", "negation", row_id="b")]),
        ("bump", load_bump, [bump_row(0, "Jon Reed lit the lamp.")]),
    ],
)
def test_imported_log_has_the_judgements_of_the_data_set(tmp_path, source, load, rows):
    data, log = write_rows(tmp_path / f"{source}.jsonl", rows), tmp_path / "log.parquet"
    assert main(["import", source, "--data", str(data), "--output", str(log)]) == 0
    assert without_place(load_judged_log(log).answers) == without_place(load(data).answers)


def without_place(answers):
    return [str(answer).replace(repr(answer.record.source), "") for answer in answers]


def test_answer_without_any_judgement_is_refused():
    record = QARecord("r", "", (Passage("x"),), "Ada.", RowSource("a", 0))
    with pytest.raises(ValueError, match="should have unsupported ranges or answer_supported, has neither"):
        JudgedAnswer(record, None)
