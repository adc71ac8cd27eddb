"""The bundled parser's sentences, atomic facts, and facts that only lead to the next one."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.attribution.trees import bundled_parser, forms, word_index

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.target_spans import choose_target_spans, fact_ranges
from attribeam.schemas import SpanKind

EXAMPLES = Path(__file__).parents[3] / "examples" / "qa_logs.jsonl"
LEAST_F = 93.0

EXAMPLE_ENDS = {  # what a sentence of the answer ends with, where another sentence follows
    "qa-012": ["glass condenser."], "qa-014": ["no hold."], "qa-015": ["a spreadsheet."],
    "qa-016": ["notice [1].", "contract [2]."], "qa-017": ["days [2]."],
    "qa-018": ["keys:", "primary.", "time**.", "--all`."],
    "qa-019": ["a timeout", "toml`:", "```toml", "[requests]", "= 10", "```"],
    "qa-020": ["Foot |", "plastic |", "steel |"], "qa-021": ["new name.", '")</script>'], "qa-023": ["is passed."],
    "qa-024": ["dough rise."], "qa-028": ["on Monday."], "qa-029": ["promise.”"], "qa-035": ["できます。"],
    "qa-040": ["Yes!", "🌡️."], "qa-042": ["her aunt."], "qa-043": ["broken.", "battery."], "qa-044": ["4.8.2."],
    "qa-046": ["4.20."], "qa-047": ["No."], "qa-048": ["brackish water."], "qa-051": ["to 1991."],
    "qa-054": ["cache`."], "qa-059": ["metres deep."],
    "qa-060": ["to sit.", "aquarium.**", "promenade.", "likes.", "asks.", "is fed.", "charge.", "whole day.",
        "afterwards.", "the deck.", "workshop.**", "nine.", "footpath.", "is fired.", "to wait.", "day three.",
        "Sand Lane.", "minutes.", "crowns.", "morning.", "beach.**", "bead first.", "Long Strand.", "on foot.",
        "both beaches.", "mulberry trees.", "come early.", "Sundays.", "the end.", "is bad."],
    "qa-061": ["on gravel."], "qa-063": ["injury.", "Vienna."], "qa-066": ["hours:", "noon", "six", "appointment"],
    "qa-067": ["30 June."], "qa-068": ["one ladder."],
}  # fmt: skip

MARKED_ANSWERS = [  # ¶ stands where one sentence ends and the next begins
    "Dr. Imke Sand and Prof. O. Bell met Mr. Tarn in St. Orla at 7 p.m. on 3 Oct. 1921. ¶They talked until midnight.",
    "The firm, Nole & Co. Ltd., moved to the U.K. in May. ¶Its founder, J. R. Nole, stayed in Bonn.",
    "Use a light oil, e.g. linseed oil, i.e. one that dries. ¶Wipe it off after approx. 20 min. with a cloth.",
    "Bring a letter (max. 2 pages). ¶The price (incl. VAT) is 8 crowns. ¶Dial ext. 12.",
    "See fig. 3 and pp. 12-14 of vol. 2. ¶The figure shows the kiln vs. the oven.",
    "The match ended 3.5 to 2.5. ¶About 1.2 million people watched it, cf. the report of Jan. 4.",
    "“Nobody asked us,” said the warden. ¶“We read it in the paper.” ¶She left at noon.",
    '"The tide was early," he said, "and the ropes were short." ¶Nobody was hurt.',
    'She asked, "Who has the key?" ¶The guard pointed at the wall.',
    "The plan (see the map) was dropped. ¶(It had cost too much.) ¶A smaller one followed.",
    "Is the bridge safe? ¶Yes! ¶It was tested twice, in 1988 and in 2004.",
    "The lock has three parts: a bolt, a spring and a pin. ¶Each can be replaced.",
    "There are two kinds; the first is rare. ¶The second grows everywhere… ¶Both are edible.",
    "**Answer:** the gate opens at six. ¶It closes at *ten*.",
    "### Before you start\n\n¶Switch off the pump. ¶Then:\n\n- ¶close the **valve**\n- ¶open the drain\n- ¶wait",
    "1. ¶Peel the roots. ¶Keep the skins.\n2. ¶Boil them for approx. 30 minutes.\n3. ¶Serve with salt.",
    "| Tool | Price |\n|---|---|\n¶| Saw | 12.50 |\n¶| Axe | 30.00 |\n\n¶Prices are in crowns.",
    "According to [1], the dam broke in 1902 [2]. ¶It was rebuilt within a year [3][4]. ¶No one knows why.",
    "The reading room, which Ms. Vey gave to the town, has 40 seats. ¶No. 12 is hers.",
]


def sentences_of(parsed):
    """Half-open word ranges."""
    return set(pairwise((*parsed.sentence_starts, len(parsed.words))))


def marked_sentences(parsed, ends):
    """Half-open word ranges of the sentences that end at these places of the answer, and at its end."""
    starts = {next((place for place, word in enumerate(parsed.words) if word.char_start >= end), 0) for end in ends}
    return set(pairwise((*sorted({0} | starts), len(parsed.words)))) if parsed.words else set()


def ends_in(text, snippets):
    ends = [0]
    for snippet in snippets:
        ends.append(text.index(snippet, ends[-1]) + len(snippet))
    return ends[1:]


def f_score(pairs):
    """Of pairs of found and marked sentences, in percent."""
    right = sum(len(found & marked) for found, marked in pairs)
    return 200 * right / sum(len(found) + len(marked) for found, marked in pairs)


def test_sentences_of_the_example_answers():
    rows = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    answers = {row["record_id"]: row["answer"] for row in rows if row.get("answer")}
    parses = dict(zip(answers, bundled_parser().parse_many(list(answers.values())), strict=True))
    pairs = [
        (sentences_of(parses[key]), marked_sentences(parses[key], ends_in(text, EXAMPLE_ENDS.get(key, []))))
        for key, text in answers.items()
    ]
    wrong = [key for key, (found, marked) in zip(answers, pairs, strict=True) if found != marked]
    assert sum(len(marked) for _, marked in pairs) > 130
    assert f_score(pairs) >= LEAST_F, wrong


def test_a_sentence_ends_behind_a_unit_and_its_last_letter_is_a_word():
    parsed = bundled_parser().parse("Gusts reach 70 km/h. Snow falls. It costs £2.3m. It is in zone B.")
    assert len(parsed.sentence_starts) == 4
    assert all(word.char_end - word.char_start == 1 for word in parsed.words[-2:])


def test_sentences_with_abbreviations_quotes_list_items_and_markdown():
    pairs = []
    for marked in MARKED_ANSWERS:
        first, *others = marked.split("¶")
        ends = [len(first)]
        for other in others[:-1]:
            ends.append(ends[-1] + len(other))
        parsed = bundled_parser().parse("".join((first, *others)))
        pairs.append((sentences_of(parsed), marked_sentences(parsed, ends)))
    wrong = [text for text, (found, gold) in zip(MARKED_ANSWERS, pairs, strict=True) if found != gold]
    assert f_score(pairs) >= LEAST_F, wrong


PAPER = "The company earned one million dollars and two million dollars in 2012 and 2013, respectively."


FACTS = [
    *((PAPER, word, "The company earned one million dollars in 2012 respectively") for word in ("one", "2012")),
    *((PAPER, word, "The company earned and two million dollars and 2013 respectively") for word in ("two", "2013")),
    ("Ada sells apples, pears and plums.", "pears", "Ada sells pears"),
    ("She wrote novels and raised sheep.", "novels", "She wrote novels"),
    ("She wrote novels and raised sheep.", "sheep", "and raised sheep"),
    ("Anna and Ben founded the school in 1921.", "Anna", "Anna founded the school in 1921"),
    ("The bridge was built in 1932 and closed in 1988.", "1932", "The bridge was built in 1932"),
    ("The farm grows wheat, barley and oats in the valley.", "barley", "The farm grows barley in the valley"),
    ("The committee met in Bonn, Kiel or Jena.", "Kiel", "The committee met Kiel"),
    ("The flag is red, white and blue.", "flag", "The flag is red"),
    ("The heart is a muscle that pumps blood.", "heart", "The heart is a muscle that pumps blood"),
    ("The heart is a muscle that pumps blood.", "blood", "that pumps blood"),
    ("The lake is deep and the river is shallow.", "deep", "The lake is deep"),
    ("The lake is deep and the river is shallow.", "river", "and the river is shallow"),
    ("The soup contains beans, but it is not salty.", "salty", "but it is not salty"),
]


@pytest.mark.parametrize(("text", "word", "fact"), FACTS)
def test_fact_of_a_word_leaves_conjuncts_of_others_out(text, word, fact):
    parsed = bundled_parser().parse(text)
    assert forms(text, parsed, AtomicFacts(parsed).words_of(word_index(text, parsed, word))) == fact


def facts(answer):
    return [chars.of(answer) for chars in fact_ranges(bundled_parser().parse(answer), answer)]


@pytest.mark.parametrize("answer", [
    "Ensure that the lid is closed", "Locate and select the program",
    "Benchmark Eatery is a restaurant located in Santa Barbara", "This suggests that the tower was built by monks",
    "The step that frees the gas is called venting", "The fee grows with the number of orders they complete",
    "If the lid is open, close it by hand", "Stir the soup until the water boils",
    "To read the data after it is sorted, stored, and packed, send a query",
    "The guide noted the price, which was high", "Press the button, then wait",
])  # fmt: skip
def test_what_cannot_stand_alone_belongs_to_the_fact_around_it(answer):
    assert facts(f"{answer}.") == [answer]


@pytest.mark.parametrize(("answer", "expected"), [
    ("You may leave, provided you have paid.", ["You may leave", "provided you have paid"]),
    ("The guide praised the food and noted that the service was slow.", ["The guide praised the food",
        "noted that the service was slow"]),
    ("One guest left one star, stating that the soup was cold and the waiter was rude.", ["One guest left one star",
        "stating that the soup was cold", "the waiter was rude"]),
    ("Although the hall has a car park, street parking is free.", ["the hall has a car park",
        "street parking is free"]),
    ("1. Size: Herons are larger than terns.", ["Size: Herons are larger than terns"]),
    ("* **Body size**: Herons are larger than terns.", ["Body size", "Herons are larger than terns"]),
    ("Step 3: Combine beer and onions.", ["Step 3", "Combine beer and onions"]),
])  # fmt: skip
def test_what_states_something_of_its_own_is_a_fact(answer, expected):
    assert facts(answer) == expected


@pytest.mark.parametrize(("answer", "mention"), [
    ("It will be held at the lake on October 9–11.", "October 9–11"),
    ("It will be held at the lake on October 9.", "October 9"),
])  # fmt: skip
def test_days_of_one_month_are_one_mention(answer, mention):
    spans = choose_target_spans(bundled_parser().parse(answer), answer, kinds=(SpanKind.MENTIONS,), given=None)
    assert spans[-1].chars.of(answer) == mention
    assert sum("9" in span.chars.of(answer) for span in spans) == 1
