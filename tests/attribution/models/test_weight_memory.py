"""The table of the weights' memory, from a config alone, and what is left on the device."""

import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from tests.attribution.tiny_models import CONFIGS, save_tiny_model
from transformers import Gemma3Config, Qwen2Config

from attribeam.attribution.models import weight_loading
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_loading import (
    check_fits,
    keep_freed_memory,
    load_weights,
    total_size,
    weight_groups,
)
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.schemas.errors import ModelLoadError

QWEN2_7B = Qwen2Config(
    hidden_size=3584,
    num_hidden_layers=28,
    intermediate_size=18944,
    num_attention_heads=28,
    num_key_value_heads=4,
    vocab_size=152064,
)
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("dtype", "quantization", "gigabytes"),
    [
        (torch.float32, Quantization.NONE, 16.16),
        (torch.bfloat16, Quantization.NONE, 8.08),
        (torch.bfloat16, Quantization.INT8, 4.59),
        (torch.bfloat16, Quantization.NF4, 2.89),
    ],
)
def test_fifteen_layers_and_the_embedding_table_of_qwen2_7b(dtype, quantization, gigabytes):
    groups = weight_groups(QWEN2_7B, 15)
    assert total_size(groups, dtype, quantization) / 1e9 == pytest.approx(gigabytes, abs=0.005)


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_weight_that_is_loaded_is_counted_once(kind, tmp_path):
    directory = read_model_directory(ModelOptions(model=str(save_tiny_model(tmp_path, kind))))
    model = load_weights(directory, layer=3, dtype=torch.float32, device=CPU)
    loaded = sum(parameter.nbytes for parameter in model.parameters())
    assert total_size(weight_groups(directory.config, 3), torch.float32, Quantization.NONE) == loaded


def test_of_a_nested_model_the_text_model_alone_counts():
    config = Gemma3Config()
    text = config.get_text_config()
    assert weight_groups(config, 2) == weight_groups(text, 2)


def test_model_beyond_the_free_memory_is_refused_before_its_weights_are_read(tmp_path, monkeypatch):
    QWEN2_7B.save_pretrained(tmp_path)
    monkeypatch.setattr(weight_loading, "free_memory", lambda _: 4 * 10**9)
    directory = read_model_directory(ModelOptions(model=str(tmp_path)))
    with pytest.raises(
        ModelLoadError, match=r"need 16\.16 GB .*, but cpu has 4\.00 GB left; with --quantization nf4 .* 2\.89"
    ):
        load_weights(directory, layer=15, dtype=torch.float32, device=CPU)


def _proc(tmp_path, monkeypatch, *, limit):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:  8000 kB\n", encoding="ascii")
    (tmp_path / "memory.max").write_text(f"{limit}\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("3000000\n", encoding="ascii")
    (tmp_path / "memory.stat").write_text("anon 9\nactive_file 400000\ninactive_file 600000\n", encoding="ascii")
    monkeypatch.setattr(weight_loading, "_MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(weight_loading, "_CONTROL_GROUP", tmp_path)


def test_free_memory_is_what_the_system_has_available(tmp_path, monkeypatch):
    _proc(tmp_path, monkeypatch, limit="max")
    assert weight_loading.free_memory(CPU) == 8000 * 1024


def test_limit_of_a_container_counts_less_what_is_held_and_not_what_is_cached(tmp_path, monkeypatch):
    _proc(tmp_path, monkeypatch, limit="5000000")
    assert weight_loading.free_memory(CPU) == 5_000_000 - 3_000_000 + 1_000_000


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
    check_fits(read_model_directory(ModelOptions(model=str(tmp_path))), layer=28, dtype=torch.float32, device=CPU)


def test_memory_that_runs_out_on_the_way_is_a_load_error(tmp_path, monkeypatch):
    def run_out(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    directory = read_model_directory(ModelOptions(model=str(save_tiny_model(tmp_path))))
    monkeypatch.setattr(weight_loading.AutoModel, "from_pretrained", run_out)
    with pytest.raises(ModelLoadError, match="does not fit into the free memory of its device; try --quantization nf4"):
        load_weights(directory, layer=2, dtype=torch.float32, device=CPU)


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
    keep_freed_memory(network)
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
