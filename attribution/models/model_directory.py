"""Reading a model from the bundle, a local directory or the Hugging Face hub, with errors that say the way out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from attribution.models.attribution_config import FILE_NAME, AttributionConfig
from attribution.models.hub_files import fetch_description
from attribution.models.model_code import check_code, code_references, untrusted_code
from attribution.models.model_errors import ModelLoadError as ModelLoadError
from attribution.models.model_errors import errors_named
from attribution.models.model_options import ModelOptions
from attribution.models.position_embeddings import check_position_embeddings

BUNDLED = Path(__file__).parents[1] / "bundled" / "attributor"


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


def read_model_directory(options: ModelOptions) -> ModelDirectory:
    """Config and ``attribution_config.json`` of a model; reads no weights, and fetches none of a hub model.

    Raises:
        ModelLoadError: if there is no such model, or it is none that attention can be taken from.
    """
    folder = _local_folder(options)
    commit = None
    if folder is None:
        folder = fetch_description(options.model, options.revision)
        commit = folder.name
    _check_whole(options.model, folder)
    with errors_named(options.model):
        check_code(options, folder)
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=options.trust_remote_code)
        path = folder / FILE_NAME
        defaults = AttributionConfig.from_file(path) if path.is_file() else AttributionConfig()
    _check_kind(options.model, config)
    check_position_embeddings(options.model, config)
    return ModelDirectory(str(folder), config, defaults, options, commit)


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
    with errors_named(options.model):
        tokenizer = _read_tokenizer(directory)
    if not tokenizer.is_fast:
        raise ModelLoadError(
            f"model {options.model!r} should have a fast tokenizer (tokenizer.json), because offsets are needed; "
            f"has only {type(tokenizer).__name__}. Convert it with transformers and save it into the model's directory"
        )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return cast(PreTrainedTokenizerFast, tokenizer)


def runs_own_code(directory: ModelDirectory) -> bool:
    """Whether code from the model's own repository is run, for the model or its tokenizer."""
    return directory.options.trust_remote_code and bool(code_references(Path(directory.location)))


def _read_tokenizer(directory: ModelDirectory) -> PreTrainedTokenizerBase:
    options = directory.options
    try:
        return AutoTokenizer.from_pretrained(directory.location, trust_remote_code=options.trust_remote_code)
    except ValueError as error:
        if "trust_remote_code" in str(error) and not options.trust_remote_code:
            raise untrusted_code(options, Path(directory.location)) from error
        raise


def _local_folder(options: ModelOptions) -> Path | None:
    """The folder of a bundled or local model, None for a hub id."""
    folder = _folder(options.model)
    if folder is not None and options.revision is not None:
        raise ModelLoadError(
            f"--revision is for models of the hub, {options.model!r} is a local one, whose revision is a digest of its "
            "files; leave --revision out"
        )
    return folder


def _folder(model: str) -> Path | None:
    if model == "bundled":
        if not (BUNDLED / "config.json").is_file():
            raise ModelLoadError(
                "the bundled attributor should lie beside the package, but is not there; install a complete "
                "distribution, train it with python -m training.attributor, or choose another --model"
            )
        return BUNDLED
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelLoadError(f"model {model!r} should be a directory with config.json, there is none; check --model")
    return None


def _check_whole(model: str, folder: Path) -> None:
    """Refuse an adapter, which is without effect, or changes a model that nobody named, where transformers reads it."""
    if (folder / "adapter_config.json").is_file():
        raise ModelLoadError(
            f"model {model!r} should be a whole model, is an adapter (adapter_config.json); merge it into its base "
            "model with merge_and_unload of peft and save_pretrained, and name that directory with --model"
        )


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
