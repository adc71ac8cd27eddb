"""What is read from disk and kept, the text model's layers up to the captured one, and the memory that this takes."""

import json
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors import safe_open
from safetensors.torch import load_file
from tests.attribution.attention.test_capture import RECORDS, TOLERANCE, eager_similarity
from tests.attribution.attention.test_capture import load as load_attention
from tests.attribution.made_rows import full_similarity
from tests.attribution.tiny_models import (
    CONFIGS,
    NESTED,
    RECORD,
    save_model_of,
    save_nested_model,
    save_tiny_model,
)
from transformers import AutoConfig, AutoModelForCausalLM, modeling_utils

from attribeam.attribution.models import weight_loading
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_files import is_above_layer
from attribeam.attribution.models.weight_loading import load_weights, total_size, weight_groups
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.schemas.errors import ModelLoadError

CPU = torch.device("cpu")


def load(directory, layer):
    options = ModelOptions(model=str(directory))
    return load_weights(read_model_directory(options), layer=layer)


def save_in_shards(directory):
    """A small model of several files; returns its index, tensor to file."""
    save_tiny_model(directory)
    model = AutoModelForCausalLM.from_pretrained(directory)
    (directory / "model.safetensors").unlink()
    model.save_pretrained(directory, max_shard_size="25KB")
    index = json.loads((directory / "model.safetensors.index.json").read_text(encoding="utf-8"))
    return dict(index["weight_map"])


class _Slice:
    """A tensor of a file that is read when it is indexed, and says so."""

    def __init__(self, inner, name, read):
        self._inner, self._name, self._read = inner, name, read

    def __getitem__(self, key):
        self._read.add(self._name)
        return self._inner[key]

    def __getattr__(self, name):
        return getattr(self._inner, name)


@pytest.fixture
def tensors_read(monkeypatch):
    """The names of all tensors whose bytes were asked for."""
    read = set()

    class Watched:
        def __init__(self, *arguments, **options):
            self._inner = safe_open(*arguments, **options)

        def get_slice(self, name):
            return _Slice(self._inner.get_slice(name), name, read)

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def __exit__(self, *arguments):
            return self._inner.__exit__(*arguments)

    monkeypatch.setattr(modeling_utils, "safe_open", Watched)
    return read


def test_of_one_file_only_the_tensors_of_the_layers_that_run_are_read(tmp_path, tensors_read):
    directory = save_tiny_model(tmp_path)
    load(directory, layer=2)
    everything = set(load_file(directory / "model.safetensors"))
    above = {name for name in everything if "layers.2." in name or "layers.3." in name or "lm_head" in name}
    assert len(above) == 2 * 9 + 1
    assert tensors_read == everything - above


def test_of_a_nested_model_neither_images_nor_upper_layers_are_read(tmp_path, tensors_read):
    save_nested_model(tmp_path, "gemma3")
    load(tmp_path, layer=2)
    assert {name.split(".")[0] for name in tensors_read} == {"language_model"}
    assert not [name for name in tensors_read if "layers.2." in name or "layers.3." in name]
    assert any("layers.1." in name for name in tensors_read)


def test_files_that_hold_upper_layers_only_need_not_exist(tmp_path):
    files = save_in_shards(tmp_path)
    whole = load(tmp_path, layer=2).state_dict()
    unneeded = set(files.values()) - {file for name, file in files.items() if not is_above_layer(name, 2)}
    assert len(unneeded) >= 2
    for file in unneeded:
        (tmp_path / file).unlink()
    found = load(tmp_path, layer=2).state_dict()
    assert found.keys() == whole.keys()
    assert all(torch.equal(found[name], whole[name]) for name in whole)


def test_file_that_is_needed_and_missing_is_named(tmp_path):
    files = save_in_shards(tmp_path)
    file = files["model.layers.1.mlp.up_proj.weight"]
    (tmp_path / file).unlink()
    with pytest.raises(ModelLoadError, match=rf"lacks 1 of \d+: {file}; fetch them again"):
        load(tmp_path, layer=2)


def test_pickled_weights_are_refused_and_named(tmp_path):
    directory = save_tiny_model(tmp_path)
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    complaint = r"pytorch_model\.bin, which can run code when read; if you trust it, convert"
    with pytest.raises(ModelLoadError, match=complaint):
        load(directory, layer=2)


@pytest.mark.parametrize("kind", NESTED)
def test_text_model_alone_has_the_attention_of_the_whole(kind, tmp_path):
    whole = save_nested_model(tmp_path, kind)
    model = load_attention(tmp_path, layer=3)
    assert not any("vis" in name for name, _ in model.network.named_parameters())
    row = model.encode(RECORD)
    (tokens,) = model.attribute([row], [2])
    with torch.inference_mode():
        output = whole(input_ids=torch.from_numpy(row.token_ids.astype(np.int64))[None], output_attentions=True)
    similarity = output.attentions[2][0].mean(0)[row.prompt_length - 1 : -1, : row.prompt_length].numpy()
    expected = np.stack([similarity[:, row.column_passage == passage].sum(1) for passage in (0, 1)], axis=1)
    np.testing.assert_allclose(tokens.passage_mass, expected, atol=1e-5)


