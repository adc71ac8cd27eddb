from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.methods.words import best_runs, match_words
from attribeam.schemas import CharRange, Passage

ANSWER = "The tower of Brigg opened in 1874."
PASSAGES = [Passage(text="the Tower opened, in 1874"), Passage(text="Brigg opened a tower")]


def span_of(text: str) -> CharRange:
    start = ANSWER.index(text)
    return CharRange(start, start + len(text))


def test_worked_example_scores_run_length_over_frequency():
    # runs of passage 0: "the tower" and "opened in 1874"; of passage 1: "tower" and "brigg opened";
    # "tower" and "opened" occur twice over all passages, all other words once
    expected = [[2, 0], [2 / 2, 1 / 2], [0, 0], [0, 2], [3 / 2, 2 / 2], [3, 0], [3, 0]]
    assert match_words(ANSWER, PASSAGES).scores.tolist() == expected


def test_span_sums_its_own_words_only():
    matches = match_words(ANSWER, PASSAGES)
    assert matches.passage_scores([span_of("tower of Brigg")]) == (1.0, 2.5)
    assert matches.passage_scores([span_of("opened in 1874")]) == (7.5, 1.0)


def test_run_reaches_beyond_the_span_that_is_asked_for():
    assert match_words(ANSWER, PASSAGES).passage_scores([span_of("1874")]) == (3.0, 0.0)


def test_word_in_two_overlapping_ranges_counts_once():
    matches = match_words(ANSWER, PASSAGES)
    assert matches.passage_scores([span_of("opened in"), span_of("in 1874")]) == (7.5, 1.0)


def test_word_cut_by_a_range_counts():
    assert match_words(ANSWER, PASSAGES).passage_scores([span_of("rig")]) == (0.0, 2.0)


def test_title_is_matched_with_its_passage():
    matches = match_words("Brigg Point", [Passage(text="a cape", title="Brigg Point"), Passage(text="a bay")])
    assert matches.passage_scores([CharRange(0, 11)]) == (4.0, 0.0)


def test_each_word_gives_a_passage_its_best_match_only():
    matches = match_words("red", [Passage(text="red red red"), Passage(text="red")])
    assert matches.passage_scores([CharRange(0, 3)]) == (0.25, 0.25)


def test_run_does_not_reach_over_the_border_of_two_passages():
    assert best_runs(["a", "b"], [["a"], ["b"]]).lengths.tolist() == [[1, 0], [0, 1]]


def test_answer_without_words_scores_nothing():
    assert match_words("... !", PASSAGES).passage_scores([CharRange(0, 3)]) == (0.0, 0.0)


def highlighted(answer: str, passage: Passage) -> list[str]:
    found = match_words(answer, [passage]).matched([CharRange(0, len(answer))], 0)
    return [word.chars.of(passage.text) for word in found if not word.in_title]


def test_evidence_of_the_worked_example_are_the_matched_words_of_one_passage():
    found = match_words(ANSWER, PASSAGES).matched([span_of("tower of Brigg opened")], 0)
    words = [(word.chars.of(PASSAGES[0].text), score) for word, score in found.items()]
    assert words == [("Tower", 1.0), ("opened", 1.5)]


def test_word_is_highlighted_where_its_longest_run_is():
    passage = Passage(text="A lamp. The keeper lit the lamp at night.")
    (found,) = match_words("Ada lit the lamp", [passage]).matched([CharRange(12, 16)], 0)
    assert found.chars.char_start == passage.text.index("lamp at night")


def test_of_equally_long_runs_the_first_in_the_passage_is_highlighted():
    (found,) = match_words("lamp", [Passage(text="a lamp, a lamp")]).matched([CharRange(0, 4)], 0)
    assert found.chars == CharRange(2, 6)


def test_match_in_the_title_is_not_highlighted():
    assert highlighted("Brigg tower", Passage(text="the tower", title="Brigg")) == ["tower"]


def test_characters_of_a_match_count_from_the_start_of_the_text_whatever_the_title():
    assert highlighted("old tower", Passage(text="The OLD tower", title="Of Brigg")) == ["OLD", "tower"]


def naive_best_runs(words: list[str], texts: list[list[str]]) -> list[list[tuple[int, int]]]:
    best = [[(0, -1)] * len(texts) for _ in words]
    for number, text in enumerate(texts):
        for start, end in combinations(range(len(words) + 1), 2):
            size = end - start
            for place in range(len(text) - size + 1):
                if text[place : place + size] == words[start:end]:
                    for index in range(start, end):
                        here = place + index - start
                        length, first = best[index][number]
                        if (size, -here) > (length, -first):
                            best[index][number] = (size, here)
    return best


short = st.lists(st.sampled_from("abc"), max_size=8)


@given(short, st.lists(short, min_size=1, max_size=3))
def test_runs_equal_those_of_a_naive_search(words, texts):
    runs = best_runs(words, texts)
    assert np.stack([runs.lengths, runs.places], axis=-1).tolist() == [
        [list(best) for best in of_word] for of_word in naive_best_runs(words, texts)
    ]


@pytest.mark.parametrize("texts", [[], [[]]])
def test_no_words_to_match_give_no_runs(texts):
    assert not np.any(best_runs(["a"], texts).lengths)


def test_each_chinese_character_is_a_word_and_latin_words_stay_whole():
    answer = "灯塔 Brigg 建成"
    matches = match_words(answer, [Passage("Brigg的灯塔很高"), Passage("建成")])
    assert [word.of(answer) for word in matches.words] == ["灯", "塔", "Brigg", "建", "成"]
    assert matches.scores.argmax(axis=1).tolist() == [0, 0, 0, 1, 1]
    assert matches.scores[0, 0] == 2
