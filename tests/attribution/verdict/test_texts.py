"""What an answer was asked for, as its row shows."""

import json
from dataclasses import replace

import pytest
from tests.attribution.verdict.judged_rows import LANTERN, RECORD, parse, record

from attribeam.attribution.verdict.claims import word_kinds
from attribeam.attribution.verdict.fitted_parts import word_table
from attribeam.attribution.verdict.signals import AnswerRow, answer_signals
from attribeam.attribution.verdict.texts import (
    WORD_OR_MARK,
    AnswerWords,
    PassageSentences,
    RowKind,
    Truth,
    as_seen,
    lowered_words,
    read_sentences,
    record_lines,
    row_kind,
    set_same_limit,
    stem,
    words_and_marks,
)
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_matches import (
    ABSENT,
    AGREES,
    CONFLICTS,
    UNTOLD,
    PassageWords,
    field_agreement,
    open_days,
    time_agreement,
)
from attribeam.schemas import ClaimKind, Passage, Support

QUESTION = "Who trimmed the lamp?"


@pytest.mark.parametrize(("text", "sentences"), [
    ("Dr. Ines Ray treats children. Mr. Dunn waits.", ["Dr. Ines Ray treats children.", "Mr. Dunn waits."]),
    ("The host, J. P. Ferrante, sings. It rains.", ["The host, J. P. Ferrante, sings.", "It rains."]),
    ("The U.S. Army came. It left the U.S. The end.", ["The U.S. Army came.", "It left the U.S.", "The end."]),
    ("He left at 5 p.m. She stayed.", ["He left at 5 p.m.", "She stayed."]),
    ("It has vitamin C. It helps.", ["It has vitamin C.", "It helps."]),
    ("See No. 3 of Jan. 9. Then go.", ["See No. 3 of Jan. 9.", "Then go."]),
    ("Open from 9 a.m. to 5 p.m. and on call. Go.", ["Open from 9 a.m. to 5 p.m. and on call.", "Go."]),
    ("Moss Ltd. was fined. So was Reed Ltd. Both paid.", ["Moss Ltd. was fined.", "So was Reed Ltd.", "Both paid."]),
    ("See e.g. London, or Harlow v. Reed. Then go.", ["See e.g. London, or Harlow v. Reed.", "Then go."]),
    ("Bags (max. 2, incl. VAT) are free. Ask tel. 112.", ["Bags (max. 2, incl. VAT) are free.", "Ask tel. 112."]),
    ("It takes 5 min. Then stir.", ["It takes 5 min.", "Then stir."]),
    (
        "It lies in hall B. Vans park in Bay C. So do we.",
        ["It lies in hall B.", "Vans park in Bay C.", "So do we."],
    ),
    ("It was fine. it rained.", ["It was fine.", "it rained."]),
    ("So did Ray. J. Smith left.", ["So did Ray.", "J. Smith left."]),
])  # fmt: skip
def test_no_sentence_ends_at_initials_and_titles(text, sentences):
    assert [one.text for one in read_sentences(text)] == sentences
    passages = PassageWords([[Passage(text)]], word_table(BUNDLED_VERDICT))
    assert len(set(passages.sentences.tolist())) == len(sentences)


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("From bay No. 5", "from bay no. . 5"),
        ("From bay No 5", "from bay no. 5"),
        ("No. 12 is free", "no. . 12 is free"),
        ("No 2 are alike", "no 2 are alike"),
        ("With no 2 alike", "with no 2 alike"),
        ("No. It has 5", "no . it has 5"),
        ("Is it free? No", "is it free ? no"),
    ],
)
def test_no_before_a_number_is_no_denial(text, lowered):
    assert " ".join(lowered_words(words_and_marks(text))) == lowered


def supports(attributor, passage, answer):
    """Those of the claims."""
    passages = passage if isinstance(passage, list) else [passage]
    spans = attributor.attribute(question="What is known?", passages=passages, answer=answer)
    return {span.support for span in spans if span.is_claim}


BESIDE = " The mill lies near the river. Dogs are welcome in the yard."


@pytest.mark.parametrize("sentence", [
    "The pool opens at 7:00 and closes at 21:00.", "The bus leaves at 8 a.m. and returns at 4 p.m. on weekdays.",
    "The COVID-19 test is free.", "The U.S. branch handles refunds.", "Dr. Moss leads the ward.",
    "Boats leave from pier No. 5.",
    "Alarm K-207 means low oil.", "The R&D group has 14 members.", "The e-mail was sent on Tuesday.",
    "Set LOG_LEVEL to 4.", "Visit www.lantern.example for the map.", "Help is at hand 24/7 for all members.",
    "The re-election was held in 2018.", "Press Ctrl+D to end the session.", "Run `apt update` in the folder.",
    "Use C++ for the driver.",
])  # fmt: skip
def test_copied_sentences_are_supported_whatever_marks_their_words_have(attributor, sentence):
    assert supports(attributor, sentence + BESIDE, sentence) == {Support.SUPPORTED}


