"""What becomes a piece of evidence, step by step, on runs written by hand, and what words answer and passages share."""

from itertools import pairwise

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.evidence import passage_evidence
from attribeam.attribution.evidence.passage_evidence import WordOverlap, on_word_borders, readable_runs, text_of
from attribeam.evaluation.methods.baselines import match_words
from attribeam.schemas import CharRange, Passage

HARBOUR = (
    "The harbour bell of Ostrand was cast in 1874 by two brothers from the inland town of Vell, who also made "
    "lamps. Gulls sleep on it."
)
PASSAGES = [Passage(HARBOUR, "The bell"), Passage("A lamp burned there for nine winters, says the keeper's book.")]


def run(part, score=1.0, passage=0, *, in_title=False):
    start = text_of((passage, in_title, 0, 0, 0.0), PASSAGES).index(part)
    return passage, in_title, start, start + len(part), score


def pieces(*runs, leading=None):
    found = readable_runs(runs, PASSAGES, leading=leading)
    return [(text_of(one, PASSAGES)[one[2] : one[3]], pytest.approx(one[4])) for one in found]


FAINT = run("harbour", 9.0), run("lamp", 0.1, passage=1), run("winters", 0.2, passage=1)


@pytest.mark.parametrize(("runs", "leading", "expected"), [
    ([run("har", 0.25), run("our", 0.5)], None, [("harbour", 0.75)]),
    ([run("harbour", 4.0), run("was", 2.0), run("brothers", 0.21), run("lamps", 0.19)], None,
        [("harbour", 4.0), ("brothers", 0.21)]),
    ([run("of", 0.5), run("by", 0.6)], None, [("by", 0.6)]), (FAINT, None, [("harbour", 9.0)]),
    (FAINT, 1, [("harbour", 9.0), ("winters", 0.2)]), ([run("Gulls sleep")], None, [("Gulls sleep on it.", 1.0)]),
    ([run("Gulls")], None, [("Gulls", 1.0)]),
    ([run("bell", in_title=True), run("harbour")], None, [("The bell", 1.0), ("harbour", 1.0)]),
], ids=["two runs of a word", "faint, and without content", "only one stays", "faint passage", "leading passage",
    "sentence mostly covered", "word", "title and text apart"])  # fmt: skip
def test_runs_become_pieces(runs, leading, expected):
    assert pieces(*runs, leading=leading) == expected


@pytest.mark.parametrize(("first", "second", "joined"), [
    ("brothers", "inland", None), ("harbour", "bell", "harbour bell"), ("bell", "Ostrand", "bell of Ostrand"),
    ("Vell", "who", "Vell, who"), ("cast", "1874", "cast in 1874"), ("bell", "cast", None),
])  # fmt: skip
def test_neighbours_join_over_white_space_marks_and_one_function_word(first, second, joined):
    expected = [(joined, 2.0)] if joined else [(first, 1.0), (second, 1.0)]
    assert pieces(run(first), run(second)) == expected


class _Untouched(tuple[CharRange, ...]):
    """Sentences that count how often one is looked at, and cannot be gone through."""

    looked = 0

    def __getitem__(self, place):
        type(self).looked += 1
        return super().__getitem__(place)

    def __iter__(self):
        raise AssertionError("only the sentences that a run touches should be looked at")


def test_only_the_sentences_that_a_run_touches_are_looked_at(monkeypatch):
    text = "Bells ring. " * 4000
    sentences = _Untouched([CharRange(start, start + 11) for start in range(0, len(text), 12)])
    monkeypatch.setattr(passage_evidence, "text_sentences", lambda _: sentences)
    assert readable_runs([(0, False, 24_000, 24_005, 1.0)], [Passage(text)]) == [(0, False, 24_000, 24_005, 1.0)]
    assert readable_runs([(0, False, 24_000, 24_010, 1.0)], [Passage(text)]) == [(0, False, 24_000, 24_011, 1.0)]
    assert _Untouched.looked < 100


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 9), st.sampled_from([0.01, 0.5, 2.0])), min_size=1))
def test_pieces_are_disjoint_ascend_and_hold_no_more_than_the_runs(given_runs):
    runs = [(0, False, start, start + length, score) for start, length, score in sorted(given_runs)]
    found = readable_runs(runs, PASSAGES)
    assert found
    assert all(first[3] <= second[2] for first, second in pairwise(found))
    assert sum(one[4] for one in found) <= sum(one[4] for one in runs) * (1 + 1e-9)
    for one in found:
        assert any(one[2] <= start and end <= one[3] for _, _, start, end, _ in runs)


LETTERS = ["a", "b", "e\u0301", " ", "\n", ",", ".", "'", "-", "1", "船", "ー", "א", "👩‍👧"]


