"""No text of a log can steer a terminal, offsets still count, lines fit, and letters stand below what is marked."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from attribeam.report.messages import harmless, one_line
from attribeam.report.terminal_text import Mark, line_ranges, marked_lines


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left_and_every_character_keeps_its_place(text: str) -> None:
    shown = harmless(text)
    assert len(shown) == len(text)
    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")} - {"\n"}
    assert "\n" not in one_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M"])))
def test_plain_text_of_any_script_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x9b31m", "\ufffd31m"),
        ("a\tb\r", "a b␍"),
        ("\x7f\x00\x07", "␡␀␇"),
        ("abc\u202edef", "abc\ufffddef"),
        ("\u2066x\u2069", "\ufffdx\ufffd"),
        ("a\u00a0b\u3000c", "a b c"),
        ("क्‍ष می‌خواهم", "क्‍ष می‌خواهم"),
        ("\ud800", "\ufffd"),
    ],
)
def test_what_steers_is_shown_instead_of_done(text: str, shown: str) -> None:
    assert harmless(text) == shown


TEXTS = st.text(st.sampled_from("ab \n語é🚢\u0301\u200d"), max_size=60)
WIDTHS = st.integers(min_value=2, max_value=20)


def _plain(text: str, marks: list[Mark], width: int = 40) -> list[tuple[str, str]]:
    return [(line.text.plain, line.letters) for line in marked_lines(text, marks, width=width)]


def test_letters_stand_below_the_characters_that_are_marked() -> None:
    marks = [Mark(0, 5, "s", "cyan"), Mark(6, 10, "U", "red")]
    assert _plain("Noon, east pier", marks) == [("Noon, east pier", "sssss UUUU")]


def test_the_higher_rank_is_seen_where_marks_overlap_and_a_label_names_the_start() -> None:
    marks = [Mark(0, 10, "s", "cyan", rank=0, label="1"), Mark(5, 8, "U", "red", rank=2, label="2")]
    assert _plain("Noon east.", marks) == [("Noon east.", "1ssss2UUss")]


def test_a_mark_goes_on_in_the_next_line() -> None:
    marks = [Mark(5, 14, "w", "yellow")]
    assert _plain("Noon east pier.", marks, width=9) == [("Noon east", "     wwww"), ("pier.", "wwww")]


def test_style_covers_the_marked_characters_of_a_line_only() -> None:
    (line,) = marked_lines("Noon, east pier", [Mark(6, 10, "U", "red")], width=40)
    assert [(span.start, span.end, span.style) for span in line.text.spans] == [(6, 10, "red")]


@given(TEXTS, WIDTHS)
def test_lines_fit_and_lose_only_white_space(text: str, width: int) -> None:
    lines = list(line_ranges(text, width))
    for start, end in lines:
        assert cell_len(text[start:end]) <= width
        assert "\n" not in text[start:end]
    kept = "".join(text[start:end] for start, end in lines)
    assert "".join(kept.split()) == "".join(text.split())
    assert lines == sorted(lines)


@given(TEXTS, WIDTHS)
def test_marked_lines_show_the_harmless_text_with_letters_of_its_width(text: str, width: int) -> None:
    marks = [Mark(0, len(text), "s", "cyan")] if text else []
    for line in marked_lines(text, marks, width=width):
        assert line.text.plain in harmless(text)
        assert len(line.letters) <= sum(cell_len(char) for char in line.text.plain)


def test_one_endless_word_is_cut_without_trying_it_whole() -> None:
    lines = list(line_ranges("a" * 200_000, 50))
    assert len(lines) == 4000
    assert lines[-1] == (199_950, 200_000)