@pytest.mark.parametrize(("passage", "answer"), [
    ("Alarm K-207 means low oil.", "Alarm K-208 means low oil."),
    ("The pool opens at 7:00.", "The pool opens at 8:00."),
    ("The COVID-19 test is free.", "The COVID-22 test is free."),
])  # fmt: skip
def test_words_with_marks_that_differ_in_one_part_differ(attributor, passage, answer):
    assert supports(attributor, passage + BESIDE, answer) == {Support.UNSUPPORTED}


@pytest.mark.parametrize(("answer", "passage", "words"), [
    ("COVID-19 is mild.", "The covid 19 case", ["The", "COVID-19", "case"]),
    ("The co-founder left.", "Its cofounder and co-founder.", ["Its", "co-founder", "and", "co-founder", "."]),
    ("COVID-19 and other COVID tests.", "COVID-19 tests", ["COVID-19", "tests", "covid"]),
    ("The U.S. Army came.", "the U.S. Army", ["the", "U.S.", "Army"]),
    ("He left at 5 p.m. today.", "at 4 p.m. The end", ["at", "4", "p.m.", ".", "The", "end"]),
    ("The U.S. Army came.", "US, tell us", ["U.S.", ",", "tell", "us"]),
    ("Take vitamin A. It helps.", "a vitamin A pill", ["a", "vitamin", "A.", "pill"]),
    ("It is free.", "The COVID-19 test", ["The", "COVID", "-", "19", "test"]),
])  # fmt: skip
def test_passages_are_read_with_the_whole_words_of_the_answer(answer, passage, words):
    assert words_and_marks(passage, words_of(answer).wholes) == words


@pytest.mark.parametrize(
    ("word", "other"),
    [("e-mail", "email"), ("9:00", "9"), ("24/7", "24/7"), ("p.m.", "pm"), ("-18", "18")],
)
def test_stems_have_no_diacritics_and_no_marks_but_between_digits(word, other):
    assert stem(word) == stem(other)
    assert stem("24/7") != stem("247")
    assert stem("U.S.") == stem("u.s") != stem("us")
    assert stem("Núria’s") == stem("nuria") == "nuria"


@pytest.mark.parametrize(("text", "answer", "seen"), [
    ("Siobhan O&#39;Brien", "", "Siobhan O'Brien"), ("the caf&eacute;s &amp; bars", "", "the cafés & bars"),
    ("the &amp;quot;Moor&amp;quot;", "", 'the "Moor"'), ("1&nbsp;250 euros", "", "1\u00a0250 euros"),
    ("a caf\\u00e9 \\ud83d\\ude00", "", "a café 😀"), ("a \\ud83d &nothing; R&D", "", "a \\ud83d &nothing; R&D"),
    ("&" + "amp;" * 200_000, "", "&" + "amp;" * 200_000), ("in Gothen-\nburg", "", "in Gothenburg"),
    ("in Gothen\u00ad\r\n  burg", "", "in Gothenburg"), ("INTRO-\nDUCTION", "", "INTRODUCTION"),
    ("a well-\nknown mill", "It is a well-known mill.", "a well-known mill"),
    ("a long-\nterm loan", "The loan is long term.", "a long-term loan"),
    ("by Jean-\nLuc, COVID-\n19", "", "by Jean-Luc, COVID-19"),
    ("the Stock- holm pier", "A pier in Stockholm.", "the Stockholm pier"),
    ("pre- and postwar", "It is postwar.", "pre- and postwar"),
    ('{"a": "caf\\u00e9 \\u0022x\\u0022 &quot;"}', "", '{"a": "café \\u0022x\\u0022 &quot;"}'),
    *((one, "It opens at nine.", one) for one in ("It opens at nine.", "R&D - the mill - a\\b", "- one\n- two-part\n")),
])  # fmt: skip
def test_passages_are_read_as_their_reader_sees_them_in_the_same_places(text, answer, seen):
    read = as_seen(text, answer)
    assert len(read) == len(text)
    assert read.replace("\u2060", "").replace("\u00ad", "") == seen


