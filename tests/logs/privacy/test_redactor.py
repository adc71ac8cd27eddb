"""What is found and masked in a text, and what is let through."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.logs.privacy.secret_forms import CONTEXTS, HARMLESS, SECRETS

from attribeam.logs.privacy import settings as own_patterns
from attribeam.logs.privacy.masked_record import check_masked, masked_record
from attribeam.logs.privacy.masked_values import masking
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.logs.privacy.settings import (
    LostPatternsError,
    PatternsFile,
    PrivacySettings,
    SlowPatternError,
    recorded_settings,
)
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import LeakError, UsageError

USUAL = Redactor(PrivacySettings(redact=True))


def _patterns(*patterns: str) -> PatternsFile:
    return PatternsFile("patterns.txt", patterns, sha256="")


def test_the_tables_of_forms_are_as_long_as_they_should_be() -> None:
    assert len(set(SECRETS)) >= 200
    assert len(set(HARMLESS)) >= 60


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_whole_and_nothing_else_in_any_context(secret: str) -> None:
    for context in CONTEXTS:
        text = context.format(secret)
        start = text.index(secret)
        assert USUAL.mask(text) == text[:start] + MASK * len(secret) + text[start + len(secret) :]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_alike_is_shown(text: str) -> None:
    for context in ("{}", "See {}, then go on.", "| {} | 12 |", "1. {}\n2. Other"):
        assert USUAL.mask(context.format(text)) == context.format(text)


@pytest.mark.parametrize("before", ["1,", "42,", "n, 0,", "Total: 3,"])
def test_a_card_number_behind_a_comma_is_a_cell_and_no_decimal(before: str) -> None:
    assert USUAL.mask(f"{before}4111111111111111") == before + MASK * 16
    assert USUAL.mask(f"{before}141592653589") == f"{before}141592653589"


@pytest.mark.parametrize("label", ["tel. ", "Call us at ", "phone: ", "Fax no. ", "电话"])
def test_a_label_makes_a_phone_number_of_any_digits(label: str) -> None:
    assert USUAL.mask(f"{label}482 719") == label + MASK * 7
    assert USUAL.mask("The hotel has 482 719 guests.") == "The hotel has 482 719 guests."


def test_phone_numbers_one_per_line_or_one_behind_another_are_all_masked() -> None:
    assert USUAL.mask("98765 43210\n91234 56789") == f"{MASK * 11}\n{MASK * 11}"
    assert USUAL.mask("98765 43210 91234 56789") == f"{MASK * 11} {MASK * 11}"
    assert USUAL.mask("+44 20 7946 0958\n+44 20 7946 0959") == f"{MASK * 16}\n{MASK * 16}"


def test_a_value_that_goes_on_in_the_next_item_of_a_list_is_masked_in_both() -> None:
    assert USUAL.masked_list(["Card 4111 1111", "1111 1111 is old"]) == [f"Card {MASK * 9}", f"{MASK * 9} is old"]
    assert USUAL.masked_list(["4111"] + ["1111"] * 3) == [MASK * 4] * 4
    assert USUAL.masked_list(["4917 4845", "8989 7107"]) == [MASK * 9] * 2  # whose second half looks like a phone
    assert USUAL.masked_list(["Call +44 20 79", "46 0958 now"]) == [f"Call {MASK * 9}", f"{MASK * 7} now"]
    assert USUAL.masked_list(["Write to ann@pier", ".example"]) == [f"Write to {MASK * 8}", MASK * 8]
    long = "word " * 100
    assert USUAL.masked_list([f"{long}4111 1111", f"1111 1111 {long}"]) == [f"{long}{MASK * 9}", f"{MASK * 9} {long}"]
    assert USUAL.masked_list(["to", "ann@pier.example", "2019", "2020"]) == ["to", MASK * 16, "2019", "2020"]


def test_what_one_text_of_a_record_shows_to_be_a_secret_is_masked_in_all_of_them() -> None:
    record = QARecord(
        record_id="482719",
        question="My phone is 482719, who called?",
        passages=(Passage("The hotel has 482719 rooms, not 1482719.", "About 482719", "page-482719"),),
        answer="Somebody with 482719.",
        source=RowSource("log.parquet", 0),
        extra_columns=(("tags", ["482719", {"note": "see 482719"}, 3]),),
    )
    masked = masked_record(record, USUAL)
    assert masked.record_id == MASK * 6
    assert masked.passages[0].text == f"The hotel has {MASK * 6} rooms, not 1482719."
    assert masked.extra_columns == (("tags", [MASK * 6, {"note": f"see {MASK * 6}"}, 3]),)
    assert "482719" not in repr(masked).replace("1482719", "")


def test_a_leak_is_told_by_its_place_and_never_shown() -> None:
    shown = {"spans": ["fine", {"text": "Call +44 20 7946 0958"}], "file": "ann@pier.example"}
    with pytest.raises(LeakError, match=r"the page .* at spans\[1\]\.text") as caught:
        check_masked("the page", shown, USUAL.settings, given={"ann@pier.example"})
    assert "7946" not in str(caught.value)
    check_masked("the page", {"file": "ann@pier.example"}, USUAL.settings, given={"ann@pier.example"})


@given(st.text(alphabet="a@.+-0123456789 ()\n%40\u200b█é"))
def test_a_mask_keeps_every_other_character_in_its_place(text: str) -> None:
    masked = USUAL.mask(text)
    assert len(masked) == len(text)
    assert all(one in (MASK, other) for one, other in zip(masked, text, strict=True))
    assert USUAL.mask(masked) == masked


def test_overlapping_finds_become_one_mask() -> None:
    redactor = Redactor(PrivacySettings(redact=True, patterns=_patterns("to ann", "@pier")))
    assert redactor.mask("Write to ann@pier.example now") == f"Write {MASK * 19} now"


def test_texts_that_repeat_parts_of_secrets_are_searched_to_their_end() -> None:
    for piece in ("a", "a.", "a@", "1 ", "%40", "+1", "(1)", "1-", "tel ", '"', "a@b."):
        text = piece * (20_000 // len(piece))
        assert len(USUAL.mask(text)) == len(text)


def test_a_text_that_a_pattern_does_not_finish_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_patterns, "SECONDS_PER_TEXT", 0.05)
    redactor = Redactor(PrivacySettings(patterns=_patterns("(b|bb)+$")))
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
    settings = PrivacySettings(redact=True, patterns=PatternsFile.read(str(file)))
    assert settings.own_patterns == ("Ann Reed", "Pier \\d+")
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