SCALED_BY_DEPTH = {"minicpm3", "albert", "distilbert"}
"""ALBERT's groups of layers go by their number; DistilBERT only keeps the number, which is not told from using it."""


@pytest.mark.parametrize("kind", CONFIGS)
def test_most_models_only_build_their_layers_by_their_number(kind):
    assert weight_loading.depth_matters(CONFIGS[kind]) is (kind in SCALED_BY_DEPTH)


@pytest.mark.parametrize(
    "config",
    [hf.EsmcConfig(), hf.Gemma3nTextConfig(), hf.GPTNeoXJapaneseConfig()],
    ids=lambda c: c.model_type,
)
def test_scales_shared_keys_and_last_layers_are_found(config):
    assert weight_loading.depth_matters(config)


def test_scale_of_every_layer_is_that_of_the_whole_model(tmp_path):
    """MiniCPM3 adds to the stream in proportion to 1 / sqrt(layers): a cut config would change layer 1 already."""
    save_model_of(tmp_path, type(CONFIGS["minicpm3"])(**{**CONFIGS["minicpm3"].to_dict(), "num_hidden_layers": 9}))
    model = load_attention(tmp_path, layer=2)
    row = model.encode(RECORDS[0])
    (tokens,) = model.attribute([row], [2])
    assert AutoConfig.from_pretrained(tmp_path).num_hidden_layers == model.network.config.num_hidden_layers == 9
    assert abs(full_similarity(tokens) - eager_similarity(tmp_path, model, row)).max() < TOLERANCE


_ONE_LAYER_FOR_ALL = ("albert",)


def size(directory, **options):
    return sum(parameter.numel() for parameter in load_attention(directory, **options).network.parameters())


@pytest.mark.parametrize("kind", ["llama", "gpt2", "phi3", "bert", "modernbert", *_ONE_LAYER_FOR_ALL])
def test_weights_behind_the_attention_are_not_kept(kind, tmp_path):
    """That no attention needs them is what ``test_capture`` shows of every kind, against transformers' whole models."""
    directory = save_tiny_model(tmp_path, kind)
    assert (size(directory) < size(directory, loaded_layers=1)) is (kind not in _ONE_LAYER_FOR_ALL)


def test_feed_forward_and_output_of_the_captured_layer_are_gone_and_all_below_is_kept(tmp_path):
    model = load_attention(save_tiny_model(tmp_path), layer=2)
    kept = {name for name, _ in model.network.named_parameters()}
    assert {name for name in kept if name.startswith("layers.1.")} == {
        "layers.1.input_layernorm.weight",
        *(f"layers.1.self_attn.{part}_proj.weight" for part in "qkv"),
    }
    assert len({name for name in kept if name.startswith("layers.0.")}) == 9


