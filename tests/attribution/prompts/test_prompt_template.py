"""Prompts: what they look like, and that every range holds what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.prompts.prompt_template import PAPER_TEMPLATE, PromptTemplate
from attribeam.schemas import Passage

texts = st.text(alphabet="ab{}[] \n%$é漢🦊", max_size=12)
passages = st.lists(st.builds(Passage, text=texts, title=st.none() | texts), max_size=4)


def test_plain_template_renders_titles_texts_and_question() -> None:
    prompt = PromptTemplate().render(question="Who?", passages=[Passage("Body.", "Title"), Passage("Untitled.")])
    assert prompt.text == "Title\nBody.\n\nUntitled.\n\nQuestion: Who?\nAnswer: "


def test_empty_title_is_no_title() -> None:
    template = PromptTemplate()
    without = template.render(question="Who?", passages=[Passage("Body.")])
    assert template.render(question="Who?", passages=[Passage("Body.", "")]) == without


def test_index_counts_passages_from_one_whether_titled_or_not() -> None:
    template = PromptTemplate(titled_passage="[{index}] {title}: {text}\n", passage="[{index}] {text}\n")
    prompt = template.render(question="q", passages=[Passage("a", "A"), Passage("b")])
    assert prompt.text.startswith("[1] A: a\n[2] b\n")


def test_doubled_braces_are_literal() -> None:
    template = PromptTemplate(preamble="{{raw}} ", question="{{Q}} {question} ->")
    assert template.render(question="why", passages=[]).text == "{{raw}} {Q} why ->"


@given(question=texts, passages=passages)
def test_every_range_holds_its_text_whatever_the_texts_contain(question: str, passages: list[Passage]) -> None:
    template = PromptTemplate(preamble="{", titled_passage="({text}|{title})", passage="{index}{text}")
    prompt = template.render(question=question, passages=passages)
    for region in prompt.regions:
        passage = passages[region.passage_index]
        expected = passage.title if region.in_title else passage.text
        assert prompt.text[region.char_start : region.char_end] == expected
    assert prompt.text[prompt.question_char_start : prompt.question_char_end] == question
    places = [place for region in prompt.regions for place in (region.char_start, region.char_end)]
    assert places == sorted(places)
    shown = {(region.passage_index, region.in_title) for region in prompt.regions}
    expected_shown = {(i, False) for i, one in enumerate(passages) if one.text}
    assert shown == expected_shown | {(i, True) for i, one in enumerate(passages) if one.title}


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("passage", "nothing", r"'passage' should have the fields \{text\}"),
        ("passage", "{text} {title}", r"has: \{text\}, \{title\}"),
        ("passage", "{text}{text}", "once each"),
        ("titled_passage", "{text}", r"\{title\}, \{text\}"),
        ("question", "Answer:", r"\{question\}"),
        ("question", "{question!r}", "bare"),
        ("question", "{question:>9}", "bare"),
        ("question", "{question", "double literal braces"),
        ("question", "{question} {}", r"has: \{question\}, \{\}"),
    ],
)
def test_bad_format_is_refused_with_its_name(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PromptTemplate(**{name: text})


def test_file_gives_the_template_and_leaves_defaults(tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps({"preamble": "Read:\n"}), encoding="utf-8")
    assert PromptTemplate.from_file(path) == PromptTemplate(preamble="Read:\n")


@pytest.mark.parametrize("content", ["[]", "{", '{"header": ""}', '{"passage": 3}', '{"passage": "none"}'])
def test_bad_file_is_an_error_with_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "template.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"template\.json"):
        PromptTemplate.from_file(path)


def test_missing_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"absent\.json"):
        PromptTemplate.from_file(tmp_path / "absent.json")


def test_digest_tells_templates_apart_and_lasts() -> None:
    assert PromptTemplate().digest == PromptTemplate().digest
    assert PromptTemplate().digest != PromptTemplate(preamble=" ").digest


def test_some_of_the_passages_keep_their_numbers_in_the_row() -> None:
    template = PromptTemplate(titled_passage="[{index}] {title}: {text}\n", passage="[{index}] {text}\n")
    prompt = template.render(question="q", passages=[Passage("d", "D"), Passage("e")], first_index=3)
    assert prompt.text.startswith("[4] D: d\n[5] e\n")
    assert [region.passage_index for region in prompt.regions] == [3, 3, 4]


@given(question=texts, passages=passages)
def test_template_wrote_exactly_what_is_neither_text_nor_title_nor_question(
    question: str, passages: list[Passage]
) -> None:
    template = PromptTemplate(preamble="{", titled_passage="({text}|{title})", passage="{index}{text}")
    prompt = template.render(question=question, passages=passages)
    literal = list(prompt.literal_ranges())
    both = sorted([*prompt.data_ranges, *literal])
    assert [place for one in both for place in one] == sorted(place for one in both for place in one)
    assert sum(end - start for start, end in both) == len(prompt.text)
    written = "".join("(|)" if one.title else str(index) for index, one in enumerate(passages, 1))
    assert "".join(prompt.text[start:end] for start, end in literal) == "{" + written + "Question: \nAnswer: "


def test_paper_template_is_documents_question_response_without_labels() -> None:
    prompt = PAPER_TEMPLATE.render(question="Who?", passages=[Passage("Body.", "Title"), Passage("Untitled.")])
    assert prompt.text == "Title\nBody.\n\nUntitled.\n\nWho?\n"
