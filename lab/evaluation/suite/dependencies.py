"""Everything that the result of a cell depends on: digests of data, models and parsers, options and versions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from transformers import PreTrainedConfig

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.layer_choice import choose_layer, layer_types
from attribeam.attribution.methods.method import Need
from attribeam.attribution.models.model_directory import ModelDirectory, read_model_directory
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.models.weight_loading import choose_device
from attribeam.attribution.options import ATTN_UNION_DEP, ModelOptions
from attribeam.lab.evaluation.suite.data_files import DataFile
from attribeam.lab.evaluation.suite.suite_options import SuiteOptions
from attribeam.schemas.errors import RunError
from attribeam.schemas.file_digest import file_sha256

Depends = Mapping[str, object]
_OF_THE_MODEL = frozenset({Need.ATTENTION, Need.RESPONSE_ATTENTION, Need.HIDDEN_STATES})
_NO_WEIGHT = frozenset({"seed", "method", "supported_threshold", "weak_threshold"})
_COVERED_ELSEWHERE = frozenset({"model", "revision", "device", "head_weights", "prompt_template", "loaded_layers"})
_WRITES_TEXT = ("ForCausalLM", "LMHeadModel")


class Dependencies:
    """The dependencies of a suite's cells; weights are not loaded, and local ones are read once for their digest."""

    def __init__(self, options: SuiteOptions, *, parsers: Mapping[str, AnswerParser]) -> None:
        """Read the model's configuration.

        Args:
            options: the suite's.
            parsers: all loaded parsers by their names.

        Raises:
            RunError: if there is no such model.
        """
        self._options = options
        self._parsers = parsers
        self._directory = _read(options.choice.model)
        self._loading: dict[ModelOptions, dict[str, str]] = {}
        self._digests: dict[DataFile, dict[str, str]] = {}

    def of(self, data: DataFile, needs: frozenset[Need], *, parser: str) -> dict[str, object]:
        """The dependencies of every cell on ``data`` with these needs."""
        found: dict[str, object] = {
            "data": data.loader_name,
            "data_sha256": self.digests(data),
            "limit": self._options.limit,
        }
        if Need.PARSER in needs:
            found["parser"] = self._parsers[parser].identity
        if needs & _OF_THE_MODEL:
            found |= self._of_model()
        if Need.LANGUAGE_MODEL in needs:
            found |= self._of_language_model()
        return found

    def digests(self, data: DataFile) -> dict[str, str]:
        """SHA-256 of each file of a data set, by file name."""
        if data not in self._digests:
            self._digests[data] = {path.name: file_sha256(path) for path in data.files}
        return self._digests[data]

    def writes_text(self) -> bool:
        """Whether the configuration of ``--model`` says that it is a causal language model."""
        names = getattr(self._directory.config, "architectures", None) or ()
        return any(name.endswith(_WRITES_TEXT) for name in names)

    def has_own_weights(self) -> bool:
        """Whether the options or the model directory set weights of the union that differ from the paper's."""
        used = self._options.settings.union_options(ATTN_UNION_DEP).with_model(self._directory.defaults.method)
        return used != used.with_paper_weights()

    def layers_with_attention(self) -> tuple[int, ...]:
        """The 1-based layers of ``--model`` whose attention can be captured."""
        config = self._directory.config
        return tuple(layer for layer in range(1, len(layer_types(config)) + 1) if _has_attention(config, layer))

    def _of_model(self) -> dict[str, object]:
        choice, settings = self._options.choice, self._options.settings.given()
        return {
            "model": self._loaded(choice.model, self._directory),
            "hidden_layer": choice.hidden_layer,
            "settings": {name: str(value) for name, value in settings.items() if name not in _NO_WEIGHT},
            "versions": _versions(),
        }

    def _of_language_model(self) -> dict[str, object]:
        language = self._options.choice.language or self._options.choice.model
        return {"language_model": self._loaded(language, _read(language)), "versions": _versions()}

    def _loaded(self, options: ModelOptions, directory: ModelDirectory) -> dict[str, str]:
        """The digest of the weights, and the options that determine what is computed with them."""
        if options not in self._loading:
            plain = {name: value for name, value in options.given().items() if name not in _COVERED_ELSEWHERE}
            self._loading[options] = {
                **{name: str(value) for name, value in plain.items()},
                "revision": _revision(directory),
                "device": _device(options),
                "head_weights": _content(options.head_weights, "--head-weights"),
                "prompt_template": _content(options.prompt_template, "--prompt-template"),
            }
        return self._loading[options]


def _read(options: ModelOptions) -> ModelDirectory:
    return read_model_directory(options)


def _device(options: ModelOptions) -> str:
    return choose_device(options.device).type


def _revision(directory: ModelDirectory) -> str:
    return revision_of(directory)


def _content(named: object, option: str) -> str:
    """The digest if ``named`` is a file, else the name itself."""
    path = Path(str(named))
    try:
        return file_sha256(path) if path.is_file() else str(named)
    except OSError as error:
        raise RunError(f"{option} {named} could not be read: {error}") from error


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("torch", "transformers", "numpy")}


def _has_attention(config: PreTrainedConfig, layer: int) -> bool:
    try:
        choose_layer(config, layer)
    except ValueError:
        return False
    return True
