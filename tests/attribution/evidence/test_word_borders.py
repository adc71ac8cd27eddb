"""Word borders in several scripts, and words without content."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.evidence.readable_pieces import has_content, on_word_borders, words_of


def widened(text: str, part: str) -> str:
    start = text.index(part)
    return text[slice(*on_word_borders(text, start, start + len(part)))]


@pytest.mark.parametrize(
    ("text", "part", "whole"),
    [
        ("an illustration of it", "ustration", "illustration"),
        ("an illustration of it", "ustration o", "illustration of"),
        ("costs 1,250.5 crowns", "250", "1,250.5"),
        ("they don't know", "don", "don't"),
        ("a well-known bell", "nown", "known"),
        ("(harbour)", "arbou", "harbour"),
        ("הספינה יצאה מהנמל בבוקר", "צאה מהנ", "יצאה מהנמל"),
        ("غادرت السفينة الميناء", "سفين", "السفينة"),
        ("뱃고동이 울렸다", "고동", "뱃고동이"),
        ("e\u0301te\u0301 chaud", "te", "e\u0301te\u0301"),
        ("a 👩‍👧 b", "👧", "👩‍👧"),
        ("船在早晨离开港口", "早晨", "早晨"),
        ("船はハーバーを出た", "ーバ", "ハーバー"),
    ],
)
def test_range_is_widened_to_whole_words(text: str, part: str, whole: str) -> None:
    assert widened(text, part) == whole


LETTERS = ["a", "b", "e\u0301", " ", "\n", ",", ".", "'", "-", "1", "船", "ー", "א", "👩‍👧"]


@given(letters=st.lists(st.sampled_from(LETTERS), max_size=40), data=st.data())
def test_widened_range_is_the_smallest_between_borders_of_the_whole_text(
    letters: list[str], data: st.DataObject
) -> None:
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


def test_word_too_long_to_look_through_is_cut() -> None:
    first, last = on_word_borders("a" * 500, 250, 251)
    assert first < 250 < 251 < last
    assert last - first <= 130


@pytest.mark.parametrize("text", ["of the", "and, of", "...", "(", "it’s", ""])
def test_function_words_and_marks_have_no_content(text: str) -> None:
    assert not has_content(text)


@pytest.mark.parametrize("text", ["of the bell", "1874", "船", "of a 👩 named Ann"])
def test_names_numbers_and_words_have_content(text: str) -> None:
    assert has_content(text)


def test_words_are_lower_case_without_marks() -> None:
    assert words_of("The (old) BELL, 1,250") == ("the", "old", "bell", "1,250")