class _Layer(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared
        self.spare = torch.nn.Linear(2, 2)


def test_weight_that_is_used_elsewhere_under_another_name_stays():
    shared = torch.nn.Parameter(torch.ones(2))
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([_Layer(shared)])
    with weight_loading.drop_unused_weights(model, 1):
        torch.add(shared, 1)
    assert [name for name, _ in model.named_parameters()] == ["layers.0.shared"]


QWEN2_7B = hf.Qwen2Config(hidden_size=3584, num_hidden_layers=28, intermediate_size=18944, num_attention_heads=28,
    num_key_value_heads=4, vocab_size=152064)  # fmt: skip


@pytest.mark.parametrize(("dtype", "quantization", "gigabytes"), [
    (torch.float32, Quantization.NONE, 16.16), (torch.bfloat16, Quantization.NONE, 8.08),
    (torch.bfloat16, Quantization.INT8, 4.59), (torch.bfloat16, Quantization.NF4, 2.89),
])  # fmt: skip
def test_fifteen_layers_and_the_embedding_table_of_qwen2_7b(dtype, quantization, gigabytes):
    groups = weight_groups(QWEN2_7B, 15)
    assert total_size(groups, dtype, quantization) / 1e9 == pytest.approx(gigabytes, abs=0.005)


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_weight_that_is_loaded_is_counted_once(kind, tmp_path):
    directory = read_model_directory(ModelOptions(model=str(save_tiny_model(tmp_path, kind))))
    model = load_weights(directory, layer=3)
    loaded = sum(parameter.nbytes for parameter in model.parameters())
    assert total_size(weight_groups(directory.config, 3), torch.float32, Quantization.NONE) == loaded


def test_of_a_nested_model_the_text_model_alone_counts():
    config = hf.Gemma3Config()
    text = config.get_text_config()
    assert weight_groups(config, 2) == weight_groups(text, 2)


def test_model_beyond_the_free_memory_is_refused_before_its_weights_are_read(tmp_path, monkeypatch):
    QWEN2_7B.save_pretrained(tmp_path)
    monkeypatch.setattr(weight_loading, "free_memory", lambda _: 4 * 10**9)
    complaint = r"need 16\.16 GB .*, but cpu has 4\.00 GB left; with --quantization nf4 .* 2\.89"
    with pytest.raises(ModelLoadError, match=complaint):
        load(tmp_path, layer=15)


def _proc(tmp_path, monkeypatch, *, limit):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:  8000 kB\n", encoding="ascii")
    (tmp_path / "memory.max").write_text(f"{limit}\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("3000000\n", encoding="ascii")
    (tmp_path / "memory.stat").write_text("anon 9\nactive_file 400000\ninactive_file 600000\n", encoding="ascii")
    monkeypatch.setattr(weight_loading, "_MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(weight_loading, "_CONTROL_GROUP", tmp_path)


@pytest.mark.parametrize(
    ("limit", "free"), [("max", 8000 * 1024), ("5000000", 5_000_000 - 3_000_000 + 1_000_000)], ids=["none", "container"]
)
def test_free_memory_is_what_the_system_has_or_a_container_less_what_is_held_and_not_cached(
    tmp_path, monkeypatch, limit, free
):
    _proc(tmp_path, monkeypatch, limit=limit)
    assert weight_loading.free_memory(CPU) == free


def test_memory_that_torch_holds_unused_on_a_gpu_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (3_000, 80_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 9_000)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 2_000)
    assert weight_loading.free_memory(torch.device("cuda:1")) == 3_000 + 7_000


def test_where_nobody_says_what_is_free_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_loading, "_MEMORY_INFO", tmp_path / "none")
    monkeypatch.setattr(weight_loading, "_CONTROL_GROUP", tmp_path)
    assert weight_loading.free_memory(CPU) is None
    QWEN2_7B.save_pretrained(tmp_path)
    weight_loading.check_fits(
        read_model_directory(ModelOptions(model=str(tmp_path))), layer=28, dtype=torch.float32, device=CPU
    )


def test_memory_that_runs_out_on_the_way_is_a_load_error(tmp_path, monkeypatch):
    def run_out(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(weight_loading.AutoModel, "from_pretrained", run_out)
    with pytest.raises(ModelLoadError, match="does not fit into the free memory of its device; try --quantization nf4"):
        load(save_tiny_model(tmp_path), layer=2)


NO_HUGE_PAGES = 41
"""``PR_SET_THP_DISABLE`` of prctl(2): a page fault is then one of 4 KiB, whatever the system's setting."""

PASS = f"""
import ctypes, resource
ctypes.CDLL(None).prctl({NO_HUGE_PAGES}, 1, 0, 0, 0)
import torch
from attribeam.attribution.models import weight_loading
weight_loading._SMALL_MODEL = 0
weight_loading.keep_freed_memory(torch.nn.Linear(8, 8))
def states():
    return [torch.zeros(20 * 2**20, dtype=torch.uint8) for _ in range(3)]
for _ in range(3):
    states()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    states()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_A_PASS = 3 * 20 * 2**20 // 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_states_are_kept_for_the_next_pass():
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    page_faults = subprocess.run([sys.executable, "-c", PASS], env=unset, capture_output=True, text=True, check=True)
    assert int(page_faults.stdout) < PAGES_OF_A_PASS


def thresholds_set(monkeypatch, network):
    taken = []
    glibc = SimpleNamespace(mallopt=lambda *given: taken.append(given))
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(weight_loading.ctypes, "CDLL", lambda _: glibc)
    weight_loading.keep_freed_memory(network)
    return taken


def test_small_models_and_models_on_other_devices_change_nothing(monkeypatch):
    for name in os.environ:
        if name.startswith(("MALLOC_", "GLIBC_")):
            monkeypatch.delenv(name)
    small, elsewhere = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, device="meta")
    assert not thresholds_set(monkeypatch, small)
    monkeypatch.setattr(weight_loading, "_SMALL_MODEL", 0)
    assert len(thresholds_set(monkeypatch, small)) == 2
    assert not thresholds_set(monkeypatch, elsewhere)


@pytest.mark.parametrize(
    ("name", "value"), [("MALLOC_TRIM_THRESHOLD_", "131072"), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072")]
)
def test_thresholds_of_the_user_stay(name, value, monkeypatch):
    monkeypatch.setattr(weight_loading, "_SMALL_MODEL", 0)
    monkeypatch.setenv(name, value)
    assert not thresholds_set(monkeypatch, torch.nn.Linear(8, 8))