def test_evidence_stays_as_the_passage_has_it_and_what_is_expected_has_no_invisible_characters(attributor):
    passage = "The caf&eacute; in Gothen-\nburg opens at ten and is run by Mona O&#39;Brien."
    answer = "The café in Gothenburg opens at ten."
    right = attributor.attribute(question="", passages=[passage], answer=answer)[0]
    assert right.support is Support.SUPPORTED
    assert all(piece.text == piece.chars.of(passage) for piece in right.evidence)
    answer = "The café in Gothenburg is run by Carl Lind."
    wrong = attributor.attribute(question="", passages=[passage], answer=answer)[0]
    assert wrong.support is Support.UNSUPPORTED
    assert wrong.expected == "Mona O'Brien"


@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\0", "\x08", "\u200d", "\u2060", "\ufeff", "\ufe0f"])
def test_marks_that_no_reader_sees_are_no_part_of_words(mark):
    words = WORD_OR_MARK.findall(f"{mark}The ke{mark}tt{mark}le's{mark} lid{mark}.")
    assert [stem(word) for word in words] == ["the", "kettle", "lid", "."]


def kind_of(question, *passages):
    return row_kind(question, [line for text in passages for line in record_lines(text)])


HEADED = f"Title: Lighthouse\nDate: 1902\n{LANTERN} {LANTERN} {LANTERN}"
BUSINESS = {"name": "The Copper Kettle", "city": "Marl", "WiFi": "no", "stars": 4, "hours": {"Monday": "9:0-17:0"}}
REVIEW = "\n".join(["They make good tea and wait for you without a clock on the wall"] * 3)
NAMED = json.dumps({"name": "The Copper Kettle", "WiFi": False})
ASKED = ("", QUESTION, "Write a summary of this business.")
KINDS = {
    RowKind.SUMMARY: [*((one, LANTERN) for one in ("", "  \n", "Summarize the article in 100 words.",
        "please summarise this for me", "Can you sum it up?", "TL;DR", "A short summary of the text",
        f"{QUESTION} Please write a summary.", "Give me a one-paragraph summary of what the keeper did")),
        ("", f"Note: {LANTERN}", f"Weather: {LANTERN}"), ("", "height: 12 m", LANTERN, LANTERN), ("", HEADED, HEADED)],
    RowKind.QUESTION: [*((one, LANTERN) for one in (QUESTION, "lamp keeper lighthouse",
        "What does the summary of the ledger say?", "How do I write an abstract?", "What does TL;DR mean?",
        "Why does fog condense on the lens?", "In 1902 the lamp was lit. Where can I get a summary of its costs?")),
        (QUESTION, f"Note: {LANTERN}"), (QUESTION, HEADED)],
    RowKind.RECORD: [*((one, RECORD) for one in ASKED), *((one, NAMED, "Tea was fine.") for one in ASKED),
        ("", "height: 12 m", "lamp: oil", "It stands at the end of the pier."),
        ("", json.dumps({**BUSINESS, "reviews": [{"text": REVIEW}]}))],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "row"), [(kind, row) for kind, rows in KINDS.items() for row in rows])
def test_kind_of_a_row_is_told_by_its_question_and_by_the_fields_of_its_passages(kind, row):
    assert kind_of(*row) is kind


def kind_of_signals(row):
    parsed = parse(row.answer)
    (found,) = answer_signals([AnswerRow.of(row, parsed, word_kinds(parsed, row))], word_table(BUNDLED_VERDICT))
    return found.kind


def test_signals_tell_the_kind_of_their_row_and_titles_do_not_count():
    answer = "The keeper trimmed the lamp."
    assert kind_of_signals(record(answer, RECORD, question=QUESTION)) is RowKind.RECORD
    assert kind_of_signals(record(answer, LANTERN)) is RowKind.SUMMARY
    titled = (Passage(text=LANTERN, title="Museum: ground floor"),)
    assert kind_of_signals(replace(record(answer, question=QUESTION), passages=titled)) is RowKind.QUESTION


def test_json_is_read_as_lines_of_paths():
    text = '{"name": "Kettle", "attributes": {"WiFi": true, "Music": null}, "tags": ["tea", "cake"]}'
    lines = [(line.key, line.value, line.truth) for line in record_lines(text)]
    assert lines == [
        ("name", "Kettle", Truth.OTHER),
        ("attributes WiFi", "true", Truth.YES),
        ("attributes Music", "null", Truth.ABSENT),
        ("tags", "tea", Truth.OTHER),
        ("tags", "cake", Truth.OTHER),
    ]


