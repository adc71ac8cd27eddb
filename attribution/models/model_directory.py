"""Reading a model from the bundle, a local directory or the Hugging Face hub, with errors that say the way out.

A model is refused before its weights are read where attention cannot be taken from it: where its repository brings
code along unasked, or names another repository's, and where transformers would compute its positions in another way
than they were trained with. The config also says how many tokens of a row the model can place.

``attribution_config.json`` says how a model directory asks to be used.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tokenizers import Tokenizer

from attribeam.attribution.models.layer_choice import LayerChoice, choose_layer
from attribeam.attribution.models.loading import as_load_errors
from attribeam.attribution.models.model_files import CONFIG_FILE, TOKENIZER, check_files, check_tokenizer
from attribeam.attribution.option_declaration import BUNDLED_MODEL_NAME, Options, declared
from attribeam.attribution.options import MethodOptions, ModelOptions, TrainedOptions
from attribeam.attribution.prompts.prompt_template import PromptTemplate
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

FILE_NAME = CONFIG_FILE


@dataclass(frozen=True, slots=True)
class AttributionConfig:
    """The defaults of one model.

    Attributes:
        trained: how the model was trained; users cannot change it.
        prompt_template: the model's own; None leaves the choice to ``choose_template``.
    """

    model: ModelOptions = field(default_factory=ModelOptions)
    method: MethodOptions = field(default_factory=MethodOptions)
    trained: TrainedOptions = field(default_factory=TrainedOptions)
    prompt_template: PromptTemplate | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> AttributionConfig:
        """Read the defaults from a JSON object with the keys of ``config_keys``; null counts as a missing key.

        Raises:
            ValueError: if it is not a JSON object of these keys and types; the message names file, key and value.
        """
        values = read_object(Path(path))
        known = config_keys()
        if not values.keys() <= set(known):
            other = reprlib.repr(min(values.keys() - set(known)))
            raise ValueError(f"{path} should hold an object with the keys {known}, holds: {other}")
        template = values.get("prompt_template")
        try:
            return cls(
                model=ModelOptions(**_of(ModelOptions, values)),
                method=MethodOptions(**_of(MethodOptions, values)),
                trained=TrainedOptions(**_of(TrainedOptions, values)),
                prompt_template=None if template is None else _template(template),
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def config_keys() -> list[str]:
    """The keys that ``attribution_config.json`` may hold."""
    return [
        *_directory_options(ModelOptions),
        *_directory_options(TrainedOptions),
        *_directory_options(MethodOptions),
        "prompt_template",
    ]


def _directory_options(options: type[Options]) -> list[str]:
    return [name for name, one in declared(options).items() if one.in_directory]


def _of(options: type[Options], values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: values[name] for name in _directory_options(options) if name in values}


def _template(value: object) -> PromptTemplate:
    if not isinstance(value, dict):
        raise ValueError(f"prompt_template should be an object, was: {type(value).__name__}")
    return PromptTemplate.from_fields(value, where="prompt_template")


GGUF_SUFFIX = ".gguf"
CONVERSION = "docs/models.md#gguf-files"
BUNDLED_MODEL = Path(__file__).parents[1] / "bundled" / "attributor"


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """A model before its weights are read.

    Attributes:
        location: its folder: a local model's own, or that of one commit in the hub's cache.
        commit: the commit of a hub model, None for a local one.
    """

    location: str
    config: PreTrainedConfig
    defaults: AttributionConfig
    options: ModelOptions
    commit: str | None = None


def model_folder(options: ModelOptions) -> tuple[Path, str | None]:
    """The folder of a model's description, and the commit of a hub model; fetches no weights.

    Raises:
        ModelLoadError: if there is no such model.
    """
    folder = _local_folder(options)
    if folder is not None:
        return folder, None
    from attribeam.attribution.models.hub_files import fetch_description

    folder = fetch_description(options.model, options.revision)
    return folder, folder.name


def read_model_directory(options: ModelOptions, *, any_kind: bool = False) -> ModelDirectory:
    """Config and settings of a model; reads no weights, and fetches none of a hub model.

    With ``any_kind``, it need not be one that attention can be taken from.

    Raises:
        ModelLoadError: if there is no such model, or it is of another kind.
    """
    from transformers import AutoConfig

    folder, commit = model_folder(options)
    with as_load_errors(options.model):
        check_files(folder)
        _check_whole(options.model, folder)
        check_code(options, folder)
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=options.trust_remote_code)
        _forget_implementations(config)
        defaults = _defaults(options, folder)
        if not any_kind:
            _check_kind(options.model, config)
        check_position_embeddings(options.model, config)
    return ModelDirectory(str(folder), config, defaults, options, commit)


class LightConfig(SimpleNamespace):
    """The bundled encoder's config.json, read without transformers; it has all that is asked of a config's text model.

    Only ``read_light_directory`` gives one, in place of transformers' config.
    """

    def get_text_config(self) -> LightConfig:
        return self


def read_light_directory(options: ModelOptions) -> ModelDirectory:
    """As ``read_model_directory``, but for the bundled model without transformers, whose import takes seconds.

    Raises:
        ModelLoadError: as ``read_model_directory``.
    """
    if options.model != BUNDLED_MODEL_NAME:
        return read_model_directory(options)
    folder, _ = model_folder(options)
    with as_load_errors(options.model):
        config = cast("PreTrainedConfig", LightConfig(**read_object(folder / "config.json")))
        return ModelDirectory(str(folder), config, _defaults(options, folder), options)


def configured_layer(directory: ModelDirectory) -> LayerChoice:
    """L*: the layer from the options, else from the model's ``attribution_config.json``, else the default choice.

    Raises:
        ModelLoadError: if there is no such layer, or it has no attention.
    """
    requested = directory.options.layer
    try:
        return choose_layer(directory.config, directory.defaults.model.layer if requested is None else requested)
    except ValueError as error:
        raise ModelLoadError(f"model {directory.options.model!r}: {error}") from error


def _defaults(options: ModelOptions, folder: Path) -> AttributionConfig:
    """What the options name, which has to exist, else what the folder has, else the paper's."""
    if options.attribution_config is not None:
        return AttributionConfig.from_file(options.attribution_config)
    path = folder / FILE_NAME
    return AttributionConfig.from_file(path) if path.is_file() else AttributionConfig()


