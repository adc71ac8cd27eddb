"""What is found and masked in a text, and what is let through."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from attribeam.logs.privacy.card_numbers import card_numbers, passes_luhn
from attribeam.logs.privacy.email_addresses import email_addresses
from hypothesis import given
from hypothesis import strategies as st

from attribeam.logs.privacy import own_patterns
from attribeam.logs.privacy.masked_values import masking
from attribeam.logs.privacy.own_patterns import PatternsFile, SlowPatternError
from attribeam.logs.privacy.phone_numbers import phone_numbers
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.logs.privacy.settings import LostPatternsError, PrivacySettings, recorded_settings
from attribeam.schemas import CharRange
from attribeam.schemas.errors import UsageError

Find = Callable[[str], Iterator[CharRange]]
USUAL = Redactor(PrivacySettings(redact=True))


def _found(find: Find, text: str) -> list[str]:
    return [chars.of(text) for chars in find(text)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("Write to ann.reed+post@mail.pier.example.", "ann.reed+post@mail.pier.example"),
        ("**o'reed@pier.example**", "o'reed@pier.example"),
        ("?to=ann@pier.example&cc=no", "ann@pier.example"),
        ("mailto:ann%40pier.example", "ann%40pier.example"),
        (r'{"to": "ann\u0040pier.example"}', r"ann\u0040pier.example"),
        ("ann&#64;pier.example", "ann&#64;pier.example"),
        ('"ann reed"@pier.example', '"ann reed"@pier.example'),
        ("jürgen@büro.example", "jürgen@büro.example"),
        ("अनु@डाक.भारत", "अनु@डाक.भारत"),
        ("an\u00adn@pi\u200ber.example", "an\u00adn@pi\u200ber.example"),
        ("ann@10.0.0.7:25", "ann@10.0.0.7"),
        ("ann@[10.0.0.7]", "ann@[10.0.0.7]"),
        ("ann@pier.example.2021 was old", "ann@pier.example"),
    ],
)
def test_an_address_is_found_whole(text: str, address: str) -> None:
    assert _found(email_addresses, text) == [address]


@pytest.mark.parametrize("text", ["@handle", "ann@pier", "4 pens@1.50", "5 @ 3", "a@", "@", "ann @pier.example"])
def test_an_at_sign_alone_is_no_address(text: str) -> None:
    assert _found(email_addresses, text) == []


@pytest.mark.parametrize(
    "number",
    [
        "+1 202-555-0147", "(212) 555-0123", "+44 (0)20 7946 0958", "020 7946 0958", "0049 30 901820", "030/901820",
        "030 / 90 18 20", "01 23 45 67 89", "555-0199", "555.123.4567", "5551234567", "15551234567", "138 1234 5678",
        "98765 43210", "12 34 56 78", "+12025550147", "1\u2011202\u2011555\u20110147", "202\u200b-555-0147",
        "（03）1234-5678", "+٤٤ ٢٠ ٧٩٤٦ ٠٩٥٨", "123-45-6789", "555-123-\n4567",
    ],
)  # fmt: skip
def test_a_phone_number_is_found_with_its_prefix_and_parentheses(number: str) -> None:
    assert _found(phone_numbers, number) == [number]
    assert _found(phone_numbers, f"On 2026-05-01: {number}, at noon.") == [number]


@pytest.mark.parametrize("label", ["tel. ", "Call us at ", "phone: ", "Fax no. ", "电话"])
def test_a_label_makes_a_phone_number_of_any_digits(label: str) -> None:
    assert _found(phone_numbers, f"{label}482 719") == ["482 719"]
    assert _found(phone_numbers, "The hotel has 482 719 guests.") == []


@pytest.mark.parametrize(
    "text",
    [
        "2021-05-05 10:30", "05.05.2021 10:30", "2021-05-05/2021-06-05", "in (2019) 45 000 000", "1,250,000 people",
        "2019 2020 2021 2022", "978-3-16-148410-0", "0.123456789", "3.14159265", "1732270000", "1732270000123",
        "06.15 07.45 09.30", "10 20 30 40 50", "900 000 000", "1990-2000", "v1.2.3", "qa-060", "123456789",
        "550e8400-e29b-41d4-a716-446655440000", "from 08.30 - 17.00",
    ],
)  # fmt: skip
def test_dates_amounts_and_versions_are_no_phone_numbers(text: str) -> None:
    assert _found(phone_numbers, text) == []


@pytest.mark.parametrize(
    "number",
    [
        "4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "3782 822463 10005", "5555.5555.5555.4444",
        "6011000990139424", "4111 1111\n1111 1111", "٤١١١١١١١١١١١١١١١", " ".join("4111111111111111"),
    ],
)  # fmt: skip
def test_a_card_number_is_found_in_any_grouping(number: str) -> None:
    assert _found(card_numbers, number) == [number]
    assert _found(card_numbers, f"Card {number} 12/27") == [number]


@pytest.mark.parametrize("text", ["4111111111111112", "1990 1991 1992 1993", "0.4111111111111111", "411111111111"])
def test_digits_that_fail_the_check_or_begin_otherwise_are_no_card(text: str) -> None:
    assert _found(card_numbers, text) == []


def test_the_luhn_check_sees_every_wrong_digit() -> None:
    number = "4111111111111111"
    wrong = [f"{number[:at]}{digit}{number[at + 1 :]}" for at in range(16) for digit in "0123456789"]
    assert {one for one in wrong if passes_luhn(one)} == {number}


@given(st.text(alphabet="a@.+-0123456789 ()\n%40\u200b█é"))
def test_a_mask_keeps_every_other_character_in_its_place(text: str) -> None:
    masked = USUAL.mask(text)
    assert len(masked) == len(text)
    assert all(one in (MASK, other) for one, other in zip(masked, text, strict=True))
    assert USUAL.mask(masked) == masked


def test_overlapping_finds_become_one_mask() -> None:
    redactor = Redactor(PrivacySettings(redact=True, patterns=("to ann", "@pier")))
    assert redactor.mask("Write to ann@pier.example now") == f"Write {MASK * 19} now"


def test_texts_that_repeat_parts_of_secrets_are_searched_to_their_end() -> None:
    for piece in ("a", "a.", "a@", "1 ", "%40", "+1", "(1)", "1-", "tel ", '"', "a@b."):
        text = piece * (5_000 // len(piece))
        assert len(USUAL.mask(text)) == len(text)


def test_a_text_that_a_pattern_does_not_finish_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_patterns, "SECONDS_PER_TEXT", 0.05)
    redactor = Redactor(PrivacySettings(patterns=("(b|bb)+$",)))
    text = "b" * 200 + "!"
    with pytest.raises(SlowPatternError, match="pattern 1 of 1"):
        redactor.masked(text)
    assert redactor.mask(text) == MASK * len(text)


def test_values_of_any_type_are_masked_and_keep_their_type() -> None:
    kind = pa.struct([("when", pa.timestamp("ms")), ("to", pa.list_(pa.large_string())), ("raw", pa.binary(16))])
    row = {"when": None, "to": ["ann@pier.example", None], "raw": b"ann@pier.example"}
    array = pa.array([row, None], type=kind)
    assert masking(USUAL).array("extra", array).to_pylist() == [
        {**row, "to": [MASK * 16, None], "raw": b"*" * 16},
        None,
    ]
    numbers = pa.array([5555555555554444, 12, None])
    assert masking(USUAL).array("extra", numbers).to_pylist() == [None, 12, None]
    assert masking(USUAL).array("extra", pa.array([5555555555554444.0, 0.5])).to_pylist() == [None, 0.5]


def test_bytes_that_are_no_utf8_are_masked_byte_by_byte() -> None:
    array = pa.array([b"\xff ann@pier.example", "é ann@pier.example".encode()])
    assert masking(USUAL).array("raw", array).to_pylist() == [b"\xff " + b"*" * 16, "é ".encode() + b"*" * 16]


def test_patterns_of_a_file_are_recorded_by_their_digest(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("# names\n\nAnn Reed\nPier \\d+\n", encoding="utf-8")
    settings = PrivacySettings.checked(redact=True, patterns=(r"CASE-\d+",), patterns_file=str(file), no_texts=False)
    assert settings.own_patterns == (r"CASE-\d+", "Ann Reed", "Pier \\d+")
    assert "Ann" not in str(settings.recorded())
    assert recorded_settings(settings.recorded()) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings
    file.write_text("Ann Reed\n", encoding="utf-8")
    with pytest.raises(LostPatternsError, match="not what the audit used"):
        recorded_settings(settings.recorded())


def test_settings_that_hide_nothing_are_not_recorded() -> None:
    assert PrivacySettings().recorded() == {}
    assert recorded_settings(None) == PrivacySettings() == recorded_settings({})


@pytest.mark.parametrize(
    ("lines", "said"), [("# none\n", "holds none"), ("fine\n(\n", "line 2"), ("a\\b|\n", "line 1 finds empty text")]
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "patterns.txt"
    file.write_text(lines, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        PatternsFile.read(str(file))
