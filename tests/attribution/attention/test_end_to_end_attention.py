"""Attention of rows laid end to end, and through local layers, against rows on their own."""

import inspect
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.attention.test_capture import EVERYTHING, TOLERANCE, eager_similarity, load
from tests.attribution.made_rows import full_similarity, record
from tests.attribution.tiny_models import LARGE, VOCABULARY_SIZE, save_model_of, save_tiny_encoder, save_tiny_model
from torch.nn.attention import varlen
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config

from attribeam.attribution.attention import end_to_end_attention as module
from attribeam.attribution.attention import reduction
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.end_to_end_attention import (
    EndToEndRows,
    end_to_end_attention,
    kernel_of,
    row_by_row_attention,
    runs_varlen,
)
from attribeam.attribution.attention.reduction import AttentionRule, attention_weights, weighted_values
from attribeam.attribution.models.model_directory import rope_border
from attribeam.attribution.options import ModelOptions, SoftmaxOver
from attribeam.schemas import Reason
from lab.benchmarks.attribution_memory import random_row

CPU = torch.device("cpu")
ATTENTION_HEADS, KEY_HEADS, SIZE = 4, 2, 8


@st.composite
def packed_rows(draw):
    """Groups of rows: one whole row, and others that share a part of it."""
    lengths, shared = [], []
    for _ in range(draw(st.integers(1, 3))):
        lengths.append(draw(st.integers(1, 20)))
        shared.append(0)
        for _ in range(draw(st.integers(0, 3))):
            shared.append(draw(st.integers(1, lengths[len(lengths) - 1 - _])))
            lengths.append(shared[-1] + draw(st.integers(1, 12)))
    return EndToEndRows(lengths, CPU, shared=shared)


rules = st.builds(
    AttentionRule,
    causal=st.just(True),
    reach=st.one_of(st.none(), st.integers(0, 25)),
    scaling=st.just(0.7),
    softcap=st.sampled_from([None, 1.5]),
    sinks=st.sampled_from([None, torch.tensor([0.3, -1.0, 2.0, 0.0])]),
)


def states(places, seed):
    """Query, key and value of a sequence."""
    generator = torch.Generator().manual_seed(seed)
    heads = (ATTENTION_HEADS, KEY_HEADS, KEY_HEADS)
    query, key, value = (torch.randn(1, count, places, SIZE, generator=generator) for count in heads)
    return query, key, value


def places_of(one):
    return [*range(one.prefix_start, one.prefix_end), *range(one.start, one.end)]


