"""Windows: whole passages, each in one window, within the limit; the whole row has every column once."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.prompts.jinja_template import JinjaTemplate
from attribution.prompts.page_tokenizer import PageTokenizer
from attribution.prompts.passage_windows import EncodedPrompt, cut_into_windows
from attribution.prompts.prompt_choice import Template
from attribution.prompts.prompt_template import PAPER_TEMPLATE, PLAIN_TEMPLATE, PromptTemplate
from attribution.prompts.row_encoding import encode_page
from attribution.token_attribution import EncodedRow
from schemas import Passage, Reason, RowFault
from tests.attribution.prompt_texts import hostile_texts
from tests.attribution.tiny_models import SENTENCES, tiny_tokenizer

TOKENIZER = PageTokenizer(tiny_tokenizer())
QUESTION, ANSWER = "Who built the lighthouse?", "Ada Thorne built it."
INDEXED = PromptTemplate(
    preamble="<s>Read {this}.\n", titled_passage="[{index}] {title}: {text}\n\n", passage="[{index}] {text}\n\n"
)
JINJA = JinjaTemplate(
    "{{ question }}\n{% for p in passages %}{{ p.index }}. {{ p.title }} {{ p.text }}"
    "{% if not loop.last %}\n--\n{% endif %}{% endfor %}\nThere were {{ passages | length }} texts.\nAnswer: "
)
TEMPLATES = {"plain": PLAIN_TEMPLATE, "paper": PAPER_TEMPLATE, "indexed": INDEXED, "jinja": JINJA}
EVERY_TEMPLATE = pytest.mark.parametrize("name", TEMPLATES)

sentences = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3).map(" ".join)
tidy_passages = st.lists(
    st.builds(Passage, text=sentences, title=st.none() | st.just("The tower")), min_size=1, max_size=9
)
wild_passages = st.lists(
    st.builds(Passage, text=hostile_texts, title=st.none() | hostile_texts), min_size=1, max_size=9
)
limits = st.integers(min_value=140, max_value=400)


def encoded(
    passages: Sequence[Passage], template: Template, shown: range | None = None, *, answer: str = ANSWER
) -> EncodedPrompt:
    shown = range(len(passages)) if shown is None else shown
    prompt = template.render(question=QUESTION, passages=passages[shown.start : shown.stop], first_index=shown.start)
    return EncodedPrompt(prompt, *encode_page(prompt, answer, TOKENIZER))


def cut(passages: Sequence[Passage], template: Template, max_tokens: int, *, answer: str = ANSWER) -> EncodedRow:
    return cut_into_windows(
        encoded(passages, template, answer=answer),
        encode=lambda shown: encoded(passages, template, shown, answer=answer),
        passage_count=len(passages),
        max_tokens=max_tokens,
    )


def assert_same_row(found: EncodedRow, expected: EncodedRow) -> None:
    assert found.prompt_length == expected.prompt_length
    for name in ("token_ids", "column_passage", "column_in_title", "column_char_start", "column_char_end"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype
    assert found.response_chars == expected.response_chars


@EVERY_TEMPLATE
@settings(max_examples=30, deadline=None)
@given(passages=wild_passages, max_tokens=limits)
def test_every_passage_is_whole_in_one_window_within_the_limit(
    name: str, passages: list[Passage], max_tokens: int
) -> None:
    row = cut(passages, TEMPLATES[name], max_tokens)
    shown = [sorted({*window.row.column_passage.tolist()} - {-1}) for window in row.windows]
    assert [index for some in shown for index in some] == sorted({*row.column_passage.tolist()} - {-1})
    assert all(window.row.token_count <= max_tokens for window in row.windows)
    for window, some in zip(row.windows, shown, strict=True):
        for index in some:
            in_window = window.row.column_passage == index
            in_row = row.column_passage == index
            np.testing.assert_array_equal(window.columns[in_window], np.flatnonzero(in_row))
            for field in ("column_in_title", "column_char_start", "column_char_end"):
                np.testing.assert_array_equal(getattr(window.row, field)[in_window], getattr(row, field)[in_row])


@EVERY_TEMPLATE
@settings(max_examples=30, deadline=None)
@given(passages=wild_passages, max_tokens=limits)
def test_columns_of_a_window_ascend_and_all_columns_of_the_row_are_some_windows(
    name: str, passages: list[Passage], max_tokens: int
) -> None:
    row = cut(passages, TEMPLATES[name], max_tokens)
    assert all((np.diff(window.columns) > 0).all() for window in row.windows)
    assert {*range(row.prompt_length)} == {column for window in row.windows for column in window.columns.tolist()}
    for window in row.windows:
        own = window.row.token_ids[: window.row.prompt_length]
        np.testing.assert_array_equal(row.token_ids[window.columns], own)
        assert window.row.response_chars == row.response_chars
    assert len(row.token_ids) - row.prompt_length == len(row.response_chars)


@pytest.mark.parametrize("name", ["plain", "paper"])
@settings(max_examples=30, deadline=None)
@given(passages=tidy_passages, max_tokens=limits)
def test_windows_make_up_the_row_as_it_would_be_in_one_piece(
    name: str, passages: list[Passage], max_tokens: int
) -> None:
    assert_same_row(cut(passages, TEMPLATES[name], max_tokens), encoded(passages, TEMPLATES[name]).row)


@EVERY_TEMPLATE
@settings(max_examples=20, deadline=None)
@given(passages=wild_passages)
def test_one_window_is_the_row_itself(name: str, passages: list[Passage]) -> None:
    whole = encoded(passages, TEMPLATES[name]).row
    row = cut(passages, TEMPLATES[name], len(whole.token_ids))
    (window,) = row.windows
    assert_same_row(row, whole)
    assert_same_row(window.row, whole)
    np.testing.assert_array_equal(window.columns, np.arange(whole.prompt_length))


@EVERY_TEMPLATE
def test_bos_and_question_are_one_column_in_all_windows(name: str) -> None:
    passages = [Passage(f"{SENTENCES[number % 3]} It was number {number}.") for number in range(9)]
    row = cut(passages, TEMPLATES[name], 120)
    assert len(row.windows) > 2
    shared = set.intersection(*({*window.columns.tolist()} for window in row.windows))
    asked = TOKENIZER.tokenise(PromptTemplate(question="{question}").render(question=QUESTION, passages=[]), "").ids
    ids = row.token_ids[sorted(shared)].tolist()
    assert ids.count(0) == row.token_ids.tolist().count(0) == 1
    assert {*asked.tolist()} <= {*ids}
    assert all(row.column_passage[column] == -1 for column in shared)


@settings(max_examples=30, deadline=None)
@given(passages=tidy_passages, max_tokens=limits)
def test_windows_are_filled_greedily(passages: list[Passage], max_tokens: int) -> None:
    row = cut(passages, PLAIN_TEMPLATE, max_tokens)
    firsts = [int(window.row.column_passage[window.row.column_passage >= 0].min()) for window in row.windows]
    for first, following in pairwise(firsts):
        longer = encoded(passages, PLAIN_TEMPLATE, range(first, following + 1))
        assert longer.row.token_count > max_tokens


def test_index_of_a_passage_is_the_original_one_in_every_window() -> None:
    passages = [Passage(SENTENCES[number % 3]) for number in range(9)]
    decode = tiny_tokenizer().decode
    row = cut(passages, INDEXED, 160)
    for window in row.windows:
        text = decode(window.row.token_ids.tolist())
        for index in {*window.row.column_passage.tolist()} - {-1}:
            assert f"[{index + 1}] {passages[index].text}" in text


def test_passage_that_does_not_fit_alone_is_a_fault_that_names_it_and_its_length() -> None:
    passages = [Passage("A lamp."), Passage("tower " * 200), Passage("A tower.")]
    alone = encoded(passages, PLAIN_TEMPLATE, range(1, 2)).row
    own = int((alone.column_passage == 1).sum())
    answer = alone.token_count - alone.prompt_length
    found = f"passage 2 of 3 has {own}, the answer {answer}, all together {alone.token_count}"
    with pytest.raises(RowFault, match=f"at most 100 tokens; {found}. Log shorter texts.*--max-tokens") as caught:
        cut(passages, PLAIN_TEMPLATE, 100)
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_row_without_passages_that_is_too_long_is_a_fault() -> None:
    with pytest.raises(RowFault, match="at most 10 tokens; there is no passage") as caught:
        cut([], PLAIN_TEMPLATE, 10)
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_answer_that_melts_into_the_passage_before_it_is_a_fault() -> None:
    template = JinjaTemplate("{{ question }}\n{% for p in passages %}\n{{ p.text }}{% endfor %}")
    passages = [
        Passage("The lighthouse was built. " + end) for end in ("It is t", "It is here. ", "It is t", "It is. ")
    ]
    with pytest.raises(RowFault, match="same tokens in every window") as caught:
        cut(passages, template, 50, answer="he lamp")
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_template_that_shows_the_passages_backwards_is_cut_as_well() -> None:
    template = JinjaTemplate("{{ question }}\n{% for p in passages | reverse %}{{ p.text }}\n{% endfor %}Answer: ")
    passages = [Passage(f"{SENTENCES[number % 3]} It was number {number}.") for number in range(9)]
    row = cut(passages, template, 120)
    assert_same_row(row, encoded(passages, template).row)
    assert len(row.windows) > 2


def test_row_with_windows_is_pickled_and_counts_the_tokens_of_all_windows() -> None:
    row = cut([Passage(SENTENCES[number % 3]) for number in range(9)], PLAIN_TEMPLATE, 160)
    again = pickle.loads(pickle.dumps(row))
    assert_same_row(again, row)
    assert again.token_count == row.token_count == sum(len(window.row.token_ids) for window in row.windows)
    assert row.token_count > len(row.token_ids)
