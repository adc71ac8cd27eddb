"""A model before its weights are read: config and settings, the layer whose attention is taken, how it encodes rows.

It is refused where attention cannot be taken from it, or transformers would compute other positions than its own.
"""

from __future__ import annotations

import copy
import reprlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar, cast

from tokenizers import Tokenizer

from attribeam.attribution.models import (
    BUNDLED_MODEL,
    CONFIG_FILE,
    TOKENIZER,
    as_load_errors,
    check_code,
    check_files,
    check_tokenizer,
    check_whole,
    code_references,
    loaded_once,
    model_folder,
    untrusted_code,
)
from attribeam.attribution.option_declaration import BUNDLED_MODEL_NAME, Options, declared
from attribeam.attribution.options import MethodOptions, ModelOptions, TrainedOptions
from attribeam.attribution.prompts import PromptTemplate, choose_template
from attribeam.attribution.prompts.token_offsets import EncodedPrompt, PageTokenizer, cut_into_windows, encode_page
from attribeam.attribution.rows import EncodedRow
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.files import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

_Options = TypeVar("_Options", bound=Options)


@dataclass(frozen=True, slots=True)
class AttributionConfig:
    """The defaults of one model, as its ``attribution_config.json`` has them; users cannot change ``trained``."""

    model: ModelOptions = field(default_factory=ModelOptions)
    method: MethodOptions = field(default_factory=MethodOptions)
    trained: TrainedOptions = field(default_factory=TrainedOptions)
    prompt_template: PromptTemplate | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> AttributionConfig:
        """Read the defaults from a JSON object with the keys of ``config_keys``; null counts as a missing key.

        Raises ``ValueError`` if it is not a JSON object of these keys and types; the message names file, key and value.
        """
        values = read_object(Path(path))
        known = config_keys()
        if not values.keys() <= set(known):
            other = reprlib.repr(min(values.keys() - set(known)))
            raise ValueError(f"{path} should hold an object with the keys {known}, holds: {other}")

        def of(options: type[_Options]) -> _Options:
            return options(**{name: values[name] for name in _directory_options(options) if name in values})

        template = values.get("prompt_template")
        try:
            if not isinstance(template, dict | None):
                raise ValueError(f"prompt_template should be an object, was: {type(template).__name__}")
            prompt = None if template is None else PromptTemplate.from_fields(template, where="prompt_template")
            return cls(of(ModelOptions), of(MethodOptions), of(TrainedOptions), prompt)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def config_keys() -> list[str]:
    """The keys that ``attribution_config.json`` may hold."""
    rooms = (ModelOptions, TrainedOptions, MethodOptions)
    return [*(name for options in rooms for name in _directory_options(options)), "prompt_template"]


def _directory_options(options: type[Options]) -> list[str]:
    return [name for name, option in declared(options).items() if option.in_directory]


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """A model before its weights are read; ``commit`` is that of a hub model, None for a local one."""

    location: str
    config: PreTrainedConfig
    defaults: AttributionConfig
    options: ModelOptions
    commit: str | None = None


def read_model_directory(options: ModelOptions, *, any_kind: bool = False) -> ModelDirectory:
    """Config and settings of a model; reads no weights, and fetches none of a hub model.

    Raises ``ModelLoadError`` if there is no such model, or attention cannot be taken from it and it need not be
    ``any_kind``.
    """
    from transformers import AutoConfig

    folder, commit = model_folder(options)
    with as_load_errors(options.model):
        check_files(folder)
        check_whole(options.model, folder)
        check_code(options, folder)
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=options.trust_remote_code)
        # a config.json may name kernels on the hub ("someone/some-attn"), which transformers would fetch and run
        config._attn_implementation = config._experts_implementation = None
        defaults = _defaults(options, folder)
        if not any_kind:
            _check_kind(options.model, config)
        check_position_embeddings(options.model, config)
    return ModelDirectory(str(folder), config, defaults, options, commit)


class LightConfig(SimpleNamespace):
    """The bundled encoder's config.json without transformers, with all that is asked of a config's text model."""

    def get_text_config(self) -> LightConfig:
        return self


def read_light_directory(options: ModelOptions) -> ModelDirectory:
    """As ``read_model_directory``, but for the bundled model without transformers, whose import takes seconds."""
    if options.model != BUNDLED_MODEL_NAME:
        return read_model_directory(options)
    folder, _ = model_folder(options)
    with as_load_errors(options.model):
        config = cast("PreTrainedConfig", LightConfig(**read_object(folder / "config.json")))
        return ModelDirectory(str(folder), config, _defaults(options, folder), options)


