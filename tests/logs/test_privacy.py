"""What is found and masked in a text, and what is let through."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import iban, luhn

from attribeam.logs import privacy as own_patterns
from attribeam.logs.privacy import (
    MASK,
    LostPatternsError,
    PatternsFile,
    PrivacySettings,
    Redactor,
    SlowPatternError,
    check_masked,
    masked_record,
    masking,
    recorded_settings,
)
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import LeakError, UsageError

ADDRESSES = (
    "ann.reed+post@mail.pier.example", "o'reed@pier.example", "ann%40pier.example", r"ann\u0040pier.example",
    "ann&#64;pier.example", "ann&#x40;pier.example", "ann&commat;pier.example", '"ann reed"@pier.example',
    "jürgen@büro.example", "अनु@डाक.भारत", "иван@пример.рф", "小林@例え.jp", "an\u00adn@pi\u200ber.example",
    "ann@10.0.0.7", "ann@[10.0.0.7]", r"john\_smith@pier.example", r"john\_m\_smith\@pier.example",
    r"a\.b\-c@pier.example",
    "ann_reed@pier-post.example", "ANN@PIER.EXAMPLE", "ann＠pier.example", "ann@pier．example", "1234@pier.example",
    "a@b.co", "ann@xn--bcher-kva.example", "first.last@sub.sub.pier.example", "ann@pier.museum",
    "ann%2Breed%40pier.example",
)  # fmt: skip

PHONES = (
    "+1 202-555-0147", "+12025550147", "(212) 555-0123", "212-555-0147", "212.555.0147", "2125550147", "1-800-555-0199",
    "555-123-4567", "+44 (0)20 7946 0958", "+44 20 7946 0958", "020 7946 0958", "07700 900123", "07911 123456",
    "0800 123 456", "+49 30 901820", "0049 30 901820", "030/901820", "030 / 90 18 20", "089 12345678", "0171 2345678",
    "0171/2345678", "+33 1 23 45 67 89", "01 23 45 67 89", "06 12 34 56 78", "06.12.34.56.78", "0612345678",
    "+39 06 1234 5678", "+34 912 345 678", "912 345 678", "600 123 456", "+351 21 123 4567", "+48 22 123 45 67",
    "22 123 45 67", "+46 8 123 456 78", "070-123 45 67", "08-123 456 78", "22 12 34 56", "+47 22 12 34 56",
    "044 668 18 00", "0664 1234567", "+7 495 123-45-67", "8 (495) 123-45-67", "8 495 123 45 67", "+38 044 123 45 67",
    "+90 212 345 67 89", "+972 52-123-4567", "052-123-4567", "+20 10 1234 5678", "+966 50 123 4567",
    "+234 803 123 4567", "0803 123 4567", "0712 345678", "+27 21 123 4567", "+91 98765 43210", "98765 43210",
    "9876543210", "0300-1234567", "+86 138 1234 5678", "138 1234 5678", "13812345678", "+81 3-1234-5678",
    "03-1234-5678", "090-1234-5678", "+82 10-1234-5678", "010-1234-5678", "02-123-4567", "6123 4567", "2123 4567",
    "0912 345 678", "012-345 6789", "081 234 5678", "0812-3456-7890", "+61 412 345 678", "0412 345 678",
    "(02) 9876 5432", "+55 11 91234-5678", "(11) 91234-5678", "11 91234-5678", "+52 55 1234 5678", "55 1234 5678",
    "+54 9 11 1234-5678", "+56 9 1234 5678", "+31 20 123 4567", "020 123 4567", "+32 2 123 45 67", "+41 44 668 18 00",
    "+43 1 234 5678", "+353 1 234 5678", "+420 601 123 456", "+36 1 234 5678", "+30 21 0123 4567", "+45 22 12 34 56",
    "+358 9 1234 5678", "+64 21 123 4567", "+65 6123 4567", "+60 12-345 6789", "+84 91 234 56 78", "+62 812-3456-7890",
    "+63 912 345 6789", "+852 2123 4567", "+٤٤ ٢٠ ٧٩٤٦ ٠٩٥٨", "٠٢٠ ٧٩٤٦ ٠٩٥٨", "+९१ ९८७६५ ४३२१०", "（03）1234-5678",
    "＋44 20 7946 0958", "+1\u2011202\u2011555\u20110147", "202\u200b-555-0147", "+44\u00a020\u00a07946\u00a00958",
    r"\+44 20 7946\-0958", r"\(212\) 555\-0123", "+4420-7946-0958", "+44 20 7946\n0958", "555-123-\n4567",
    "&#43;44 20 7946 0958", "%2B442079460958", "123-45-6789",
)  # fmt: skip

_BODIES = ("411111111111111", "555555555555444", "401288888888188", "222300312200322", "601100099013942",
           "353011133330000", "37828224631000", "3056930902590", "620000000000000000")  # fmt: skip
_CARDS = tuple(body + luhn.calc_check_digit(body) for body in _BODIES)


def _grouped(number, mark, size=4):
    return mark.join(number[at : at + size] for at in range(0, len(number), size))


CARDS = (
    *_CARDS, *(_grouped(one, " ") for one in _CARDS), *(_grouped(one, "-") for one in _CARDS[:4]),
    _grouped(_CARDS[0], "."), _grouped(_CARDS[0], "\u00a0"), _grouped(_CARDS[0], "\u2011"), _grouped(_CARDS[0], "\n"),
    _grouped(_CARDS[0], r"\-"), _grouped(_CARDS[0], "&nbsp;"), _grouped(_CARDS[0], "%20"),
    _grouped(_CARDS[0], "\u200b"),
    _grouped(_CARDS[0], "_"), _grouped(_CARDS[0], ","), _grouped(_CARDS[0], " | "), "4111** 1111 1111 *1111",
    _grouped(_CARDS[0], " ", 1), _grouped(_CARDS[0], " ", 8), "3782 822463 10005",
    "٤١١١١١١١١١١١١١١١", "４１１１ １１１１ １１１１ １１１１",
)  # fmt: skip

_ACCOUNTS = tuple(
    country + iban.calc_check_digits(f"{country}00{body}") + body
    for country, body in (
        ("GB", "WEST12345698765432"), ("DE", "370400440532013000"), ("FR", "20041010050500013M02606"),
        ("NL", "ABNA0417164300"), ("ES", "21000418450200051332"), ("IT", "X0542811101000000123456"),
        ("CH", "00762011623852957"), ("PL", "109010140000071219812874"), ("SE", "50000000058398257466"),
        ("NO", "86011117947"), ("BE", "539007547034"), ("SA", "80000000608010167519"),
    )
)  # fmt: skip
ACCOUNTS = (
    *_ACCOUNTS, *(_grouped(one, " ") for one in _ACCOUNTS), *(_grouped(one, "-") for one in _ACCOUNTS[:3]),
    _grouped(_ACCOUNTS[1], "."), _grouped(_ACCOUNTS[1], "_"), _grouped(_ACCOUNTS[1], "** ", 20),
    _ACCOUNTS[0].lower(), _grouped(_ACCOUNTS[1], "\u00a0"), _grouped(_ACCOUNTS[1], "\n"),
)  # fmt: skip

SECRETS = ADDRESSES + PHONES + CARDS + ACCOUNTS

CONTEXTS = (
    "{}", "{}\n", "1. {}", "in 2024. {}", "On 2026-05-01: {}, at noon.", "- {}\n- next", "| Ann | {} | 12.50 |",
    '{{"to": "{}", "n": 3}}', "**{}**", "`{}`", "({})", "It cost 1,250.00 EUR; {} since 2023", "{}. 2024 was dry",
    "2023\n{}\n2024", "a\t{}\tb", "<td>{}</td>", "“{}”", "to: {}; cc", "号码：{}。",
)  # fmt: skip


HARMLESS = (
    "2024", "in 2019, 2020 and 2021", "2019 2020 2021 2022", "1990-2000", "1914–1918", "(1203 – 1333)", "2023-24",
    "1990s", "12.50 EUR", "$1,299.00", "1.234.567,89 €", "1,250,000 people", "45 000 000", "12 500 000",
    "1 250 000 EUR", "in (2019) 45 000 000", "900 000 000", "500-1500", "100-200", "15 000 - 20 000", "37 000 000",
    "2026-05-01", "05.05.2021", "05.05.2021 10:30", "5/5/2021", "2021-05-05 10:30", "2021-05-05/2021-06-05",
    "2026-11-25T17:52:57+00:00", "20191231", "10:30-11:45", "06.15 07.45 09.30", "from 08.30 - 17.00", "v1.2.3",
    "version 10.0.19045", "3.11.7", "RFC 2119", "order 40071234", "order no. A-12345-99", "qa-060", "#123456",
    "120 x 80 x 60 cm", "8 848 m", "6 378 137 m", "98.6 °F", "0.123456789", "3.14159265", "0.4111111111111111",
    "-122.4194155", "48.8566, 2.3522", "48.856613, 2.352222", "978-3-16-148410-0", "9780306406157",
    "ISBN 0-306-40615-2", "ISBN 3-16-148410-0", "doi 10.1000/182", "PMID 31452104", "arXiv:2401.12345", "192.168.0.1",
    "10.0.0.255", "1732270000", "1732270000123", "550e8400-e29b-41d4-a716-446655440000",
    "d41d8cd98f00b204e9800998ecf8427e", "123456789", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10", "10 20 30 40 50",
    "4111111111111112", "1990 1991 1992 1993", "411111111111", "GB82 WEST 1234 5698 7654 33", "ABCD 1234 5678",
    "@handle", "ann@pier", "4 pens@1.50", "5 @ 3", "a@", "@", "ann @pier.example", "50% of 1200", "A&P; 12",
    r"C:\new\table", "pages 211-227 (2003)", "§ 823", "3-0", "7.5 %", "1e-05", "0x1F4A", "B2B",
)  # fmt: skip


USUAL = Redactor(PrivacySettings(redact=True))


def _patterns(*patterns):
    return PatternsFile("patterns.txt", patterns, sha256="")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_whole_and_nothing_else_in_any_context(secret):
    for context in CONTEXTS:
        text = context.format(secret)
        start = text.index(secret)
        assert USUAL.mask(text) == text[:start] + MASK * len(secret) + text[start + len(secret) :]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_alike_is_shown(text):
    for context in ("{}", "See {}, then go on.", "| {} | 12 |", "1. {}\n2. Other"):
        assert USUAL.mask(context.format(text)) == context.format(text)


@pytest.mark.parametrize("before", ["1,", "42,", "n, 0,", "Total: 3,"])
def test_a_card_number_behind_a_comma_is_a_cell_and_no_decimal(before):
    assert USUAL.mask(f"{before}4111111111111111") == before + MASK * 16
    assert USUAL.mask(f"{before}141592653589") == f"{before}141592653589"


@pytest.mark.parametrize("label", ["tel. ", "Call us at ", "phone: ", "Fax no. ", "电话"])
def test_a_label_makes_a_phone_number_of_any_digits(label):
    assert USUAL.mask(f"{label}482 719") == label + MASK * 7
    assert USUAL.mask("The hotel has 482 719 guests.") == "The hotel has 482 719 guests."


def test_phone_numbers_one_per_line_or_one_behind_another_are_all_masked():
    assert USUAL.mask("98765 43210\n91234 56789") == f"{MASK * 11}\n{MASK * 11}"
    assert USUAL.mask("98765 43210 91234 56789") == f"{MASK * 11} {MASK * 11}"
    assert USUAL.mask("+44 20 7946 0958\n+44 20 7946 0959") == f"{MASK * 16}\n{MASK * 16}"


def test_a_value_that_goes_on_in_the_next_item_of_a_list_is_masked_in_both():
    assert USUAL.masked_list(["Card 4111 1111", "1111 1111 is old"]) == [f"Card {MASK * 9}", f"{MASK * 9} is old"]
    assert USUAL.masked_list(["4111"] + ["1111"] * 3) == [MASK * 4] * 4
    assert USUAL.masked_list(["4917 4845", "8989 7107"]) == [MASK * 9] * 2  # whose second half looks like a phone
    assert USUAL.masked_list(["Call +44 20 79", "46 0958 now"]) == [f"Call {MASK * 9}", f"{MASK * 7} now"]
    assert USUAL.masked_list(["Write to ann@pier", ".example"]) == [f"Write to {MASK * 8}", MASK * 8]
    long = "word " * 100
    assert USUAL.masked_list([f"{long}4111 1111", f"1111 1111 {long}"]) == [f"{long}{MASK * 9}", f"{MASK * 9} {long}"]
    assert USUAL.masked_list(["to", "ann@pier.example", "2019", "2020"]) == ["to", MASK * 16, "2019", "2020"]


def test_what_one_text_of_a_record_shows_to_be_a_secret_is_masked_in_all_of_them():
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


def test_a_leak_is_told_by_its_place_and_never_shown():
    shown = {"spans": ["fine", {"text": "Call +44 20 7946 0958"}], "file": "ann@pier.example"}
    with pytest.raises(LeakError, match=r"the page .* at spans\[1\]\.text") as caught:
        check_masked("the page", shown, USUAL.settings, given={"ann@pier.example"})
    assert "7946" not in str(caught.value)
    check_masked("the page", {"file": "ann@pier.example"}, USUAL.settings, given={"ann@pier.example"})


@given(st.text(alphabet="a@.+-0123456789 ()\n%40\u200b█é"))
def test_a_mask_keeps_every_other_character_in_its_place(text):
    masked = USUAL.mask(text)
    assert len(masked) == len(text)
    assert all(one in (MASK, other) for one, other in zip(masked, text, strict=True))
    assert USUAL.mask(masked) == masked


def test_overlapping_finds_become_one_mask():
    redactor = Redactor(PrivacySettings(redact=True, patterns=_patterns("to ann", "@pier")))
    assert redactor.mask("Write to ann@pier.example now") == f"Write {MASK * 19} now"


def test_texts_that_repeat_parts_of_secrets_are_searched_to_their_end():
    for piece in ("a", "a.", "a@", "1 ", "%40", "+1", "(1)", "1-", "tel ", '"', "a@b."):
        text = piece * (5000 // len(piece))
        assert len(USUAL.mask(text)) == len(text)


def test_a_text_that_a_pattern_does_not_finish_is_masked_whole(monkeypatch):
    monkeypatch.setattr(own_patterns, "SECONDS_PER_TEXT", 0.05)
    redactor = Redactor(PrivacySettings(patterns=_patterns("(b|bb)+$")))
    text = "b" * 200 + "!"
    with pytest.raises(SlowPatternError, match="pattern 1 of 1"):
        redactor.masked(text)
    assert redactor.mask(text) == MASK * len(text)


def test_values_of_any_type_are_masked_and_keep_their_type():
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


def test_bytes_that_are_no_utf8_are_masked_byte_by_byte():
    array = pa.array([b"\xff ann@pier.example", "é ann@pier.example".encode()])
    assert masking(USUAL).array("raw", array).to_pylist() == [b"\xff " + b"*" * 16, "é ".encode() + b"*" * 16]


def test_patterns_of_a_file_are_recorded_by_their_digest(tmp_path):
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


def test_settings_that_hide_nothing_are_not_recorded():
    assert PrivacySettings().recorded() == {}
    assert recorded_settings(None) == PrivacySettings() == recorded_settings({})


@pytest.mark.parametrize(
    ("lines", "said"), [("# none\n", "holds none"), ("fine\n(\n", "line 2"), ("a\\b|\n", "line 1 finds empty text")]
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path, lines, said):
    file = tmp_path / "patterns.txt"
    file.write_text(lines, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        PatternsFile.read(str(file))
