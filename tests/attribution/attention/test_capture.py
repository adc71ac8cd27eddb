"""Our capture against transformers' own eager attention: every architecture of one table, every kind of its layers.

Whatever the model's precision, the captured softmax is that of float32. A bias that the model computes from
positions counts in the captured layer and in those below.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.made_rows import full_similarity
from tests.attribution.tiny_models import (
    CONFIGS,
    DECODERS,
    ENCODERS,
    GROUPED,
    MIXED,
    VOCABULARY_SIZE,
    save_model_of,
    save_tiny_model,
    tiny_wordpiece,
)
from transformers import AutoModel, masking_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.granite_swa import modeling_granite_swa
from transformers.models.granitemoe_swa import modeling_granitemoe_swa

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout, choose_layout
from attribeam.attribution.attention.capture import capture_attention, capturing, observing
from attribeam.attribution.attention.end_to_end_attention import EndToEndRows, rows_end_to_end
from attribeam.attribution.attention.reduction import Capture, RowRequest
from attribeam.attribution.models.model_directory import choose_layer, layer_types
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition, SoftmaxOver
from attribeam.attribution.prompts import PromptTemplate
from attribeam.attribution.prompts.token_offsets import PageTokenizer, encode_page
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

TOLERANCE = 1e-5
EVERYTHING = 10_000


def record(passages, answer, *, titled=True):
    parts = tuple(Passage(text=text, title=f"Part {index}" if titled else None) for index, text in enumerate(passages))
    return QARecord("r", "Who kept the lamp?", parts, answer, RowSource("log.parquet", 0))


RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."),
    record(["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower at Brigg Point."),
]
ANSWERS = ["It was Ada Thorne.", "Ada Thorne lit the lamp.", "A keeper in the tower."]
BATCHES = {
    "single": (RECORDS, 1), "padded": (RECORDS, EVERYTHING), "of equal length": (RECORDS[:1] * 2, EVERYTHING),
    "of one prompt": ([replace(RECORDS[2], answer=answer) for answer in ANSWERS], EVERYTHING),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One layer of one model, looked at from one position."""

    kind: str
    layer: int | None
    position: QueryPosition

    def __str__(self):
        return f"{self.kind}-{self.layer or 'default'}-{self.position}"


def windowed_layer(kind):
    """The last layer with a window, sliding or not, in a model that has full ones as well."""
    kinds = layer_types(CONFIGS[kind])
    windows = [index + 1 for index, one in enumerate(kinds) if one in ("sliding_attention", "chunked_attention")]
    return windows[-1] if windows and len(windows) < len(kinds) else None


CASES = [
    Case(kind, layer, position)
    for kind in CONFIGS
    for layer in dict.fromkeys([None, windowed_layer(kind)])
    for position in (QueryPosition if kind in DECODERS else [QueryPosition.SELF])
]
OWN_POSITION = [case for case in CASES if case.position is QueryPosition.PREDICTING or case.kind in ENCODERS]
TRIALS = [(case, "single") for case in CASES] + [(case, batch) for case in OWN_POSITION for batch in [*BATCHES][1:]]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return {kind: save_tiny_model(tmp_path_factory.mktemp(kind), kind) for kind in CONFIGS}


@cache
def load(directory, **options):
    given = ModelOptions(model=str(directory), device="cpu", **options)
    return AttentionModel.from_pretrained(given, method=MethodOptions(top_k=EVERYTHING))


@cache
def eager_model(directory):
    return AutoModel.from_pretrained(directory, attn_implementation="eager").eval()


def eager_similarity(directory, model, row):
    """S by transformers' own means, over the whole model: [responses, prompt_length]."""
    reference = eager_model(directory)
    with torch.no_grad():
        outputs = reference(torch.from_numpy(row.token_ids.astype(np.int64))[None], output_attentions=True)
    without_attention = layer_types(reference.config)[: model.layer].count("linear_attention")
    attention = outputs.attentions[model.layer - 1 - without_attention][0]
    shift = 1 if model.query_position is QueryPosition.PREDICTING else 0
    similarity = attention[:, row.prompt_length - shift : len(row.token_ids) - shift, : row.prompt_length]
    if model.softmax_over is SoftmaxOver.PROMPT:
        similarity = similarity / similarity.sum(-1, keepdim=True)
    return similarity.mean(0).numpy()


