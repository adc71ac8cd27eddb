"""Models to measure: random weights of a shape, or a model by name, both made on demand in the same forms.

Random weights are made in memory, without downloads or files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel, Qwen2Config

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import try_model
from attribeam.attribution.language_models import Decoder, LanguageModel, load_causal_weights
from attribeam.attribution.models import BUNDLED_MODEL, CAPTURE_IMPLEMENTATION
from attribeam.attribution.models.model_directory import (
    AttributionConfig,
    ModelDirectory,
    RowEncoder,
    choose_layer,
    configured_layer,
    read_model_directory,
    without_layers_above,
)
from attribeam.attribution.models.precision import keep_weights_as_loaded
from attribeam.attribution.models.weight_loading import load_weights
from attribeam.attribution.options import ATTN_UNION, MethodOptions, ModelOptions


class BenchmarkModel(Protocol):
    """A model to make; ``quantization`` is "none", "nf4" or "int8"."""

    @property
    def device(self) -> str:
        """Where its weights are made."""

    @property
    def dtype(self) -> str:
        """Their precision, by torch's name."""

    @property
    def quantization(self) -> str:
        """How the matrices of its layers are kept."""

    @property
    def config(self) -> PreTrainedConfig:
        """A copy of its configuration."""

    @property
    def layer(self) -> int:
        """The 1-based layer L*."""

    def base(self, *, layers: int | None = None, implementation: str = "sdpa") -> PreTrainedModel:
        """The first ``layers`` layers, or all layers, without the language-model head."""

    def causal(self, *, implementation: str = "sdpa") -> PreTrainedModel:
        """All layers and the language-model head."""

    def language_model(self) -> LanguageModel:
        """All layers and the language-model head, with the tokenizer."""

    def encoder(self) -> RowEncoder:
        """The encoder of rows."""

    def attributor(self, *, method: str = ATTN_UNION, token_budget: int | None = None) -> AttentionModel:
        """An attention model with the layers up to L*."""

    def decoder(self, *, token_budget: int | None = None) -> Decoder:
        """The layers up to L*, for their hidden states."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model by its hub id or directory, as ``--model`` names it; a ``BenchmarkModel``."""

    name: str
    device: str = "cpu"
    dtype: str = "float32"
    quantization: str = "none"

    @property
    def config(self) -> PreTrainedConfig:
        """The configuration as stored."""
        return self._directory().config

    @property
    def layer(self) -> int:
        """The 1-based layer L*."""
        return configured_layer(self._directory()).layer

    def base(self, *, layers: int | None = None, implementation: str = "sdpa") -> PreTrainedModel:
        """The first ``layers`` layers, or all layers, without the language-model head."""
        directory = self._directory()
        model = load_weights(directory, layer=layers or len(configured_layer(directory).kinds))
        model.set_attn_implementation(implementation)
        return model

    def causal(self, *, implementation: str = "sdpa") -> PreTrainedModel:
        """All layers and the language-model head."""
        model = load_causal_weights(self._directory())
        model.set_attn_implementation(implementation)
        return model

    def language_model(self) -> LanguageModel:
        """All layers and the language-model head, with the tokenizer."""
        return LanguageModel.from_pretrained(self._options(None))

    def encoder(self) -> RowEncoder:
        """The encoder of rows, with the model's own prompt and tokenizer."""
        return RowEncoder(self._directory())

    def attributor(self, *, method: str = ATTN_UNION, token_budget: int | None = None) -> AttentionModel:
        """An attention model with the layers up to L*."""
        return AttentionModel.from_pretrained(self._options(token_budget), method=MethodOptions(method=method))

    def decoder(self, *, token_budget: int | None = None) -> Decoder:
        """The layers up to L*, for their hidden states."""
        return Decoder.from_pretrained(self._options(token_budget), layer=self.layer)

    def _directory(self) -> ModelDirectory:
        return read_model_directory(self._options(None))

    def _options(self, token_budget: int | None) -> ModelOptions:
        return ModelOptions(
            model=self.name,
            device=self.device,
            dtype=self.dtype,
            quantization=self.quantization,
            token_budget=token_budget,
        )


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
    "qwen2.5-1.5b": Qwen2Config(
        vocab_size=151_936,
        hidden_size=1536,
        intermediate_size=8_960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "smollm2-135m": Qwen2Config(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1_536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
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
        directory, layer = self._directory(token_budget), choose_layer(self.config, None)
        encoder = RowEncoder(directory)
        model = self.base(layers=self.layer, implementation=CAPTURE_IMPLEMENTATION)
        capture, layout = try_model(directory, model, encoder=encoder, layer=layer)
        return AttentionModel(
            directory=directory,
            capture=capture,
            layout=layout,
            encoder=encoder,
            layer=layer,
            method=MethodOptions(method=method),
        )

    def decoder(self, *, token_budget: int | None = None) -> Decoder:
        """The layers up to L*, for their hidden states, with the tokenizer of the bundled model."""
        directory = self._directory(token_budget)
        network = self.base(layers=self.layer)
        return Decoder(directory=directory, network=network, encoder=RowEncoder(directory), layer=self.layer)

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
