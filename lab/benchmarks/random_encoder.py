"""An encoder of MiniLM's shape with random weights, created in memory without downloads or files."""

from __future__ import annotations

import torch
from transformers import AutoModel, BertConfig, PreTrainedModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import CAPTURE_IMPLEMENTATION
from attribeam.attribution.attention.layer_choice import choose_layer, without_layers_above
from attribeam.attribution.models.attribution_config import AttributionConfig
from attribeam.attribution.models.model_directory import BUNDLED_MODEL, ModelDirectory
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.prompts.row_encoder import RowEncoder


def _minilm() -> BertConfig:
    """The shape of the sentence encoder all-MiniLM-L6-v2, with a vocabulary as large as the bundled tokenizer's."""
    return BertConfig(
        vocab_size=32_768,
        hidden_size=384,
        intermediate_size=1_536,
        num_hidden_layers=6,
        num_attention_heads=12,
        max_position_embeddings=512,
    )


def random_minilm(*, device: str = "cpu", dtype: str = "float32") -> AttentionModel:
    """The layers up to L*, with the tokenizer of the bundled model; rows beyond 512 tokens take several windows."""
    config = _minilm()
    directory = ModelDirectory(str(BUNDLED_MODEL), config, AttributionConfig(), ModelOptions(device=device))
    layer = choose_layer(config, None)
    torch.manual_seed(0)
    with torch.device(device):
        model: PreTrainedModel = AutoModel.from_config(  # type: ignore[no-untyped-call]
            without_layers_above(config, layer.layer),
            attn_implementation=CAPTURE_IMPLEMENTATION,
            dtype=getattr(torch, dtype),
        )
    model.eval().requires_grad_(False)  # type: ignore[no-untyped-call]
    return AttentionModel(
        directory=directory, model=model, encoder=RowEncoder(directory), layer=layer, method=MethodOptions()
    )
