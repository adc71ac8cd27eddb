"""Chat templates: the prompt is the one that the tokenizer makes, and texts stay texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from attribution.prompts.chat_template import USER_MESSAGE, chat_prompt_template
from attribution.prompts.page_tokenizer import PageTokenizer
from attribution.prompts.row_encoding import encode_row
from schemas import Passage
from tests.attribution.prompt_texts import hostile_answers, hostile_passages, hostile_texts
from tests.attribution.small_tokenizers import byte_level, metaspace

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
@settings(max_examples=40, deadline=None)
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
