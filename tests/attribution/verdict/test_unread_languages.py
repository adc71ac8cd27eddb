import pytest
from tests.attribution.verdict.judged_rows import record

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.verdict.claims import unread_ranges

UNPARSED = ParsedAnswer((), (), (), (), (), ())


def unread(answer, *passages, question=""):
    row = record(answer, *passages, question=question)
    return [one.of(answer).strip() for one in unread_ranges(UNPARSED, row)]


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
def test_other_languages_are_not_read(answer):
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
    ("¿Se admiten perros?", "Los animales de compañía son bienvenidos en la terraza.", "Sí, en la terraza."),
    ("¿A qué hora abre la piscina?", "La piscina abre todos los días a las nueve de la mañana.", "Abre a las nueve."),
    ("Qui paie la livraison ?", "Les frais de port sont à la charge du vendeur.", "Le vendeur les prend en charge."),
    ("Chiens admis ?", "Les animaux de compagnie sont les bienvenus sur la terrasse.", "Oui, sur la terrasse."),
    ("À quelle heure ouvre la piscine ?", "La piscine ouvre chaque jour à neuf heures du matin.", "Elle ouvre à 9 h."),
    ("Wer zahlt den Versand?", "Die Versandkosten trägt der Verkäufer.", "Das übernimmt der Verkäufer."),
    ("Sind Hunde erlaubt?", "Haustiere sind auf der Terrasse willkommen.", "Ja, auf der Terrasse."),
    ("Wann öffnet das Schwimmbad?", "Das Schwimmbad öffnet täglich um neun Uhr morgens.", "Um neun Uhr."),
    ("Chi paga la spedizione?", "Le spese di spedizione sono a carico del venditore.", "Le paga il venditore."),
    ("I cani sono ammessi?", "Gli animali domestici sono i benvenuti sulla terrazza.", "Sì, in terrazza."),
    ("A che ora apre la piscina?", "La piscina apre ogni giorno alle nove del mattino.", "Apre alle nove."),
    ("Quem paga o envio?", "As despesas de envio ficam a cargo do vendedor.", "O vendedor paga."),
    ("São permitidos cães?", "Os animais de estimação são bem-vindos no terraço.", "Sim, no terraço."),
    ("A que horas abre a piscina?", "A piscina abre todos os dias às nove da manhã.", "Abre às nove."),
    ("Wie betaalt de verzending?", "De verzendkosten zijn voor rekening van de verkoper.", "De verkoper betaalt die."),
    ("Zijn honden toegestaan?", "Huisdieren zijn welkom op het terras.", "Ja, op het terras."),
    ("Hoe laat gaat het zwembad open?", "Het zwembad gaat elke dag om negen uur 's ochtends open.", "Om negen uur."),
    ("Kto płaci za wysyłkę?", "Koszty wysyłki pokrywa sprzedawca.", "Płaci sprzedawca."),
    ("Czy psy są dozwolone?", "Zwierzęta domowe są mile widziane na tarasie.", "Tak, na tarasie."),
    ("O której otwiera się basen?", "Basen jest otwarty codziennie od dziewiątej rano.", "O dziewiątej."),
    ("Vem betalar frakten?", "Fraktkostnaden betalas av säljaren.", "Det gör säljaren."),
    ("Är hundar tillåtna?", "Husdjur är välkomna på terrassen.", "Ja, på terrassen."),
    ("När öppnar badet?", "Badet öppnar varje dag klockan nio på morgonen.", "Klockan nio."),
]
"""A question, its passage and a right answer."""


@pytest.mark.parametrize(("question", "passage", "answer"), SHORT_AND_FOREIGN)
def test_a_short_answer_goes_with_its_question_and_passages(question, passage, answer):
    assert unread(answer, passage, question=question) == [answer]


@pytest.mark.parametrize(
    ("question", "passage", "answer"),
    [
        (
            "How long can I return an item?",
            "Artikel können innerhalb von dreißig Tagen nach der Lieferung zurückgegeben werden.",
            "Innerhalb von dreißig Tagen.",
        ),
        (
            "How long can I return an item?",
            "Artikel können innerhalb von dreißig Tagen nach der Lieferung zurückgegeben werden.",
            "You can return it within thirty days.",
        ),
        ("Who pays for shipping?", "Les frais de port sont à la charge du vendeur.", "The seller pays for it."),
        (
            "Are dogs allowed?",
            "Los animales de compañía son bienvenidos en la terraza.",
            "Yes, pets are welcome on the terrace.",
        ),
        (
            "Where is the office?",
            "Nasze główne biuro znajduje się przy ulicy Lipowej, obok dworca.",
            "It is next to the railway station.",
        ),
        ("Sind Hunde erlaubt?", "Pets are welcome on the terrace at any time of the day.", "Ja, auf der Terrasse."),
        ("Qui paie la livraison ?", "The seller pays the cost of shipping for all orders.", "C'est le vendeur."),
        (
            "¿Dónde está la oficina?",
            "Our main office is in Main Street, next to the railway station.",
            "Junto a la estación de tren.",
        ),
        (
            "A che ora apre la piscina?",
            "The pool opens every day at nine in the morning.",
            "La piscina apre alle nove.",
        ),
        (
            "Zijn honden toegestaan?",
            "Pets are welcome on the terrace at any time of the day.",
            "Ja, op het terras zijn ze welkom.",
        ),
        ("", "Das Schwimmbad öffnet täglich um neun Uhr morgens.", "Um neun Uhr."),
        (
            "Bonjour",
            "L'hôtel propose une connexion gratuite dans toutes les chambres.",
            "Bonjour ! Comment puis-je vous aider ?",
        ),
    ],
)
def test_words_of_two_languages_are_not_compared(question, passage, answer):
    assert unread(answer, passage, question=question) == [answer]


