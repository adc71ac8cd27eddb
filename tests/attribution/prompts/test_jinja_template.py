"""Jinja templates: texts lie where they are said to lie, and a template that changes them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.attribution.prompt_texts import hostile_passages, hostile_texts

from attribeam.attribution.prompts import jinja_template as template_sandbox
from attribeam.attribution.prompts.jinja_template import JinjaTemplate
from attribeam.schemas import Passage, Reason, RowFault

SOURCE = """Use these sources.
{% for passage in passages %}
[{{ passage.index }}] {% if passage.title %}{{ passage.title }}: {% endif %}{{ passage.text }}
{% endfor %}
Question: {{ question }}
Answer: """
TEMPLATE = JinjaTemplate(SOURCE)


def looped(passage: str) -> str:
    return "{{ question }}{% for p in passages %}" + passage + "\n{% endfor %}"


def test_template_renders_titles_texts_and_question() -> None:
    prompt = TEMPLATE.render(question="Who?", passages=[Passage("Body.", "Title"), Passage("Untitled.")])
    assert prompt.text == "Use these sources.\n[1] Title: Body.\n[2] Untitled.\nQuestion: Who?\nAnswer: "


@settings(max_examples=30, deadline=None)
@given(question=hostile_texts, passages=hostile_passages)
def test_every_range_holds_its_text_whatever_the_texts_contain(question: str, passages: list[Passage]) -> None:
    prompt = TEMPLATE.render(question=question, passages=passages, first_index=5)
    for region in prompt.regions:
        passage = passages[region.passage_index - 5]
        expected = passage.title if region.in_title else passage.text
        assert prompt.text[region.char_start : region.char_end] == expected
    assert prompt.text[prompt.question_char_start : prompt.question_char_end] == question
    places = [place for region in prompt.regions for place in (region.char_start, region.char_end)]
    assert places == sorted(places)
    shown = {(region.passage_index - 5, region.in_title) for region in prompt.regions}
    titles = {(i, True) for i, one in enumerate(passages) if one.title}
    assert shown == titles | {(i, False) for i, one in enumerate(passages) if one.text}


def test_question_may_come_first_passages_backwards_and_titles_not_at_all() -> None:
    template = JinjaTemplate("{{ question }}\n{% for p in passages | reverse %}{{ p.text }}|{% endfor %}")
    prompt = template.render(question="Who?", passages=[Passage("one", "Title"), Passage("two")])
    assert prompt.text == "Who?\ntwo|one|"
    assert [(region.passage_index, region.char_start) for region in prompt.regions] == [(1, 5), (0, 9)]


def test_some_of_the_passages_keep_their_numbers_in_the_row() -> None:
    prompt = TEMPLATE.render(question="Who?", passages=[Passage("Body.")], first_index=6)
    assert "[7] Body." in prompt.text
    assert prompt.regions[0].passage_index == 6


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (looped("{{ p.text | upper }}"), "changes it"),
        (looped("{{ p.text | trim }}"), "changes it"),
        (looped("{{ p.text | truncate(300) }}"), "changes it"),
        (looped("{{ p.text[:200] }}"), "changes it"),
        (looped("{{ p.text | e }}"), "changes it"),
        (looped("{{ p.text | replace('\r\n', ' ') }}"), "changes it"),
        (looped("{{ p.text | tojson }}"), "changes it"),
        (looped("{{ p.title | lower }}{{ p.text }}"), "changes it"),
        (looped("{{ p.text }}{{ p.text }}"), "repeats one"),
        (looped("{{ p.title }}{{ p.title }}{{ p.text }}"), "repeats one"),
        (looped("{{ p.title }}"), "leaves one out"),
        ("{{ question }}{{ passages[0].text }}", "leaves one out"),
        ("{% for p in passages %}{{ p.text }}{% endfor %}", "leaves one out"),
        (looped("{{ p.text }}") + "{{ question }}", "repeats one"),
        (looped("{{ p.text }}{{ answer }}"), "'answer' is undefined"),
        (looped("{{ p.text }}{{ p.body }}"), "'body'"),
        (looped("{{ p.text }}{{ 1 // 0 }}"), "ZeroDivisionError"),
        (looped("{{ p.text }}{{ p.__class__.__mro__ }}"), "SecurityError"),
        (looped("{{ loop.index }} {{ p.text }}"), r"line 1: loop\.index should be passage\.index"),
        ("{% for p in passages %}{{ p.text }}", "line 1"),
        (looped("\ufdd0{{ p.text }}"), r"no U\+FDD0"),
        (looped("{{ p.text }}{{ '\\ufdd1' }}"), "changes it"),
    ],
)
def test_template_that_does_not_show_the_texts_as_they_are_is_refused(source: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        JinjaTemplate(source)


@pytest.mark.parametrize(
    ("passage", "text"),
    [
        ("{% if 'secret' not in p.text %}{{ p.text }}{% endif %}", "a secret"),
        ("{{ p.text if p.text | length < 50000 else p.text[:50000] }}", "long " * 20_000),
        ("{{ p.text }}{% if p.text == 'stop' %}{{ 1 // 0 }}{% endif %}", "stop"),
        ("{% if p.text | length > 9 and p.text | length < 12 %}(short) {% endif %}{{ p.text }}", "ten chars."),
    ],
)
def test_template_that_fails_on_one_row_only_is_that_rows_fault(passage: str, text: str) -> None:
    template = JinjaTemplate(looped(passage))
    template.render(question="Who?", passages=[Passage("A lamp.")])
    with pytest.raises(RowFault) as caught:
        template.render(question="Who?", passages=[Passage(text)])
    assert caught.value.reason is Reason.TEMPLATE_FAILED
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    "lookup", ["{{ {}[question] }}", "{{ question[p.text] }}", "{{ passages[question] }}", "{% include question %}"]
)
def test_template_that_looks_a_text_up_tells_the_kind_of_error_and_no_text(lookup: str) -> None:
    template = JinjaTemplate(looped("{{ p.text }}{% if p.text == 'a harbour' %}" + lookup + "{% endif %}"), "own.jinja")
    with pytest.raises(RowFault, match=r"own\.jinja: it should render every row, fails with \w+$") as caught:
        template.render(question="Who is Marta?", passages=[Passage("a harbour")])
    assert "Marta" not in str(caught.value)
    assert "harbour" not in str(caught.value)


def test_file_is_read_without_the_newline_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "prompt.jinja"
    path.write_text(SOURCE.rstrip() + "\n", encoding="utf-8")
    template = JinjaTemplate.from_file(path)
    assert template.render(question="Who?", passages=[Passage("x")]).text.endswith("Who?\nAnswer:")
    assert template.digest != TEMPLATE.digest
    assert JinjaTemplate(SOURCE).digest == TEMPLATE.digest


@pytest.mark.parametrize("content", [b"{{ question", b"\xff\xfe"])
def test_bad_file_is_an_error_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "prompt.jinja"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"prompt\.jinja"):
        JinjaTemplate.from_file(path)


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_template_that_never_ends_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(template_sandbox, "SECONDS", 0.2)
    path = tmp_path / "endless.jinja"
    path.write_text(looped("{{ p.text }}") + ENDLESS, encoding="utf-8")
    with pytest.raises(ValueError, match=r"endless\.jinja: it takes more than 0\.2 s of processor time"):
        JinjaTemplate.from_file(path)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 40000000000 }}",
        "{{ 'x' | center(40000000000) }}",
        "{% set n = namespace(x='x') %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x | length }}",
    ],
)
def test_template_that_takes_more_memory_than_its_limit_is_refused(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_sandbox, "MEMORY_BYTES", 64 << 20)
    with pytest.raises(ValueError, match="it takes more than 64 MB of memory for one page"):
        JinjaTemplate(looped("{{ p.text }}") + source)


def test_template_that_adds_endless_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_sandbox, "ADDED_CHARS", 100)
    with pytest.raises(ValueError, match=r"it makes a page of more than [0-9,]+ code points"):
        JinjaTemplate(looped("{{ p.text }}") + "{% for a in range(101) %}x{% endfor %}")


def test_row_that_takes_a_template_beyond_a_limit_is_that_rows_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    source = looped("{{ p.text }}{% if p.text == 'loop' %}" + ENDLESS + "{% endif %}")
    template = JinjaTemplate.from_text(source, where="prompt template own.jinja")
    monkeypatch.setattr(template_sandbox, "SECONDS", 0.2)
    with pytest.raises(RowFault, match=r"^prompt template own\.jinja: it takes more than 0\.2 s") as caught:
        template.render(question="Who?", passages=[Passage("loop")])
    assert caught.value.reason is Reason.TEMPLATE_FAILED
    assert template.render(question="Who?", passages=[Passage("A lamp.")]).text == "Who?A lamp."


def test_template_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="nest less deeply"):
        JinjaTemplate("{% if 1 %}" * 3000 + "{% endif %}" * 3000)
