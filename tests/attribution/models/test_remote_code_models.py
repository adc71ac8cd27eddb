"""Models whose code lies in their own repository: asked for, named, and refused clearly where they hide attention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from attribution.attention.attention_model import AttentionModel
from attribution.models.model_errors import ModelLoadError
from attribution.models.model_options import ModelOptions
from attribution.token_attribution import TokenAttribution
from schemas import Passage, QARecord, RowSource
from tests.attribution.tiny_models import save_tiny_model

RECORD = QARecord("r", "Who?", (Passage("Ada lit it."),), "Ada.", RowSource("log.parquet", 0))

THROUGH_THE_INTERFACE = """
from transformers import LlamaModel


class OwnModel(LlamaModel):
    pass
"""

PAST_THE_INTERFACE = """
import torch
from transformers import LlamaModel


class OwnAttention(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = inner.q_proj, inner.k_proj, inner.v_proj, inner.o_proj

    def forward(self, hidden_states, **kwargs):
        scores = self.q_proj(hidden_states) @ self.q_proj(hidden_states).transpose(1, 2)
        return self.o_proj(scores.softmax(-1) @ self.q_proj(hidden_states)), None


class OwnModel(LlamaModel):
    def __init__(self, config):
        super().__init__(config)
        for layer in self.layers:
            layer.self_attn = OwnAttention(layer.self_attn)
"""

OTHER_ARGUMENTS = """
from transformers import LlamaModel


class OwnModel(LlamaModel):
    def forward(self, tokens):
        return super().forward(tokens)
"""


UNKNOWN_NUMBERS = """
import torch
from transformers import LlamaModel


class OwnModel(LlamaModel):
    def forward(self, **kwargs):
        return super().forward(**kwargs, slopes=torch.ones(4))
"""


def save(directory: Path, code: str) -> Path:
    """A tiny Llama whose config names ``OwnModel`` of its own repository."""
    save_tiny_model(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config |= {"auto_map": {"AutoModel": "modeling_own.OwnModel"}, "architectures": ["OwnModel"]}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "modeling_own.py").write_text(code, encoding="utf-8")
    assert load_file(directory / "model.safetensors")
    return directory


def load(directory: Path, *, trusted: bool = True) -> AttentionModel:
    options = ModelOptions(model=str(directory), trust_remote_code=trusted, device="cpu")
    return AttentionModel.from_pretrained(options)


@pytest.fixture(autouse=True)
def _modules_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", folder)


def test_own_code_runs_only_where_it_is_trusted(tmp_path: Path) -> None:
    directory = save(tmp_path, THROUGH_THE_INTERFACE + "\n\nraise RuntimeError('own code was run')\n")
    assert load(directory, trusted=False).provenance()["model_code"] == "of transformers"
    with pytest.raises(RuntimeError, match="own code was run"):
        load(directory)


def test_own_code_that_uses_the_interface_gives_its_attention_and_is_named(tmp_path: Path) -> None:
    model = load(save(tmp_path, THROUGH_THE_INTERFACE))
    assert type(model.network).__name__ == "OwnModel"
    assert model.provenance()["model_code"] == "of its repository"
    (tokens,) = model.attribute([model.encode(RECORD)], [1])
    assert isinstance(tokens, TokenAttribution)


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (PAST_THE_INTERFACE, "through transformers' attention interface"),
        (OTHER_ARGUMENTS, "does not give its attention"),
    ],
    ids=["past the interface", "other arguments"],
)
def test_own_code_that_hides_its_attention_is_a_load_error(tmp_path: Path, code: str, complaint: str) -> None:
    with pytest.raises(ModelLoadError, match=complaint):
        load(save(tmp_path, code))


def test_attention_that_takes_numbers_unknown_here_is_refused_by_their_name(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="its attention takes slopes, which this version does not know"):
        load(save(tmp_path, UNKNOWN_NUMBERS))


def test_own_code_is_given_all_of_its_layers(tmp_path: Path) -> None:
    assert load(save(tmp_path, THROUGH_THE_INTERFACE)).network.config.num_hidden_layers == 4