def attend_by_the_definition(query, key, value, rows, rule):
    """Every query by itself: [1, places, attention heads, size]."""
    output = torch.empty(1, query.shape[2], ATTENTION_HEADS, SIZE)
    group = ATTENTION_HEADS // KEY_HEADS
    for one in rows.places:
        places = places_of(one)
        for position in range(one.prefix_length, len(places)):
            seen = [
                place
                for other, place in enumerate(places)
                if (other <= position or not rule.causal)
                and (rule.reach is None or abs(other - position) <= rule.reach)
            ]
            for head in range(ATTENTION_HEADS):
                logits = key[0, head // group, seen] @ query[0, head, places[position]] * rule.scaling
                if rule.softcap is not None:
                    logits = rule.softcap * torch.tanh(logits / rule.softcap)
                if rule.sinks is not None:
                    logits = torch.cat([logits, rule.sinks[head : head + 1]])
                weights = logits.softmax(0)[: len(seen)]
                output[0, places[position], head] = weights @ value[0, head // group, seen]
    return output


plain_rows = st.lists(st.integers(1, 20), min_size=1, max_size=4).map(lambda lengths: EndToEndRows(lengths, CPU))


@settings(max_examples=60, deadline=None)
@given(
    case=st.tuples(packed_rows(), rules) | st.tuples(plain_rows, rules.map(lambda rule: replace(rule, causal=False))),
    seed=st.integers(0, 99),
)
def test_attention_is_that_of_its_definition(case, seed):
    rows, rule = case
    query, key, value = states(rows.token_count, seed)
    found = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(found, attend_by_the_definition(query, key, value, rows, rule), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("reach", [None, 40, 300])
def test_blocks_of_queries_change_nothing(monkeypatch, reach, softcap):
    rows = EndToEndRows([200, 420, 150], CPU, shared=[0, 120, 100])
    rule = AttentionRule(causal=True, reach=reach, scaling=0.4, softcap=softcap)
    query, key, value = states(rows.token_count, 3)
    whole = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    monkeypatch.setattr(module, "_LARGEST_MASK", 64 * 64)
    monkeypatch.setattr(module, "MAX_WEIGHTS", 4 * 420 * 7)
    in_blocks = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(in_blocks, whole, atol=1e-5, rtol=1e-4)


def test_row_that_shares_more_than_there_is_is_refused():
    with pytest.raises(ValueError, match="should share fewer with a row of 3, was: 4"):
        EndToEndRows([3, 9], CPU, shared=[0, 4])
    with pytest.raises(ValueError, match="a row of 3 tokens should share fewer"):
        EndToEndRows([3, 3], CPU, shared=[0, 3])


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation puts out."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        output = function(*arguments, **(options or {}))
        for one in output if isinstance(output, tuple | list) else (output,):
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.untyped_storage().nbytes() // one.element_size())
        return output


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("reach", [None, 50])
@pytest.mark.parametrize("shared", [0, 100])
def test_no_tensor_grows_with_the_square_of_a_rows_tokens(monkeypatch, shared, reach, softcap):
    monkeypatch.setattr(module, "_LARGEST_MASK", 64 * 200)
    monkeypatch.setattr(module, "MAX_WEIGHTS", 4 * 200 * 16)
    largest = []
    for length in (200, 800):
        rows = EndToEndRows([length, length], CPU, shared=[0, shared])
        query, key, value = states(rows.token_count, 0)
        with torch.inference_mode(), LargestTensor() as seen:
            end_to_end_attention(query, key, value, rows=rows, rule=AttentionRule(True, reach, 0.3, softcap))
        largest.append(seen.elements / rows.token_count)
    assert largest[1] <= 1.2 * largest[0]


TORCH_SIGNATURE = inspect.signature(varlen.varlen_attn)


def stand_in(query, key, value, starts, scale, window, softcap=0.0):
    """Attention row by row, as the kernels' documents have it: [tokens, heads, size], windows from the rows' ends."""
    group = query.shape[1] // key.shape[1]
    output = torch.empty_like(query)
    for begin, end, first, last in zip(starts[0], starts[0][1:], starts[1], starts[1][1:], strict=False):
        keys, values = (states[first:last].repeat_interleave(group, 1) for states in (key, value))
        logits = torch.einsum("qhs,khs->hqk", query[begin:end], keys) * scale
        logits = torch.tanh(logits / softcap) * softcap if softcap else logits
        ahead = torch.arange(last - first) - torch.arange(last - first - (end - begin), last - first)[:, None]
        hidden = (ahead > window[1]) & (window[1] >= 0) | (ahead < -window[0]) & (window[0] >= 0)
        weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
        output[begin:end] = torch.einsum("hqk,khs->qhs", weights, values)
    return output


def torch_kernel(*arguments, **named):
    """``torch.nn.attention.varlen.varlen_attn`` as it is installed here, up to what it computes."""
    given = TORCH_SIGNATURE.bind(*arguments, **named)
    given.apply_defaults()
    asked = given.arguments
    assert asked["enable_gqa"] or asked["query"].shape[1] == asked["key"].shape[1]
    starts = (asked["cu_seq_q"], asked["cu_seq_k"])
    assert [int(one.diff().max()) for one in starts] == [asked["max_q"], asked["max_k"]]
    assert {one.dtype for one in starts} == {torch.int32}
    return stand_in(asked["query"], asked["key"], asked["value"], starts, asked["scale"], asked["window_size"])


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
):
    """The signature of flash-attn 2.8, as far as it matters; ``causal`` hides what is ahead, whatever the window."""
    assert (dropout_p, softmax_scale is None) == (0.0, False)
    starts = (cu_seqlens_q, cu_seqlens_k)
    assert [int(one.diff().max()) for one in starts] == [max_seqlen_q, max_seqlen_k]
    window = (window_size[0], 0) if causal else window_size
    return stand_in(q, k, v, starts, softmax_scale or 0.0, window, softcap)


@pytest.fixture
def flash_attn(monkeypatch):
    package = ModuleType("flash_attn")
    package.__spec__ = ModuleSpec("flash_attn", None)
    package.flash_attn_varlen_func = flash_attn_varlen_func
    monkeypatch.setitem(sys.modules, "flash_attn", package)


@pytest.fixture(params=["torch-varlen", "flash-attn"])
def kernel(request, monkeypatch, flash_attn):  # noqa: ARG001 - for what it does
    monkeypatch.setattr(varlen, "varlen_attn", torch_kernel)
    monkeypatch.setattr(module, "kernel_of", lambda *_: request.param)
    return str(request.param)


GPU = torch.device("cuda:0")
RULES = [
    *(AttentionRule(causal=causal, reach=reach, scaling=0.3) for causal in (True, False) for reach in (None, 4, 70)),
    AttentionRule(causal=True, reach=5, scaling=0.3, softcap=2.0),
]
CASES = [*((rule, (0, 0, 0)) for rule in RULES), *((rule, (0, 25, 28)) for rule in RULES if rule.causal)]
"""Only causal rows share a prefix."""


@pytest.mark.parametrize(("rule", "shared"), CASES, ids=str)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)], ids=["all heads", "grouped"])
def test_kernels_are_asked_for_the_attention_of_each_row(kernel, rule, shared, heads):
    rows = EndToEndRows([30, 29, 50], CPU, shared=shared)
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, count, rows.token_count, 16) for count in (heads[0], heads[1], heads[1]))
    if rule.softcap is not None and kernel == "torch-varlen":
        assert not runs_varlen(query, value, rule)
        return
    assert runs_varlen(query, value, rule)
    found = module.varlen_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(found, row_by_row_attention(query, key, value, rows=rows, rule=rule))


