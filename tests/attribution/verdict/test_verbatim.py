import pytest

from attribeam.attribution.verdict.citations import LiteralIndex, comparable_units
from attribeam.schemas import Passage


def index(*texts):
    return LiteralIndex([Passage(text) for text in texts])


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("the OLD mill", "Near the old mill lies a pond."),
        ("Wi-Fi is free", "Our Wi Fi is free."),
        ("cafe Zürich", "the café Zurich"),
        ("白瓷茶具", "最有名的是一套白瓷茶具。"),
        ("התעלה הישנה", "לאורך הַתְּעָלָה הישנה."),
        ("पुस्तक मेला", "सोनपुरा का पुस्तक मेला लगता है।"),
        ("ｗｉｄｅ letters", "wide letters"),
    ],
)
def test_the_same_words_are_found_in_any_script(text, passage):
    assert index("Something else.", passage).literal_passages(text) == (1,)
    assert index("Something else.", passage).copied(text)[1] == 1


def test_no_run_crosses_from_the_title_into_the_text():
    both = LiteralIndex([Passage("Mill of Stone", title="The Old")])
    assert both.literal_passages("old mill") == ()
    assert both.literal_passages("the old") == (0,)


def test_the_copied_share_counts_words_in_runs_of_three_of_one_passage():
    found = index("a grey cat slept here", "the grey cat slept on a very long red bench").copied(
        "the grey cat slept under a blue bench"
    )
    assert found == (4 / 8, 1)
    assert index("a b c").copied("x y z") == (0, None)


@pytest.mark.parametrize("text", ["the grey cat slept", "grey cat"])
@pytest.mark.parametrize(("preferred", "named"), [(None, 0), (0, 0), (1, 0), (2, 2)])
def test_of_passages_that_are_copied_equally_the_preferred_one_is_named(text, preferred, named):
    passages = index("So the grey cat slept.", "A dog.", "And the grey cat slept, too.")
    assert passages.copied(text, preferred=preferred)[1] == named


def test_a_share_is_what_a_naive_search_counts():
    passage = "one two three four five six seven one two nine"
    text = "one two three six seven one two four five six zero"
    units, words = comparable_units(text), passage.split()
    runs = {tuple(words[place : place + 3]) for place in range(len(words) - 2)}
    covered = {
        place + step for place in range(len(units) - 2) if tuple(units[place : place + 3]) in runs for step in range(3)
    }
    assert index(passage).copied(text)[0] == len(covered) / len(units)


def test_the_first_spans_and_those_looked_up_in_the_index_are_found_alike():
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    texts = [" ".join(words[start:end]) for start in range(8) for end in range(start + 1, 9)]
    found = index("six seven eight one two three", " ".join(words), "two three four six seven")
    first = [found.literal_passages(text) for text in texts]
    for _ in range(3):
        assert [found.literal_passages(text) for text in texts] == first
    assert first[texts.index("six seven")] == (0, 1, 2)
    assert first[texts.index("two three four")] == (1, 2)
