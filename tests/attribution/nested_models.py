"""Small random models that nest their text model beside an image encoder."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.attribution.tiny_models import VOCABULARY_SIZE, save_tiny_tokenizer
from transformers import (
    AutoModelForImageTextToText,
    CLIPVisionConfig,
    Gemma3Config,
    LlamaConfig,
    LlavaConfig,
    Mistral3Config,
    MistralConfig,
    PixtralVisionConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2VLConfig,
)

_TEXT = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
_IMAGE = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_SECTIONS = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
_KINDS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]

NESTED: dict[str, PreTrainedConfig] = {
    "gemma3": Gemma3Config(
        text_config=_TEXT | {"head_dim": 8, "layer_types": _KINDS, "sliding_window": 24},
        vision_config=_IMAGE,
        mm_tokens_per_image=4,
    ),
    "llava": LlavaConfig(text_config=LlamaConfig(**_TEXT), vision_config=CLIPVisionConfig(**_IMAGE)),
    "mistral3": Mistral3Config(
        text_config=MistralConfig(**_TEXT, sliding_window=None), vision_config=PixtralVisionConfig(**_IMAGE)
    ),
    "qwen2_vl": Qwen2VLConfig(
        text_config=_TEXT | {"rope_parameters": _SECTIONS},
        vision_config={"depth": 2, "embed_dim": 16, "hidden_size": 32, "num_heads": 2},
    ),
}


def save_nested_model(directory: Path, kind: str) -> PreTrainedModel:
    """Write weights of one seed, config and tokenizer; returns the whole model, with attention that can be read."""
    torch.manual_seed(7)
    model = AutoModelForImageTextToText.from_config(NESTED[kind], attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.normal_(std=0.3)
    model.save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return model.eval()