def test_heads_that_no_kernel_takes_are_left_to_others(kernel):
    rule = AttentionRule(causal=True, reach=None, scaling=1.0)
    for size, fits in ((256, True), (264, False), (12, False)):
        states = torch.zeros(1, 1, 1, size)
        assert runs_varlen(states, states, rule) is fits, kernel
    assert not runs_varlen(torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 1, 32), rule)
    states = torch.zeros(1, 1, 1, 64)
    assert not runs_varlen(states, states, AttentionRule(causal=True, reach=None, scaling=1.0, sinks=torch.zeros(1)))


@pytest.fixture
def gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    kernel_of.cache_clear()
    yield
    kernel_of.cache_clear()


@pytest.mark.usefixtures("gpu_that_is_not_there")
@pytest.mark.parametrize(("file", "content", "told"), [
    ("flash_attn.py", "raise ImportError('undefined symbol: _ZN2at4')", "undefined symbol"),
    ("flash_attn.py", "raise AttributeError('torch has no such operator')", "no such operator"),
    ("flash_attn/cute/__init__.py", "", "cannot import name 'flash_attn_varlen_func'"),
], ids=["built for another torch", "written for another torch", "another version's package"])  # fmt: skip
def test_flash_attn_that_cannot_be_used_is_passed_over_and_said(file, content, told, monkeypatch, tmp_path, caplog):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "flash_attn", raising=False)
    assert kernel_of(GPU, torch.bfloat16) == module.TORCH_VARLEN
    assert told in caplog.text


@pytest.mark.usefixtures("gpu_that_is_not_there", "flash_attn")
def test_kernels_take_half_precision_only():
    assert kernel_of(GPU, torch.float16) == module.FLASH_ATTN
    assert kernel_of(GPU, torch.float32) is None


LOCAL, FULL = "sliding_attention", "full_attention"
RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse."] * 3, "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."),
    record(["The lamp was seen from twelve miles away."] * 2, "Twelve miles away, in the tower at Brigg Point."),
]


@pytest.fixture(scope="module", params=[SoftmaxOver.VISIBLE, SoftmaxOver.PROMPT])
def directory(request, tmp_path_factory):
    return save_tiny_encoder(
        tmp_path_factory.mktemp("encoder"), layer_types=[LOCAL, LOCAL, FULL], softmax_over=request.param
    )


@pytest.mark.parametrize("token_budget", [1, 100_000])
def test_rows_end_to_end_have_the_attention_that_transformers_computes(directory, token_budget):
    model = load(directory, token_budget=token_budget)
    rows = [model.encode(one) for one in RECORDS]
    found = model.attribute(rows, [len(one.passages) for one in RECORDS])
    for row, one in zip(rows, found, strict=True):
        expected = eager_similarity(directory, model, row)
        np.testing.assert_allclose(full_similarity(one), expected, atol=1e-5)


