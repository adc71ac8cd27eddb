"""The tokens of a page, and the characters of each token."""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.made_rows import full_similarity
from tests.attribution.small_tokenizers import (
    KINDS,
    SPECIALS,
    harmless_texts,
    hostile_answers,
    hostile_passages,
    hostile_texts,
)
from tests.attribution.tiny_models import SENTENCES, tiny_tokenizer
from tests.transforms.tiny_parser import save_tiny_parser
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.prompts import PAPER_TEMPLATE, PLAIN_TEMPLATE, PromptTemplate
from attribeam.attribution.prompts.jinja_template import JinjaTemplate
from attribeam.attribution.prompts.token_offsets import (
    EncodedPrompt,
    PageTokenizer,
    attribute_with_windows,
    cut_into_windows,
    encode_page,
    merge_windows,
)
from attribeam.attribution.rows import EncodedRow, PassageWindow, TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource, SpanKind


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
    assert (row.column_char_start <= row.column_char_end).all()
    assert all(chars is None or chars.of(answer) == chars.of(answer).strip() != "" for chars in row.response_chars)
    if template is DENSE:
        return
    for index, passage in enumerate(passages):
        for in_title, text in ((True, passage.title or ""), (False, passage.text)):
            mine = (row.column_passage == index) & (row.column_in_title == in_title)
            found = covered(row.column_char_start[mine], row.column_char_end[mine])
            assert visible(text) <= found <= set(range(len(text)))


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
tidy = st.builds(Passage, text=sentences, title=st.none() | st.just("The tower"))
wild = st.builds(Passage, text=hostile_texts, title=st.none() | hostile_texts)
tidy_passages, wild_passages = (st.lists(one, min_size=1, max_size=9) for one in (tidy, wild))
limits = st.integers(min_value=140, max_value=400)
NUMBERED = [Passage(f"{SENTENCES[number % 3]} It was number {number}.") for number in range(9)]


def encoded(passages, template, shown=None, *, answer=ANSWER):
    shown = range(len(passages)) if shown is None else shown
    prompt = template.render(question=QUESTION, passages=passages[shown.start : shown.stop], first_index=shown.start)
    return EncodedPrompt(prompt, *encode_page(prompt, answer, TOKENIZER))


def cut(passages, template, max_tokens, *, answer=ANSWER):
    return cut_into_windows(
        encoded(passages, template, answer=answer),
        encode=lambda shown: encoded(passages, template, shown, answer=answer),
        passage_count=len(passages),
        max_tokens=max_tokens,
    )