def test_open_days_are_those_with_hours():
    closed = "hours Sunday: 0:0-0:0"
    assert open_days([*record_lines(RECORD), *record_lines(closed)]) == {0, 1}
    assert open_days([*record_lines("We open on Monday: come early")]) == frozenset()


def test_a_deep_record_keeps_the_last_names_of_a_path_and_one_too_deep_for_json_stays_text():
    (read,) = record_lines('{"a": ' * 900 + '{"b": {"WiFi": false}}' + "}" * 900)
    assert (read.key, read.truth) == ("a b WiFi", Truth.NO)
    too_deep = '{"a":' * 200_000
    (text,) = record_lines(too_deep)
    assert text.text == too_deep


SOURCES = (Passage(text=RECORD),)
LINES = [*record_lines(RECORD)]


def words_of(answer):
    parsed = parse(answer)
    return AnswerWords(parsed, answer, [ClaimKind.CLAIM] * len(parsed.words))


def verdicts(answer):
    words = words_of(answer)
    found = field_agreement(words, LINES)
    return {text: one for text, one in zip(words.lowered, found, strict=True) if one != UNTOLD}


def times(answer):
    words = words_of(answer)
    found = time_agreement(words, LINES, SOURCES)
    return {text: one for text, one in zip(words.lowered, found, strict=True) if one != UNTOLD}


@pytest.mark.parametrize(("answer", "expected"), [
    ("The cafe has outdoor seating.", {"outdoor": AGREES, "seating": AGREES}),
    ("The cafe has no outdoor seating.", {"outdoor": CONFLICTS, "seating": CONFLICTS}),
    ("The cafe offers takeout.", {"takeout": CONFLICTS}),
    ("The cafe does not offer takeout, but it has outdoor seating.",
        {"takeout": AGREES, "outdoor": AGREES, "seating": AGREES}),
    ("There is live music.", {"music": ABSENT}), ("Guests can park in the garage.", {"garage": CONFLICTS}),
    ("The tea is good.", {}),
])  # fmt: skip
def test_what_is_offered_is_compared_with_its_field(answer, expected):
    assert verdicts(answer) == expected


@pytest.mark.parametrize(("answer", "expected"), [
    ("It is open from Monday to Tuesday.", AGREES), ("It is open from Monday to Sunday.", CONFLICTS),
    ("It is open on Wednesday.", CONFLICTS), ("It is closed on Wednesday.", AGREES),
    ("It is open seven days a week.", CONFLICTS), ("It closes at 5 pm.", AGREES), ("It closes at 7:30 pm.", CONFLICTS),
])  # fmt: skip
def test_days_and_times_are_compared_with_opening_hours(answer, expected):
    assert set(times(answer).values()) == {expected}


class Unlisted(tuple):
    def __iter__(self):
        raise AssertionError("all words of the answer were gone through")


def test_words_of_a_time_are_found_without_going_through_the_answer():
    words = words_of("It closes at 5 pm. " * 3)
    words.parsed = replace(words.parsed, words=Unlisted(words.parsed.words))
    assert time_agreement(words, LINES, SOURCES).count(AGREES) == 6


PLANS = "Our plans:\n\n| Plan | Price |\n|---|---|\n| Basic | $10 |\n| Pro | $25 |\n\nAll of them can be cancelled."


def test_a_row_of_a_table_is_read_with_the_heads_of_its_columns_and_stands_alone():
    sentences = PassageSentences([Passage(text=PLANS, title="Prices")])
    rows = {index: one for index, one in enumerate(sentences.all) if one.is_row}
    assert [one.text for one in rows.values()] == ["Plan: Basic, Price: $10.", "Plan: Pro, Price: $25."]
    assert [PLANS[one.start : one.end] for one in rows.values()] == ["| Basic | $10 |", "| Pro | $25 |"]
    assert [sentences.window(index) for index in rows] == [[0, index] for index in rows]


@pytest.mark.parametrize("text", [
    "The pier | the bridge | the mill | the inn", "| Basic | $10 |\n| Pro | $25 |",
    "| Plan | Price |\n|---|---|\n| Basic |\n", "a\tb\tc", "| Plan |\n|---|\n| Basic |",
])  # fmt: skip
def test_lines_without_heads_for_all_cells_are_read_as_they_are(text):
    assert not any(one.is_row for one in read_sentences(text))
    assert [one.text for one in read_sentences(text)] == [line for line in text.split("\n") if line]


