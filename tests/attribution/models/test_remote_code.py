"""Code of a model's own repository runs only where that was asked for, and the provenance says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import dynamic_module_utils

from attribution.attention.attention_model import AttentionModel
from attribution.models.model_directory import ModelLoadError, read_model_directory
from attribution.models.model_options import ModelOptions
from tests.attribution.tiny_models import save_tiny_model

CONFIGURATION = """
from transformers import LlamaConfig

class OwnConfig(LlamaConfig):
    model_type = "own_llama"
"""
MODELING = """
from transformers import LlamaModel

from .configuration_own import OwnConfig

class OwnModel(LlamaModel):
    config_class = OwnConfig
"""


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place of its own for the code that transformers imports, which is forgotten afterwards."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("transformers_modules"):
            del sys.modules[name]


@pytest.fixture
def directory(tmp_path: Path, own_modules: None) -> Path:  # noqa: ARG001 - for what it does
    """A model whose config and class come with it."""
    path = save_tiny_model(tmp_path / "own")
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    names = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    text = json.dumps(config | {"model_type": "own_llama", "auto_map": names})
    (path / "config.json").write_text(text, encoding="utf-8")
    (path / "configuration_own.py").write_text(CONFIGURATION, encoding="utf-8")
    (path / "modeling_own.py").write_text(MODELING, encoding="utf-8")
    return path


def test_code_of_the_repository_is_not_run_unasked(directory: Path) -> None:
    (directory / "configuration_own.py").write_text("raise RuntimeError('this ran')", encoding="utf-8")
    with pytest.raises(ModelLoadError, match="then allow it with --trust-remote-code"):
        read_model_directory(ModelOptions(model=str(directory)))


def test_code_of_the_repository_runs_where_it_is_trusted_and_is_named(directory: Path) -> None:
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", trust_remote_code=True))
    assert type(model.network).__name__ == "OwnModel"
    assert model.provenance()["model_code"] == "of its repository"


def test_flag_alone_runs_no_code_and_is_not_named(tmp_path: Path) -> None:
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu", trust_remote_code=True)
    assert AttentionModel.from_pretrained(options).provenance()["model_code"] == "of transformers"


TOKENIZER = """
from transformers import PreTrainedTokenizerFast

class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


def with_own_tokenizer(directory: Path, name: str) -> Path:
    """A plain model whose tokenizer's class comes with it, under this name."""
    path = save_tiny_model(directory / "tokenizer")
    (path / "tokenization_own.py").write_text(TOKENIZER, encoding="utf-8")
    file = path / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config |= {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, name]}}
    file.write_text(json.dumps(config), encoding="utf-8")
    return path


def test_code_of_a_tokenizer_is_not_run_unasked(tmp_path: Path) -> None:
    path = with_own_tokenizer(tmp_path, "tokenization_own.OwnTokenizer")
    (path / "tokenization_own.py").write_text("raise RuntimeError('this ran')", encoding="utf-8")
    with pytest.raises(ModelLoadError, match="then allow it with --trust-remote-code"):
        AttentionModel.from_pretrained(ModelOptions(model=str(path), device="cpu"))


@pytest.mark.usefixtures("own_modules")
def test_code_of_a_tokenizer_alone_is_named_as_well(tmp_path: Path) -> None:
    path = with_own_tokenizer(tmp_path, "tokenization_own.OwnTokenizer")
    model = AttentionModel.from_pretrained(ModelOptions(model=str(path), device="cpu", trust_remote_code=True))
    assert model.provenance()["model_code"] == "of its repository"


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_another_repository_has_no_pinned_revision_and_is_refused(tmp_path: Path, file: str) -> None:
    path = save_tiny_model(tmp_path)
    config = json.loads((path / file).read_text(encoding="utf-8"))
    config |= {"auto_map": {"AutoModel": "someone/else--modeling_own.OwnModel"}}
    (path / file).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelLoadError, match="names code of someone/else, whose revision nothing pins; put model"):
        read_model_directory(ModelOptions(model=str(path), trust_remote_code=True))
    read_model_directory(ModelOptions(model=str(path)))
