import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers.parser_output import WordTokenAlignment
from attribeam.schemas import CharRange


def alignment(words: list[tuple[int, int]], tokens: list[tuple[int, int]]) -> WordTokenAlignment:
    return WordTokenAlignment(
        words=[CharRange(*word) for word in words],
        token_char_start=np.array([start for start, _ in tokens], dtype=np.int32),
        token_char_end=np.array([end for _, end in tokens], dtype=np.int32),
    )


def run(aligned: WordTokenAlignment, start: int, end: int) -> range:
    firsts, ends = aligned.tokens_of_ranges([CharRange(start, end)])
    return range(firsts[0], ends[0])


def test_token_over_two_words_has_both() -> None:
    aligned = alignment([(0, 2), (2, 5), (6, 9)], [(0, 5), (5, 9)])
    assert aligned.words_of_tokens == [range(0, 2), range(2, 3)]


def test_words_in_several_tokens_have_all_of_them() -> None:
    aligned = alignment([(0, 6), (7, 9)], [(0, 3), (3, 6), (6, 9)])
    assert [aligned.tokens_of_words(words) for words in ({0}, set(), {1})] == [[0, 1], [], [2]]


def test_leading_blank_of_a_token_belongs_to_no_word() -> None:
    aligned = alignment([(0, 3), (4, 8)], [(0, 3), (3, 8)])
    assert aligned.words_of_tokens[1] == range(1, 2)
    assert run(aligned, 0, 3) == range(0, 1)


def test_range_that_no_token_overlaps_has_an_empty_run() -> None:
    aligned = alignment([(0, 3)], [(0, 3), (6, 9)])
    assert [len(run(aligned, 3, 6)), len(run(aligned, 9, 12))] == [0, 0]


def test_tokens_of_one_emoji_all_belong_to_it() -> None:
    aligned = alignment([(0, 1), (1, 2)], [(0, 1), (0, 1), (0, 1), (1, 2)])
    assert aligned.tokens_of_words([0]) == [0, 1, 2]


def test_answer_without_words_has_no_word_for_any_token() -> None:
    assert list(alignment([], [(0, 1)]).words_of_tokens[0]) == []


@st.composite
def cuts(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ascending ranges with gaps, or with equal neighbours where one character has several tokens."""
    ranges, place = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=12)):
        ranges.append((place + gap, place + gap + length))
        place += gap + length
    return ranges


@given(words=cuts(), tokens=cuts(), data=st.data())
def test_alignment_is_overlap(words: list[tuple[int, int]], tokens: list[tuple[int, int]], data: st.DataObject) -> None:
    if tokens and data.draw(st.booleans()):
        tokens = [*tokens, tokens[-1]]
    aligned = alignment(words, tokens)
    chosen = data.draw(st.sets(st.sampled_from(range(len(words))))) if words else set()
    for token, its_words in enumerate(aligned.words_of_tokens):
        assert list(its_words) == [word for word in range(len(words)) if _overlap(words[word], tokens[token])]
    covering = [place for place, token in enumerate(tokens) if any(_overlap(words[word], token) for word in chosen)]
    assert aligned.tokens_of_words(chosen) == covering


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]