def _defaults(options: ModelOptions, folder: Path) -> AttributionConfig:
    """What the options name, which has to exist, else what the folder has, else the paper's."""
    if options.attribution_config is not None:
        return AttributionConfig.from_file(options.attribution_config)
    path = folder / CONFIG_FILE
    return AttributionConfig.from_file(path) if path.is_file() else AttributionConfig()


def runs_own_code(directory: ModelDirectory) -> bool:
    """Whether code from the model's own repository is run, for the model or its tokenizer."""
    return directory.options.trust_remote_code and bool(code_references(Path(directory.location)))


def load_fast_tokenizer(directory: ModelDirectory) -> PreTrainedTokenizerFast:
    """The model's fast tokenizer, without its file's truncation and padding; ModelLoadError if it has none."""
    from transformers import AutoTokenizer

    options, folder = directory.options, Path(directory.location)
    with as_load_errors(options.model):
        if (folder / TOKENIZER).is_file() and folder != BUNDLED_MODEL:
            check_tokenizer(folder / TOKENIZER)
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=options.trust_remote_code)
        except ValueError as error:
            if "trust_remote_code" in str(error) and not options.trust_remote_code:
                raise untrusted_code(options, folder) from error
            raise
    if not tokenizer.is_fast:
        raise ModelLoadError(
            f"model {options.model!r} should have a fast tokenizer (tokenizer.json), because offsets are needed; "
            f"has only {type(tokenizer).__name__}. Convert it with transformers and save it into the model's directory"
        )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return cast("PreTrainedTokenizerFast", tokenizer)


def _check_kind(model: str, config: PreTrainedConfig) -> None:
    if config.is_encoder_decoder:
        raise ModelLoadError(
            f"model {model!r} should be a decoder or an encoder, is an encoder-decoder ({config.model_type}); "
            "choose another --model"
        )
    if not isinstance(getattr(config.get_text_config(), "num_attention_heads", None), int | list):
        raise ModelLoadError(
            f"model {model!r} should have attention, its config.json ({config.model_type}) names no attention heads, "
            "as those of state space and other recurrent models; choose another --model"
        )


def check_position_embeddings(model: str, config: PreTrainedConfig) -> None:
    """Refuse a ``position_embedding_type`` that the code of transformers does not look at.

    BERT and its relatives once had positions relative to the key; transformers 5 silently adds absolute ones instead.
    Code of a model's own repository may know more kinds. Some name what they do anyway (ModernBERT's says "absolute").
    Raises ``ModelLoadError`` if the model's attention would be another than its own.
    """
    text = config.get_text_config()
    kind = getattr(text, "position_embedding_type", None)
    own_code = not type(text).__module__.startswith("transformers.")
    if own_code or (
        hasattr(type(text), "position_embedding_type") and kind not in ("relative_key", "relative_key_query")
    ):
        return
    rotary = ("rope", "rotary") if hasattr(type(text), "rope_parameters") else ()
    if kind not in (None, "absolute", *rotary):
        raise ModelLoadError(
            f"model {model!r} should have position embeddings that transformers computes, its config.json "
            f"({text.model_type}) says position_embedding_type {kind!r}, which is ignored; choose another --model"
        )


POSITIONS_BEHIND_PADDING = frozenset({
    "camembert", "data2vec-text", "esm", "ibert", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
})  # fmt: skip
"""Model types whose first token has the position after the padding token's id, so that the table is partly unused."""


def model_context(config: PreTrainedConfig) -> int | None:
    """The longest row in tokens that the model's positions reach (RoBERTa's 514 serve 512); None without a limit."""
    text_config = config.get_text_config()
    positions: int | None = getattr(text_config, "max_position_embeddings", None)
    if positions is None or positions < 1:  # XLNet says -1
        return None
    if text_config.model_type not in POSITIONS_BEHIND_PADDING:
        return positions
    return positions - int(text_config.pad_token_id or 0) - 1