@given(letters=st.lists(st.sampled_from(LETTERS), max_size=40), data=st.data())
def test_widened_range_is_the_smallest_between_borders_of_the_whole_text(letters, data):
    text = "".join(letters)
    borders = {0, len(text), *(match.start() for match in regex.finditer(r"\b", text, regex.WORD | regex.VERSION1))}
    end = data.draw(st.integers(0, len(text)))
    start = data.draw(st.integers(0, end))
    if start == end:
        return
    first, last = on_word_borders(text, start, end)
    spaced = {place for place in range(1, len(text)) if text[place].isspace() or text[place - 1].isspace()}
    assert first == max(place for place in borders | spaced if place <= start)
    assert last == min(place for place in borders | spaced if place >= end)


def test_word_too_long_to_look_through_is_cut():
    first, last = on_word_borders("a" * 500, 250, 251)
    assert first < 250 < 251 < last
    assert last - first <= 130


TEXTS = st.lists(st.sampled_from(["bell", "Bell", "of", "of", "lamp", "tide", "船", ",", ".", "çan"]), max_size=14).map(
    " ".join
)
WORDS_PASSAGES = st.lists(st.builds(Passage, text=TEXTS, title=st.none() | TEXTS), min_size=1, max_size=4)


@given(answer=TEXTS, passages=st.lists(st.builds(Passage, text=TEXTS), min_size=1, max_size=4), data=st.data())
def test_shares_are_those_of_the_word_methods(answer, passages, data):
    start = data.draw(st.integers(0, len(answer)))
    chars = CharRange(start, data.draw(st.integers(start, len(answer))) + 1)
    overlap = WordOverlap(answer, passages)
    expected = np.array(match_words(answer, passages).passage_scores([chars]))
    total = expected.sum()
    (shares,) = overlap.shares(*overlap.words_of([chars]))
    assert shares == pytest.approx(expected / total if total else expected)


@given(answer=TEXTS, passages=WORDS_PASSAGES, data=st.data())
def test_span_stands_alone_where_one_passage_has_its_words_in_a_row(answer, passages, data):
    start = data.draw(st.integers(0, len(answer)))
    chars = CharRange(start, data.draw(st.integers(start, len(answer))) + 1)
    overlap = WordOverlap(answer, passages)
    (first,), (end,) = overlap.words_of([chars])
    words = [word.of(answer).lower() for word in match_words(answer, passages).words[first:end]]
    having = [
        index
        for index, passage in enumerate(passages)
        if words and any(f" {' '.join(words)} " in _spaced(text) for text in (passage.title or "", passage.text))
    ]
    (alone,) = overlap.stand_alone(np.array([first]), np.array([end]))
    assert np.flatnonzero(alone).tolist() == (having if len(having) == 1 else [])


def test_no_run_goes_on_from_a_title_to_its_text():
    overlap = WordOverlap("bell rings", [Passage("rings loud", "The bell"), Passage("no bell rings")])
    assert overlap.stand_alone(*overlap.words_of([CharRange(0, 10)])).tolist() == [[False, True]]


def _spaced(text):
    return f" {' '.join(word for word in text.lower().split() if word not in ',.')} "


ANSWER, SENTENCES = "Bell rang Lamp burned", [CharRange(0, 9), CharRange(10, 21)]
SHORE = [Passage("A bell rang."), Passage("A lamp burned, a bell did not.", "The lamp"), Passage("Snow fell.")]


def test_parts_are_the_shares_of_span_and_sentence_and_one_for_the_passage_that_alone_has_the_span():
    spans = [CharRange(0, 4), CharRange(5, 9)]
    # "bell rang" is a run of two in passage 0; "bell" occurs twice in all, so that it scores 2 / 2 and 1 / 2
    of_sentence = np.array([1 + 2, 0.5, 0]) / 3.5
    of_bell, of_rang = np.array([1, 0.5, 0]) / 1.5, np.array([1, 0, 0])
    alone = np.array([1, 0, 0])
    expected = np.array([of_bell + of_sentence, of_rang + of_sentence + alone])
    assert WordOverlap(ANSWER, SHORE).parts(spans, SENTENCES) == pytest.approx(expected)


def test_parts_of_a_span_do_not_depend_on_its_neighbours():
    words = WordOverlap(ANSWER, SHORE)
    spans = [CharRange(start, end) for start in range(len(ANSWER)) for end in range(start + 1, len(ANSWER) + 1)]
    together = words.parts(spans, SENTENCES)
    assert [words.parts([span], SENTENCES).tolist() for span in spans] == [[row] for row in together.tolist()]
