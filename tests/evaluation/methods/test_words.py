from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.methods.baselines import best_runs, match_words
from attribeam.schemas import CharRange, Passage

ANSWER = "The tower of Brigg opened in 1874."
PASSAGES = [Passage(text="the Tower opened, in 1874"), Passage(text="Brigg opened a tower")]


def span_of(text):
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


def test_title_is_matched_with_its_passage():
    matches = match_words("Brigg Point", [Passage(text="a cape", title="Brigg Point"), Passage(text="a bay")])
    assert matches.passage_scores([CharRange(0, 11)]) == (4.0, 0.0)


def test_word_is_highlighted_where_its_longest_run_is():
    passage = Passage(text="A lamp. The keeper lit the lamp at night.")
    (found,) = match_words("Ada lit the lamp", [passage]).matched([CharRange(12, 16)], 0)
    assert found.chars.char_start == passage.text.index("lamp at night")


def naive_best_runs(words, texts):
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
    assert np.stack(best_runs(words, texts), axis=-1).tolist() == [
        [list(best) for best in of_word] for of_word in naive_best_runs(words, texts)
    ]


def test_each_chinese_character_is_a_word_and_latin_words_stay_whole():
    answer = "灯塔 Brigg 建成"
    matches = match_words(answer, [Passage("Brigg的灯塔很高"), Passage("建成")])
    assert [word.of(answer) for word in matches.words] == ["灯", "塔", "Brigg", "建", "成"]
    assert matches.scores.argmax(axis=1).tolist() == [0, 0, 0, 1, 1]
    assert matches.scores[0, 0] == 2
