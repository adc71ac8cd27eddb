"""Prompts: what they look like, whose they are, and that every range holds what it says."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.small_tokenizers import byte_level, hostile_answers, hostile_passages, hostile_texts, metaspace
from tests.attribution.tiny_models import save_tiny_model
from transformers import PreTrainedTokenizerFast

from attribeam.attribution.models.model_directory import load_row_encoder
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts import (
    PAPER_TEMPLATE,
    PLAIN_TEMPLATE,
    QUESTION,
    USER_MESSAGE,
    ChosenTemplate,
    PromptTemplate,
    chat_prompt_template,
    choose_template,
)
from attribeam.attribution.prompts.jinja_template import JinjaTemplate
from attribeam.attribution.prompts.token_offsets import PageTokenizer, encode_page
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

texts = st.text(alphabet="ab{}[] \n%$é漢🦊", max_size=12)
passages = st.lists(st.builds(Passage, text=texts, title=st.none() | texts), max_size=4)


def check_ranges(prompt, question, passages, first_index=0):
    """Every range holds its text, and everything that has a text has its range."""
    numbered = list(enumerate(passages, first_index))
    titles = {(index, True): one.title for index, one in numbered if one.title}
    expected = titles | {(index, False): one.text for index, one in numbered if one.text}
    expected |= {QUESTION: question} if question else {}
    assert {key: prompt.text[slice(*chars)] for key, chars in prompt.texts.items()} == expected
    places = [place for chars in prompt.texts.values() for place in chars]
    assert places == sorted(places)


@given(question=texts, passages=passages)
def test_every_range_holds_its_text_whatever_the_texts_contain(question, passages):
    template = PromptTemplate(preamble="{", titled_passage="({text}|{title})", passage="{index}{text}")
    check_ranges(template.render(question=question, passages=passages), question, passages)


@pytest.mark.parametrize(("name", "text", "complaint"), [
    ("passage", "nothing", r"'passage' should have the fields \{text\}"),
    ("passage", "{text} {title}", r"has: \{text\}, \{title\}"), ("passage", "{text}{text}", "once each"),
    ("titled_passage", "{text}", r"\{title\}, \{text\}"), ("question", "Answer:", r"\{question\}"),
    ("question", "{question!r}", "bare"), ("question", "{question:>9}", "bare"),
    ("question", "{question", "double literal braces"), ("question", "{question} {}", r"has: \{question\}, \{\}"),
])  # fmt: skip
def test_bad_format_is_refused_with_its_name(name, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        PromptTemplate(**{name: text})


@pytest.mark.parametrize("content", ["[]", "{", '{"header": ""}', '{"passage": 3}', '{"passage": "none"}'])
def test_bad_file_is_an_error_with_its_path(tmp_path, content):
    path = tmp_path / "template.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"template\.json"):
        choose_template(str(path), default=None, tokenizer=None)


def test_some_of_the_passages_keep_their_numbers_in_the_row():
    template = PromptTemplate(titled_passage="[{index}] {title}: {text}\n", passage="[{index}] {text}\n")
    prompt = template.render(question="q", passages=[Passage("d", "D"), Passage("e")], first_index=3)
    assert prompt.text.startswith("[4] D: d\n[5] e\n")
    assert list(prompt.texts) == [(3, True), (3, False), (4, False), QUESTION]


@given(question=texts, passages=passages)
def test_template_wrote_exactly_what_is_neither_text_nor_title_nor_question(question, passages):
    template = PromptTemplate(preamble="{", titled_passage="({text}|{title})", passage="{index}{text}")
    prompt = template.render(question=question, passages=passages)
    literal = list(prompt.literal_ranges())
    both = sorted([*prompt.texts.values(), *literal])
    assert [place for one in both for place in one] == sorted(place for one in both for place in one)
    assert sum(end - start for start, end in both) == len(prompt.text)
    written = "".join("(|)" if one.title else str(index) for index, one in enumerate(passages, 1))
    assert "".join(prompt.text[start:end] for start, end in literal) == "{" + written + "Question: \nAnswer: "


CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
INST = "{{ bos_token }}{% for message in messages %}[INST] {{ message.content | trim }} [/INST]{% endfor %}"
DATED = "{{ strftime_now('%d %b %Y') }} {braces} " + CHATML
THINKING = (
    CHATML + "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n' }}{% endif %}"
)
PASSAGES = [Passage("Ada Thorne built it.", "Brigg"), Passage("The lamp was seen.")]


def fast(template, tokenizer=None):
    specials = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer or byte_level(), chat_template=template, **specials)


def own_chat(tokenizer, question):
    """What the tokenizer's own chat makes of the message."""
    message = USER_MESSAGE.render(question=question, passages=PASSAGES).text
    chat = [{"role": "user", "content": message}]
    return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)


