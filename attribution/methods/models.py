"""Loading the models that methods need, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.options import MethodOptions, ModelOptions

if TYPE_CHECKING:
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.models.language_model import LanguageModel

_OF_THE_MODEL = frozenset({Need.ATTENTION, Need.RESPONSE_ATTENTION, Need.HIDDEN_STATES})


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which models to load, and how.

    Attributes:
        parser: "bundled", a spaCy pipeline or a directory.
        model: the model whose attention and hidden states are taken.
        method: options of the union; the audit's defaults are merged into them.
        language: the causal language model; None where ``model`` should serve as one.
        hidden_layer: 1-based layer of the hidden states, 0 the embeddings; None is floor(L/2).
        threads: CPU threads of torch, None as they are.
    """

    parser: str = "bundled"
    model: ModelOptions = field(default_factory=ModelOptions)
    method: MethodOptions = field(default_factory=MethodOptions)
    hidden_layer: int | None = None
    language: ModelOptions | None = None
    threads: int | None = None


def load_models(choice: ModelChoice, needs: frozenset[Need]) -> LoadedModels:
    """The models for methods of these needs.

    Raises:
        ModelLoadError: if one cannot be loaded; the message says which option to change.
    """
    return LoadedModels(
        attention=_load_attention(choice, needs) if needs & _OF_THE_MODEL else None,
        parser=_load_parser(choice.parser) if Need.PARSER in needs else None,
        hidden_layer=choice.hidden_layer,
        language=_load_language(choice) if Need.LANGUAGE_MODEL in needs else None,
    )


def _load_parser(name: str) -> AnswerParser:
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.schemas.errors import ModelLoadError

    try:
        return AnswerParser.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"parser {name!r} could not be loaded: {error}; see --parser") from error


def _load_attention(choice: ModelChoice, needs: frozenset[Need]) -> AttentionModel:
    """The model up to the captured layer, and up to that of the hidden states where these are needed."""
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.attention.hidden_states import layer_modules
    from attribeam.schemas.errors import ModelLoadError

    hidden = Need.HIDDEN_STATES in needs
    try:
        options = _with_hidden_layer(choice) if hidden else choice.model
        model = AttentionModel.from_pretrained(options, method=choice.method, threads=choice.threads)
        if hidden:
            layer_modules(model.network)
    except ValueError as error:
        raise ModelLoadError(str(error)) from error
    return model


def _load_language(choice: ModelChoice) -> LanguageModel:
    """The whole model with its language-model head; weights are not shared with the attention model."""
    from attribeam.attribution.models.language_model import LanguageModel, NotCausalError
    from attribeam.schemas.errors import ModelLoadError

    options = choice.language or choice.model.replaced(layer=None, head_weights=None, loaded_layers=None)
    try:
        return LanguageModel.from_pretrained(options, threads=choice.threads)
    except NotCausalError as error:
        raise ModelLoadError(f"cci and log-probability drops need a causal language model; {error}") from error


def _with_hidden_layer(choice: ModelChoice) -> ModelOptions:
    from attribeam.attribution.attention.layer_choice import layer_types
    from attribeam.attribution.models.model_directory import read_model_directory
    from attribeam.schemas.errors import ModelLoadError

    layer_count = len(layer_types(read_model_directory(choice.model).config))
    layer = layer_count // 2 if choice.hidden_layer is None else choice.hidden_layer
    if layer > layer_count:
        raise ModelLoadError(f"--hidden-layer should be from 0 to the model's {layer_count} layers, was: {layer}")
    return choice.model.replaced(loaded_layers=max(layer, choice.model.loaded_layers or 0))
