import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.support.unseen_words import Novelty, content_words, is_unseen, word_beginnings
from attribeam.schemas import CharRange, Passage


def share(text, beginnings=None):
    words = list(content_words(text))
    return Novelty(text, words, BEGINNINGS if beginnings is None else beginnings).share(CharRange(0, len(text)))


BEGINNINGS = word_beginnings([Passage("Ada Thorne polished the lamp in 1874.", title="Lighthouses")])


def test_content_words_are_runs_of_more_than_three_letters_and_digits():
    text = "Ada's lamp_oil cost 1874 pounds."
    assert [word.of(text) for word in content_words(text)] == ["lamp", "cost", "1874", "pounds"]


@pytest.mark.parametrize(
    ("word", "unseen"),
    [
        ("polish", False),
        ("Polishing", False),
        ("poli", False),
        ("polite", True),
        ("lighthouse", False),
        ("lamps", True),
        ("1874", False),
        ("1875", True),
    ],
)
def test_word_is_unseen_if_its_first_six_letters_begin_no_word_of_the_passages(word, unseen):
    assert is_unseen(word, BEGINNINGS) is unseen


def test_novelty_is_the_share_of_unseen_words():
    text = "Ada polished every lamp, painted walls."
    assert share(text) == pytest.approx(3 / 5)
    assert share("Ada did it") == 0


@given(start=st.integers(0, 38), length=st.integers(1, 39))
def test_share_of_a_range_is_that_of_the_words_that_reach_into_it(start, length):
    text = "Ada polished every lamp, painted walls."
    chars = CharRange(start, min(len(text), start + length))
    own = [is_unseen(word.of(text), BEGINNINGS) for word in content_words(text) if word.overlaps(chars)]
    found = Novelty(text, list(content_words(text)), BEGINNINGS).share(chars)
    assert found == pytest.approx(sum(own) / len(own) if own else 0)


def test_words_of_other_scripts_count():
    beginnings = word_beginnings([Passage("Ада зажгла лампу")])
    text = "лампу ЗАЖГЛА другая"
    assert share(text, beginnings) == pytest.approx(1 / 3)