def assert_same_row(found, expected):
    assert found.prompt_length == expected.prompt_length
    for name in ("token_ids", "column_passage", "column_in_title", "column_char_start", "column_char_end"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype
    assert found.response_chars == expected.response_chars


@EVERY_TEMPLATE
@settings(max_examples=30, deadline=None)
@given(passages=wild_passages, max_tokens=limits)
def test_every_passage_is_whole_in_one_window_and_the_windows_make_up_the_row(name, passages, max_tokens):
    row = cut(passages, TEMPLATES[name], max_tokens)
    assert {*range(row.prompt_length)} == {column for window in row.windows for column in window.columns.tolist()}
    assert len(row.token_ids) - row.prompt_length == len(row.response_chars)
    shown = [sorted({*window.row.column_passage.tolist()} - {-1}) for window in row.windows]
    assert [index for some in shown for index in some] == sorted({*row.column_passage.tolist()} - {-1})
    assert all(window.row.token_count <= max_tokens for window in row.windows)
    for window, some in zip(row.windows, shown, strict=True):
        assert (np.diff(window.columns) > 0).all()
        own = window.row.token_ids[: window.row.prompt_length]
        np.testing.assert_array_equal(row.token_ids[window.columns], own)
        assert window.row.response_chars == row.response_chars
        for index in some:
            in_window = window.row.column_passage == index
            in_row = row.column_passage == index
            np.testing.assert_array_equal(window.columns[in_window], np.flatnonzero(in_row))
            for field in ("column_in_title", "column_char_start", "column_char_end"):
                np.testing.assert_array_equal(getattr(window.row, field)[in_window], getattr(row, field)[in_row])


@pytest.mark.parametrize("name", ["plain", "paper"])
@settings(max_examples=30, deadline=None)
@given(passages=tidy_passages, max_tokens=limits)
def test_windows_make_up_the_row_as_it_would_be_in_one_piece(name, passages, max_tokens):
    assert_same_row(cut(passages, TEMPLATES[name], max_tokens), encoded(passages, TEMPLATES[name]).row)


@EVERY_TEMPLATE
def test_bos_and_question_are_one_column_in_all_windows(name):
    row = cut(NUMBERED, TEMPLATES[name], 120)
    assert len(row.windows) > 2
    shared = set.intersection(*({*window.columns.tolist()} for window in row.windows))
    asked = TOKENIZER.tokenise(PromptTemplate(question="{question}").render(question=QUESTION, passages=[]), "").ids
    ids = row.token_ids[sorted(shared)].tolist()
    assert ids.count(0) == row.token_ids.tolist().count(0) == 1
    assert {*asked.tolist()} <= {*ids}
    assert all(row.column_passage[column] == -1 for column in shared)


@settings(max_examples=30, deadline=None)
@given(passages=tidy_passages, max_tokens=limits)
def test_windows_are_filled_greedily(passages, max_tokens):
    row = cut(passages, PLAIN_TEMPLATE, max_tokens)
    firsts = [int(window.row.column_passage[window.row.column_passage >= 0].min()) for window in row.windows]
    for first, following in pairwise(firsts):
        longer = encoded(passages, PLAIN_TEMPLATE, range(first, following + 1))
        assert longer.row.token_count > max_tokens


def test_passage_that_does_not_fit_alone_is_a_fault_that_names_it_and_its_length():
    passages = [Passage("A lamp."), Passage("tower " * 200), Passage("A tower.")]
    alone = encoded(passages, PLAIN_TEMPLATE, range(1, 2)).row
    own = int((alone.column_passage == 1).sum())
    answer = alone.token_count - alone.prompt_length
    found = f"passage 2 of 3 has {own}, the answer {answer}, all together {alone.token_count}"
    with pytest.raises(RowFault, match=f"at most 100 tokens; {found}. Log shorter texts.*--max-tokens") as caught:
        cut(passages, PLAIN_TEMPLATE, 100)
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_row_without_passages_that_is_too_long_is_a_fault():
    with pytest.raises(RowFault, match="at most 10 tokens; there is no passage") as caught:
        cut([], PLAIN_TEMPLATE, 10)
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_answer_that_melts_into_the_passage_before_it_is_a_fault():
    template = JinjaTemplate("{{ question }}\n{% for p in passages %}\n{{ p.text }}{% endfor %}")
    passages = [
        Passage("The lighthouse was built. " + end) for end in ("It is t", "It is here. ", "It is t", "It is. ")
    ]
    with pytest.raises(RowFault, match="same tokens in every window") as caught:
        cut(passages, template, 50, answer="he lamp")
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_template_that_shows_the_passages_backwards_is_cut_as_well():
    template = JinjaTemplate("{{ question }}\n{% for p in passages | reverse %}{{ p.text }}\n{% endfor %}Answer: ")
    row = cut(NUMBERED, template, 120)
    assert_same_row(row, encoded(NUMBERED, template).row)
    assert len(row.windows) > 2


RESPONSES = 3


def made_row(prompt_length, windows=()):
    zeros, ends = np.zeros(prompt_length, np.int32), np.ones(RESPONSES, np.int32)
    ids = np.zeros(prompt_length + RESPONSES, np.int32)
    return EncodedRow(ids, prompt_length, zeros, zeros.astype(bool), zeros, zeros, ends - 1, ends, windows)


def row_with_windows(columns):
    length = 1 + max(column for some in columns for column in some)
    return made_row(length, tuple(PassageWindow(made_row(len(some)), np.array(some, np.int32)) for some in columns))


def largest(similarity, top_k):
    top = np.argsort(-similarity, axis=1, kind="stable").astype(np.int32)[:, :top_k]
    return top, np.take_along_axis(similarity, top, axis=1)


def attributed(similarity, top_k, passage_mass, sink_mass=0):
    outside = np.full(RESPONSES, sink_mass, np.float32)
    return TokenAttribution(*largest(similarity, top_k), passage_mass, outside)


@st.composite
def windows_and_scores(draw):
    """Windows over some columns that share the outer ones, and whole matrices with many ties."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    shared, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    ends = np.cumsum([shared, *sizes]).tolist()
    tail = [*range(ends[-1], ends[-1] + after)]
    columns = [[*range(shared), *range(a, b), *tail] for a, b in pairwise(ends)]
    numbers = st.integers(0, 6)
    scores = [
        np.array(draw(st.lists(numbers, min_size=RESPONSES * len(some), max_size=RESPONSES * len(some))), np.float32)
        for some in columns
    ]
    matrices = [one.reshape(RESPONSES, -1) / 8 for one in scores]
    return columns, matrices, draw(st.integers(1, 6))


@settings(max_examples=60, deadline=None)
@given(case=windows_and_scores())
def test_merge_of_the_top_k_is_the_top_k_of_the_merged_matrices(case):
    columns, matrices, top_k = case
    row = row_with_windows(columns)
    merged = np.full((RESPONSES, row.prompt_length), -1, np.float32)
    for some, matrix in zip(columns, matrices, strict=True):
        merged[:, some] = np.maximum(merged[:, some], matrix)
    masses = [np.full((RESPONSES, 2), number, np.float32) for number in range(len(columns))]
    parts = [attributed(one, top_k, mass) for one, mass in zip(matrices, masses, strict=True)]
    found = merge_windows(row, parts, top_k=top_k)
    expected_columns, expected_scores = largest(merged, top_k)
    np.testing.assert_array_equal(found.top_columns, expected_columns)
    np.testing.assert_array_equal(found.top_scores, expected_scores)
    np.testing.assert_array_equal(found.passage_mass, sum(masses))
    assert (found.top_columns.dtype, found.top_scores.dtype) == (np.int32, np.float32)
    assert found.passage_mass.dtype == np.float32


def test_mass_outside_the_passages_is_the_mean_over_windows_and_shares_still_add_up():
    similarity, nothing = np.zeros((RESPONSES, 3), np.float32), np.zeros((RESPONSES, 2), np.float32)
    first, second = nothing + np.array([0.5, 0], np.float32), nothing + np.array([0, 0.125], np.float32)
    parts = [attributed(similarity, 2, first, sink_mass=0.5), attributed(similarity, 2, second, sink_mass=0.875)]
    found = merge_windows(row_with_windows([[0, 1, 2], [0, 3, 4]]), parts, top_k=2)
    assert found.sink_mass.tolist() == [0.6875] * RESPONSES
    assert found.sink_mass.dtype == np.float32
    assert (found.passage_mass.sum(1) / len(parts) + found.sink_mass).tolist() == [1] * RESPONSES


def test_rows_with_and_without_windows_keep_their_order_and_a_windows_fault_is_its_rows():
    rows = [made_row(4), row_with_windows([[0, 1, 2], [0, 3]]), row_with_windows([[0, 1], [0, 2]])]
    seen = []

    def attribute(some, counts):
        seen.extend((row.prompt_length, count) for row, count in zip(some, counts, strict=True))
        mass = [np.zeros((RESPONSES, count), np.float32) for count in counts]
        found = [
            attributed(np.ones((RESPONSES, row.prompt_length), np.float32), 2, mass[place])
            for place, row in enumerate(some)
        ]
        found[-1] = RowFault(Reason.OUT_OF_MEMORY, "too large")
        return found

    outcomes = attribute_with_windows(rows, [1, 5, 7], top_k=2, attribute=attribute)
    assert seen == [(4, 1), (3, 5), (2, 5), (2, 7), (2, 7)]
    assert isinstance(outcomes[0], TokenAttribution)
    assert outcomes[1].passage_mass.shape == (RESPONSES, 5)
    assert outcomes[2].reason is Reason.OUT_OF_MEMORY


EVERYTHING = 10_000


def record(count, *, name="r"):
    """About 40 tokens a passage; every passage has a number of its own."""
    passages = [
        Passage(f"Lamp {number} of the tower was lit in {1800 + number} by Ada Thorne, and seen far away.", title)
        for number, title in ((number, f"Lamp {number}" if number % 2 else None) for number in range(count))
    ]
    answer = "Lamp 17 was lit in 1817, and lamp 3 in 1803. 🙂"
    return QARecord(name, "When was lamp 17 lit?", tuple(passages), answer, RowSource("log", 0))


@pytest.fixture(scope="module")
def model(llama):
    method = MethodOptions(top_k=4)
    return AttentionModel.from_pretrained(ModelOptions(model=str(llama), device="cpu"), method=method, threads=1)


def attributed_by(model, row, count):
    (found,) = model.attribute([row], [count])
    assert isinstance(found, TokenAttribution)
    return found


def full_matrix(model, row, count):
    """S of a row without windows, float32 [responses, prompt_length]."""
    return full_similarity(attributed_by(model.with_method(MethodOptions(top_k=EVERYTHING)), row, count))


def assert_same(found, expected):
    for name in ("top_columns", "top_scores", "passage_mass", "sink_mass"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_long_row_has_the_top_k_of_the_merged_matrices_of_its_windows(model):
    row = model.encode(record(40))
    assert len(row.windows) > 2
    merged = np.zeros((len(row.response_chars), row.prompt_length), np.float32)
    outside = []
    for window in row.windows:
        matrix = full_matrix(model, window.row, 40)
        merged[:, window.columns] = np.maximum(merged[:, window.columns], matrix)
        outside.append(matrix[:, window.row.column_passage < 0].sum(1))
    found = attributed_by(model, row, 40)
    for own, expected in zip((found.top_columns, found.top_scores), largest(merged, 4), strict=True):
        np.testing.assert_array_equal(own, expected)
    one_hot = np.eye(41)[row.column_passage][:, :40]
    np.testing.assert_allclose(found.passage_mass, merged @ one_hot, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.sink_mass, np.mean(outside, axis=0), rtol=1e-5, atol=1e-7)


def test_row_that_fits_is_attributed_as_ever_alone_and_beside_a_long_one(model):
    short, long = record(5), record(40, name="long")
    row = model.encode(short)
    assert row.windows == ()
    alone = attributed_by(model, row, 5)
    outcomes = model.attribute([model.encode(long), row, model.encode(long)], [40, 5, 40])
    np.testing.assert_array_equal(outcomes[1].top_columns, alone.top_columns)
    np.testing.assert_allclose(outcomes[1].top_scores, alone.top_scores, atol=1e-6)
    assert_same(outcomes[0], outcomes[2])


def test_evidence_of_a_long_row_points_at_its_passages_own_words(llama, tmp_path):
    parser = save_tiny_parser(tmp_path / "parser")
    attributor = Attributor.from_pretrained(
        str(llama), parser=str(parser), spans=[SpanKind.WORDS], top_k=12, threads=1, device="cpu"
    )
    asked = record(40)
    (spans,) = attributor.attribute_many([asked])
    pieces = [piece for span in spans for piece in span.evidence]
    assert len({piece.passage_index for piece in pieces}) > 12
    for piece in pieces:
        passage = asked.passages[piece.passage_index]
        text = passage.title if piece.in_title else passage.text
        assert text
        assert piece.chars.of(text) == piece.text
        assert piece.text == piece.text.strip() != ""