def test_a_sentence_of_invisible_characters_is_read_and_says_nothing(attributor):
    assert [one.words for one in read_sentences("It is red.\n\u200b")][-1] == ("\u200b",)
    passages = ["\ufeff", "It is red.\n\u200b\nIt shines."]
    assert supports(attributor, passages, "It is red.") == {Support.SUPPORTED}


PLANS_IN_JSON = '{"Plan": "Basic", "Price": "$10"}, {"Plan": "Pro", "Price": "$25"}'
PLANS_IN_HTML = """<tr><th>Plan</th><th>Price</th></tr>
<tr><td>Basic</td><td>$10</td></tr><tr>\n<td>Pro</td>\n<td><b>$25</b></td></tr>"""
INFOBOX = "<table><tr><th>Height</th><td>90 m</td></tr><tr><th>Age</th><td>80</td></tr></table>"


@pytest.mark.parametrize(
    "text",
    [
        f"Our plans: <table>{PLANS_IN_HTML}</table> All of them can be cancelled.",
        f"{INFOBOX}<TABLE class='wide'>{PLANS_IN_HTML}",
        f"Our plans:\n[{PLANS_IN_JSON}]",
        f"[{PLANS_IN_JSON}]",
        PLANS_IN_JSON.replace("}, ", "}\n"),
        "Our plans:\n```json\n" + PLANS_IN_JSON.replace(" ", "\n ") + "\n```",
    ],
)
def test_rows_of_html_and_objects_in_a_list_of_json_are_read_with_their_names(text):
    rows = [one for one in read_sentences(text) if one.is_row]
    assert [one.text for one in rows] == ["Plan: Basic, Price: $10.", "Plan: Pro, Price: $25."]
    assert [line.key for line in record_lines(text) if "Basic" in line.text] == ["Plan" if text[0] == "[" else None]
    assert all("Basic" in text[one.start : one.end] for one in rows[:1] if one.start >= 0)


@pytest.mark.parametrize(
    "text",
    [
        PLANS_IN_JSON.split(", {")[0],
        json.dumps([{"stars": 4, "review": "It was good. " * 9}, {"stars": 5, "review": "Fine."}]),
        json.dumps([{"name": "Pier", "hours": {"Monday": "9-5"}}, {"name": "Mill", "hours": None}]),
        'Found: {"hours": {"Monday": "9-5", "Tuesday": "9-5"}}',
        INFOBOX,
    ],
)
def test_one_object_and_long_or_nested_ones_are_no_table(text):
    assert not any(one.is_row for one in read_sentences(text))


def test_json_rows_in_an_object_begin_with_their_names():
    text = f'{{"shop": "Kettle", "plans": [{PLANS_IN_JSON}]}}'
    assert [one.text for one in read_sentences(text)][:2] == ["shop: Kettle", "plans: Plan: Basic, Price: $10."]


def test_blocks_of_html_end_sentences_and_tags_are_not_read():
    text = "<p>It <b>opens.</b> Tea is <i>2</i> euros</p><p class='a'>No dogs.</p><ul><li>Cake</li></ul> List<int> a<b"
    read = read_sentences(text)
    assert [one.text for one in read] == ["It opens.", "Tea is 2 euros", "No dogs.", "Cake", "List<int> a<b"]
    assert [one.line for one in read] == [0, 0, 1, 2, 3]
    assert text[read[1].start : read[1].end] == "Tea is <i>2</i> euros"
    assert [line.text for line in record_lines(text)][1:] == ["No dogs.", "Cake", " List<int> a<b"]


@pytest.mark.parametrize("text", [
    "Name: Anna\n\u200b\nCity: Oslo", '{"a": "It is lit.\\n\\u200b\\nTea."}', '["\\u2060", "Tea."]',
])  # fmt: skip
def test_lines_without_anything_to_see_are_read(text):
    assert PassageWords([[Passage(text)]], word_table(BUNDLED_VERDICT)).words.size
    assert read_sentences(text)[-1].text.endswith(("Tea.", "Oslo"))


@pytest.mark.parametrize(("text", "other", "same"), [
    ("up to 55 cm", "must not exceed 55 cm", True), ("only refunded if ill", "not refunded unless ill", True),
    ("only safe before meals", "not safe before meals", False), ("only open until 10", "not open until 10", False),
    ("free with card ; drinks cost 5", "not free with cost card", False),
    ("fined over 80 ; maximum 500", "not fined over 80", False),
])  # fmt: skip
def test_a_limit_is_set_with_a_negation_or_without(text, other, same):
    assert set_same_limit(text.split(), other.split()) is same
    assert set_same_limit(other.split(), text.split()) is same
