"""Code of a model's own repository runs only where that was asked for, and the provenance says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import dynamic_module_utils

from attribution.attention_model import AttentionModel
from attribution.model_directory import ModelLoadError, read_model_directory
from attribution.model_options import ModelOptions
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
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model whose config and class come with it."""
    path = save_tiny_model(tmp_path / "own")
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    names = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    text = json.dumps(config | {"model_type": "own_llama", "auto_map": names})
    (path / "config.json").write_text(text, encoding="utf-8")
    (path / "configuration_own.py").write_text(CONFIGURATION, encoding="utf-8")
    (path / "modeling_own.py").write_text(MODELING, encoding="utf-8")
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield path
    for name in set(sys.modules) - before:
        if name.startswith("transformers_modules"):
            del sys.modules[name]


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
