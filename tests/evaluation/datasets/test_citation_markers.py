import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.datasets.citation_markers import remove_citations


def cited(text: str) -> list[tuple[str, tuple[int, ...]]]:
    found = remove_citations(text)
    return [(one.chars.of(found.text), one.citations) for one in found.sentences]


def test_markers_before_and_after_the_full_stop_cite_for_the_same_sentence():
    assert cited("A lamp burns [1]. A bell rings. [2] It is cold.") == [
        ("A lamp burns.", (0,)),
        ("A bell rings.", (1,)),
        ("It is cold.", ()),
    ]


def test_several_markers_are_kept_in_their_order_and_once_each():
    assert cited("A lamp [3] burns [1][3].") == [("A lamp burns.", (2, 0))]


@pytest.mark.parametrize("marker", ["[1][2]", "[1, 2]", "[1; 2]", " [1] [2]"])
def test_every_way_to_write_two_citations_is_read(marker):
    assert cited(f"A lamp burns{marker}.") == [("A lamp burns.", (0, 1))]


def test_marker_at_the_very_start_belongs_to_the_first_sentence():
    assert cited("[2] A lamp burns. It is cold.") == [("A lamp burns.", (1,)), ("It is cold.", ())]


def test_sentence_does_not_end_with_a_colon_or_an_abbreviation():
    assert [text for text, _ in cited("Two burn: one here; one at St. Ann. The rest do not.")] == [
        "Two burn: one here; one at St. Ann.",
        "The rest do not.",
    ]


def test_chinese_sentences_end_without_a_blank():
    assert cited("灯亮了[1]。钟响了！[2]冬天结冰。") == [("灯亮了。", (0,)), ("钟响了！", (1,)), ("冬天结冰。", ())]


def test_bracket_without_a_number_stays_in_the_text():
    assert remove_citations("A [lamp] burns [x].").text == "A [lamp] burns [x]."


def test_text_of_markers_only_has_no_sentence():
    assert cited("[1][2]") == []


@given(st.lists(st.tuples(st.sampled_from(["A lamp burns", "Bells ring", "It is cold"]), st.sets(st.integers(1, 5)))))
def test_every_sentence_keeps_its_own_citations(sentences):
    text = " ".join(f"{words}{''.join(f'[{number}]' for number in sorted(cites))}." for words, cites in sentences)
    assert cited(text) == [(f"{words}.", tuple(number - 1 for number in sorted(cites))) for words, cites in sentences]


def test_number_of_more_than_nine_digits_is_no_citation():
    assert cited(f"A lamp burns [{'9' * 5000}].") == [(f"A lamp burns [{'9' * 5000}].", ())]
