from decimal import Decimal

import pytest

from attribution.value_patterns import DATE, NUMBER, QUANTITY, WORDED_NUMBER, amounts, worded_amount


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", {"7"}),
        ("1,234", {"1234"}),
        ("1,234,567.5", {"1234567.5"}),
        ("1.234.567,5", {"1234567.5"}),
        ("1.234", {"1234", "1.234"}),
        ("0,25", {"0.25"}),
        ("12.05.2013", {"12", "5", "2013"}),
        ("2.5 million", {"2500000.0"}),
        ("5k", {"5", "5000"}),
    ],
)
def test_number_may_amount_to(text: str, expected: set[str]) -> None:
    match = NUMBER.fullmatch(text)
    assert match is not None
    assert set(amounts(match)) == {Decimal(one) for one in expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one million", 1_000_000),
        ("twenty-one", 21),
        ("two hundred and five thousand", 205_000),
        ("three hundred", 300),
        ("million", 1_000_000),
    ],
)
def test_number_in_words_amounts_to(text: str, expected: int) -> None:
    match = WORDED_NUMBER.fullmatch(text)
    assert match is not None
    assert worded_amount(match.group()) == expected


def test_and_joins_no_two_amounts() -> None:
    assert [match.group() for match in WORDED_NUMBER.finditer("one million and two million")] == [
        "one million", "two million",
    ]  # fmt: skip


def test_scale_after_digits_is_no_number_of_its_own() -> None:
    assert WORDED_NUMBER.search("5 million, 5million") is None


@pytest.mark.parametrize(
    "text", ["12 May 2013", "May 12, 2013", "12th of May", "May 2013", "2013-05-12", "Sept. 3", "3 Feb. 1999"]
)
def test_date_is_one_match(text: str) -> None:
    assert DATE.fullmatch(text)


@pytest.mark.parametrize("text", ["he may 2", "maybe 12", "marching 5"])
def test_word_that_starts_like_a_month_is_no_date(text: str) -> None:
    assert DATE.search(text.removesuffix(" 2")) is None


@pytest.mark.parametrize("text", ["$4 million", "3.5%", "105 km²", "20 °C", "1990s", "10:30", "12 345 people", "€5bn"])
def test_quantity_is_one_match_with_its_unit(text: str) -> None:
    assert QUANTITY.fullmatch(text)