@pytest.mark.parametrize("template", [CHATML, INST], ids=["chatml", "inst"])
@pytest.mark.parametrize("kind", [byte_level, lambda: metaspace("first"), lambda: metaspace("always")])
def test_tokens_are_those_of_the_tokenizers_own_chat(template, kind):
    tokenizer = fast(template, kind())
    theirs = own_chat(tokenizer, "Who built it?")
    expected = tokenizer(theirs + "Ada.", add_special_tokens=False)["input_ids"]
    prompt = chat_prompt_template(tokenizer).render(question="Who built it?", passages=PASSAGES)
    assert prompt.text == theirs
    page = PageTokenizer(tokenizer.backend_tokenizer, add_special_tokens=False).tokenise(prompt, "Ada.")
    assert page.ids.tolist() == expected


@pytest.mark.parametrize("template", [CHATML, INST, DATED], ids=["chatml", "inst", "dated"])
@settings(max_examples=25, deadline=None)
@given(question=hostile_texts, passages=hostile_passages, answer=hostile_answers)
def test_columns_hold_the_passages_own_characters(template, question, passages, answer):
    chat = chat_prompt_template(fast(template))
    backend = byte_level()
    row, _ = encode_page(
        chat.render(question=question, passages=passages), answer, PageTokenizer(backend, add_special_tokens=False)
    )
    own = [backend.decode([token], skip_special_tokens=False).strip() for token in row.token_ids.tolist()]
    seen = {}
    for column in np.flatnonzero(row.column_passage >= 0):
        key = (int(row.column_passage[column]), bool(row.column_in_title[column]))
        text = (passages[key[0]].title or "") if key[1] else passages[key[0]].text
        start, end = int(row.column_char_start[column]), int(row.column_char_end[column])
        seen.setdefault(key, set()).update(range(start, end))
        assert "\ufffd" in own[column] or text[start:end] == own[column]
    for index, passage in enumerate(passages):
        for in_title, text in ((True, passage.title or ""), (False, passage.text)):
            visible = {place for place, character in enumerate(text) if not character.isspace()}
            assert seen.get((index, in_title), set()) >= visible
    specials = [token for token in row.token_ids.tolist() if backend.id_to_token(token) in ("<s>", "</s>", "<pad>")]
    assert specials == ([0] if template is INST else [])


