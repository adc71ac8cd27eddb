import pytest

from attribution.sentence_ends import ends_sentence, with_ended_sentences


@pytest.mark.parametrize("word", [".", "!", "。", "a.m.", ".”", ")", ":"])
def test_word_with_a_closing_mark_may_end_a_sentence(word: str) -> None:
    assert ends_sentence(word)


@pytest.mark.parametrize("word", ["Holt", ",", "(", "3"])
def test_other_word_ends_none(word: str) -> None:
    assert not ends_sentence(word)


def test_sentence_after_an_unended_one_hangs_on_its_root() -> None:
    heads, labels, starts = with_ended_sentences(
        [0, 0, 2, 4, 4], ["root", "obj", "root", "nsubj", "root"], [0, 2, 3], ended=[False, False, True, False, False]
    )
    assert (heads, labels, starts) == ([0, 0, 0, 4, 4], ["root", "obj", "parataxis", "nsubj", "root"], [0, 3])