@pytest.mark.parametrize(("case", "batch"), TRIALS, ids=str)
def test_similarity_is_that_of_eager_attention(directories, case, batch):
    records, token_budget = BATCHES[batch]
    directory = directories[case.kind]
    model = copy(load(directory, layer=case.layer, query_position=case.position))
    model.token_budget = token_budget
    rows = [model.encode(one) for one in records]
    found = model.attribute(rows, [len(one.passages) for one in records])
    for row, tokens in zip(rows, found, strict=True):
        expected = eager_similarity(directory, model, row)
        np.testing.assert_allclose(full_similarity(tokens), expected, atol=TOLERANCE, rtol=0)
        for passage in range(tokens.passage_mass.shape[1]):
            mass = expected[:, row.column_passage == passage].sum(1)
            np.testing.assert_allclose(tokens.passage_mass[:, passage], mass, atol=TOLERANCE, rtol=0)
        outside = expected[:, row.column_passage < 0].sum(1)
        np.testing.assert_allclose(tokens.sink_mass, outside, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_decoders_look_from_the_predicting_position_and_encoders_from_their_own(directories, kind):
    model = load(directories[kind])
    assert model.query_position is (QueryPosition.SELF if kind in ENCODERS else QueryPosition.PREDICTING)
    assert model.layer == choose_layer(CONFIGS[kind], None).layer


RECORDING = "recording_of_queries_and_keys"
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
ROUGHEST = {"bfloat16": 1e-4, "float16": 1e-5}
ROUNDING = {"bfloat16": 2e-2, "float16": 2e-3}
recorded = []


def record_and_attend(module, query, key, *rest, scaling, **options):
    recorded.append((query[0], key[0], scaling))
    return sdpa_attention_forward(module, query, key, *rest, scaling=scaling, **options)


ALL_ATTENTION_FUNCTIONS.register(RECORDING, record_and_attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(RECORDING, sdpa_mask)


def queries_and_keys(directory, row, layer, dtype):
    """What the model itself, in its own precision, brings to the softmax of a layer: [heads, tokens, size], scaling."""
    model = AutoModel.from_pretrained(directory, dtype=dtype, attn_implementation=RECORDING).eval()
    recorded.clear()
    with torch.inference_mode():
        model(torch.from_numpy(row.token_ids.astype(np.int64))[None])
    query, key, scaling = recorded[layer - 1]
    assert query.dtype == key.dtype == dtype
    return query, key.repeat_interleave(len(query) // len(key), dim=0), torch.tensor(scaling)


def observed_queries_and_keys(model, row):
    """What our own pass brings to the softmax of layer L*: [heads, tokens, size], scaling."""
    seen = []
    with observing(lambda layer, attention: seen.append(attention) if layer == model.layer - 1 else None):
        model.attribute([row], [3])
    (attention,) = seen
    query, key = attention.query, attention.key
    return query, key.repeat_interleave(len(query) // len(key), dim=0), torch.tensor(attention.rule.scaling)


def softmax_in(dtype, parts, *, causal):
    """The attention of one row with everything computed in ``dtype``, mean over attention heads: [tokens, tokens]."""
    query, key, scaling = (part.to(dtype) for part in parts)
    logits = query @ key.transpose(1, 2) * scaling
    if causal:
        logits = logits.masked_fill(torch.ones_like(logits).triu(1).bool(), float("-inf"))
    return logits.softmax(-1).mean(0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["llama", "gemma3", "gpt2", "gpt_neox", "phi3", "bert"])
def test_softmax_of_half_precision_models_is_that_of_float32(directories, kind, dtype):
    directory = directories[kind]
    model = load(directory, dtype=dtype, query_position=QueryPosition.SELF)
    assert model.dtype == DTYPES[dtype]
    row = model.encode(RECORDS[2])
    (tokens,) = model.attribute([row], [3])
    assert tokens.top_scores.dtype == tokens.passage_mass.dtype == np.float32
    parts = observed_queries_and_keys(model, row)
    for ours, theirs in zip(parts, queries_and_keys(directory, row, model.layer, DTYPES[dtype]), strict=True):
        assert (ours - theirs).abs().mean() <= ROUNDING[dtype] * theirs.abs().mean()
    causal = hf.AutoConfig.from_pretrained(directory).model_type not in ENCODERS
    rows, columns = slice(row.prompt_length, None), slice(row.prompt_length)
    exact = softmax_in(torch.float64, parts, causal=causal)[rows, columns].numpy()
    rough = softmax_in(DTYPES[dtype], parts, causal=causal)[rows, columns].double().numpy()
    np.testing.assert_allclose(full_similarity(tokens), exact, atol=1e-6, rtol=0)
    assert np.abs(rough - exact).max() > ROUGHEST[dtype]


TOKENS, HEADS, SIZE = 7, 2, 4
GENERATOR = torch.Generator().manual_seed(3)
QUERY, KEY, VALUE = (torch.randn(1, HEADS, TOKENS, SIZE, generator=GENERATOR) for _ in range(3))
BIAS = torch.randn(1, HEADS, TOKENS, TOKENS, generator=GENERATOR)


class Attention(torch.nn.Module):
    layer_idx = 0
    is_causal = True


def expected_weights():
    """softmax(Q K^T / 2 + bias) under causality: [heads, tokens, tokens]."""
    logits = QUERY[0] @ KEY[0].transpose(1, 2) / 2 + BIAS[0]
    return logits.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), float("-inf")).softmax(-1)


def test_bias_counts_in_the_captured_layer():
    request = RowRequest(torch.arange(TOKENS), TOKENS, torch.zeros(TOKENS, dtype=torch.int64), 1)
    capture = Capture(layer_index=0, top_k=TOKENS, rows=[request])
    with capturing(capture):
        capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)
    (row,) = capture.captured
    found = torch.zeros_like(row.top_scores).scatter_(1, row.top_columns, row.top_scores)
    np.testing.assert_allclose(found.numpy(), expected_weights().mean(0).numpy(), atol=1e-6)


def test_bias_of_rows_end_to_end_is_refused():
    rows = EndToEndRows([3, 4], torch.device("cpu"))
    with rows_end_to_end(rows), pytest.raises(ValueError, match="no position_bias"):
        capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)


