"""Markup, tables and JSON within answers, read without a parser."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers import markup
from attribeam.attribution.answers.citation_marks import citation_marks
from attribeam.attribution.answers.markup import block_ranges, non_answer_ranges, structured_text, without_gaps
from attribeam.attribution.answers.markup import hide_markup as hide_marked
from attribeam.schemas import ClaimKind


def hide_markup(answer):
    return markup.hide_markup(answer, tuple(mark.chars for mark in citation_marks(answer)))


def texts(answer):
    return [block.of(answer).strip() for block in block_ranges(answer)]


@pytest.mark.parametrize(("answer", "words"), [
    ("## Facts\n- **Bern** is `old` [1][2, 3].\n> See [the map](http://a.b/c).", "Facts Bern is old . See the map ."),
    ('<p class="x">Fish &amp; <b>chips</b><br/>3&ndash;4 < 5 and 7 > 6 <https://a.b></p><!-- no -->',
        "Fish chips 3 4 < 5 and 7 > 6"),
], ids=["Markdown and citations", "HTML"])  # fmt: skip
def test_markup_is_blanked_in_place(answer, words):
    masked = hide_markup(answer)
    assert len(masked) == len(answer)
    assert masked.split() == words.split()
    assert all(masked.index(word) == answer.index(word) for word in ("Bern", "chips") if word in words)


@pytest.mark.parametrize(("answer", "joined"), [
    ("It takes **30** days, of **33**%.", "It takes 30 days, of 33%."), ("New  **York** is", "New York is"),
    ("- a `b`c\n  d", "  a bc\n  d"), ("| 12 | 500 |", "  12   500  "), ("in **12** **500** x", "in 12     500 x"),
])  # fmt: skip
def test_emphasis_and_blanks_in_a_row_leave_no_gap_but_between_digits_and_cells(answer, joined):
    shown, text, places = without_gaps(answer, hide_markup(answer))
    assert text == joined
    assert shown == "".join(answer[place] for place in places)
    assert all(new in (old, " ") for new, old in zip(text, shown, strict=True))


@pytest.mark.parametrize(("answer", "blocks"), [
    (r"It is \"blue\".\nIt weighs 3 kg:\n\n- light\r\n- **new**",
        ['It is "blue ".', "It weighs 3 kg:", "light", "new"]),
    (r"See C:\new\nets and (a)\neq b, or print \n.", [r"See C:\new\nets and (a)\neq b, or print \n."]),
    ("Use `a.\\nb`.", ["Use a.\\nb ."]),
])  # fmt: skip
def test_breaks_that_were_escaped_once_too_often_end_blocks(answer, blocks):
    assert [" ".join(one.of(hide_markup(answer)).split()) for one in block_ranges(answer)] == blocks


@pytest.mark.parametrize(("answer", "blocks"), [
    ("# Towns\nTwo of them:\n- Bern\n- Basel\n\nThat is\nall.\r\n\r\nBye",
        ["# Towns", "Two of them:", "- Bern", "- Basel", "That is\nall.", "Bye"]),
    ("a) Mix it\nb) Bake it", ["a) Mix it", "b) Bake it"]),
    ("It rained.\nIt stopped\nat noon.", ["It rained.", "It stopped\nat noon."]),
    ("Both:\n✅ Mix it\n✔️ Bake it\n◆ Eat it", ["Both:", "✅ Mix it", "✔️ Bake it", "◆ Eat it"]),
    ("① Mix it\n② Bake it\n(3) Eat it", ["① Mix it", "② Bake it", "(3) Eat it"]),
    ("<p>One</p><p>Two", ["<p>", "One</p>", "<p>", "Two"]),
    ("Monday: eight\n\tFriday: nine", ["Monday: eight", "Friday: nine"]),
    ("No. Ships sank. See No. 5.", ["No.", "Ships sank. See No. 5."]),
])  # fmt: skip
def test_paragraphs_items_headings_and_lines_with_a_key_are_blocks(answer, blocks):
    assert texts(answer) == blocks


@given(st.text(alphabet="ab1.*-#[]`>\n\r \t|()🎉", max_size=40))
def test_masking_keeps_places_and_blocks_cover_all_text(answer):
    masked = hide_markup(answer)
    assert len(masked) == len(answer)
    assert all(new in (old, " ") for new, old in zip(masked, answer, strict=True))
    covered = "".join(block.of(answer) for block in block_ranges(answer))
    assert "".join(covered.split()) == "".join(answer.split())


@pytest.mark.parametrize(("answer", "words"), [
    ("1. Mix it", "Mix it"), ("So:\n\n2. Mix it", "So: Mix it"), ("2. **Mix** it", "Mix it"),
    ("**2. Mix** it", "Mix it"), ("1. Mix it. 2. Bake it.", "Mix it. Bake it."),
    ("It was so. 2. Bake it.", "It was so. 2. Bake it."), ("- [x] Paint", "Paint"),
    ("It was May\n12. Then", "It was May 12. Then"),
])  # fmt: skip
def test_lone_list_number_is_a_mark_only_where_an_item_begins(answer, words):
    assert hide_markup(answer).split() == words.split()


@pytest.mark.parametrize(
    "mark", ["({})", "{})", "{}.)", "{}:", "{}/", "{}]", "{} -", "#{}", "#{}.", "{}\ufe0f\u20e3", "{}\u20e3"],
)  # fmt: skip
def test_numbers_of_items_that_count_from_one_are_marks(mark):
    first, second, third = map(mark.format, (1, 2, 3))
    assert hide_markup(f"{first} Mix it\n{second} **Bake** it\n\n{first} Eat it\n{second} Rest").split() == [
        "Mix", "it", "Bake", "it", "Eat", "it", "Rest",
    ]  # fmt: skip
    counted = hide_markup(f"So it was\n{second} Mix it\n{third} Bake it")
    assert ("2" in counted and "3" in counted) or mark == "{})"


@pytest.mark.parametrize(("answer", "masked"), [
    ("Use `a*b | <p> [1]` or ``__init__`` and `~/.x/*`.", "Use  a*b | <p> [1]  or   __init__   and  ~/.x/* ."),
    ("\ufeffMix\u00ad it. \u2060Ba\u00adke it\u200b\u200b", " Mix  it.  Ba\u00adke it  "),
    ("\x1b[1mMix\x1b[0m it.\0 Ba\0ke it", "    Mix     it.  Ba\0ke it"),
])  # fmt: skip
def test_nothing_in_inline_code_is_a_mark_and_what_no_reader_sees_is_a_blank_around_words(answer, masked):
    assert hide_markup(answer) == masked


@pytest.mark.parametrize(
    "answer", ["Both (1) mix it and (2) bake it", "Both: ① mix it ② bake it", "❶ Mix it ❷ Bake it"]
)
def test_numbers_of_items_within_a_line_are_marks(answer):
    assert not any(map(str.isnumeric, hide_markup(answer)))


def test_table_rows_and_lines_of_fenced_code_are_blocks():
    answer = "| a | b |\r\n|:--|--:|\r\n| c | d |\nEnd\n```sh\nrun x\nrun y\n```"
    assert [masked for masked in (" ".join(hide_markup(one).split()) for one in texts(answer)) if masked] == [
        "a b", "c d", "End", "run x", "run y",
    ]  # fmt: skip


@given(st.text(alphabet="<>!-a /\n", max_size=40))
def test_tags_and_comments_are_blanked_as_by_one_expression(text):
    both = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]*(?:\s[^<>]*)?/?>|<!--.*?-->", re.DOTALL)
    blanked = both.sub(lambda match: re.sub(r"\S", " ", match.group()), text)
    assert markup._hide_html(text) == blanked


def values(answer):
    found = structured_text(answer)
    return [one.of(answer) for one, kind in zip(found.parts, found.kinds, strict=True) if kind is ClaimKind.CLAIM]


def test_names_of_fields_are_labels_and_what_tells_of_the_answer_is_no_text():
    answer = '{"weight_kg": 3, "confidence": 0.9, "parts": ["lid", "spout"], "sealed": true, "page": 7}'
    assert values(answer) == ["3", "lid", "spout"]
    assert hide_marked(answer, ()).split() == ["weight", "kg", "3", "parts", "lid", "spout", "sealed", "true"]


@pytest.mark.parametrize(
    "note", ["(confidence: 0.92)", "[Confidence level: high]", "\n**Confidence:** 92%", "<confidence>0.9</confidence>"]
)
def test_how_sure_an_answer_is_of_itself_is_no_text(note):
    assert hide_markup(f"The lid is red. {note}").split() == ["The", "lid", "is", "red."]


def test_empty_values_are_no_parts():
    assert values('{"colour": "", "": "red", "parts": ["", "lid"]}') == ["red", "lid"]
    assert values('["') == []


@pytest.mark.parametrize(("answer", "labels"), [
    ("| Kettle | Holds |\n|---|---|\n| Brisk | 1.7 l |\n| Calm | 1.2 l |",
        [("1.7 l", "Brisk", "Holds"), ("1.2 l", "Calm", "Holds")]),
    ("> | Kettle | Holds |\n> |---|---|\n> | Brisk | 1.7 l |", [("1.7 l", "Brisk", "Holds")]),
    ("Kettle\tHolds\nBrisk\tplenty", [("plenty", "Brisk"), ("Holds", "Kettle")]),
    ('{"holds": "1.7 l", "colours": ["red", "blue"]}', [("1.7 l", "holds"), ("red", "colours"), ("blue", "colours")]),
])  # fmt: skip
def test_cells_and_values_know_what_they_are_about(answer, labels):
    found = structured_text(answer)
    told = [
        (part.of(answer), *(one.of(answer) for one in own))
        for part, kind, own in zip(found.parts, found.kinds, found.labels, strict=True)
        if kind is ClaimKind.CLAIM
    ]
    assert sorted(told) == sorted(labels)


@pytest.mark.parametrize(("answer", "spoken"), [
    ("<think>Perhaps.</think>It is blue.", "It is blue."), ("Perhaps.</think>It is blue.", "It is blue."),
    ("<think>Perhaps it is", ""), ("It is <b>blue</b>.", "It is <b>blue</b>."),
    ("It is ~~red~~ <del>and big</del>blue, ~3 kg and ~4 m.", "It is  blue, ~3 kg and ~4 m."),
    ("Action: none\nIt is blue.", "Action: none\nIt is blue."),
    ("<|im_start|>assistant\nIt is blue.<|im_end|>", "\nIt is blue."),
    ("<|start_header_id|>assistant<|end_header_id|>It is blue.", "It is blue."),
    ("[/INST]It is blue.", "It is blue."),
    ("<start_of_turn>model\nIt is blue.<end_of_turn>", "\nIt is blue."),
    ("Thought: look\nFinal Answer: blue", "Final Answer: blue"),
    ("Thought: look\nAction: find\nFinal Answer: blue", "Final Answer: blue"),
])  # fmt: skip
def test_thoughts_and_calls_are_not_spoken(answer, spoken):
    characters = list(answer)
    for one in non_answer_ranges(answer):
        characters[one.char_start : one.char_end] = [""] * (one.char_end - one.char_start)
    assert "".join(characters) == spoken


@given(st.text(alphabet="ab1{}[]\"':,|\t\n <>-\\\\`", max_size=60))
def test_parts_are_ascending_disjoint_and_inside(answer):
    for ranges in (structured_text(answer).parts, structured_text(answer).signs):
        end = 0
        for one in ranges:
            assert end <= one.char_start < one.char_end <= len(answer)
            end = one.char_end