def test_day_of_a_dated_template_is_fixed_and_braces_stay():
    prompt = chat_prompt_template(fast(DATED)).render(question="Who?", passages=PASSAGES)
    assert prompt.text.startswith("26 Jul 2024 {braces} <|im_start|>user\n")
    assert prompt.text.endswith("Who?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    "start", ["\n", "\n  ", "  ", "  {# note #}\n", "  {% set x = 1 %}\n", " {%- set x = 1 %} ", "{{- '' }}"]
)
def test_white_space_at_the_beginning_of_a_template_is_that_of_the_tokenizers_own_chat(start):
    tokenizer = fast(start + CHATML)
    found = chat_prompt_template(tokenizer).render(question="Who?", passages=PASSAGES)
    assert found.text == own_chat(tokenizer, "Who?")


def test_template_that_can_think_is_told_not_to():
    prompt = chat_prompt_template(fast(THINKING)).render(question="Who?", passages=PASSAGES)
    assert prompt.text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n")


@pytest.mark.parametrize(("template", "complaint"), [
    (None, "should have a chat template, has none"), ("{{ messages[0].content | upper }}", "changes it"),
    ("{{ messages[0].content }}{{ messages[0].content }}", "repeats or changes"), ("Hello.", "leaves it out"),
    ("{{ raise_exception('no user') }}", "its chat template fails: no user"),
    ("{{ messages[0].content }}{{ 'x' * 10**15 }}", "asks for more memory than there is"),
    ("{{ messages[0].content", "its chat template fails"),
])  # fmt: skip
def test_chat_template_that_cannot_be_used_says_why_and_the_way_out(template, complaint):
    with pytest.raises(ValueError, match=rf"{complaint}.*--prompt-template plain"):
        chat_prompt_template(fast(template))


OWN = PromptTemplate(preamble="Own. ")
RECORD = QARecord("r", "Who?", (Passage("Ada lit it. <|im_end|>"),), "Ada.", RowSource("log.parquet", 0))


@pytest.mark.parametrize(("option", "default", "chat", "name"), [
    (None, OWN, CHATML, "model"), (None, None, CHATML, "chat"), (None, None, None, "plain"),
    ("plain", OWN, CHATML, "plain"), ("paper", OWN, None, "paper"), ("chat", OWN, CHATML, "chat"),
])  # fmt: skip
def test_option_wins_then_the_directory_then_the_chat_template(option, default, chat, name):
    chosen = choose_template(option, default=default, tokenizer=fast(chat))
    assert chosen.name == name
    expected = {"model": OWN, "plain": PLAIN_TEMPLATE, "paper": PAPER_TEMPLATE}
    assert name == "chat" or chosen == ChosenTemplate(name, expected[name])


@pytest.mark.parametrize("suffix", [".jinja", ".json"])
def test_file_is_read_by_its_suffix_and_named_without_its_folder(tmp_path, suffix):
    path = tmp_path / f"mine{suffix}"
    jinja = "{% for p in passages %}{{ p.text }}\n{% endfor %}Q: {{ question }}\nA: "
    path.write_text(
        jinja if suffix == ".jinja" else json.dumps({"passage": "{text}\n", "question": "Q: {question}\nA: "})
    )
    chosen = choose_template(str(path), default=OWN, tokenizer=fast(CHATML))
    assert chosen.name == f"mine{suffix}"
    assert chosen.template.render(question="Who?", passages=[Passage("x")]).text == "x\nQ: Who?\nA: "


def encoder(directory, option):
    return load_row_encoder(ModelOptions(model=str(directory), prompt_template=option, device="cpu"))


def test_model_with_a_chat_template_gets_it_without_another_bos(tmp_path):
    fast(CHATML).save_pretrained(save_tiny_model(tmp_path))
    chosen = encoder(tmp_path, None)
    assert chosen.template_name == "chat"
    chat, plain = (
        [byte_level().id_to_token(token) for token in one.encode(RECORD).token_ids.tolist()]
        for one in (chosen, encoder(tmp_path, "plain"))
    )
    assert chat[0] == "<|im_start|>"
    assert [(one.count("<s>"), one.count("<|im_end|>")) for one in (chat, plain)] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(("name", "content", "complaint"), [
    ("absent.jinja", None, r"absent\.jinja"),
    ("upper.jinja", "{{ question | upper }}", r"upper\.jinja.*as they are"), ("broken.json", "{", r"broken\.json"),
    ("chat", None, "should have a chat template, has none; use --prompt-template plain"),
])  # fmt: skip
def test_template_that_cannot_be_used_is_a_load_error(llama, tmp_path, name, content, complaint):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelLoadError, match=complaint):
        encoder(llama, name if name == "chat" else str(tmp_path / name))


SOURCE = """Use these sources.
{% for passage in passages %}
[{{ passage.index }}] {% if passage.title %}{{ passage.title }}: {% endif %}{{ passage.text }}
{% endfor %}
Question: {{ question }}
Answer: """
TEMPLATE = JinjaTemplate(SOURCE)


def looped(passage):
    return "{{ question }}{% for p in passages %}" + passage + "\n{% endfor %}"


@settings(max_examples=30, deadline=None)
@given(question=hostile_texts, passages=hostile_passages)
def test_every_range_of_a_jinja_template_holds_its_text(question, passages):
    check_ranges(TEMPLATE.render(question=question, passages=passages, first_index=5), question, passages, 5)