PADDED_ONLY = {"llama4", "qwen3_next", "falcon_h1", "roberta"}


ONE = ["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."]
OTHER = ["The lamp was seen from twelve miles away."]
LAYOUT_RECORDS = [
    record(passages, answer, titled=False)
    for passages, answer in (
        (ONE, "Ada Thorne lit the lamp."),
        (OTHER, "It was seen from afar."),
        (ONE, "In 1874 the lighthouse was built by Ada Thorne, and the keeper of its lamp lived in the tower."),
        (OTHER, "Twelve miles."),
        (ONE, "Nobody says."),
    )
]


def similarities(model, rows):
    return [full_similarity(tokens) for tokens in model.attribute(rows, [2] * len(rows))]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_padded_rows_have_the_attention_of_the_chosen_layout(directories, kind):
    model = load(directories[kind], token_budget=EVERYTHING)
    assert model.layout is (RowLayout.PADDED if kind in PADDED_ONLY else RowLayout.END_TO_END)
    padded = copy(model)
    padded.layout = RowLayout.PADDED
    rows = [model.encode(one) for one in LAYOUT_RECORDS]
    assert_close(similarities(model, rows), similarities(padded, rows))


def test_prompt_in_common_is_computed_once(directories, monkeypatch):
    model = load(directories["llama"], token_budget=EVERYTHING)
    rows = [model.encode(one) for one in LAYOUT_RECORDS]
    forward = model.network.forward
    sizes = []

    def counted(*, input_ids, **options):
        sizes.append(input_ids.numel())
        return forward(input_ids=input_ids, **options)

    monkeypatch.setattr(model.network, "forward", counted)
    model.attribute(rows, [2] * len(rows))
    own = [len(row.token_ids) for row in rows]
    saved = [in_common(rows[0], row) for row in (rows[2], rows[4])] + [in_common(rows[1], rows[3])]
    assert all(2 * one > row.prompt_length for one, row in zip(saved, [rows[2], rows[4], rows[3]], strict=True))
    assert sizes == [sum(own) - sum(saved)]


