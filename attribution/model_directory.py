"""Reading a model from the bundle, a local directory or the Hugging Face hub, with errors that say the way out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging
from transformers.utils.hub import cached_file

from attribution.attention_capture import IMPLEMENTATION
from attribution.attention_layer import without_layers_above
from attribution.attribution_config import FILE_NAME, AttributionConfig
from attribution.model_options import ModelOptions

BUNDLED = Path(__file__).parent / "bundled" / "attributor"
_HASHED = ("*.safetensors", "*.py", "config.json", "tokenizer*.json", "special_tokens_map.json", FILE_NAME)


class ModelLoadError(RuntimeError):
    """The model cannot be loaded or used; the message says which, why, and the way out."""


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """A model before its weights are read: ``location`` is a path or a hub id."""

    location: str
    config: PreTrainedConfig
    defaults: AttributionConfig
    options: ModelOptions


def read_model_directory(options: ModelOptions) -> ModelDirectory:
    """Config and ``attribution_config.json`` of a model; reads no weights.

    Raises:
        ModelLoadError: if there is no such model, or it is none that attention can be taken from.
    """
    location = _locate(options.model)
    with errors_named(options.model):
        config = AutoConfig.from_pretrained(
            location, revision=options.revision, trust_remote_code=options.trust_remote_code
        )
        path = cached_file(location, FILE_NAME, revision=options.revision, _raise_exceptions_for_missing_entries=False)
        defaults = AttributionConfig() if path is None else AttributionConfig.from_file(path)
    if config.is_encoder_decoder:
        raise ModelLoadError(
            f"model {options.model!r} should be a decoder or an encoder, is an encoder-decoder ({config.model_type}); "
            "choose another --model"
        )
    return ModelDirectory(location, config, defaults, options)


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
        tokenizer = AutoTokenizer.from_pretrained(
            directory.location, revision=options.revision, trust_remote_code=options.trust_remote_code
        )
    if not tokenizer.is_fast:
        raise ModelLoadError(
            f"model {options.model!r} should have a fast tokenizer (tokenizer.json), because offsets are needed; "
            f"has only {type(tokenizer).__name__}. Convert it with transformers and save it into the model's directory"
        )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return cast(PreTrainedTokenizerFast, tokenizer)


def load_weights(
    directory: ModelDirectory, *, layer: int, dtype: torch.dtype | str, device: torch.device
) -> PreTrainedModel:
    """Layers 1 to ``layer`` of the base model (no language-model head), in evaluation mode on ``device``.

    Raises:
        ModelLoadError: if the weights are missing, damaged, incomplete or not in safetensors files.
    """
    options = directory.options
    with errors_named(options.model), quiet_transformers():
        model, report = AutoModel.from_pretrained(
            directory.location,
            config=without_layers_above(directory.config, layer),
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
            use_safetensors=True,
            dtype=dtype,
            attn_implementation=IMPLEMENTATION,
            output_loading_info=True,
        )
        model.eval().requires_grad_(False).to(device)
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise ModelLoadError(
            f"model {options.model!r} should have all weights of its layers 1 to {layer}, lacks {len(missing)}: "
            f"{', '.join(missing[:3])}; is the directory complete, and is config.json that of these weights?"
        )
    return cast(PreTrainedModel, model)


def revision_of(directory: ModelDirectory) -> str:
    """The commit of a hub model; for a local one a SHA-256 over its weights, config, tokenizer and defaults."""
    commit = getattr(directory.config, "_commit_hash", None)
    if commit is not None:
        return str(commit)
    folder = Path(directory.location)
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _HASHED for path in folder.glob(pattern)}):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def _locate(model: str) -> str:
    """The path of a bundled or local model, or the hub id as it is."""
    if model == "bundled":
        if not (BUNDLED / "config.json").is_file():
            raise ModelLoadError(
                "the bundled attributor should lie beside the package, but is not there; install a complete "
                "distribution, train it with python -m training.attributor, or choose another --model"
            )
        return str(BUNDLED)
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path)
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelLoadError(f"model {model!r} should be a directory with config.json, there is none; check --model")
    return model


@contextmanager
def errors_named(model: str) -> Iterator[None]:
    """Turn what transformers raises for a missing or broken model into ``ModelLoadError``."""
    try:
        yield
    except KeyError as error:
        if error.args != (IMPLEMENTATION,):
            raise
        raise ModelLoadError(
            f"model {model!r} should go through transformers' attention interface, its code does not; choose another"
        ) from error
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise ModelLoadError(
            f"model {model!r} could not be loaded: {error} (--model should be 'bundled', a hub id or a directory with "
            "config.json, tokenizer.json and safetensors weights)"
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no report on the layers that were left out; both are as before afterwards."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