def test_row_with_nan_leaves_its_neighbours_within_the_window_as_they_are(tmp_path):
    model = load(save_tiny_encoder(tmp_path, layer_types=[LOCAL, LOCAL, FULL]))
    poison, good = model.encode(RECORDS[1]), model.encode(RECORDS[2])
    unused = next(token for token in range(399, 0, -1) if token not in poison.token_ids and token not in good.token_ids)
    poison.token_ids[-1] = unused
    (expected,) = model.attribute([good], [2])
    with torch.no_grad():
        model.network.get_input_embeddings().weight[unused] = float("nan")
    fault, found = model.attribute([poison, good], [1, 2])
    assert fault.reason is Reason.NON_FINITE_ATTENTION
    np.testing.assert_allclose(full_similarity(found), full_similarity(expected), atol=1e-6)


BORDER = 60
SHAPE = LARGE | {"num_hidden_layers": 3}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 1.5],
    "long_factor": [2.0, 5.0, 9.0, 15.0],
}  # fmt: skip
PHI3 = Phi3Config(**SHAPE, original_max_position_embeddings=BORDER, rope_parameters=LONGROPE)
DYNAMIC = LlamaConfig(**SHAPE, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0})


def long_record(letters):
    return record(["The keeper lived in the tower.", "z" * letters], "Ada Thorne.")


def rows_around_the_border(model):
    """Rows of one token less than the border, of as many, of one more, and a long one; not in this order."""
    base = len(model.encode(long_record(1)).token_ids) - 1
    rows = [model.encode(long_record(length - base)) for length in (BORDER + 1, BORDER - 1, 4 * BORDER, BORDER)]
    assert [len(row.token_ids) for row in rows] == [BORDER + 1, BORDER - 1, 4 * BORDER, BORDER]
    return rows


@pytest.fixture(scope="module", params=[PHI3, DYNAMIC], ids=["longrope", "dynamic"])
def rotary_model(request, tmp_path_factory):
    return save_model_of(tmp_path_factory.mktemp("rope"), request.param)


def test_rows_on_both_sides_of_the_border_get_in_one_call_what_they_get_alone(rotary_model):
    model = load(rotary_model, token_budget=EVERYTHING)
    rows = rows_around_the_border(model)
    for row, together in zip(rows, model.attribute(rows, [2] * len(rows)), strict=True):
        expected = eager_similarity(rotary_model, model, row)
        np.testing.assert_allclose(full_similarity(together), expected, atol=TOLERANCE, rtol=0)


def test_threads_take_turns_in_a_model_that_keeps_the_frequencies_of_a_pass(tmp_path):
    model, inside, seen = load(save_model_of(tmp_path, PHI3), token_budget=EVERYTHING), [], []

    def enter(*_):
        inside.append(None)
        time.sleep(0.01)
        seen.append(len(inside))
        inside.pop()

    model.network.layers[0].register_forward_pre_hook(enter)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda row: model.attribute([row], [2]), rows_around_the_border(model)))
    assert seen == [1] * 4


@pytest.mark.parametrize(("config", "border"), [
    (PHI3, BORDER), (DYNAMIC, None), (LlamaConfig(), None), (Gemma3TextConfig(), None),
    (LlamaConfig(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}), None),
], ids=["longrope", "dynamic", "default", "one for each kind of layer", "yarn"])  # fmt: skip
def test_border_is_the_original_context_of_longrope(config, border):
    assert rope_border(config) == border


HEADS, BLOCK_KEY_HEADS, BLOCK_SIZE, VALUE_SIZE = 6, 2, 16, 24
RULE = AttentionRule(causal=True, reach=None, scaling=0.2)


def block_states(heads, tokens, size=BLOCK_SIZE, *, seed=0):
    return 2 * torch.randn(heads, tokens, size, generator=torch.Generator().manual_seed(seed)).bfloat16()


def exact(query, key, value, start, rule):
    places = torch.arange(key.shape[1])
    seen = rule.visible(places[start : start + query.shape[1]], places)
    return weighted_values(attention_weights(query, key, seen, rule), value).transpose(0, 1)


