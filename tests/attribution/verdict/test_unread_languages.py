import pytest
from tests.attribution.verdict.judged_rows import record

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.verdict.claims import unread_ranges

UNPARSED = ParsedAnswer((), (), (), (), (), ())


def unread(answer, *passages, question=""):
    row = record(answer, *passages, question=question)
    return [one.of(answer).strip() for one in unread_ranges(UNPARSED, row)]


@pytest.mark.parametrize("answer", [
    "Die Brücke wurde nach dem Krieg mit Steinen aus der alten Burg gebaut und ist heute gesperrt.",
    "Le pont a été construit avec les pierres du château, et il est fermé depuis dix ans.",
    "El puente fue construido con las piedras del castillo y está cerrado desde hace diez años.",
    "Il ponte è stato costruito con le pietre della vecchia rocca e non è più aperto.",
    "A ponte foi construída com as pedras do castelo e está fechada há dez anos para obras.",
    "De brug is met stenen van het oude kasteel gebouwd en wordt al tien jaar niet gebruikt.",
    "Most zbudowano z kamieni ze starego zamku i jest on od dziesięciu lat zamknięty dla ruchu.",
    "Мост построен из камней старой крепости.", "橋は古い城の石で造られた。", "הגשר נבנה מאבני המצודה.",
])  # fmt: skip
def test_other_languages_are_not_read(answer):
    assert unread(answer) == [answer]


@pytest.mark.parametrize("answer", [
    "The bridge was built with stones from the old castle, and it has been closed for ten years.",
    "Al Pacino, Robert De Niro, Diane Keaton, Robert Duvall, James Caan, Talia Shire, John Cazale",
    "The tower is called 東京タワー, and locals say «Башня» or la torre de la ciudad when they talk about it.",
    "Paris", "1874", "Die hard fans of the band came from all over the des Moines area to see it in person.",
])  # fmt: skip
def test_english_with_foreign_names_is_read(answer):
    assert unread(answer) == []


def test_a_long_paragraph_in_another_script_is_left_out_alone():
    quote = "Мост построен из камней старой крепости, и уже десять лет он закрыт."
    assert unread(f"The sign on the bridge says the following.\n\n{quote}\n\nNobody has replaced it.") == [quote]


def test_a_short_one_goes_with_the_answer():
    assert unread("The sign on the bridge reads:\n\nМост закрыт\n\nNobody has replaced it.") == []


def test_han_characters_are_read_with_a_parser_for_chinese():
    chinese = ParsedAnswer((), (), (), (), (), (), label_scheme="universal-chinese")
    assert unread_ranges(chinese, record("桥是用旧城堡的石头建造的。")) == ()


SHORT_AND_FOREIGN = [
    ("¿Quién paga el envío?", "Los gastos de envío corren por cuenta del vendedor.", "Los paga el vendedor."),
    ("Qui paie la livraison ?", "Les frais de port sont à la charge du vendeur.", "Le vendeur les prend en charge."),
    ("Wer zahlt den Versand?", "Die Versandkosten trägt der Verkäufer.", "Das übernimmt der Verkäufer."),
    ("Chi paga la spedizione?", "Le spese di spedizione sono a carico del venditore.", "Le paga il venditore."),
    ("Quem paga o envio?", "As despesas de envio ficam a cargo do vendedor.", "O vendedor paga."),
    ("Wie betaalt de verzending?", "De verzendkosten zijn voor rekening van de verkoper.", "De verkoper betaalt die."),
    ("Kto płaci za wysyłkę?", "Koszty wysyłki pokrywa sprzedawca.", "Płaci sprzedawca."),
    ("Vem betalar frakten?", "Fraktkostnaden betalas av säljaren.", "Det gör säljaren."),
]
"""A question, its passage and a right answer."""


@pytest.mark.parametrize(("question", "passage", "answer"), SHORT_AND_FOREIGN)
def test_a_short_answer_goes_with_its_question_and_passages(question, passage, answer):
    assert unread(answer, passage, question=question) == [answer]


@pytest.mark.parametrize(("question", "passage", "answer"), [
    ("How long can I return an item?",
        "Artikel können innerhalb von dreißig Tagen nach der Lieferung zurückgegeben werden.",
        "Innerhalb von dreißig Tagen."),
    ("How long can I return an item?",
        "Artikel können innerhalb von dreißig Tagen nach der Lieferung zurückgegeben werden.",
        "You can return it within thirty days."),
    ("Who pays for shipping?", "Les frais de port sont à la charge du vendeur.", "The seller pays for it."),
    ("Qui paie la livraison ?", "The seller pays the cost of shipping for all orders.", "C'est le vendeur."),
    ("A che ora apre la piscina?", "The pool opens every day at nine in the morning.", "La piscina apre alle nove."),
("Was kosten Tickets?", "Tickets are sold on board and cost five crowns.", "Tickets werden an Bord verkauft."),
    ("", "Das Schwimmbad öffnet täglich um neun Uhr morgens.", "Um neun Uhr."),
    ("Bonjour", "L'hôtel propose une connexion gratuite dans toutes les chambres.",
        "Bonjour ! Comment puis-je vous aider ?"),
])  # fmt: skip
def test_words_of_two_languages_are_not_compared(question, passage, answer):
    assert unread(answer, passage, question=question) == [answer]


