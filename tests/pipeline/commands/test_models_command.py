"""``attribeam models check``: what a model is and does, or one paragraph on why it cannot serve."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors.torch import load_file
from tests.attribution.models.test_hub_files import COMMIT, NAME, cache_folder
from tests.attribution.tiny_models import save_tiny_model, save_tiny_tokenizer
from transformers import (
    AutoModelForCausalLM,
    BertTokenizerLegacy,
    GPTJConfig,
    MambaConfig,
    PreTrainedConfig,
    Qwen2Config,
    T5Config,
)

from attribeam.attribution.models import hub_files, model_check, model_directory, weight_loading
from attribeam.attribution.models.model_check import EXAMPLE_RECORD
from attribeam.pipeline.command_line import main
from attribeam.pipeline.commands.models_report import example_lines
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import ModelLoadError

ROOT = Path(__file__).parents[3]
HUB = "https://hub.invalid/brigg/lighthouse"


@pytest.fixture(autouse=True)
def _one_sample_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_check, "_MOST_ROWS", 1)


def check(model: Path | str, *options: str) -> int:
    return main(["models", "check", "--model", str(model), "--device", "cpu", *options])


def test_model_that_can_serve_is_described_measured_and_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(save_tiny_model(tmp_path, "gemma2"), "--threads", "1") == 0
    printed = capsys.readouterr().out
    lines = dict(reversed([(line[:11].strip(), line) for line in printed.splitlines() if line]))
    assert lines["layers"].endswith("4: 2 sliding_attention, 2 full_attention")
    assert "layer 2 of 4: nearest full_attention layer to the default 3 (sliding_attention)" in lines["attention"]
    assert lines["context"].endswith("512 tokens; longer rows are read in windows")
    assert lines["revision"].split()[1].startswith("sha256:")
    assert lines["weights"].endswith("as float32")
    assert "agreement" not in lines
    assert "tokens/s on" in lines["speed"]
    assert EXAMPLE_RECORD.answer in lines["answer"]
    assert any(line.split("  <-  ")[0].endswith("Ada Thorne") for line in printed.splitlines())
    shares = [int(share) for share in re.findall(r"(\d+)% (?:of the answer|on the)", lines["shares"])]
    assert len(shares) == 3
    assert sum(shares) in (99, 100, 101)
    assert printed.endswith("can serve.\n")


@pytest.mark.usefixtures("either_processor")
def test_options_of_loading_reach_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = save_tiny_model(tmp_path)
    assert check(directory, "--quantization", "nf4", "--dtype", "bfloat16", "--layer", "2") == 0
    printed = capsys.readouterr().out
    assert "as nf4, the rest bfloat16" in printed
    assert re.search(r"^agreement  \d+\.\d% of the answer tokens", printed, re.MULTILINE)
    assert "layer 2 of 4: as configured" in printed


def saved(config: PreTrainedConfig) -> Callable[[Path, pytest.MonkeyPatch], Path]:
    """A directory with this config and a tokenizer, and without weights."""

    def save(directory: Path, _: pytest.MonkeyPatch) -> Path:
        config.save_pretrained(directory)
        save_tiny_tokenizer(directory)
        return directory

    return save


def without_fast_tokenizer(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", encoding="utf-8")
    slow = BertTokenizerLegacy(vocab_file=str(vocabulary))
    monkeypatch.setattr(model_directory.AutoTokenizer, "from_pretrained", lambda *_, **__: slow)
    return save_tiny_model(directory)


def with_pickled_weights(directory: Path, _: pytest.MonkeyPatch) -> Path:
    save_tiny_model(directory)
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    return directory


def beside_the_interface(directory: Path, _: pytest.MonkeyPatch) -> Path:
    config = GPTJConfig(vocab_size=400, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


def too_large(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(weight_loading, "free_memory", lambda _: 4 * 10**9)
    return saved(Qwen2Config(hidden_size=3584, num_hidden_layers=28, intermediate_size=18944))(directory, monkeypatch)


def of_a_hub_that_says(error: Exception) -> Callable[[Path, pytest.MonkeyPatch], str]:
    def refuse(*_: Any, **__: Any) -> str:
        raise error

    def model(_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(hub_files, "snapshot_download", refuse)
        return NAME

    return model


def _response(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("GET", HUB))


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (lambda *_: "./absent", "should be a directory with config.json, there is none"),
        (of_a_hub_that_says(RepositoryNotFoundError("no", response=_response(404))), "no such directory, and no such"),
        (of_a_hub_that_says(GatedRepoError("no", response=_response(403))), "is gated: accept its terms"),
        (of_a_hub_that_says(LocalEntryNotFoundError("no")), "is unreachable, and it is not wholly in the cache"),
        (without_fast_tokenizer, "should have a fast tokenizer"),
        (saved(MambaConfig()), "should have attention, its config.json (mamba) names no attention heads"),
        (saved(T5Config()), "is an encoder-decoder (t5)"),
        (too_large, "is too large for the device: layers 1 to 15 need"),
        (with_pickled_weights, "has pytorch_model.bin, which can run code when read"),
        (beside_the_interface, "should go through transformers' attention interface"),
    ],
)  # fmt: skip
def test_model_that_cannot_serve_ends_with_exit_code_1_and_the_reason(
    model: Callable[[Path, pytest.MonkeyPatch], Path | str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = model(tmp_path, monkeypatch)
    capsys.readouterr()
    assert check(name) == 1
    errors = capsys.readouterr().err.strip()
    assert errors.startswith("attribeam models: this model cannot serve: ")
    assert complaint in errors
    assert "\n" not in errors


def test_example_that_fails_means_that_the_model_cannot_serve() -> None:
    with pytest.raises(ModelLoadError, match="the worked example could not be attributed"):
        list(example_lines(EXAMPLE_RECORD, RowFault(Reason.OUT_OF_MEMORY, "the row should fit, does not")))


def test_cached_hub_model_is_checked_offline(tmp_path: Path) -> None:
    save_tiny_model(cache_folder(tmp_path / "hub", COMMIT, ref="main"))
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    command = [
        sys.executable,
        "-m",
        "attribeam",
        "models",
        "check",
        "--model",
        NAME,
        "--device",
        "cpu",
        "--threads",
        "1",
    ]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"revision   {COMMIT}" in ended.stdout
