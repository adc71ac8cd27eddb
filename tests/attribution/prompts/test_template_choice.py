"""Which prompt a model gets, by name, by file, or by its chat template."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.attribution.prompt_texts import hostile_answers, hostile_passages, hostile_texts
from tests.attribution.small_tokenizers import byte_level, metaspace
from tests.attribution.tiny_models import save_tiny_model
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from attribeam.attribution.models.row_encoder import RowEncoder, load_row_encoder
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts import jinja_template
from attribeam.attribution.prompts.prompt_template import PAPER_TEMPLATE, PLAIN_TEMPLATE, PromptTemplate
from attribeam.attribution.prompts.template_choice import (
    USER_MESSAGE,
    ChosenTemplate,
    chat_prompt_template,
    choose_template,
)
from attribeam.attribution.prompts.token_offsets import PageTokenizer, encode_row
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

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


def fast(template: str | None, tokenizer: Tokenizer | None = None) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer or byte_level(), bos_token="<s>", eos_token="</s>", chat_template=template
    )


@pytest.mark.parametrize("template", [CHATML, INST], ids=["chatml", "inst"])
@pytest.mark.parametrize("kind", [byte_level, lambda: metaspace("first"), lambda: metaspace("always")])
def test_tokens_are_those_of_the_tokenizers_own_chat(template: str, kind: object) -> None:
    tokenizer = fast(template, kind())
    message = USER_MESSAGE.render(question="Who built it?", passages=PASSAGES).text
    chat = [{"role": "user", "content": message}]
    theirs = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    expected = tokenizer(theirs + "Ada.", add_special_tokens=False)["input_ids"]
    prompt = chat_prompt_template(tokenizer).render(question="Who built it?", passages=PASSAGES)
    assert prompt.text == theirs
    page = PageTokenizer(tokenizer.backend_tokenizer, add_special_tokens=False).tokenise(prompt, "Ada.")
    assert page.ids.tolist() == expected


@pytest.mark.parametrize("template", [CHATML, INST, DATED], ids=["chatml", "inst", "dated"])
@settings(max_examples=25, deadline=None)
@given(question=hostile_texts, passages=hostile_passages, answer=hostile_answers)
def test_columns_hold_the_passages_own_characters(
    template: str, question: str, passages: list[Passage], answer: str
) -> None:
    chat = chat_prompt_template(fast(template))
    backend = byte_level()
    row = encode_row(
        chat.render(question=question, passages=passages), answer, PageTokenizer(backend, add_special_tokens=False)
    )
    own = [backend.decode([token], skip_special_tokens=False).strip() for token in row.token_ids.tolist()]
    seen: dict[tuple[int, bool], set[int]] = {}
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


def test_day_of_a_dated_template_is_fixed_and_braces_stay() -> None:
    prompt = chat_prompt_template(fast(DATED)).render(question="Who?", passages=PASSAGES)
    assert prompt.text.startswith("26 Jul 2024 {braces} <|im_start|>user\n")
    assert prompt.text.endswith("Who?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    "start", ["\n", "\n  ", "  ", "  {# note #}\n", "  {% set x = 1 %}\n", " {%- set x = 1 %} ", "{{- '' }}"]
)
def test_white_space_at_the_beginning_of_a_template_is_that_of_the_tokenizers_own_chat(start: str) -> None:
    tokenizer = fast(start + CHATML)
    message = USER_MESSAGE.render(question="Who?", passages=PASSAGES).text
    chat = [{"role": "user", "content": message}]
    theirs = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert chat_prompt_template(tokenizer).render(question="Who?", passages=PASSAGES).text == theirs


def test_template_that_can_think_is_told_not_to() -> None:
    prompt = chat_prompt_template(fast(THINKING)).render(question="Who?", passages=PASSAGES)
    assert prompt.text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n")


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        (None, "should have a chat template, has none"),
        ("{{ messages[0].content | upper }}", "changes it"),
        ("{{ messages[0].content }}{{ messages[0].content }}", "repeats or changes"),
        ("Hello.", "leaves it out"),
        ("{{ raise_exception('no user') }}", "its chat template fails: no user"),
        ("{{ messages[0].content", "its chat template fails"),
    ],
)
def test_chat_template_that_cannot_be_used_says_why_and_the_way_out(template: str | None, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"{complaint}.*--prompt-template plain"):
        chat_prompt_template(fast(template))


OWN = PromptTemplate(preamble="Own. ")
RECORD = QARecord("r", "Who?", (Passage("Ada lit it. <|im_end|>"),), "Ada.", RowSource("log.parquet", 0))


@pytest.mark.parametrize(
    ("option", "default", "chat", "name"),
    [
        (None, OWN, CHATML, "model"),
        (None, None, CHATML, "chat"),
        (None, None, None, "plain"),
        ("plain", OWN, CHATML, "plain"),
        ("paper", OWN, None, "paper"),
        ("chat", OWN, CHATML, "chat"),
    ],
)
def test_option_wins_then_the_directory_then_the_chat_template(
    option: str | None, default: PromptTemplate | None, chat: str | None, name: str
) -> None:
    chosen = choose_template(option, default=default, tokenizer=fast(chat))
    assert chosen.name == name
    expected = {"model": OWN, "plain": PLAIN_TEMPLATE, "paper": PAPER_TEMPLATE}
    assert name == "chat" or chosen == ChosenTemplate(name, expected[name])


@pytest.mark.parametrize("suffix", [".jinja", ".json"])
def test_file_is_read_by_its_suffix_and_named_without_its_folder(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine{suffix}"
    jinja = "{% for p in passages %}{{ p.text }}\n{% endfor %}Q: {{ question }}\nA: "
    path.write_text(
        jinja if suffix == ".jinja" else json.dumps({"passage": "{text}\n", "question": "Q: {question}\nA: "})
    )
    chosen = choose_template(str(path), default=OWN, tokenizer=fast(CHATML))
    assert chosen.name == f"mine{suffix}"
    assert chosen.template.render(question="Who?", passages=[Passage("x")]).text == "x\nQ: Who?\nA: "


def chat_model(directory: Path) -> Path:
    save_tiny_model(directory)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level(), bos_token="<s>", eos_token="</s>", pad_token="<pad>", chat_template=CHATML
    )
    tokenizer.save_pretrained(directory)
    return directory


def encoder(directory: Path, option: str | None) -> RowEncoder:
    return load_row_encoder(ModelOptions(model=str(directory), prompt_template=option, device="cpu"))


def test_model_with_a_chat_template_gets_it_without_another_bos(tmp_path: Path) -> None:
    directory = chat_model(tmp_path)
    chosen = encoder(directory, None)
    row = chosen.encode(RECORD)
    tokenizer = byte_level()
    assert chosen.template_name == "chat"
    assert tokenizer.id_to_token(int(row.token_ids[0])) == "<|im_start|>"
    assert row.token_ids.tolist().count(tokenizer.token_to_id("<s>")) == 0
    assert row.token_ids.tolist().count(tokenizer.token_to_id("<|im_end|>")) == 1
    plain = encoder(directory, "plain").encode(RECORD)
    assert plain.token_ids.tolist().count(tokenizer.token_to_id("<s>")) == 1
    assert plain.token_ids.tolist().count(tokenizer.token_to_id("<|im_end|>")) == 0


def test_bundled_model_keeps_its_own_template() -> None:
    chosen = load_row_encoder(ModelOptions())
    assert (chosen.template_name, chosen.template) == ("model", PLAIN_TEMPLATE)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("absent.jinja", None, r"absent\.jinja"),
        ("upper.jinja", "{{ question | upper }}", r"upper\.jinja.*as they are"),
        ("broken.json", "{", r"broken\.json"),
        ("chat", None, "should have a chat template, has none; use --prompt-template plain"),
    ],
)
def test_template_that_cannot_be_used_is_a_load_error(
    tmp_path: Path, name: str, content: str | None, complaint: str
) -> None:
    directory = save_tiny_model(tmp_path / "model")
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelLoadError, match=complaint):
        encoder(directory, name if name == "chat" else str(tmp_path / name))


def test_chat_template_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jinja_template, "SECONDS", 0.3)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(
        ValueError, match=r"its chat template fails: it takes more than 0\.3 s.*--prompt-template plain"
    ):
        chat_prompt_template(fast(CHATML + loop))
