"""ALCE's result files, and the citation markers in their answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.dataset_rows import DOCUMENTS, alce_row, write_alce

from attribeam.evaluation.datasets.passage_qa import load_alce, remove_citations
from attribeam.schemas import Passage
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import SkippedRow


def cited(text: str) -> list[tuple[str, tuple[int, ...]]]:
    found = remove_citations(text)
    return [(one.chars.of(found.text), one.citations) for one in found.sentences]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (  # before and after the full stop
            "A lamp burns [1]. A bell rings. [2] It is cold.",
            [("A lamp burns.", (0,)), ("A bell rings.", (1,)), ("It is cold.", ())],
        ),
        ("A lamp [3] burns [1][3].", [("A lamp burns.", (2, 0))]),
        *(
            (f"A lamp burns{marker}.", [("A lamp burns.", (0, 1))])
            for marker in ("[1][2]", "[1, 2]", "[1; 2]", " [1] [2]")
        ),
        ("[2] A lamp burns. It is cold.", [("A lamp burns.", (1,)), ("It is cold.", ())]),
        (
            "Two burn: one here; one at St. Ann. The rest do not.",
            [("Two burn: one here; one at St. Ann.", ()), ("The rest do not.", ())],
        ),
        ("灯亮了[1]。钟响了！[2]冬天结冰。", [("灯亮了。", (0,)), ("钟响了！", (1,)), ("冬天结冰。", ())]),
        ("A [lamp] burns [x].", [("A [lamp] burns [x].", ())]),
        ("[1][2]", []),
        (f"A lamp burns [{'9' * 5000}].", [(f"A lamp burns [{'9' * 5000}].", ())]),  # too large for a citation
    ],
)
def test_sentences_and_what_they_cite(text, sentences):
    assert cited(text) == sentences


@given(st.lists(st.tuples(st.sampled_from(["A lamp burns", "Bells ring", "It is cold"]), st.sets(st.integers(1, 5)))))
def test_every_sentence_keeps_its_own_citations(sentences):
    text = " ".join(f"{words}{''.join(f'[{number}]' for number in sorted(cites))}." for words, cites in sentences)
    assert cited(text) == [(f"{words}.", tuple(number - 1 for number in sorted(cites))) for words, cites in sentences]


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


def test_citation_of_a_missing_document_is_kept(tmp_path):
    (answer,) = load_alce(write_alce(tmp_path / "a.json", [alce_row("Ada lit it [9].")])).answers
    assert answer.citations == ((8,),)


def test_rows_without_an_answer_or_documents_are_skipped_and_listed(tmp_path):
    rows = [alce_row(""), alce_row("Ada lit it.", []), alce_row("Ada lit it.")]
    dataset = load_alce(write_alce(tmp_path / "a.json", rows))
    assert [one.record.source.source_row for one in dataset.answers] == [2]
    assert dataset.skipped == (SkippedRow(0, "empty_answer"), SkippedRow(1, "no_passages"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"output": ["one", "two"]},
            r"a\.json, data\[1\]: field 'output' should be one string, was a list; write each",
        ),
        ({"output": None}, r"data\[1\]: field 'output' should be a string, was: NoneType"),
        ({"docs": [{"title": "x"}]}, r"data\[1\], docs\[0\]: field 'text' should be a string, is missing"),
        ({"question": 3}, r"data\[1\]: field 'question' should be a string, was: int"),
    ],
)
def test_faulty_row_is_an_error_with_file_row_and_field(tmp_path, change, problem):
    path = write_alce(tmp_path / "a.json", [alce_row("Fine."), alce_row("Fine.") | change])
    with pytest.raises(DataError, match=problem):
        load_alce(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "should be JSON, could not be parsed"),
        ("3", "should be a list or an object, was: int"),
        ('{"rows": []}', r"field 'data' should be .* is missing; the row has: \['rows'\]"),
        ("[1]", "field 'data' should be a list of objects"),
    ],
)
def test_file_in_another_format_is_one_clear_error(tmp_path, content, problem):
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        load_alce(path)
