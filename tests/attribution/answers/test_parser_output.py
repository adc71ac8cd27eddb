"""Whole words and corrected sentences of a parser's output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers.parser_output import (
    LONGEST_SENTENCE,
    ParsedTokens,
    attach_closing_marks,
    closing_marks,
    cut_long_sentences,
    join_unended_sentences,
    sentence_ends,
    word_runs,
)
from attribeam.schemas import CharRange


def tokens(text: str, heads: list[int], labels: list[str], starts: list[int]) -> ParsedTokens:
    ranges = [CharRange(place, place + 1) for place in range(len(text))]
    tags = ["NOUN" if character != "。" else "PUNCT" for character in text]
    return ParsedTokens(ranges, list(text), heads, labels, tags, [""] * len(text), starts)


def test_characters_become_words_that_keep_the_last_ones_head() -> None:
    parsed = tokens("海鸥飞走。", [1, 3, 3, 3, 3], ["subtok", "nsubj", "subtok", "root", "punct"], [0])
    words = parsed.whole_words()
    assert words.forms == ["海鸥", "飞走", "。"]
    assert words.ranges == [CharRange(0, 2), CharRange(2, 4), CharRange(4, 5)]
    assert (words.heads, words.labels, words.starts) == ([1, 1, 1], ["nsubj", "root", "punct"], [0])


def test_head_inside_another_word_is_that_word() -> None:
    parsed = tokens("鸟飞走", [1, 2, 2], ["nsubj", "subtok", "root"], [0])
    assert parsed.whole_words().heads == [1, 1]


def test_word_ends_with_its_sentence() -> None:
    parsed = tokens("灯塔灯", [1, 1, 2], ["subtok", "subtok", "root"], [0, 2])
    words = parsed.whole_words()
    assert (words.forms, words.heads, words.labels, words.starts) == (["灯塔", "灯"], [0, 1], ["root", "root"], [0, 1])


def test_tokens_without_such_a_label_are_left_alone() -> None:
    parsed = tokens("灯塔", [1, 1], ["nsubj", "root"], [0])
    assert parsed.whole_words() is parsed


@given(inside=st.lists(st.booleans(), min_size=1, max_size=30), starts=st.sets(st.integers(1, 29)))
def test_words_are_the_tokens_in_order_and_break_at_every_sentence(inside: list[bool], starts: set[int]) -> None:
    firsts = [0, *sorted(start for start in starts if start < len(inside))]
    runs = word_runs(["subtok" if one else "dep" for one in inside], firsts)
    assert [token for run in runs for token in run] == list(range(len(inside)))
    assert set(firsts) <= {run.start for run in runs}
    assert all(inside[token] for run in runs for token in run[:-1])


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
    heads, labels, starts = attach_closing_marks(
        [0, 0, 4, 2, 4],
        ["root", "punct", "punct", "advmod", "root"],
        [0, 2],
        closing=[False, False, True, False, False],
    )
    assert (heads, labels, starts) == ([0, 0, 0, 3, 4], ["root", "punct", "punct", "root", "root"], [0, 3])


def test_sentence_of_closing_marks_only_is_none() -> None:
    heads, labels, starts = attach_closing_marks(
        [1, 1, 2], ["nsubj", "root", "root"], [0, 2], closing=[False, False, True]
    )
    assert (heads, labels, starts) == ([1, 1, 1], ["nsubj", "root", "punct"], [0])


def test_closing_mark_at_the_start_of_a_block_stays_a_sentence() -> None:
    assert attach_closing_marks([0, 1], ["root", "root"], [0, 1], closing=[True, False])[2] == [0, 1]


def test_sentence_after_an_unended_one_hangs_on_its_root() -> None:
    heads, labels, starts = join_unended_sentences(
        [0, 0, 2, 4, 4], ["root", "obj", "root", "nsubj", "root"], [0, 2, 3], ended=[False, False, True, False, False]
    )
    assert (heads, labels, starts) == ([0, 0, 0, 4, 4], ["root", "obj", "parataxis", "nsubj", "root"], [0, 3])


def chain(words: int) -> tuple[list[int], list[str]]:
    """Each word hangs on the one before it."""
    return [0, *range(words - 1)], ["root", *["dep"] * (words - 1)]


def test_sentence_of_the_longest_length_is_left_alone() -> None:
    heads, labels = chain(LONGEST_SENTENCE)
    assert cut_long_sentences(heads, labels, [0], ended=[False] * LONGEST_SENTENCE) == (heads, labels, [0])


def test_longer_sentence_is_cut_into_pieces_with_a_root_each() -> None:
    heads, labels = chain(2 * LONGEST_SENTENCE + 1)
    heads, labels, starts = cut_long_sentences(heads, labels, [0], ended=[False] * len(labels))
    assert starts == [0, LONGEST_SENTENCE, 2 * LONGEST_SENTENCE]
    assert [word for word, head in enumerate(heads) if head == word] == starts
    assert [word for word, label in enumerate(labels) if label == "root"] == starts


def test_long_sentence_is_cut_where_one_may_end() -> None:
    heads, labels = chain(LONGEST_SENTENCE + 10)
    ended = [word == 20 for word in range(len(labels))]
    assert cut_long_sentences(heads, labels, [0], ended=ended)[2] == [0, 21]


def test_sentences_are_not_joined_to_one_that_is_too_long() -> None:
    heads = [0] * 100 + [100] * 100 + [200] * 100
    labels = ["root" if head == word else "dep" for word, head in enumerate(heads)]
    joined = join_unended_sentences(heads, labels, [0, 100, 200], ended=[False] * 300)
    assert joined[2] == [0, 200]
    assert [joined[0][word] for word in (0, 100, 200)] == [0, 0, 200]
