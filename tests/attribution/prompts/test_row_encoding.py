"""Offsets: every token's range holds the token's own text, in every script, and nothing visible is left uncovered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from attribution.prompts.page_tokenizer import PageTokenizer
from attribution.prompts.prompt_template import PromptTemplate
from attribution.prompts.row_encoding import encode_row
from attribution.token_attribution import EncodedRow
from schemas import Passage, Reason, RowFault
from tests.attribution.tiny_models import tiny_tokenizer


def trimming_tokenizer() -> Tokenizer:
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


def encode(passages: list[Passage], answer: str, tokenizer: Tokenizer, template: PromptTemplate) -> EncodedRow:
    prompt = template.render(question="Who?", passages=passages)
    return encode_row(prompt, answer, PAGE_TOKENIZERS[id(tokenizer)])


def covered(starts: np.ndarray, ends: np.ndarray) -> set[int]:
    return {place for start, end in zip(starts.tolist(), ends.tolist(), strict=True) for place in range(start, end)}


def visible(text: str) -> set[int]:
    return {place for place, character in enumerate(text) if not character.isspace()}


@TOKENIZERS
@settings(max_examples=60)
@given(passages=passages, answer=visible_texts)
def test_ranges_hold_the_tokens_own_text(tokenizer: Tokenizer, passages: list[Passage], answer: str) -> None:
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
@settings(max_examples=60)
@given(passages=passages, answer=visible_texts)
def test_every_visible_character_of_the_answer_and_of_spaced_passages_is_covered(
    tokenizer: Tokenizer, template: PromptTemplate, passages: list[Passage], answer: str
) -> None:
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
@settings(max_examples=60)
@given(passages=passages, answer=visible_texts)
def test_ranges_have_no_white_space_at_their_ends(tokenizer: Tokenizer, passages: list[Passage], answer: str) -> None:
    row = encode(passages, answer, tokenizer, DENSE)
    for chars in row.response_chars:
        assert chars is None or chars.of(answer) == chars.of(answer).strip()


@TOKENIZERS
def test_blank_before_the_answer_goes_into_its_first_token_but_not_into_its_range(tokenizer: Tokenizer) -> None:
    row = encode([Passage("A tower.")], "the lamp", tokenizer, PromptTemplate())
    assert tokenizer.decode([int(row.token_ids[row.prompt_length])]) == " the"
    assert row.response_chars[0] is not None
    assert row.response_chars[0].of("the lamp") == "the"


@TOKENIZERS
def test_blank_line_between_passages_belongs_to_none(tokenizer: Tokenizer) -> None:
    row = encode([Passage("A tower."), Passage("A lamp.")], "Yes", tokenizer, PromptTemplate())
    tokens = [tokenizer.decode([token]) for token in row.token_ids[: row.prompt_length].tolist()]
    blank = [row.column_passage[index] for index, token in enumerate(tokens) if token and not token.strip()]
    assert blank
    assert set(blank) == {-1}


@TOKENIZERS
def test_white_space_within_a_passage_lies_in_it_and_covers_nothing(tokenizer: Tokenizer) -> None:
    row = encode([Passage("tower\n\n\nlamp")], "Yes", tokenizer, PromptTemplate())
    inside = (row.column_passage == 0) & (row.column_char_start == row.column_char_end)
    assert inside.any()
    assert covered(row.column_char_start, row.column_char_end) == visible("tower\n\n\nlamp")


@pytest.mark.parametrize("text", ["🦊", "漢", "e\u0301"])
def test_every_part_of_a_split_character_covers_all_of_it(text: str) -> None:
    row = encode([Passage("x")], text, PLAIN, PromptTemplate())
    assert len(row.response_chars) >= 2
    assert {chars.of(text) for chars in row.response_chars if chars} <= {*text}
    assert all(chars and chars.char_end - chars.char_start == 1 for chars in row.response_chars[1:])


def test_rows_begin_with_exactly_one_bos() -> None:
    row = encode([Passage("One."), Passage("Two.", "Title")], "Three.", PLAIN, PromptTemplate())
    assert row.token_ids[0] == 0
    assert (row.token_ids == 0).sum() == 1
    assert row.column_passage[0] == -1


def test_title_tokens_count_in_the_title() -> None:
    row = encode([Passage("The lamp.", "The tower")], "Yes", PLAIN, PromptTemplate())
    assert covered(row.column_char_start[row.column_in_title], row.column_char_end[row.column_in_title]) == visible(
        "The tower"
    )


def test_question_and_template_lie_in_no_passage() -> None:
    row = encode([Passage("Where?")], "Here", PLAIN, PromptTemplate(preamble="Read this. "))
    tokens = [PLAIN.decode([token]) for token in row.token_ids[: row.prompt_length].tolist()]
    text = "".join(token for token, passage in zip(tokens, row.column_passage, strict=True) if passage < 0)
    assert text.replace(" ", "").replace("\n", "") == "Readthis.Question:Who?Answer:"


def test_lone_surrogate_is_a_row_fault() -> None:
    with pytest.raises(RowFault) as caught:
        encode([Passage("\ud800")], "Yes", PLAIN, PromptTemplate())
    assert caught.value.reason is Reason.INVALID_UTF8


def test_empty_answer_is_a_row_fault() -> None:
    with pytest.raises(RowFault) as caught:
        encode([Passage("Text.")], "", PLAIN, PromptTemplate())
    assert caught.value.reason is Reason.EMPTY_ANSWER
