"""Trees of sentences: label schemes, whole words, corrected sentences, and the tokens of words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.trees import tree

from attribeam.attribution.answers.atomic_facts import WordTokenAlignment
from attribeam.attribution.answers.parsed_answer import (
    LONGEST_SENTENCE,
    ParsedTokens,
    closing_marks,
    label_scheme,
    sentence_ends,
    sentence_tree,
    word_runs,
)
from attribeam.schemas import CharRange

TWO = "Dogs/nsubj/2/NOUN bark/root/0/VERB ~./punct/2/PUNCT || Cats/nsubj:outer/2/NOUN purr/root/0/VERB"


def test_head_outside_the_sentence_makes_a_root():
    _, parsed = tree(TWO)
    assert sentence_tree(parsed, 1, 3).heads == (0, 0)
    assert sentence_tree(parsed, 2, 3).heads == (0,)


def test_coordinator_without_a_following_conjunct_stays():
    _, parsed = tree("a/root/0/NOUN b/conj/1/NOUN etc/cc/2/CCONJ")
    assert sentence_tree(parsed, 0, 3).heads == (0, 0, 1)


def test_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'spacy-english', 'universal'"):
        label_scheme("stanford")


def block(heads, labels, starts):
    return ParsedTokens([], [], heads, labels.split(), [], [], starts)


def tokens(text, heads, labels, starts):
    ranges = [CharRange(place, place + 1) for place in range(len(text))]
    tags = ["NOUN" if character != "。" else "PUNCT" for character in text]
    return ParsedTokens(ranges, list(text), heads, labels, tags, [""] * len(text), starts)


def test_characters_become_words_that_keep_the_last_ones_head():
    parsed = tokens("海鸥飞走。", [1, 3, 3, 3, 3], ["subtok", "nsubj", "subtok", "root", "punct"], [0])
    parsed.join_subtokens()
    assert parsed.forms == ["海鸥", "飞走", "。"]
    assert parsed.ranges == [CharRange(0, 2), CharRange(2, 4), CharRange(4, 5)]
    assert (parsed.heads, parsed.labels, parsed.starts) == ([1, 1, 1], ["nsubj", "root", "punct"], [0])


@given(inside=st.lists(st.booleans(), min_size=1, max_size=30), starts=st.sets(st.integers(1, 29)))
def test_words_are_the_tokens_in_order_and_break_at_every_sentence(inside, starts):
    firsts = [0, *sorted(start for start in starts if start < len(inside))]
    runs = word_runs(["subtok" if one else "dep" for one in inside], firsts)
    assert [token for run in runs for token in run] == list(range(len(inside)))
    assert set(firsts) <= {run.start for run in runs}
    assert all(inside[token] for run in runs for token in run[:-1])


ENDS = [
    *((f"Holt {word}", 2) for word in (".", "!", "。", "a.m.", ".”", ":", "1874.)")),
    *((f"Holt {word}", 0) for word in ("Holt", ",", "(", "3", "Dr.", "e.g.", ")", "vs.")),
    *((words, 0) for words in ("approx . 20", "No . 12", "Oct. 1921", "fig . Three")),
    *((f"好 {word}", 2) for word in ("。", "；", "。”", "？）")), *((f"好 {word}", 0) for word in ("，", "、")),
    ("No . Twelve", 2), ("in Oct. They", 2), ("said no .", 3),
]  # fmt: skip


@pytest.mark.parametrize(("words", "end"), ENDS)
def test_only_a_word_with_a_closing_mark_that_is_no_abbreviation_of_the_next_may_end_a_sentence(words, end):
    assert sentence_ends(words.split()) == [place == end for place in range(1, len(words.split()) + 1)]


@pytest.mark.parametrize(("mark", "ends"), [(".", True), (",", False), ("?", True), ("moon", False)])
def test_closing_quotes_and_brackets_end_a_sentence_as_the_word_before_them(mark, ends):
    assert sentence_ends([mark, ")", "”"]) == [ends, ends, ends]


def test_quote_closes_where_it_touches_only_the_word_before_it_or_stands_behind_a_full_stop():
    words = ['"', "Go", ".", '"', "He", '"', "ran", '"']
    spaced = [False, False, False, True, True, False, False, False]
    assert closing_marks(words, spaced=spaced) == [False, False, False, True, False, False, False, True]
    words = [*"说：“好。”她走」了"]
    closing = closing_marks(words, spaced=[False] * 9 + [True])
    assert [word for word, closes in zip(words, closing, strict=True) if closes] == ["”", "」"]


@pytest.mark.parametrize(("mark", "before", "after"), [
    (2, ([0, 0, 4, 2, 4], "root punct punct advmod root", [0, 2]),
     ([0, 0, 0, 3, 4], "root punct punct root root", [0, 3])),
    (2, ([1, 1, 2], "nsubj root root", [0, 2]), ([1, 1, 1], "nsubj root punct", [0])),
    (0, ([0, 1], "root root", [0, 1]), ([0, 1], "root root", [0, 1])),
], ids=["before words", "alone", "at the start of a block"])  # fmt: skip
def test_closing_mark_moves_to_the_sentence_before_it(mark, before, after):
    parsed = block(*before)
    parsed.attach_closing_marks([word == mark for word in range(len(parsed.heads))])
    assert parsed == block(*after)


def test_sentence_after_an_unended_one_hangs_on_its_root():
    parsed = block([0, 0, 2, 4, 4], "root obj root nsubj root", [0, 2, 3])
    parsed.join_unended_sentences([False, False, True, False, False])
    assert parsed == block([0, 0, 0, 4, 4], "root obj parataxis nsubj root", [0, 3])


def test_long_sentence_is_cut_where_one_may_end():
    words = LONGEST_SENTENCE + 10
    parsed = block([0, *range(words - 1)], "root" + " dep" * (words - 1), [0])
    parsed.cut_long_sentences([word == 20 for word in range(words)])
    assert parsed.starts == [0, 21]


def test_sentences_are_not_joined_to_one_that_is_too_long():
    heads = [0] * 100 + [100] * 100 + [200] * 100
    parsed = block(heads, " ".join("root" if head == word else "dep" for word, head in enumerate(heads)), [0, 100, 200])
    parsed.join_unended_sentences([False] * 300)
    assert parsed.starts == [0, 200]
    assert [parsed.heads[word] for word in (0, 100, 200)] == [0, 0, 200]


def alignment(words, tokens):
    return WordTokenAlignment(
        words=[CharRange(*word) for word in words],
        token_char_start=np.array([start for start, _ in tokens], dtype=np.int32),
        token_char_end=np.array([end for _, end in tokens], dtype=np.int32),
    )


def run(aligned, start, end):
    firsts, ends = aligned.tokens_of_ranges([CharRange(start, end)])
    return range(firsts[0], ends[0])


def test_leading_blank_of_a_token_belongs_to_no_word_and_a_range_without_tokens_has_an_empty_run():
    aligned = alignment([(0, 3), (4, 8)], [(0, 3), (3, 8), (11, 14)])
    assert aligned.words_of_tokens[1] == range(1, 2)
    assert run(aligned, 0, 3) == range(0, 1)
    assert [len(run(aligned, 8, 11)), len(run(aligned, 14, 17))] == [0, 0]


@st.composite
def cuts(draw):
    """Ascending ranges with gaps, or with equal neighbours where one character has several tokens."""
    ranges, place = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=12)):
        ranges.append((place + gap, place + gap + length))
        place += gap + length
    return ranges


@given(words=cuts(), tokens=cuts(), data=st.data())
def test_alignment_is_overlap(words, tokens, data):
    if tokens and data.draw(st.booleans()):
        tokens = [*tokens, tokens[-1]]
    aligned = alignment(words, tokens)
    chosen = data.draw(st.sets(st.sampled_from(range(len(words))))) if words else set()
    for token, its_words in enumerate(aligned.words_of_tokens):
        assert list(its_words) == [word for word in range(len(words)) if _overlap(words[word], tokens[token])]
    covering = [place for place, token in enumerate(tokens) if any(_overlap(words[word], token) for word in chosen)]
    assert aligned.tokens_of_words(chosen) == covering


def _overlap(one, other):
    return one[0] < other[1] and other[0] < one[1]
