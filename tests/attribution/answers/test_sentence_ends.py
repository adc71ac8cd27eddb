import pytest

from attribution.answers.sentence_ends import closing_marks, sentence_ends, with_closed_sentences, with_ended_sentences


@pytest.mark.parametrize("word", [".", "!", "。", "a.m.", ".”", ":", "1874.)"])
def test_word_with_a_closing_mark_may_end_a_sentence(word: str) -> None:
    assert sentence_ends(["Holt", word]) == [False, True]


@pytest.mark.parametrize("word", ["Holt", ",", "(", "3", "Dr.", "e.g.", ")", "vs."])
def test_other_word_ends_none(word: str) -> None:
    assert sentence_ends(["Holt", word]) == [False, False]


@pytest.mark.parametrize("words", [["approx", ".", "20"], ["No", ".", "12"], ["Oct.", "1921"], ["fig", ".", "Three"]])
def test_abbreviation_before_what_it_abbreviates_for_ends_none(words: list[str]) -> None:
    assert sentence_ends(words) == [False] * len(words)


@pytest.mark.parametrize("words", [["No", ".", "Twelve"], ["in", "Oct.", "They"], ["said", "no", "."]])
def test_abbreviation_or_word_like_it_may_end_a_sentence_elsewhere(words: list[str]) -> None:
    assert True in sentence_ends(words)


@pytest.mark.parametrize(("mark", "ends"), [(".", True), (",", False), ("?", True), ("moon", False)])
def test_closing_quotes_and_brackets_end_a_sentence_as_the_word_before_them(mark: str, ends: bool) -> None:
    assert sentence_ends([mark, ")", "”"]) == [ends, ends, ends]


def test_lone_closing_quote_ends_none() -> None:
    assert sentence_ends(['"']) == [False]


def test_quote_closes_where_it_touches_only_the_word_before_it() -> None:
    words = ['"', "Go", ".", '"', "He", '"', "ran", '"']
    spaced = [False, False, False, True, True, False, False, False]
    assert closing_marks(words, spaced=spaced) == [False, False, False, True, False, False, False, True]


def test_closing_quote_moves_to_the_sentence_before_it() -> None:
    heads, labels, starts = with_closed_sentences(
        [0, 0, 4, 2, 4],
        ["root", "punct", "punct", "advmod", "root"],
        [0, 2],
        closing=[False, False, True, False, False],
    )
    assert (heads, labels, starts) == ([0, 0, 0, 3, 4], ["root", "punct", "punct", "root", "root"], [0, 3])


def test_sentence_of_closing_marks_only_is_none() -> None:
    heads, labels, starts = with_closed_sentences(
        [1, 1, 2], ["nsubj", "root", "root"], [0, 2], closing=[False, False, True]
    )
    assert (heads, labels, starts) == ([1, 1, 1], ["nsubj", "root", "punct"], [0])


def test_closing_mark_at_the_start_of_a_block_stays_a_sentence() -> None:
    assert with_closed_sentences([0, 1], ["root", "root"], [0, 1], closing=[True, False])[2] == [0, 1]


def test_sentence_after_an_unended_one_hangs_on_its_root() -> None:
    heads, labels, starts = with_ended_sentences(
        [0, 0, 2, 4, 4], ["root", "obj", "root", "nsubj", "root"], [0, 2, 3], ended=[False, False, True, False, False]
    )
    assert (heads, labels, starts) == ([0, 0, 0, 4, 4], ["root", "obj", "parataxis", "nsubj", "root"], [0, 3])
