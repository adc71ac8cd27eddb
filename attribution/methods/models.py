"""Loading the models that methods need, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attribeam.attribution.methods.method import LoadedModels, Need
from attribeam.attribution.models import loaded_once
from attribeam.attribution.option_declaration import AUTO_DTYPE, declared
from attribeam.attribution.options import LOADING, MethodOptions, ModelOptions
from attribeam.attribution.verdict.judge import judge_of, probe_of
from attribeam.schemas.errors import ModelLoadError

if TYPE_CHECKING:
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.language_models import LanguageModel
    from attribeam.attribution.verdict.fitted_parts import StateProbe
    from attribeam.attribution.verdict.verified import VerdictReader

_MODEL_OPTION = re.compile(r"--model(?![-\w])")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which models to load, and how.

    Attention and hidden states are those of ``model``, whose options are merged into those of ``method``; these name
    the other models. None for ``threads`` leaves those of torch unchanged.
    """

    parser: str = "bundled"
    model: ModelOptions = field(default_factory=ModelOptions)
    method: MethodOptions = field(default_factory=MethodOptions)
    threads: int | None = None

    @property
    def language(self) -> ModelOptions:
        """The causal language model: one of its own, or ``model`` itself."""
        name = self.method.language_model
        options = self.model.replaced(layer=None, loaded_layers=None) if name is None else self._loaded_like_model(name)
        return self._with_language_model_precision(options)

    @property
    def verifier(self) -> ModelOptions | None:
        """The verdict's verifier; None where it is none."""
        name = self.method.verdict
        return self._with_language_model_precision(self._loaded_like_model(name)) if self.method.has_verifier else None

    def _loaded_like_model(self, name: str) -> ModelOptions:
        """Another model, loaded like ``model``, but from its main branch."""
        loading = {name for name, option in declared(ModelOptions).items() if option.group == LOADING}
        given = {name: value for name, value in self.model.explicit().items() if name in loading}
        return ModelOptions().replaced(**given | {"revision": None, "model": name})

    def _with_language_model_precision(self, options: ModelOptions) -> ModelOptions:
        """In the precision and quantization given for language models, else in those of the model."""
        settings = {"dtype": self.method.language_model_dtype, "quantization": self.method.language_model_quantization}
        return options.replaced(**{name: value for name, value in settings.items() if value is not None})


def encodes(needs: frozenset[Need]) -> bool:
    """Whether the tokens of the attention model are needed."""
    return not needs.isdisjoint({Need.ATTENTION, Need.RESPONSE_ATTENTION, Need.HIDDEN_STATES})


def with_chosen_dtype(model: ModelOptions, needs: frozenset[Need]) -> ModelOptions:
    """``model`` with what its ``dtype`` "auto" means on this machine, for methods with these needs.

    Raises ``ModelLoadError`` if there is no such model or device.
    """
    from attribeam.attribution.models.precision import choose_half_precision

    choice = choose_half_precision(model) if may_use_half_precision(needs) else None
    return model if choice is None else model.replaced(dtype=choice.dtype)


def with_chosen_dtypes(
    model: ModelOptions, method: MethodOptions, needs: frozenset[Need]
) -> tuple[ModelOptions, MethodOptions]:
    """``with_chosen_dtype``, and ``method`` with the same choice for a decoder of its own.

    Raises ``ModelLoadError`` if there is no such model or device.
    """
    from attribeam.attribution.models.precision import choose_half_precision

    decoder = decoder_to_choose_for(model, method, needs)
    if decoder is None:
        return with_chosen_dtype(model, needs), method
    probe = probe_of(method)
    with _language_model_errors(ModelChoice(model=model, method=method), probe):
        choice = choose_half_precision(decoder)
    chosen = AUTO_DTYPE if choice is None else choice.dtype
    return with_chosen_dtype(model, needs), method.replaced(language_model_dtype=chosen)


def may_use_half_precision(needs: frozenset[Need]) -> bool:
    """Whether ``--dtype auto`` may choose: not where a language model's probabilities or gradients are read."""
    return encodes(needs) and Need.LANGUAGE_MODEL not in needs


def decoder_to_choose_for(model: ModelOptions, method: MethodOptions, needs: frozenset[Need]) -> ModelOptions | None:
    """The options of a probe's decoder whose precision is to be chosen; None if there is no such one.

    As for ``may_use_half_precision``, it is not where its probabilities or gradients are read, too. A decoder that is
    ``model`` itself takes what is chosen for that, unless ``language_model_dtype`` is "auto" of its own.
    """
    has_own = method.language_model is not None or method.language_model_dtype is not None
    if not has_own or Need.LANGUAGE_MODEL in needs or probe_of(method) is None:
        return None
    decoder = ModelChoice(model=model, method=method).language
    return decoder if decoder.dtype == AUTO_DTYPE else None


