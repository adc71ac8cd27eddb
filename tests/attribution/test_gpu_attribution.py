"""On a GPU: the same attention as on the CPU, kernels for rows of variable length, memory, and running out of it."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from tests.attribution.made_rows import full_similarity, record
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention import end_to_end_attention as backends
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.end_to_end_attention import (
    EndToEndRows,
    kernel_of,
    row_by_row_attention,
    runs_varlen,
    varlen_attention,
)
from attribeam.attribution.attention.reduction import AttentionRule
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.rows import EncodedRow, TokenAttribution

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

CUDA = torch.device("cuda")
KINDS = ["llama", "qwen2", "mistral", "gemma2", "gpt_oss", "gpt2", "modernbert", "roberta"]
EVERYTHING = 10_000


ONE = ["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."]
RECORDS = [
    record(ONE, "Ada Thorne lit the lamp."),
    record(["The lamp was seen from twelve miles away."] * 2, "It was seen from twelve miles away."),
    record(ONE, "In 1874 the lighthouse was built by Ada Thorne."),
]


def load(directory, device, dtype="float32"):
    options = ModelOptions(model=str(directory), device=device, dtype=dtype, token_budget=EVERYTHING)
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))


def similarities(model):
    rows = [model.encode(one) for one in RECORDS]
    return [full_similarity(tokens) for tokens in model.attribute(rows, [2] * len(rows))]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_in_float32_is_that_of_the_cpu(tmp_path, kind):
    directory = save_tiny_model(tmp_path, kind)
    for found, expected in zip(
        similarities(load(directory, "cuda")), similarities(load(directory, "cpu")), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral", "gpt2", "modernbert"])
def test_attention_in_bfloat16_is_near_that_of_float32(tmp_path, kind):
    directory = save_tiny_model(tmp_path, kind, scale=0.1)
    model = load(directory, "cuda", "bfloat16")
    assert model.layout is RowLayout.END_TO_END
    assert model.provenance()["attention_backend"] != "sdpa"
    for found, expected in zip(similarities(model), similarities(load(directory, "cpu")), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.05, rtol=0)


def rules():
    reaches = (None, 40, 700)
    plain = [AttentionRule(causal=causal, reach=reach, scaling=0.3) for causal in (True, False) for reach in reaches]
    return [*plain, AttentionRule(causal=True, reach=None, scaling=0.3, softcap=2.0)]


@pytest.mark.parametrize("rule", rules(), ids=str)
@pytest.mark.parametrize("shared", [(0, 0, 0), (0, 250, 300)], ids=["apart", "sharing"])
@pytest.mark.parametrize("heads", [(4, 4), (8, 2)], ids=["all heads", "grouped"])
def test_kernel_for_rows_of_variable_length_is_attention_row_by_row(rule, shared, heads):
    if any(shared) and not rule.causal:
        pytest.skip("only causal rows share a prefix")
    if rule.softcap is not None and find_spec("flash_attn") is None:
        pytest.skip("torch's kernel has no soft cap")
    rows = EndToEndRows([300, 290, 900], CUDA, shared=shared)
    generator = torch.Generator(CUDA).manual_seed(1)
    query, key, value = (
        torch.randn(1, count, rows.token_count, 64, generator=generator, device=CUDA, dtype=torch.bfloat16)
        for count in (heads[0], heads[1], heads[1])
    )
    assert runs_varlen(query, value, rule)
    found = varlen_attention(query, key, value, rows=rows, rule=rule)
    expected = row_by_row_attention(query.float(), key.float(), value.float(), rows=rows, rule=rule)
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)


def test_no_kernel_takes_float32():
    assert kernel_of(CUDA, torch.float32) is None
    assert kernel_of(CUDA, torch.bfloat16) in ("flash-attn", "torch-varlen")


def test_rows_row_by_row_and_through_the_kernel_agree(tmp_path, monkeypatch):
    model = load(save_tiny_model(tmp_path, "qwen2", scale=0.1), "cuda", "bfloat16")
    by_kernel = similarities(model)
    monkeypatch.setattr(backends, "runs_varlen", lambda *_: False)
    for found, expected in zip(by_kernel, similarities(model), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02, rtol=0)


def long_row(tokens, responses=50):
    """Tokens of the tiny vocabulary, all but the last ``responses`` one passage."""
    prompt_length = tokens - responses
    places = np.arange(tokens, dtype=np.int32)
    return EncodedRow(
        token_ids=np.random.default_rng(tokens).integers(3, 300, tokens, dtype=np.int32),
        prompt_length=prompt_length,
        column_passage=np.zeros(prompt_length, dtype=np.int32),
        column_in_title=np.zeros(prompt_length, dtype=np.bool_),
        column_char_start=places[:prompt_length],
        column_char_end=places[:prompt_length] + 1,
        response_char_start=places[:responses],
        response_char_end=places[:responses] + 1,
    )


def added_bytes(model, rows):
    """Most memory that the rows took beside what was there."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for tokens in model.attribute(rows, [1] * len(rows)):
        assert isinstance(tokens, TokenAttribution)
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["qwen2", "mistral"])
def test_memory_grows_with_the_tokens_of_a_row_not_with_their_square(tmp_path, kind, dtype):
    model = load(save_tiny_model(tmp_path, kind), "cuda", dtype).with_method(MethodOptions(top_k=2))
    short, long = (added_bytes(model, [long_row(tokens)]) for tokens in (8_000, 32_000))
    assert long < 4.5 * short


def test_batch_that_does_not_fit_is_halved_on_the_device(tmp_path):
    model = load(save_tiny_model(tmp_path, "qwen2"), "cuda", "bfloat16").with_method(MethodOptions(top_k=2))
    model.token_budget = 2**20
    rows = [long_row(8_000 + number) for number in range(32)]
    expected = model.attribute(rows, [1] * len(rows))
    needed = added_bytes(model, rows)
    total = torch.cuda.get_device_properties(CUDA).total_memory
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    allowed = torch.cuda.memory_reserved() + needed // 3
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    try:
        found = model.attribute(rows, [1] * len(rows))
        assert torch.cuda.max_memory_allocated() <= allowed
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.passage_mass, other.passage_mass, atol=0.02)