def in_common(first, second):
    pairs = zip(first.token_ids, second.token_ids, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def layout_where_code_fails(directories, error):
    def fails():
        raise error

    return choose_layout(load(directories["llama"]).network, ["full_attention"], fails)


@pytest.mark.parametrize("error", [AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError])
def test_model_whose_code_fails_on_rows_end_to_end_gets_padded_rows(directories, error):
    assert layout_where_code_fails(directories, error("one row below the other")) is RowLayout.PADDED


def test_memory_that_runs_out_end_to_end_is_no_reason_to_pad(directories):
    with pytest.raises(torch.OutOfMemoryError):
        layout_where_code_fails(directories, torch.OutOfMemoryError("out of memory"))


def test_model_whose_rows_depend_on_the_padding_behind_them_is_refused(tmp_path):
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = hf.MobileBertConfig(vocab_size=VOCABULARY_SIZE, embedding_size=16, **shape)
    save_model_of(tmp_path, config, causal=False)
    with pytest.raises(ModelLoadError, match="depends on the padding behind it"):
        AttentionModel.from_pretrained(ModelOptions(model=str(tmp_path), device="cpu"))


def test_context_shorter_than_a_sample_row_is_refused_with_both_lengths(tmp_path):
    config = hf.GPT2Config(vocab_size=VOCABULARY_SIZE, n_embd=32, n_layer=2, n_head=4, n_positions=24)
    save_model_of(tmp_path, config)
    with pytest.raises(ModelLoadError, match=r"a sample row of \d+ tokens, its config.json gives it a context of 24"):
        AttentionModel.from_pretrained(ModelOptions(model=str(tmp_path), device="cpu"))


@pytest.mark.parametrize("kind", ["llama", "gemma3", "bert", "modernbert"])
def test_transformers_does_not_look_for_rows_in_the_positions(directories, monkeypatch, kind):
    """Looking means that the host waits for a GPU before it launches a pass."""

    def fail(_):
        pytest.fail("the positions were looked into")

    model = load(directories[kind], token_budget=EVERYTHING)
    assert model.layout is RowLayout.END_TO_END
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", fail)
    similarities(model, [model.encode(one) for one in LAYOUT_RECORDS])


WORDPIECE = tiny_wordpiece()
PAGES = PageTokenizer(tiny_wordpiece().backend_tokenizer, add_special_tokens=True)
PASSAGE = "The LIGHTHOUSE was built in 1874 by Ada Thorne."
ANSWER = "Ada Thorne built it in 1874."


def test_special_tokens_at_both_ends_are_part_of_the_row_and_cover_nothing(directories):
    row = load(directories["bert"]).encode(record([PASSAGE], ANSWER))
    assert row.token_ids[[0, -1]].tolist() == [WORDPIECE.cls_token_id, WORDPIECE.sep_token_id]
    assert row.column_passage[0] == -1
    assert row.response_chars[-1] is None
    assert [chars.of(ANSWER) for chars in row.response_chars if chars] == [*ANSWER[:-1].split(), "."]


PIECES = st.sampled_from(
    ["Ada", " built", "THE", "tower", " ", "\n", "é", "e\u0301", "漢字", "🦊", "xyz", "'", "\u200b"]
)


@settings(max_examples=30, deadline=None)
@given(answer=st.lists(PIECES, min_size=1, max_size=7).map("".join))
def test_pieces_of_words_cover_the_text_that_they_stand_for(answer):
    if not answer.strip(" \n\u200b\u0301"):
        return
    tokenizer = WORDPIECE.backend_tokenizer
    prompt = PromptTemplate().render(question="Who?", passages=[Passage(answer)])
    row = encode_page(prompt, answer, PAGES)[0]
    ids = row.token_ids[row.prompt_length :].tolist()
    assert ids[-1] == WORDPIECE.sep_token_id
    for token, chars in zip(ids[:-1], row.response_chars[:-1], strict=True):
        piece = tokenizer.id_to_token(token).removeprefix("##")
        assert chars is not None
        assert piece == "[UNK]" or tokenizer.normalizer.normalize_str(chars.of(answer)).strip() == piece


@pytest.mark.parametrize(("kind", "letter"), [("bert", " z"), ("roberta", "z")])
def test_row_of_512_tokens_is_attributed_and_one_more_is_refused(directories, kind, letter):
    model = load(directories[kind])
    assert model.max_tokens == 512
    short = len(model.encode(record([letter], ANSWER)).token_ids)
    row = model.encode(record([letter * (513 - short)], ANSWER))
    assert len(row.token_ids) == 512
    (tokens,) = model.attribute([row], [1])
    expected = eager_similarity(directories[kind], model, row)
    np.testing.assert_allclose(full_similarity(tokens), expected, atol=TOLERANCE, rtol=0)
    with pytest.raises(RowFault, match="at most 512 tokens") as caught:
        model.encode(record([letter * (514 - short)], ANSWER))
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_bert_made_a_decoder_is_asked_from_the_predicting_position(tmp_path):
    config = type(CONFIGS["bert"])(**{**CONFIGS["bert"].to_dict(), "is_decoder": True})
    save_model_of(tmp_path, config)
    model = load(tmp_path)
    assert model.query_position is QueryPosition.PREDICTING
    row = model.encode(record([PASSAGE], ANSWER))
    (tokens,) = model.attribute([row], [1])
    np.testing.assert_allclose(full_similarity(tokens), eager_similarity(tmp_path, model, row), atol=TOLERANCE)


SWA = {**GROUPED, **MIXED, "attention_multiplier": 0.5}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 16}
GRANITE_CONFIGS = {
    modeling_granite_swa: hf.GraniteSWAConfig(**SWA), modeling_granitemoe_swa: hf.GraniteMoeSWAConfig(**SWA, **EXPERTS),
}  # fmt: skip


