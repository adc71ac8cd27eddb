from hypothesis import given
from hypothesis import strategies as st

from attribution.answers.subtokens import ParsedTokens, word_runs
from schemas import CharRange


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
