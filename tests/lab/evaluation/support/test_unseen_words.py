import pytest

from attribeam.lab.evaluation.support.unseen_words import content_words, is_unseen, novelty, word_beginnings
from attribeam.schemas import Passage

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
    assert novelty(text, list(content_words(text)), BEGINNINGS) == pytest.approx(3 / 5)
    assert novelty("Ada did it", [], BEGINNINGS) == 0


def test_words_of_other_scripts_count():
    beginnings = word_beginnings([Passage("Ада зажгла лампу")])
    text = "лампу ЗАЖГЛА другая"
    assert novelty(text, list(content_words(text)), beginnings) == pytest.approx(1 / 3)