def load_tokenizer(directory: ModelDirectory) -> Tokenizer:
    """The backend of ``load_fast_tokenizer``."""
    backend: Tokenizer = load_fast_tokenizer(directory).backend_tokenizer
    return backend


def load_fast_tokenizer(directory: ModelDirectory) -> PreTrainedTokenizerFast:
    """The model's fast tokenizer, without the truncation and padding that its file may ask for.

    Raises:
        ModelLoadError: if the model has none.
    """
    options = directory.options
    with as_load_errors(options.model):
        file = Path(directory.location) / TOKENIZER
        if file.is_file() and file.parent != BUNDLED_MODEL:
            check_tokenizer(file)
        tokenizer = _read_tokenizer(directory)
    if not tokenizer.is_fast:
        raise ModelLoadError(
            f"model {options.model!r} should have a fast tokenizer (tokenizer.json), because offsets are needed; "
            f"has only {type(tokenizer).__name__}. Convert it with transformers and save it into the model's directory"
        )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return cast("PreTrainedTokenizerFast", tokenizer)


def runs_own_code(directory: ModelDirectory) -> bool:
    """Whether code from the model's own repository is run, for the model or its tokenizer."""
    return directory.options.trust_remote_code and bool(code_references(Path(directory.location)))


def _read_tokenizer(directory: ModelDirectory) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    options = directory.options
    try:
        return AutoTokenizer.from_pretrained(directory.location, trust_remote_code=options.trust_remote_code)
    except ValueError as error:
        if "trust_remote_code" in str(error) and not options.trust_remote_code:
            raise untrusted_code(options, Path(directory.location)) from error
        raise


def _local_folder(options: ModelOptions) -> Path | None:
    """The folder of a bundled or local model, None for a hub id."""
    folder = _folder_of_model(options.model)
    if folder is not None and options.revision is not None:
        raise ModelLoadError(
            f"--revision is for models of the hub, {options.model!r} is a local one, whose revision is a digest of its "
            "files; leave --revision out"
        )
    return folder


def _folder_of_model(model: str) -> Path | None:
    if model == BUNDLED_MODEL_NAME:
        if not (BUNDLED_MODEL / "config.json").is_file():
            raise ModelLoadError(
                "the bundled attributor should lie beside the package, but is not there; install a complete "
                "distribution, train it with python -m lab.train attributor, or choose another --model"
            )
        return BUNDLED_MODEL
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.suffix == GGUF_SUFFIX and path.is_file():
        raise to_be_converted(model, path)
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelLoadError(f"model {model!r} should be a directory with config.json, there is none; check --model")
    return None


def to_be_converted(model: str, file: Path) -> ModelLoadError:
    """The error of a model whose weights are in a GGUF file."""
    return ModelLoadError(
        f"model {model!r} should be a directory with config.json, tokenizer.json and safetensors weights, has a GGUF "
        f"file, {file.name}; convert it once as {CONVERSION} says, and name the new directory with --model"
    )


