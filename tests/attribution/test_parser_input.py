import spacy

from attribution.parser_input import parser_input
from schemas import CharRange


def test_words_are_given_without_white_space_and_keep_their_places() -> None:
    text = "  Rain   fell\n here."
    given = parser_input(spacy.blank("en"), text, char_start=10, whole=(), is_row=False)
    assert given.doc.text == "Rain fell here."
    places = [given.range_of(token.idx, token.idx + len(token)) for token in given.doc]
    assert [text[one.char_start - 10 : one.char_end - 10] for one in places] == ["Rain", "fell", "here", "."]


def test_whole_range_is_one_word() -> None:
    text = "Run ~/.x/y --all now"
    given = parser_input(spacy.blank("en"), text, char_start=0, whole=[CharRange(4, 16)], is_row=False)
    assert [token.text for token in given.doc] == ["Run", "~/.x/y --all", "now"]


def test_block_of_white_space_has_no_words() -> None:
    assert len(parser_input(spacy.blank("en"), " \n", char_start=0, whole=(), is_row=False).doc) == 0
