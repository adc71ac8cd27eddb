"""Writing a model directory that the attribution room loads like any other Hugging Face model."""

import json
from pathlib import Path

import torch
from transformers import ModernBertModel

from training.attributor_model import QUERY_POSITION, SOFTMAX_OVER, Shape, new_model
from training.attributor_rows import PROMPT_TEMPLATE
from training.attributor_support import (
    EVIDENCE_WINDOW,
    ISOLATION_TAU,
    OWN_TOKEN_WEIGHT,
    SENTENCE_WEIGHT,
    TOP_K,
    Thresholds,
)


def save_model(model: ModernBertModel, directory: Path, *, shape: Shape) -> None:
    """Write ``config.json`` and ``model.safetensors``, in float16: half the size, and read back as float32."""
    half = new_model(shape, vocabulary_size=model.config.vocab_size)
    half.load_state_dict(model.state_dict())
    torch.nn.Module.to(half, torch.float16)
    half.save_pretrained(directory)


def save_attribution_config(directory: Path, thresholds: Thresholds, *, shape: Shape) -> None:
    """Write how the attribution room is to read this model, as ``attribution_config.json``."""
    settings = {
        "layer": shape.attention_layer,
        "query_position": QUERY_POSITION,
        "softmax_over": SOFTMAX_OVER,
        "top_k": TOP_K,
        "isolation_tau": ISOLATION_TAU,
        "own_token_weight": OWN_TOKEN_WEIGHT,
        "sentence_weight": SENTENCE_WEIGHT,
        "evidence_window": EVIDENCE_WINDOW,
        "prompt_template": PROMPT_TEMPLATE,
        "supported_threshold": thresholds.supported,
        "weak_threshold": thresholds.weak,
        "dtype": "float32",
    }
    text = json.dumps(settings, indent=2) + "\n"
    (directory / "attribution_config.json").write_text(text, encoding="utf-8")