def rope_border(config: PreTrainedConfig) -> int | None:
    """The longest row, in tokens, that is rotated with the short frequencies; None if they do not depend on length.

    Longrope (Phi-3 and others) rotates a whole batch with the long frequencies as soon as one of its rows exceeds the
    original context. Dynamic scaling changes nothing up to the model's context, and longer rows are refused.
    """
    parameters = getattr(config.get_text_config(), "rope_parameters", None) or {}
    of_kinds = [rope for rope in parameters.values() if isinstance(rope, dict)]  # one per kind of layer, or one for all
    sets = of_kinds if of_kinds and "rope_type" not in parameters else [parameters]
    long = [rope for rope in sets if rope.get("rope_type") == "longrope"]
    return min((int(rope["original_max_position_embeddings"]) for rope in long), default=None)


_FULL = "full_attention"
_SLIDING = "sliding_attention"
_SEES_ALL = (_FULL, "hybrid")
_SEES_SOME = (_SLIDING, "chunked_attention", "hybrid_sliding", "indexed_attention")


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """The layer whose attention is taken: 1-based L*, floor(L/2) + 1 (Section 4.1), the kind of each layer, and why."""

    layer: int
    default: int
    kinds: tuple[str, ...]
    reason: str

    @property
    def kind(self) -> str:
        """The kind of L*."""
        return self.kinds[self.layer - 1]

    def provenance(self) -> dict[str, str]:
        """The choice, as recorded in file metadata and the run manifest."""
        counts = Counter(self.kinds)
        return {
            "layer": str(self.layer),
            "layer_count": str(len(self.kinds)),
            "layer_type": self.kind,
            "layer_default": str(self.default),
            "layer_kinds": ", ".join(f"{kind} {counts[kind]}" for kind in sorted(counts)),
            "layer_choice": f"layer {self.layer} of {len(self.kinds)}: {self.reason}",
        }


def configured_layer(directory: ModelDirectory) -> LayerChoice:
    """L*, as the options say, else ``attribution_config.json``, else by default; ModelLoadError without attention."""
    requested = directory.options.layer
    try:
        return choose_layer(directory.config, directory.defaults.model.layer if requested is None else requested)
    except ValueError as error:
        raise ModelLoadError(f"model {directory.options.model!r}: {error}") from error


def choose_layer(config: PreTrainedConfig, requested: int | None) -> LayerChoice:
    """L*: the requested layer, else the layer nearest to floor(L/2) + 1 whose tokens see everything.

    Ties go to the lower layer (Section 4.1; a layer with a sliding window may not see the passages, and a recurrent
    layer has no attention). If no layer sees everything, it is the nearest layer with any attention. Raises
    ``ValueError`` if the requested layer does not exist or has no attention, or if no layer has attention.
    """
    kinds = layer_types(config)
    capturable = layers_with_attention(kinds)
    default = len(kinds) // 2 + 1
    if requested is not None and requested not in capturable:
        raise ValueError(f"layer should be one of the layers with attention, {capturable}, was: {requested}")
    if not capturable:
        raise ValueError(f"the model should have a layer with attention, but has only: {', '.join(sorted(set(kinds)))}")
    candidates = [layer for layer in capturable if kinds[layer - 1] in _SEES_ALL] or capturable
    layer = requested or min(candidates, key=lambda layer: (abs(layer - default), layer))
    kind = kinds[layer - 1]
    if requested is not None:
        reason = "as configured"
    elif layer == default:
        reason = "the default"
    else:
        reason = f"nearest {kind} layer to the default {default} ({kinds[default - 1]})"
    warning = "" if kind in _SEES_ALL else f"; a {kind} layer, which may not see all passages"
    return LayerChoice(layer, default, kinds, reason + warning)


def layers_with_attention(kinds: Sequence[str]) -> list[int]:
    """The 1-based layers with attention; ``kinds`` are transformers' names."""
    return [index + 1 for index, kind in enumerate(kinds) if kind in (*_SEES_ALL, *_SEES_SOME)]


def layer_types(config: PreTrainedConfig) -> tuple[str, ...]:
    """The kind of each layer, by transformers' names; sliding for all if the config gives only a window.

    Raises ``ValueError`` if the config does not say how many layers there are.
    """
    text_config = config.get_text_config()
    types = getattr(text_config, "layer_types", None)
    if types is not None:
        return tuple(types)
    layer_count = getattr(text_config, "num_hidden_layers", None)
    if not isinstance(layer_count, int) or layer_count < 1:
        raise ValueError(
            f"config.json ({config.model_type}) should have a num_hidden_layers of at least 1, but has none"
        )
    return (_FULL if getattr(text_config, "sliding_window", None) is None else _SLIDING,) * layer_count


