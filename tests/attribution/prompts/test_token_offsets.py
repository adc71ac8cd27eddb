"""The tokens of a page, and the characters of each token."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.small_tokenizers import (
    KINDS,
    SPECIALS,
    harmless_texts,
    hostile_answers,
    hostile_passages,
    hostile_texts,
)
from tests.attribution.tiny_models import tiny_tokenizer
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from attribeam.attribution.prompts import PLAIN_TEMPLATE, PromptTemplate
from attribeam.attribution.prompts.token_offsets import PageTokenizer, encode_page
from attribeam.schemas import Passage, Reason, RowFault


def trimming_tokenizer():
    """The same pieces, with offsets that leave the blanks out, as the bundled tokenizer gives them."""
    tokenizer = tiny_tokenizer()
    bos = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), bos])
    return tokenizer


PLAIN, TRIMMING = tiny_tokenizer(), trimming_tokenizer()
PAGE_TOKENIZERS = {id(tokenizer): PageTokenizer(tokenizer) for tokenizer in (PLAIN, TRIMMING)}
TOKENIZERS = pytest.mark.parametrize("tokenizer", [PLAIN, TRIMMING], ids=["plain", "trimming"])
DENSE = PromptTemplate(titled_passage="({title}{text}", passage="-{text}", question="{question}")

texts = st.lists(
    st.sampled_from(
        ["lamp", " the", "Ada", " ", "  ", "\n", "\t", "\u3000", "\u00a0", "é", "e\u0301", "🦊", "👩🏽‍🚀", "漢字"]
    )
    | st.characters(exclude_categories=["Cs"]),
    max_size=8,
).map("".join)
visible_texts = texts.filter(lambda text: bool(text.strip()))
passages = st.lists(st.builds(Passage, text=texts, title=st.none() | texts), max_size=3)


def encode(passages, answer, tokenizer, template):
    prompt = template.render(question="Who?", passages=passages)
    return encode_page(prompt, answer, PAGE_TOKENIZERS[id(tokenizer)])[0]


def covered(starts, ends):
    return {place for start, end in zip(starts.tolist(), ends.tolist(), strict=True) for place in range(start, end)}


def visible(text):
    return {place for place, character in enumerate(text) if not character.isspace()}


@TOKENIZERS
@settings(max_examples=30)
@given(passages=passages, answer=visible_texts)
def test_ranges_hold_the_tokens_own_text(tokenizer, passages, answer):
    row = encode(passages, answer, tokenizer, PromptTemplate())
    own = [tokenizer.decode([token]).strip() for token in row.token_ids.tolist()]
    for column in np.flatnonzero(row.column_passage >= 0):
        passage = passages[row.column_passage[column]]
        text = (passage.title or "") if row.column_in_title[column] else passage.text
        found = text[row.column_char_start[column] : row.column_char_end[column]]
        assert "\ufffd" in own[column] or found == own[column]
    for index, chars in enumerate(row.response_chars):
        token = own[row.prompt_length + index]
        assert "\ufffd" in token or (chars.of(answer) if chars else "") == token


@TOKENIZERS
@pytest.mark.parametrize("template", [PromptTemplate(), DENSE], ids=["default", "dense"])
@settings(max_examples=30)
@given(passages=passages, answer=visible_texts)
def test_every_visible_character_of_the_answer_and_of_spaced_passages_is_covered(tokenizer, template, passages, answer):
    row = encode(passages, answer, tokenizer, template)
    assert covered(row.response_char_start, row.response_char_end) >= visible(answer)
    for starts, ends in (
        (row.column_char_start, row.column_char_end),
        (row.response_char_start, row.response_char_end),
    ):
        assert (starts <= ends).all()
    if template is DENSE:
        return
    for index, passage in enumerate(passages):
        for in_title, text in ((True, passage.title or ""), (False, passage.text)):
            mine = (row.column_passage == index) & (row.column_in_title == in_title)
            found = covered(row.column_char_start[mine], row.column_char_end[mine])
            assert visible(text) <= found <= set(range(len(text)))


@TOKENIZERS
@settings(max_examples=30)
@given(passages=passages, answer=visible_texts)
def test_ranges_have_no_white_space_at_their_ends(tokenizer, passages, answer):
    row = encode(passages, answer, tokenizer, DENSE)
    for chars in row.response_chars:
        assert chars is None or chars.of(answer) == chars.of(answer).strip()


@TOKENIZERS
def test_blank_before_the_answer_goes_into_its_first_token_but_not_into_its_range(tokenizer):
    row = encode([Passage("A tower.")], "the lamp", tokenizer, PromptTemplate())
    assert tokenizer.decode([int(row.token_ids[row.prompt_length])]) == " the"
    assert row.response_chars[0] is not None
    assert row.response_chars[0].of("the lamp") == "the"


@TOKENIZERS
def test_white_space_within_a_passage_lies_in_it_and_covers_nothing(tokenizer):
    row = encode([Passage("tower\n\n\nlamp")], "Yes", tokenizer, PromptTemplate())
    inside = (row.column_passage == 0) & (row.column_char_start == row.column_char_end)
    assert inside.any()
    assert covered(row.column_char_start, row.column_char_end) == visible("tower\n\n\nlamp")


@pytest.mark.parametrize("text", ["🦊", "漢", "e\u0301"])
def test_every_part_of_a_split_character_covers_all_of_it(text):
    row = encode([Passage("x")], text, PLAIN, PromptTemplate())
    assert len(row.response_chars) >= 2
    assert {chars.of(text) for chars in row.response_chars if chars} <= {*text}
    assert all(chars and chars.char_end - chars.char_start == 1 for chars in row.response_chars[1:])


def test_title_tokens_count_in_the_title():
    row = encode([Passage("The lamp.", "The tower")], "Yes", PLAIN, PromptTemplate())
    assert covered(row.column_char_start[row.column_in_title], row.column_char_end[row.column_in_title]) == visible(
        "The tower"
    )


def test_tokens_that_only_touch_a_passage_lie_outside_it():
    row = encode([Passage("tower")], "Yes", PLAIN, PromptTemplate(passage="|{text}|"))
    tokens = [PLAIN.decode([token]) for token in row.token_ids[: row.prompt_length].tolist()]
    assert [int(row.column_passage[column]) for column, token in enumerate(tokens) if token == "|"] == [-1, -1]


def test_white_space_at_the_end_of_a_token_is_no_part_of_its_range():
    words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex(r"\S+\s*"), "isolated")
    prompt = PLAIN_TEMPLATE.render(question="Who? ", passages=[Passage("A tower. ")])
    row, _ = encode_page(prompt, "the lamp  is lit ", PageTokenizer(words))
    assert [chars.of("the lamp  is lit ") for chars in row.response_chars if chars] == ["the", "lamp", "is", "lit"]


@pytest.mark.parametrize(
    ("passage", "answer", "reason"), [("\ud800", "Yes", Reason.INVALID_UTF8), ("Text.", "", Reason.EMPTY_ANSWER)]
)
def test_row_without_tokens_of_its_own_is_a_fault(passage, answer, reason):
    with pytest.raises(RowFault) as caught:
        encode([Passage(passage)], answer, PLAIN, PromptTemplate())
    assert caught.value.reason is reason


CHAT = PromptTemplate(
    preamble="<s><|im_start|>user\n", question="{question}<|im_end|>\n<|im_start|>assistant\n", passage="{text}</s>"
)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
harmless_passages = st.lists(st.builds(Passage, text=harmless_texts, title=st.none() | harmless_texts), max_size=3)


@lru_cache
def page_tokenizer(kind):
    return PageTokenizer(KINDS[kind]())


@lru_cache
def untouched(kind, *, specials_are_text):
    tokenizer = KINDS[kind]()
    tokenizer.encode_special_tokens = specials_are_text
    return tokenizer


def special_ids(kind):
    return [untouched(kind, specials_are_text=False).token_to_id(text) for text in SPECIALS]


@EVERY_KIND
@settings(max_examples=25, deadline=None)
@given(question=harmless_texts, passages=harmless_passages, answer=harmless_texts)
def test_page_without_specials_in_its_texts_is_tokenised_as_a_whole(kind, question, passages, answer):
    if kind == "normalizing specials":
        return  # there the tokenizer itself misses the template's special tokens; ours are real
    prompt = CHAT.render(question=question, passages=passages)
    found = page_tokenizer(kind).tokenise(prompt, answer)
    expected = untouched(kind, specials_are_text=False).encode(prompt.text + answer, add_special_tokens=False)
    assert found.ids.tolist() == expected.ids
    if kind != "stripping":  # there a special token's own range covers the white space behind it; ours is the token's
        assert found.offsets.tolist() == [list(pair) for pair in expected.offsets]


@EVERY_KIND
@settings(max_examples=25, deadline=None)
@given(question=hostile_texts, passages=hostile_passages, answer=hostile_answers)
def test_only_the_templates_own_special_tokens_are_real(kind, question, passages, answer):
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
@settings(max_examples=25, deadline=None)
@given(question=hostile_texts, passages=hostile_passages, answer=hostile_answers)
def test_plain_template_gives_what_the_tokenizer_gives_with_specials_as_text(kind, question, passages, answer):
    prompt = PLAIN_TEMPLATE.render(question=question, passages=passages)
    page = (prompt.text + answer).replace("\ufdd0", "\ufffd")
    found = page_tokenizer(kind).tokenise(prompt, answer)
    if kind == "unigram":
        assert not np.isin(found.ids, special_ids(kind)).any()
        return
    expected = untouched(kind, specials_are_text=True).encode(page)
    assert found.ids.tolist() == expected.ids
    assert found.offsets.tolist() == [list(pair) for pair in expected.offsets]


def test_special_token_between_a_template_and_a_text_is_text():
    template = PromptTemplate(passage="<{text}", question="</{question}")
    prompt = template.render(question="s>", passages=[Passage("s>")])
    assert prompt.text == "<s></s>"
    found = PageTokenizer(KINDS["byte level"](), add_special_tokens=False).tokenise(prompt, "yes")
    assert not np.isin(found.ids, special_ids("byte level")).any()