SHORT_AND_ENGLISH = [
    ("What is the return period?", "Items may be returned within thirty days of delivery.", "Thirty days."),
    ("Where is the office?", "Our main office is in Main Street, next to the station.", "Next to the station."),
    ("Who pays for shipping?", "Shipping costs are paid by the seller.", "The seller."),
    ("Are dogs allowed?", "Pets are welcome on the terrace.", "Yes, on the terrace."),
    ("When does the pool open?", "The pool opens at nine in the morning.", "At nine."),
    ("Who wrote it?", "The novel was written by Gabriel García Márquez in 1967.", "Gabriel García Márquez."),
    ("Where was she born?", "She was born in São Paulo and grew up in Rio de Janeiro.", "São Paulo"),
    ("Which company built it?", "The bridge was built by Müller & Söhne in 1931.", "Müller & Söhne built it."),
    ("What is the dish called?", "The house speciality is coq au vin with pommes frites.", "Coq au vin."),
    ("Where is the head office?", "Head office: Hauptstraße 5, 10115 Berlin.", "Hauptstraße 5, 10115 Berlin."),
    ("What is the motto?", "The motto of the club is 'carpe diem', chosen in 1902.", "Carpe diem."),
    (
        "Which opera opened the season?",
        "The season opened with Così fan tutte and closed with La Bohème.",
        "Così fan tutte.",
    ),
    (
        "Who directed the film?",
        "Jean-Pierre Jeunet directed the film Le Fabuleux Destin d'Amélie Poulain.",
        "Jean-Pierre Jeunet directed it.",
    ),
    ("Which newspaper broke the story?", "The story was first reported by Der Spiegel and Le Monde.", "Der Spiegel."),
    ("Which team won?", "Real Madrid beat Borussia Dortmund in the final.", "Real Madrid won."),
    ("Where do they live?", "The family lives in Los Angeles near El Segundo.", "In Los Angeles."),
    ("How much is it?", "A ticket costs 12 euros.", "12 euros."),
    ("What is the voltage?", "The pump runs at 12 volts.", "12 V"),
    (
        "Who founded the firm?",
        "The firm was founded by Jürgen Groß and Åsa Lindström.",
        "Jürgen Groß and Åsa Lindström.",
    ),
    (
        "What is served?",
        "The café serves tiramisù, panna cotta and gelato all day.",
        "Tiramisù, panna cotta and gelato.",
    ),
    ("Which wine?", "The wine list includes Châteauneuf-du-Pape and Rioja Reserva.", "Châteauneuf-du-Pape"),
    ("Where is the festival?", "The festival takes place in Aix-en-Provence in July.", "Aix-en-Provence, in July."),
    ("What did he study?", "He studied law at the Universidad de Salamanca.", "Law at the Universidad de Salamanca."),
    ("What are the ingredients?", "Mix flour, sugar, butter, salt and eggs.", "Flour, sugar, butter, salt, eggs."),
    ("Which airport?", "Flights leave from Charles de Gaulle.", "Charles de Gaulle"),
    ("Which street?", "It stands on Calle de Alcalá in Madrid.", "Calle de Alcalá."),
    ("Who is the CEO?", "Søren Kjærgaard has led the company since 2015.", "Søren Kjærgaard"),
    ("What is the capital?", "The capital is Reykjavík.", "Reykjavík."),
    ("Which band?", "The Mars Volta released De-Loused in the Comatorium.", "The Mars Volta"),
    ("Do I need a visa?", "Citizens of Brazil need no visa for stays under 90 days.", "No visa needed."),
    ("What does RSVP mean?", "RSVP stands for répondez s'il vous plaît.", "It stands for répondez s'il vous plaît."),
    ("Which drug?", "Patients received ibuprofen or paracetamol.", "Ibuprofen or paracetamol"),
    ("Which species?", "The garden has Quercus robur and Fagus sylvatica.", "Quercus robur, Fagus sylvatica"),
    ("Who composed it?", "Ludwig van Beethoven composed it in 1808.", "Ludwig van Beethoven"),
    ("Which hotel?", "Guests stay at the Hôtel de la Paix.", "Hôtel de la Paix"),
    ("Which law applies?", "The Bundesdatenschutzgesetz applies in Germany.", "The Bundesdatenschutzgesetz."),
    ("Which bank?", "Payments go through Banco Santander and Crédit Agricole.", "Banco Santander, Crédit Agricole"),
    ("Which sauce?", "The steak comes with sauce béarnaise.", "Sauce béarnaise."),
    ("Name the lake.", "The hut lies above Lago di Como.", "Lago di Como"),
    ("What is the max load?", "The maximum load is 120 kg.", "120 kg maximum"),
    ("Which model?", "The model is a Citroën Berlingo.", "A Citroën Berlingo"),
    ("Which artist?", "Diego Rivera painted the mural El hombre controlador.", "Diego Rivera"),
    ("What's included?", "The price includes bed linen and towels.", "Bed linen and towels."),
    ("Which language?", "The manual is in German and Dutch.", "German and Dutch"),
]
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