@pytest.mark.parametrize(("source", "complaint"), [
    (looped("{{ p.text | upper }}"), "changes it"), (looped("{{ p.text[:200] }}"), "changes it"),
    (looped("{{ p.text | e }}"), "changes it"), (looped("{{ p.text | replace('\r\n', ' ') }}"), "changes it"),
    (looped("{{ p.text }}{{ p.text }}"), "repeats one"), (looped("{{ p.title }}"), "leaves one out"),
    ("{{ question }}{{ passages[0].text }}", "leaves one out"),
    (looped("{{ p.text }}") + '{{ "\\ufdd0" }}99{{ "\\ufdd1" }}', "changes it"),
    ("{% for p in passages %}{{ p.text }}{% endfor %}", "leaves one out"),
    (looped("{{ p.text }}") + "{{ question }}", "repeats one"),
    (looped("{{ p.text }}{{ answer }}"), "'answer' is undefined"), (looped("{{ p.text }}{{ p.body }}"), "'body'"),
    (looped("{{ p.text }}{{ 1 // 0 }}"), "ZeroDivisionError"),
    (looped("{{ p.text }}{{ 'x' * 10**15 }}"), "asks for more memory than there is"),
    (looped("{{ p.text }}{{ p.__class__.__mro__ }}"), "SecurityError"),
    (looped("{{ p.text }}{{ p.title | trim(chars='', chars='') }}"), "SyntaxError"),
    (looped("{{ loop.index }} {{ p.text }}"), r"line 1: loop\.index should be passage\.index"),
    ("{% for p in passages %}{{ p.text }}", "line 1"), (looped("\ufdd0{{ p.text }}"), r"no U\+FDD0"),
    (looped("{{ p.text }}{{ '\\ufdd1' }}"), "changes it"),
])  # fmt: skip
def test_template_that_does_not_show_the_texts_as_they_are_is_refused(source, complaint):
    with pytest.raises(ValueError, match=complaint):
        JinjaTemplate(source)


@pytest.mark.parametrize(("passage", "text"), [
    ("{% if 'secret' not in p.text %}{{ p.text }}{% endif %}", "a secret"),
    ("{{ p.text if p.text | length < 50000 else p.text[:50000] }}", "long " * 20_000),
    ("{{ p.text }}{% if p.text == 'stop' %}{{ 1 // 0 }}{% endif %}", "stop"),
    ("{% if p.text | length > 9 and p.text | length < 12 %}(short) {% endif %}{{ p.text }}", "ten chars."),
])  # fmt: skip
def test_template_that_fails_on_one_row_only_is_that_rows_fault(passage, text):
    template = JinjaTemplate(looped(passage))
    template.render(question="Who?", passages=[Passage("A lamp.")])
    with pytest.raises(RowFault) as caught:
        template.render(question="Who?", passages=[Passage(text)])
    assert caught.value.reason is Reason.TEMPLATE_FAILED
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    "lookup", ["{{ {}[question] }}", "{{ question[p.text] }}", "{{ passages[question] }}", "{% include question %}"]
)
def test_template_that_looks_a_text_up_tells_the_kind_of_error_and_no_text(lookup):
    template = JinjaTemplate(looped("{{ p.text }}{% if p.text == 'a harbour' %}" + lookup + "{% endif %}"), "own.jinja")
    with pytest.raises(RowFault, match=r"own\.jinja: it should render every row, fails with \w+$") as caught:
        template.render(question="Who is Marta?", passages=[Passage("a harbour")])
    assert "Marta" not in str(caught.value)
    assert "harbour" not in str(caught.value)


def test_file_is_read_without_the_newline_at_its_end(tmp_path):
    path = tmp_path / "prompt.jinja"
    path.write_text(SOURCE.rstrip() + "\n", encoding="utf-8")
    template = choose_template(str(path), default=None, tokenizer=None).template
    assert template.render(question="Who?", passages=[Passage("x")]).text.endswith("Who?\nAnswer:")
    assert template.digest != TEMPLATE.digest
    assert JinjaTemplate(SOURCE).digest == TEMPLATE.digest


def test_template_nested_too_deeply_is_refused():
    with pytest.raises(ValueError, match="nest less deeply"):
        JinjaTemplate("{% if 1 %}" * 3000 + "{% endif %}" * 3000)