def _check_whole(model: str, folder: Path) -> None:
    """Refuse a GGUF file without a config, an adapter, and a folder without a config.

    Where transformers reads an adapter, it is without effect, or changes a model that nobody named.
    """
    packed = sorted(folder.glob(f"*{GGUF_SUFFIX}"))
    if packed and not (folder / "config.json").is_file():
        raise to_be_converted(model, packed[0])
    if (folder / "adapter_config.json").is_file():
        raise ModelLoadError(
            f"model {model!r} should be a whole model, is an adapter (adapter_config.json); merge it into its base "
            "model with merge_and_unload of peft and save_pretrained, and name that directory with --model"
        )
    if not (folder / "config.json").is_file():
        raise ModelLoadError(
            f"model {model!r} should have config.json, tokenizer.json and safetensors weights, has no config.json; of "
            f"a hub model with GGUF files, fetch one (hf download {model} FILE.gguf --local-dir .) and convert it as "
            f"{CONVERSION} says"
        )


def _forget_implementations(config: PreTrainedConfig) -> None:
    """Let attention and experts be computed by transformers' own code, also in parts of the model.

    A config.json may name a kernel on the hub instead ("someone/some-attn"), which transformers would fetch and run.
    """
    config._attn_implementation = None
    config._experts_implementation = None


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


_FILES_NAMING_CODE = ("config.json", "tokenizer_config.json")


def code_references(folder: Path) -> list[str]:
    """What model and tokenizer name as their own classes, such as "modeling_own.OwnModel", sorted."""
    return sorted(
        {name for file in _FILES_NAMING_CODE for name in _names_in(_json_object(folder / file).get("auto_map"))}
    )


def check_code(options: ModelOptions, folder: Path) -> None:
    """Refuse a model that needs code of its repository unasked, or code of which nobody knows the revision.

    Raises:
        ModelLoadError: in both cases; the message says the way out.
    """
    from transformers import CONFIG_MAPPING

    config = _json_object(folder / "config.json")
    if not options.trust_remote_code:
        if config.get("auto_map") and config.get("model_type") not in CONFIG_MAPPING:
            raise untrusted_code(options, folder)
        return
    elsewhere = sorted({name.partition("--")[0] for name in code_references(folder) if "--" in name})
    if elsewhere:
        raise ModelLoadError(
            f"model {options.model!r} should bring its code along, names code of {', '.join(elsewhere)}, whose "
            "revision nothing pins; put model and .py files into one directory, leave the names before '--' out of "
            f"auto_map in its {' and '.join(_FILES_NAMING_CODE)}, and name it with --model"
        )


def untrusted_code(options: ModelOptions, folder: Path) -> ModelLoadError:
    """The error of a model whose code was not asked for."""
    return ModelLoadError(
        f"model {options.model!r} needs code of its own repository, not run unasked; read the .py files in "
        f"{folder}, then allow it with --trust-remote-code"
    )


def _json_object(path: Path) -> dict[str, object]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _names_in(value: object) -> Iterator[str]:
    """The strings in an ``auto_map``, whose values are names or lists of names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _names_in(one)


_RELATIVE_KINDS = ("relative_key", "relative_key_query")
_ROTARY_KINDS = ("rope", "rotary")


def check_position_embeddings(model: str, config: PreTrainedConfig) -> None:
    """Refuse a ``position_embedding_type`` that the code of transformers does not look at.

    BERT and its relatives once had positions relative to the key. transformers 5 reads such a config without a word
    and adds absolute positions, whose table the weights need not hold. Code from a model's own repository may know
    more kinds, and is not asked.

    Raises:
        ModelLoadError: if the model's attention would be another than its own.
    """
    text = config.get_text_config()
    kind = getattr(text, "position_embedding_type", None)
    if kind is None or kind in _known_kinds(text):
        return
    raise ModelLoadError(
        f"model {model!r} should have position embeddings that transformers computes, its config.json "
        f"({text.model_type}) says position_embedding_type {kind!r}, which is ignored; choose another --model"
    )


def _known_kinds(config: PreTrainedConfig) -> tuple[object, ...]:
    """The kinds that the model's code computes, or that say what it does anyway (ModernBERT's says "absolute")."""
    kind = getattr(config, "position_embedding_type", None)
    own_code = not type(config).__module__.startswith("transformers.")
    if own_code or (hasattr(type(config), "position_embedding_type") and kind not in _RELATIVE_KINDS):
        return (kind,)
    return ("absolute", *_ROTARY_KINDS) if hasattr(type(config), "rope_parameters") else ("absolute",)


POSITIONS_BEHIND_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
"""Model types whose first token has the position after the padding token's id, so that the table is partly unused."""


def model_context(config: PreTrainedConfig) -> int | None:
    """The longest row in tokens that the model's positions reach, None where there is no limit.

    RoBERTa's table of 514 positions serves 512 tokens.
    """
    text_config = config.get_text_config()
    positions: int | None = getattr(text_config, "max_position_embeddings", None)
    if positions is None or text_config.model_type not in POSITIONS_BEHIND_PADDING:
        return positions
    return positions - int(text_config.pad_token_id or 0) - 1