@pytest.mark.parametrize("reach", [None, 1, 20, 70, 500])
@pytest.mark.parametrize(("start", "queries"), [(0, 1), (0, 64), (0, 65), (0, 200), (130, 70), (150, 3)])
def test_it_is_attention_with_the_weights_written_out(start, queries, reach):
    tokens = start + queries
    query, key = block_states(HEADS, queries), block_states(BLOCK_KEY_HEADS, tokens, seed=1)
    value, rule = block_states(BLOCK_KEY_HEADS, tokens, VALUE_SIZE, seed=2), replace(RULE, reach=reach)
    found = module.blocked_attention(query, key, value, start=start, rule=rule)
    expected = exact(query, key, value, start, rule)
    assert found.dtype == torch.bfloat16
    assert found.shape == (queries, HEADS, VALUE_SIZE)
    assert (found - expected).abs().mean() < 4e-3 * expected.abs().mean()
    assert (found - expected).abs().max() < 2e-2 * expected.abs().max()


def test_rows_that_share_a_prefix_run_in_blocks_and_see_it(monkeypatch):
    rows = EndToEndRows([150, 130, 140], CPU, shared=[0, 100, 100])
    places = 150 + 30 + 40
    query, key, value = (
        block_states(HEADS, places)[None],
        block_states(BLOCK_KEY_HEADS, places, seed=1)[None],
        block_states(2, places)[None],
    )
    found = {}
    for blocked in (True, False):
        monkeypatch.setattr(module, "_has_avx512_without_amx", lambda blocked=blocked: blocked)
        found[blocked] = row_by_row_attention(query, key, value, rows=rows, rule=RULE)
    assert not found[True].equal(found[False]), "both ran the same code"
    assert (found[True] - found[False]).abs().max() < 2e-2 * found[False].abs().max()


def test_a_value_that_is_not_finite_is_not_hidden():
    count = 96  # an AMX product of keys that are no multiple of 32 reads on into the next query's weights, times zero
    query, key = block_states(HEADS, count), block_states(BLOCK_KEY_HEADS, count, seed=1)
    query[0, 70] = torch.nan
    value = block_states(BLOCK_KEY_HEADS, count, VALUE_SIZE, seed=2)
    found = module.blocked_attention(query, key, value, start=0, rule=RULE)
    assert found[70, 0].isnan().all()
    assert found[:70].isfinite().all()


@pytest.mark.parametrize(("dtype", "rule", "instructions", "runs"), [
    (torch.bfloat16, RULE, ("avx512_bf16",), True), (torch.bfloat16, RULE, ("amx_bf16", "avx512_bf16"), False),
    (torch.bfloat16, RULE, (), False), (torch.float32, RULE, ("avx512_bf16",), False),
    (torch.bfloat16, replace(RULE, causal=False), ("avx512_bf16",), False),
    (torch.bfloat16, replace(RULE, softcap=30.0), ("avx512_bf16",), False),
])  # fmt: skip
def test_it_runs_where_torch_has_nothing_faster(monkeypatch, dtype, rule, instructions, runs):
    monkeypatch.setattr(module, "half_precision_instructions", lambda: {"bfloat16": instructions})
    module._has_avx512_without_amx.cache_clear()
    try:
        assert module.runs_blocked(torch.zeros(1, 2, 3, 4, dtype=dtype), rule) is runs
    finally:
        module._has_avx512_without_amx.cache_clear()


PASSAGES, RESPONSES = 8, 100
SHORT, LONG = 1024, 4096


def largest_tensor(model, tokens):
    with LargestTensor() as largest:
        (found,) = model.attribute([random_row(tokens, VOCABULARY_SIZE)], [PASSAGES])
    assert len(found.top_columns) == RESPONSES
    return largest.elements


@pytest.mark.parametrize("kind", ["qwen2", "mistral", "modernbert"])
def test_largest_tensor_of_a_pass_grows_with_the_tokens_of_the_row(tmp_path, kind, monkeypatch):
    model = AttentionModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path, kind)), device="cpu"))
    assert model.layout is RowLayout.END_TO_END
    monkeypatch.setattr(reduction, "MAX_WEIGHTS", 1)  # slices have a fixed size, which would hide what grows
    short, long = largest_tensor(model, SHORT), largest_tensor(model, LONG)
    assert long <= 1.1 * LONG / SHORT * short
    assert long < LONG**2 / 16