@pytest.fixture(scope="module", params=GRANITE_CONFIGS, ids=["dense", "experts"])
def code(request):
    return request.param


@pytest.fixture(scope="module")
def encoder_directory(code, tmp_path_factory):
    return save_model_of(tmp_path_factory.mktemp("granite_swa"), GRANITE_CONFIGS[code])


@pytest.mark.parametrize("layer", [1, 2, 3, 4])
def test_weights_are_the_shares_that_the_layers_output_is_made_of(encoder_directory, code, layer):
    model = load(encoder_directory, layer=layer)
    row = model.encode(RECORDS[2])
    (found,) = model.attribute([row], [len(RECORDS[2].passages)])
    shares = _shares(encoder_directory, code, row.token_ids, layer - 1)
    expected = shares[row.prompt_length - 1 : -1, : row.prompt_length]
    np.testing.assert_allclose(full_similarity(found), expected, atol=1e-5, rtol=0)
    without_sinks = eager_similarity(encoder_directory, model, row)
    assert (without_sinks - expected).max() > 5e-5
    assert (without_sinks - expected).min() > -1e-5


def _shares(encoder_directory, code, token_ids, index):
    """What transformers' eager attention makes of the rows of the identity: the shares of all values, sinks counted."""
    model = AutoModel.from_pretrained(encoder_directory, attn_implementation="eager").eval()
    eager, shares = code.eager_attention_forward, {}

    def watched(module, query, key, value, *arguments, **named):
        identity = torch.eye(key.shape[2]).expand(1, key.shape[1], -1, -1)
        shares[module.layer_idx] = eager(module, query, key, identity, *arguments, **named)[0][0].mean(1)
        return eager(module, query, key, value, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(code, "eager_attention_forward", watched)
        model(torch.from_numpy(token_ids.astype(np.int64))[None])
    return shares[index].numpy()