def without_layers_above(config: PreTrainedConfig, layer: int) -> PreTrainedConfig:
    """A copy of ``config`` with ``layer`` layers, so that weights above them are neither read nor kept.

    Every list with one item per layer is cut, too, of the text model's config if there is one.
    """
    trimmed = copy.deepcopy(config)
    text_config = trimmed.get_text_config()
    layer_count = text_config.num_hidden_layers
    for name, value in vars(text_config).items():
        if isinstance(value, list) and len(value) == layer_count:
            setattr(text_config, name, value[:layer])
    text_config.num_hidden_layers = layer
    return trimmed


_PROBES = (
    ("Which word?", "One word.", "A word."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "The other."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "Nobody knows."),
)


class RowEncoder:
    """Turns records into encoded rows; threads may share it.

    ``template_name`` says how the template was chosen, ``max_tokens`` is the longest row or window, None without a
    limit.
    """

    def __init__(self, directory: ModelDirectory) -> None:
        """Read tokenizer and template, no weights; ModelLoadError if one of them cannot be used."""
        options = directory.options
        with as_load_errors(options.model):
            if isinstance(directory.config, LightConfig):
                tokenizer, backend = None, Tokenizer.from_file(str(Path(directory.location) / TOKENIZER))
            else:
                tokenizer = load_fast_tokenizer(directory)
                backend = tokenizer.backend_tokenizer
            try:
                chosen = choose_template(
                    options.prompt_template, default=directory.defaults.prompt_template, tokenizer=tokenizer
                )
            except ValueError as error:
                raise ModelLoadError(f"model {options.model!r}: {error}") from error
            self.template = chosen.template
            self.template_name = chosen.name
            limits = (options.max_tokens, model_context(directory.config))
            self.max_tokens = min((limit for limit in limits if limit is not None), default=None)
            self._tokenizer = PageTokenizer(backend, add_special_tokens=chosen.add_special_tokens)
        text = directory.config.get_text_config()
        self._vocabulary: int | None = None if runs_own_code(directory) else getattr(text, "vocab_size", None)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and their characters, with windows if it is longer than the model takes.

        Raises ``RowFault`` TOO_MANY_TOKENS if one passage is too long; TEMPLATE_FAILED by a template of the user's.
        """
        whole = self._encode(record, range(len(record.passages)))
        if self.max_tokens is None or len(whole.row.token_ids) <= self.max_tokens:
            return whole.row
        return cut_into_windows(
            whole,
            encode=lambda passages: self._encode(record, passages),
            passage_count=len(record.passages),
            max_tokens=self.max_tokens,
        )

    def encode_whole(self, record: QARecord) -> EncodedRow:
        """As ``encode``, but TOO_MANY_TOKENS instead of windows, for methods that need the whole row at once."""
        row = self._encode(record, range(len(record.passages))).row
        if self.max_tokens is not None and len(row.token_ids) > self.max_tokens:
            raise RowFault(
                Reason.TOO_MANY_TOKENS,
                f"a row should have at most {self.max_tokens} tokens here, has {len(row.token_ids)}; "
                "log fewer passages, or choose a model with a longer context",
            )
        return row

    def probes(self) -> list[EncodedRow]:
        """The rows of one passage that every model is tried on; the last two share a prompt."""
        records = [
            QARecord("probe", question, (Passage(text),), answer, RowSource("", 0))
            for question, text, answer in _PROBES
        ]
        return [self._encode(record, range(1)).row for record in records]

    def _encode(self, record: QARecord, passages: range) -> EncodedPrompt:
        prompt = self.template.render(
            question=record.question,
            passages=record.passages[passages.start : passages.stop],
            first_index=passages.start,
        )
        encoded = EncodedPrompt(prompt, *encode_page(prompt, record.answer, self._tokenizer))
        highest = int(encoded.row.token_ids.max())
        if self._vocabulary is not None and highest >= self._vocabulary:
            raise RowFault(
                Reason.INVALID_VALUE,
                f"tokens should have numbers below {self._vocabulary}, the vocabulary of the model's config.json, one "
                f"has {highest}; take tokenizer.json and config.json from one model",
            )
        return encoded


@loaded_once
def load_row_encoder(options: ModelOptions) -> RowEncoder:
    """The encoder of a model; the last one stays loaded for the next call. Raises as ``RowEncoder``."""
    return RowEncoder(read_light_directory(options))
