"""Models to measure: random weights of a shape, or a model by name. Both are made on demand, in the same forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from transformers import PreTrainedConfig, PreTrainedModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.model_setup import configured_layer
from attribeam.attribution.models.language_model import LanguageModel, load_causal_weights
from attribeam.attribution.models.model_directory import ModelDirectory, read_model_directory
from attribeam.attribution.models.weight_loading import choose_device, choose_dtype, load_weights
from attribeam.attribution.options import ATTN_UNION, MethodOptions, ModelOptions
from attribeam.attribution.prompts.row_encoder import RowEncoder


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
        device = choose_device(self.device)
        count = layers or len(configured_layer(directory).kinds)
        model = load_weights(directory, layer=count, dtype=choose_dtype(directory, device), device=device)
        model.set_attn_implementation(implementation)
        return model

    def causal(self, *, implementation: str = "sdpa") -> PreTrainedModel:
        """All layers and the language-model head."""
        directory = self._directory()
        device = choose_device(self.device)
        model = load_causal_weights(directory, dtype=choose_dtype(directory, device), device=device)
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
