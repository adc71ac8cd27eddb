"""Reading a model's directory, what is refused there, and how many tokens a model can place."""

from __future__ import annotations

import json
import logging
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from tests.attribution.tiny_models import save_tiny_model
from transformers import (
    BertConfig,
    ElectraConfig,
    EsmConfig,
    Gemma3Config,
    GPT2Config,
    GraniteMoeHybridConfig,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedConfig,
    RobertaConfig,
    modeling_utils,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from attribeam.attribution.language_models.language_model import load_causal_weights
from attribeam.attribution.models.model_directory import (
    POSITIONS_BEHIND_PADDING,
    check_position_embeddings,
    load_tokenizer,
    model_context,
    read_model_directory,
)
from attribeam.attribution.models.precision import choose_device
from attribeam.attribution.models.weight_loading import load_weights
from attribeam.attribution.models.weight_memory import weight_groups
from attribeam.attribution.options import ModelOptions
from attribeam.schemas.errors import ModelLoadError

CPU = torch.device("cpu")


def options(directory: Path | str) -> ModelOptions:
    return ModelOptions(model=str(directory))


def load(directory: Path, layer: int = 3) -> torch.nn.Module:
    return load_weights(read_model_directory(options(directory)), layer=layer, dtype=torch.float32, device=CPU)


def test_only_the_layers_up_to_the_captured_one_are_loaded(tmp_path: Path) -> None:
    model = load(save_tiny_model(tmp_path), layer=2)
    assert len(model.layers) == 2
    assert not hasattr(model, "lm_head")
    assert not model.training


def test_loading_says_nothing_and_leaves_verbosity_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = save_tiny_model(tmp_path)
    capfd.readouterr()
    verbosity = logging.getLogger("transformers").level
    load(directory)
    assert (caplog.text, capfd.readouterr()) == ("", ("", ""))
    assert logging.getLogger("transformers").level == verbosity


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "a/b/c"])
def test_missing_directory_is_named_without_asking_the_hub(name: str) -> None:
    with pytest.raises(ModelLoadError, match="there is none; check --model"):
        read_model_directory(options(name))


@pytest.mark.parametrize("name", ["mps", "xpu:3", "hpu", "npu:1", "cuda:99", "gpu"])
def test_device_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ModelLoadError, match=f"device .*{name}"):
        choose_device(name)


def test_error_of_a_device_is_told_without_its_advice_to_programmers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: invalid device ordinal\nCompile with TORCH_USE_CUDA_DSA\n")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(ModelLoadError, match="is not: CUDA error: invalid device ordinal; use --device cpu"):
        choose_device("cuda:7")


def test_tokenizer_neither_cuts_nor_pads_whatever_its_file_says(tmp_path: Path) -> None:
    path = save_tiny_model(tmp_path) / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    loaded = load_tokenizer(read_model_directory(options(tmp_path)))
    assert len(loaded.encode("The lighthouse at Brigg Point.").ids) > 4


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query", "alibi"])
@pytest.mark.parametrize("family", [BertConfig, RobertaConfig, ElectraConfig])
def test_relative_positions_of_a_bert_are_refused_when_its_config_is_read(
    tmp_path: Path, family: type[PreTrainedConfig], kind: str
) -> None:
    family(position_embedding_type=kind).save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=f"says position_embedding_type '{kind}', which is ignored"):
        read_model_directory(ModelOptions(model=str(tmp_path)))


@pytest.mark.parametrize(
    "config",
    [
        BertConfig(),
        BertConfig(position_embedding_type="absolute"),
        ModernBertConfig(position_embedding_type="absolute"),
        EsmConfig(position_embedding_type="rotary"),
        GraniteMoeHybridConfig(position_embedding_type="rope"),
        LlamaConfig(position_embedding_type="rope"),
    ],
    ids=lambda config: f"{config.model_type} {getattr(config, 'position_embedding_type', 'nothing')}",
)
def test_positions_that_are_computed_as_the_config_says_are_taken(config: PreTrainedConfig) -> None:
    check_position_embeddings("lamp", config)


def test_config_of_a_models_own_code_is_not_asked() -> None:
    class OwnConfig(BertConfig):
        pass

    assert not OwnConfig.__module__.startswith("transformers.")
    check_position_embeddings("lamp", OwnConfig(position_embedding_type="relative_key"))


@pytest.mark.parametrize(
    ("config", "context"),
    [
        (BertConfig(), 512),
        (GPT2Config(n_positions=64), 64),
        (RobertaConfig(max_position_embeddings=514, pad_token_id=1), 512),
        (Gemma3Config(text_config={"max_position_embeddings": 99}), 99),
        (PreTrainedConfig(), None),
    ],
    ids=["bert", "gpt2", "roberta", "nested", "none"],
)
def test_context_is_the_number_of_tokens_with_a_position(config: PreTrainedConfig, context: int | None) -> None:
    assert model_context(config) == context


def modeling_file(model_type: str) -> Path | None:
    """The file of transformers that ``model_type``'s network is in."""
    package, kind = model_type.replace("-", "_"), ""
    if model_type.startswith("data2vec"):
        package, kind = "data2vec", "_text"
    spec = find_spec(f"transformers.models.{package}")
    if spec is None or spec.submodule_search_locations is None:
        return None
    path = Path(spec.submodule_search_locations[0]) / f"modeling_{package}{kind}.py"
    return path if path.is_file() else None


def test_every_text_model_that_begins_behind_the_padding_is_known() -> None:
    types = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    files = {model_type: path for model_type in types if (path := modeling_file(model_type)) is not None}
    assert len(files) > 150
    found = {
        model_type
        for model_type, path in files.items()
        if "def create_position_ids_from_input_ids" in path.read_text(encoding="utf-8")
    }
    without_a_table = {"trocr"}
    assert found - without_a_table == POSITIONS_BEHIND_PADDING & files.keys()


KERNEL = "someone/some-attn"


def test_kernel_of_the_hub_that_a_config_names_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(name: str, **_: object) -> None:
        raise AssertionError(f"{name} was fetched")

    monkeypatch.setattr(modeling_utils, "lazy_import_flash_attention", fetch)
    path = save_tiny_model(tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"_attn_implementation": KERNEL}), encoding="utf-8")
    directory = read_model_directory(options(tmp_path))
    weight_groups(directory.config, 2)
    load_causal_weights(directory, dtype=torch.float32, device=torch.device("cpu"))