@loaded_once
def load_audit_models(choice: ModelChoice, needs: frozenset[Need]) -> LoadedModels:
    """The models of an audit's method and verdict; the last ones stay loaded. The stages load parsers themselves.

    Raises ``ModelLoadError`` as ``load_models``.
    """
    return load_models(choice, needs - {Need.PARSER}, verdict=True, shared=True)


def load_models(
    choice: ModelChoice, needs: frozenset[Need], *, verdict: bool = False, shared: bool = False
) -> LoadedModels:
    """The models for methods with these needs, and with ``verdict`` its own model, if it has one.

    ``shared`` ones stay loaded for the next caller that asks for the same. Raises ``ModelLoadError`` if one cannot be
    loaded; the message says which option to change.
    """
    language = None
    if Need.LANGUAGE_MODEL in needs:
        from attribeam.attribution.language_models import LanguageModel

        with _language_model_errors(choice):  # the whole model, which shares no weights with that of attention
            language = LanguageModel.from_pretrained(choice.language, threads=choice.threads)
    return LoadedModels(
        attention=_load_attention(choice, needs, shared=shared) if encodes(needs) else None,
        parser=load_parser(choice.parser) if Need.PARSER in needs else None,
        hidden_layer=choice.method.hidden_layer,
        language=language,
        verdict=_load_verdict(choice, language) if verdict else None,
    )


def load_parser(name: str) -> AnswerParser:
    """The parser of this name; raises ``ModelLoadError`` if there is none, or it cannot be read or run."""
    from attribeam.attribution.answers.answer_parser import AnswerParser

    try:
        return AnswerParser.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"parser {name!r} could not be loaded: {error}; see --parser") from error


def _load_attention(choice: ModelChoice, needs: frozenset[Need], *, shared: bool) -> AttentionModel:
    """The model up to the captured layer, and up to the layer of the hidden states if they are needed."""
    from attribeam.attribution.attention.attention_model import AttentionModel, load_attention_model

    hidden = Need.HIDDEN_STATES in needs
    fused, options = not hidden and Need.RESPONSE_ATTENTION not in needs, choice.model
    if hidden:
        from attribeam.attribution.models.model_directory import layer_types, read_model_directory

        layer_count = len(layer_types(read_model_directory(options).config))
        layer = layer_count // 2 if choice.method.hidden_layer is None else choice.method.hidden_layer
        if layer > layer_count:
            raise ModelLoadError(f"--hidden-layer should be from 0 to the model's {layer_count} layers, was: {layer}")
        options = options.replaced(loaded_layers=max(layer, options.loaded_layers or 0))
    load = load_attention_model if shared else AttentionModel.from_pretrained
    try:
        model = load(options, method=choice.method, threads=choice.threads, fused=fused)
        if hidden:
            from attribeam.attribution.attention.hidden_states import check_states

            check_states(model.network)
    except ValueError as error:
        raise ModelLoadError(str(error)) from error
    return model


def _load_verdict(choice: ModelChoice, language: LanguageModel | None) -> VerdictReader | None:
    """The verifier or the decoder of the verdict, which may be the ``language`` model's layers; None without either."""
    if choice.verifier is not None:
        from attribeam.attribution.language_models.verifiers import load_verifier
        from attribeam.attribution.verdict.verified import VerifierReader, calibrated_verifier

        try:
            verifier = load_verifier(choice.verifier, threads=choice.threads)
        except ModelLoadError as error:
            raise ModelLoadError(_MODEL_OPTION.sub("--verdict", str(error))) from error
        fitted, judge = calibrated_verifier(choice.verifier.model), judge_of(choice.method.first_verdict)
        if fitted is not None and judge is not None:
            fitted.check(judge.provenance() | dict(verifier.provenance()))
        return VerifierReader(verifier)
    probe = probe_of(choice.method)
    if probe is None:
        return None
    from attribeam.attribution.language_models import Decoder, DecoderReader

    with _language_model_errors(choice, probe):
        if language is None:  # up to the layer of the probe, without its head
            decoder = Decoder.from_pretrained(choice.language, layer=probe.layer, threads=choice.threads)
        else:
            decoder = Decoder.of_language_model(language, layer=probe.layer)
        probe.check(decoder.provenance())
    return DecoderReader(decoder, probe)


@contextmanager
def _language_model_errors(choice: ModelChoice, probe: StateProbe | None = None) -> Iterator[None]:
    """Errors that say what a language model is for, which option names it, and which one the ``probe`` reads."""
    from attribeam.attribution.language_models import NotCausalError

    try:
        yield
    except ModelLoadError as error:
        needing = "a verdict with a probe, cci and log-probability drops need a causal language model; "
        start = needing if isinstance(error, NotCausalError) else ""
        end = "" if probe is None else probe.decoder_hint
        text = str(error) if choice.method.language_model is None else _MODEL_OPTION.sub("--language-model", str(error))
        raise ModelLoadError(f"{start}{text}{end}") from error
