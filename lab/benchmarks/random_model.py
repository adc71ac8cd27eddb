"""Models of Qwen2's shape with random weights, created in memory without downloads or files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel, Qwen2Config

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import CAPTURE_IMPLEMENTATION
from attribeam.attribution.attention.layer_choice import choose_layer, without_layers_above
from attribeam.attribution.models.attribution_config import AttributionConfig
from attribeam.attribution.models.eight_bit_layers import compute_in_integers
from attribeam.attribution.models.four_bit_layers import keep_weights_as_loaded
from attribeam.attribution.models.language_model import LanguageModel
from attribeam.attribution.models.model_directory import BUNDLED_MODEL, ModelDirectory
from attribeam.attribution.options import ATTN_UNION, MethodOptions, ModelOptions
from attribeam.attribution.prompts.row_encoder import RowEncoder

SHAPES = {
    "small": Qwen2Config(
        vocab_size=32_768,
        hidden_size=512,
        intermediate_size=2_688,
        num_hidden_layers=12,
        num_attention_heads=8,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "qwen2-0.5b": Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4_864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "qwen2-1.5b": Qwen2Config(
        vocab_size=151_936,
        hidden_size=1_536,
        intermediate_size=8_960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "qwen2-7b": Qwen2Config(
        vocab_size=152_064,
        hidden_size=3_584,
        intermediate_size=18_944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
    ),
    "thin": Qwen2Config(
        vocab_size=32_768,
        hidden_size=256,
        intermediate_size=1_344,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    ),
    "tiny": Qwen2Config(
        vocab_size=32_768,
        hidden_size=16,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    ),
}
"""Each shape has Qwen2's context of 32,768 tokens; "tiny" is for tests of the benchmarks themselves."""


@dataclass(frozen=True, slots=True)
class RandomModel:
    """A ``BenchmarkModel`` to create: the name of its shape, its device, and its weights.

    ``quantization`` is "none", "nf4" or "int8".
    """

    shape: str
    device: str = "cpu"
    dtype: str = "float32"
    quantization: str = "none"

    @property
    def config(self) -> Qwen2Config:
        """A copy of the shape's configuration."""
        return Qwen2Config(**SHAPES[self.shape].to_dict())

    @property
    def layer(self) -> int:
        """The 1-based layer L*."""
        return choose_layer(self.config, None).layer

    def base(self, *, layers: int | None = None, implementation: str = "sdpa") -> PreTrainedModel:
        """The first ``layers`` layers, or all layers, without the language-model head."""
        config = self.config if layers is None else without_layers_above(self.config, layers)
        return self._made(AutoModel, config, implementation)

    def causal(self, *, implementation: str = "sdpa") -> PreTrainedModel:
        """All layers and the language-model head."""
        return self._made(AutoModelForCausalLM, self.config, implementation)

    def language_model(self) -> LanguageModel:
        """All layers and the language-model head, with the tokenizer of the bundled model."""
        directory = self._directory(None)
        return LanguageModel(directory=directory, model=self.causal(), encoder=RowEncoder(directory))

    def encoder(self) -> RowEncoder:
        """The encoder of rows, with the plain prompt and the tokenizer of the bundled model."""
        return RowEncoder(self._directory(None))

    def attributor(self, *, method: str = ATTN_UNION, token_budget: int | None = None) -> AttentionModel:
        """An attention model with the layers up to L*, and the tokenizer of the bundled model."""
        directory = self._directory(token_budget)
        return AttentionModel(
            directory=directory,
            model=self.base(layers=self.layer, implementation=CAPTURE_IMPLEMENTATION),
            encoder=RowEncoder(directory),
            layer=choose_layer(self.config, None),
            method=MethodOptions(method=method),
        )

    def save(self, folder: Path) -> Path:
        """Write the layers up to L* and the tokenizer of the bundled model, for ``--model`` of an audit."""
        AutoTokenizer.from_pretrained(BUNDLED_MODEL).save_pretrained(folder)
        self.base(layers=self.layer).save_pretrained(folder)
        self.config.save_pretrained(folder)
        return folder

    def _directory(self, token_budget: int | None) -> ModelDirectory:
        options = ModelOptions(device=self.device, token_budget=token_budget)
        return ModelDirectory(str(BUNDLED_MODEL), self.config, AttributionConfig(), options)

    def _made(
        self, kind: type[AutoModel] | type[AutoModelForCausalLM], config: PreTrainedConfig, implementation: str
    ) -> PreTrainedModel:
        torch.manual_seed(0)
        with torch.device(self.device):
            dtype = getattr(torch, self.dtype)
            model: PreTrainedModel = kind.from_config(  # type: ignore[no-untyped-call]
                config, attn_implementation=implementation, dtype=dtype
            )
        model.eval().requires_grad_(False)  # type: ignore[no-untyped-call]
        if self.quantization != "none":
            _quantise(model, _QUANTISED[self.quantization])
        return model


def _quantise(model: nn.Module, quantised: Callable[[nn.Linear], nn.Module]) -> None:
    """Quantise all linear layers except the language-model head, one after the other."""
    for parent in list(model.modules()):
        for name, linear in parent.named_children():
            if type(linear) is nn.Linear and name != "lm_head":
                setattr(parent, name, quantised(linear).to(linear.weight.device))
    keep_weights_as_loaded(model)
    compute_in_integers(model)


def _nf4(linear: nn.Linear) -> nn.Module:
    from bitsandbytes.nn import Linear4bit, Params4bit  # an extra

    weight = linear.weight.data
    layer: nn.Module = Linear4bit(
        linear.in_features, linear.out_features, compute_dtype=weight.dtype, quant_type="nf4", device="meta"
    )
    layer.weight = Params4bit(weight.cpu(), requires_grad=False, quant_type="nf4", module=layer)
    layer.bias = linear.bias
    return layer


def _int8(linear: nn.Linear) -> nn.Module:
    from bitsandbytes.nn import Int8Params, Linear8bitLt  # an extra

    layer: nn.Module = Linear8bitLt(
        linear.in_features, linear.out_features, has_fp16_weights=False, threshold=6.0, device="meta"
    )
    layer.weight = Int8Params(linear.weight.data.cpu(), requires_grad=False)
    layer.bias = linear.bias
    return layer


_QUANTISED: dict[str, Callable[[nn.Linear], nn.Module]] = {"nf4": _nf4, "int8": _int8}
