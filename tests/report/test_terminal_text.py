"""No text of a log can steer a terminal, and offsets still count."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.terminal_text import harmless, one_line


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