SHORT_AND_ENGLISH = [
    ("What is the return period?", "Items may be returned within thirty days of delivery.", "Thirty days."),
    ("Are dogs allowed?", "Pets are welcome on the terrace.", "Yes, on the terrace."),
    ("Who wrote it?", "The novel was written by Gabriel García Márquez in 1967.", "Gabriel García Márquez."),
    ("Which company built it?", "The bridge was built by Müller & Söhne in 1931.", "Müller & Söhne built it."),
    ("What is the dish called?", "The house speciality is coq au vin with pommes frites.", "Coq au vin."),
    ("Where is the head office?", "Head office: Hauptstraße 5, 10115 Berlin.", "Hauptstraße 5, 10115 Berlin."),
    ("Who directed the film?", "Jean-Pierre Jeunet directed the film Le Fabuleux Destin d'Amélie Poulain.",
        "Jean-Pierre Jeunet directed it."),
    ("Which newspaper broke the story?", "The story was first reported by Der Spiegel and Le Monde.", "Der Spiegel."),
    ("How heavy is the fan?", "Weight: 2.3 kg\nSize: 30 x 40 x 12 cm\nPower: 60 W\nCable: 1.8 m, grey",
        "It weighs 2.3 kg."),
    ("How much iron does it have?", "Vitamin C 80 mg, zinc 5 mg, selenium 30 µg, magnesium 57 mg, iron 7 mg",
        "It has 7 mg of iron."),
    ("What is the voltage?", "The pump runs at 12 volts.", "12 V"),
    ("What did he study?", "He studied law at the Universidad de Salamanca.", "Law at the Universidad de Salamanca."),
    ("What are the ingredients?", "Mix flour, sugar, butter, salt and eggs.", "Flour, sugar, butter, salt, eggs."),
    ("Do I need a visa?", "Citizens of Brazil need no visa for stays under 90 days.", "No visa needed."),
    ("What does RSVP mean?", "RSVP stands for répondez s'il vous plaît.", "It stands for répondez s'il vous plaît."),
    ("Which species?", "The garden has Quercus robur and Fagus sylvatica.", "Quercus robur, Fagus sylvatica"),
    ("Which law applies?", "The Bundesdatenschutzgesetz applies in Germany.", "The Bundesdatenschutzgesetz."),
    ("Which language?", "The manual is in German and Dutch.", "German and Dutch"),
]  # fmt: skip
"""Many with names, titles and terms of other languages."""


@pytest.mark.parametrize(("question", "passage", "answer"), SHORT_AND_ENGLISH)
def test_short_english_answers_are_read(question, passage, answer):
    assert unread(answer, passage, question=question) == []


@pytest.mark.parametrize("answer", ["Hôtel de la Paix", "Diego Rivera", "Così fan tutte.", "Sauce béarnaise.", "No."])
def test_a_wrong_name_or_term_is_read(answer):
    passage = "Items may be returned within thirty days of delivery to the store."
    assert unread(answer, passage, question="What is the name of the hotel, dish or opera?") == []


def test_names_and_lists_do_not_make_passages_foreign():
    names = "Maria Lopez, Jean Dupont, Hans Müller, Giulia Rossi, João Silva, Piotr Kowalski, Pieter de Vries"
    prices = "Pizza Margherita 9.50, Pizza Diavola 11.00, Tiramisu 5.50, Espresso 2.50, Cappuccino 3.20"
    for passage in (names, prices, "Tel. +49 30 1234567, Hauptstraße 5, 10115 Berlin, Mo-Fr 9-18 Uhr"):
        assert unread("Hans Müller", passage, question="Who attended?") == []


RECORDS = "City: Paris\nRate: 220 euros\n\nCity: Berlin\nRate: 160 euros\n\nCity: Zurich\nRate: 220 euros"


@pytest.mark.parametrize(("question", "answer", "is_unread"), [
    ("What is the limit for hotels?", "The rate for Zurich is 220 euros.", False), ("", "Zurich: 220 euros", False),
    ("Wie viel darf ein Hotel in Zürich kosten?", "In Zürich darf es höchstens 220 Euro kosten.", True),
])  # fmt: skip
def test_records_with_few_words_have_the_language_of_question_and_answer(question, answer, is_unread):
    assert bool(unread(answer, RECORDS, question=question)) == is_unread
