import spacy

from attribution.answers.parser_input import parser_input
from schemas import CharRange


def test_words_are_given_without_white_space_and_keep_their_places() -> None:
    text = "  Rain   fell\n here."
    given = parser_input(spacy.blank("en"), text, char_start=10, whole=(), is_row=False)
    assert given.doc.text == "Rain fell here."
    assert [text[one.char_start - 10 : one.char_end - 10] for one in given.ranges()] == ["Rain", "fell", "here", "."]


def test_whole_range_is_one_word() -> None:
    text = "Run ~/.x/y --all now"
    given = parser_input(spacy.blank("en"), text, char_start=0, whole=[CharRange(4, 16)], is_row=False)
    assert [token.text for token in given.doc] == ["Run", "~/.x/y --all", "now"]


def test_block_of_white_space_has_no_words() -> None:
    assert len(parser_input(spacy.blank("en"), " \n", char_start=0, whole=(), is_row=False).doc) == 0


def test_merged_words_have_the_range_of_all_of_them() -> None:
    text = "In  New   York, too"
    given = parser_input(spacy.blank("en"), text, char_start=5, whole=(), is_row=False)
    with given.doc.retokenize() as merging:
        merging.merge(given.doc[1:3])
    assert [text[one.char_start - 5 : one.char_end - 5] for one in given.ranges()] == ["In", "New   York", ",", "too"]
