"""The template's special tokens are real, those in texts are text, and nothing else changes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from attribution.prompts.page_tokenizer import PageTokenizer
from attribution.prompts.prompt_template import PLAIN_TEMPLATE, PromptTemplate
from schemas import Passage
from tests.attribution.prompt_texts import harmless_texts, hostile_answers, hostile_passages, hostile_texts
from tests.attribution.small_tokenizers import KINDS, SPECIALS

CHAT = PromptTemplate(
    preamble="<s><|im_start|>user\n", question="{question}<|im_end|>\n<|im_start|>assistant\n", passage="{text}</s>"
)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
harmless_passages = st.lists(st.builds(Passage, text=harmless_texts, title=st.none() | harmless_texts), max_size=3)


@lru_cache
def page_tokenizer(kind: str) -> PageTokenizer:
    return PageTokenizer(KINDS[kind]())


@lru_cache
def untouched(kind: str, *, specials_are_text: bool) -> Tokenizer:
    tokenizer = KINDS[kind]()
    tokenizer.encode_special_tokens = specials_are_text
    return tokenizer


def special_ids(kind: str) -> list[int]:
    return [untouched(kind, specials_are_text=False).token_to_id(text) for text in SPECIALS]


@EVERY_KIND
@settings(max_examples=40, deadline=None)
@given(question=harmless_texts, passages=harmless_passages, answer=harmless_texts)
def test_page_without_specials_in_its_texts_is_tokenised_as_a_whole(
    kind: str, question: str, passages: list[Passage], answer: str
) -> None:
    if kind == "normalizing specials":
        return  # there the tokenizer itself misses the template's special tokens; ours are real
    prompt = CHAT.render(question=question, passages=passages)
    found = page_tokenizer(kind).tokenise(prompt, answer)
    expected = untouched(kind, specials_are_text=False).encode(prompt.text + answer, add_special_tokens=False)
    assert found.ids.tolist() == expected.ids
    if kind != "stripping":  # there a special token's own range covers the white space behind it; ours is the token's
        assert found.offsets.tolist() == [list(pair) for pair in expected.offsets]


@EVERY_KIND
@settings(max_examples=40, deadline=None)
@given(question=hostile_texts, passages=hostile_passages, answer=hostile_answers)
def test_only_the_templates_own_special_tokens_are_real(
    kind: str, question: str, passages: list[Passage], answer: str
) -> None:
    prompt = CHAT.render(question=question, passages=passages)
    found = page_tokenizer(kind).tokenise(prompt, answer)
    real = np.flatnonzero(np.isin(found.ids, special_ids(kind)))
    untitled = sum(not passage.title for passage in passages)
    own = ["<s>", "<|im_start|>", *["</s>"] * untitled, "<|im_end|>", "<|im_start|>"]
    assert [prompt.text[slice(*found.offsets[place])] for place in real] == own
    literal = {place for start, end in prompt.literal_ranges() for place in range(start, end)}
    assert all({*range(*found.offsets[place])} <= literal for place in real)
    assert found.offsets.max() <= len(prompt.text + answer)


@EVERY_KIND
@settings(max_examples=40, deadline=None)
@given(question=hostile_texts, passages=hostile_passages, answer=hostile_answers)
def test_plain_template_gives_what_the_tokenizer_gives_with_specials_as_text(
    kind: str, question: str, passages: list[Passage], answer: str
) -> None:
    prompt = PLAIN_TEMPLATE.render(question=question, passages=passages)
    page = (prompt.text + answer).replace("\ufdd0", "\ufffd")
    found = page_tokenizer(kind).tokenise(prompt, answer)
    if kind == "unigram":
        assert not np.isin(found.ids, special_ids(kind)).any()
        return
    expected = untouched(kind, specials_are_text=True).encode(page)
    assert found.ids.tolist() == expected.ids
    assert found.offsets.tolist() == [list(pair) for pair in expected.offsets]


@pytest.mark.parametrize(
    ("preamble", "add", "expected"),
    [
        ("", None, 1),
        ("<s>", None, 1),
        ("Read <|im_start|>", None, 1),
        ("", False, 0),
        ("<s>", False, 1),
    ],
)
def test_bos_comes_once_or_as_asked(preamble: str, add: bool | None, expected: int) -> None:
    tokenizer = PageTokenizer(KINDS["byte level"](), add_special_tokens=add)
    prompt = PromptTemplate(preamble=preamble).render(question="Who <s>?", passages=[Passage("<s>A lamp.")])
    found = tokenizer.tokenise(prompt, "Ada <s>.")
    assert found.ids.tolist().count(0) == expected
    assert (found.ids[0] == 0) == (expected == 1)


def test_special_token_between_a_template_and_a_text_is_text() -> None:
    template = PromptTemplate(passage="<{text}", question="</{question}")
    prompt = template.render(question="s>", passages=[Passage("s>")])
    assert prompt.text == "<s></s>"
    found = PageTokenizer(KINDS["byte level"](), add_special_tokens=False).tokenise(prompt, "yes")
    assert not np.isin(found.ids, special_ids("byte level")).any()
