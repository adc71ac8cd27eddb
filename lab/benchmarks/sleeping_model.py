"""A stand-in for a model on a GPU: it takes a set time per token and leaves the CPU alone, because it sleeps."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

from attribeam.attribution.models.model_directory import BUNDLED_MODEL

_CONFIGURATION = """
from transformers import LlamaConfig


class SleepingConfig(LlamaConfig):
    model_type = "sleeping"
    seconds_per_token = 0.0
"""
_MODELING = """
import time

from transformers import LlamaModel

from .configuration_sleeping import SleepingConfig


class SleepingModel(LlamaModel):
    config_class = SleepingConfig

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **arguments):
        time.sleep(input_ids.numel() * self.config.seconds_per_token)
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **arguments
        )
"""


def save_sleeping_model(folder: Path, *, seconds_per_token: float) -> Path:
    """Write a model of one tiny layer, with the tokenizer of the bundled model; it needs ``--trust-remote-code``.

    Besides sleeping, it does what any model does: attention is captured and reduced, which takes a little CPU time.
    """
    folder.mkdir(parents=True)
    AutoTokenizer.from_pretrained(BUNDLED_MODEL).save_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    words = [*tokenizer["model"]["vocab"].values(), *(one["id"] for one in tokenizer["added_tokens"])]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=max(words) + 1,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=65_536,
    )
    LlamaModel(config).save_pretrained(folder)
    _add_code(folder, seconds_per_token)
    return folder


def _add_code(folder: Path, seconds_per_token: float) -> None:
    path = folder / "config.json"
    classes = {"AutoConfig": "configuration_sleeping.SleepingConfig", "AutoModel": "modeling_sleeping.SleepingModel"}
    own = {"model_type": "sleeping", "auto_map": classes, "seconds_per_token": seconds_per_token}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | own), encoding="utf-8")
    (folder / "configuration_sleeping.py").write_text(_CONFIGURATION, encoding="utf-8")
    (folder / "modeling_sleeping.py").write_text(_MODELING, encoding="utf-8")
