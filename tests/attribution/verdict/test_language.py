from __future__ import annotations

import pytest

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.verdict.language import unread_ranges

UNPARSED = ParsedAnswer((), (), (), (), (), ())


def unread(answer: str) -> list[str]:
    return [one.of(answer).strip() for one in unread_ranges(UNPARSED, answer)]


@pytest.mark.parametrize(
    "answer",
    [
        "Die Brücke wurde nach dem Krieg mit Steinen aus der alten Burg gebaut und ist heute gesperrt.",
        "Le pont a été construit avec les pierres du château, et il est fermé depuis dix ans.",
        "El puente fue construido con las piedras del castillo y está cerrado desde hace diez años.",
        "Il ponte è stato costruito con le pietre della vecchia rocca e non è più aperto.",
        "A ponte foi construída com as pedras do castelo e está fechada há dez anos para obras.",
        "De brug is met stenen van het oude kasteel gebouwd en wordt al tien jaar niet gebruikt.",
        "Most zbudowano z kamieni ze starego zamku i jest on od dziesięciu lat zamknięty dla ruchu.",
        "Мост построен из камней старой крепости.",
        "橋は古い城の石で造られた。",
        "הגשר נבנה מאבני המצודה.",
    ],
)
def test_other_languages_are_not_read(answer: str) -> None:
    assert unread(answer) == [answer]


@pytest.mark.parametrize(
    "answer",
    [
        "The bridge was built with stones from the old castle, and it has been closed for ten years.",
        "Al Pacino, Robert De Niro, Diane Keaton, Robert Duvall, James Caan, Talia Shire, John Cazale",
        "The tower is called 東京タワー, and locals say «Башня» or la torre de la ciudad when they talk about it.",
        "Paris",
        "1874",
        "Die hard fans of the band came from all over the des Moines area to see it in person.",
    ],
)
def test_english_with_foreign_names_is_read(answer: str) -> None:
    assert unread(answer) == []


def test_a_long_paragraph_in_another_script_is_left_out_alone() -> None:
    quote = "Мост построен из камней старой крепости, и уже десять лет он закрыт."
    assert unread(f"The sign on the bridge says the following.\n\n{quote}\n\nNobody has replaced it.") == [quote]


def test_a_short_one_goes_with_the_answer() -> None:
    assert unread("The sign on the bridge reads:\n\nМост закрыт\n\nNobody has replaced it.") == []


def test_han_characters_are_read_with_a_parser_for_chinese() -> None:
    chinese = ParsedAnswer((), (), (), (), (), (), label_scheme="universal-chinese")
    assert unread_ranges(chinese, "桥是用旧城堡的石头建造的。") == ()
