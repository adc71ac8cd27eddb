"""Converts a GGUF file, as llama.cpp runs it, to a model directory: config, fast tokenizer, safetensors weights.

transformers unpacks the quantised blocks. That takes tens of seconds even for a small model, and needs all layers in
memory, so it is done once and not by every process of every audit. The directory is read like any other.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedModel

from attribeam.attribution.models.model_errors import quiet_transformers
from attribeam.schemas.errors import ModelLoadError, UsageError

SOURCE_KEY = "converted_from"
"""The key of config.json that holds name and SHA-256 of the file."""

_MAGIC = b"GGUF"
_PACKAGES = ("gguf", "accelerate")
_UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError, NotImplementedError, struct.error)
"""What transformers and gguf raise for a damaged file, or a model that they do not know."""


def convert_gguf(file: Path, folder: Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Write the model of ``file`` to the new ``folder``, which appears only when it is complete.

    ``float32`` keeps every unpacked number as it is. The file's name and digest stand in config.json.

    Raises:
        UsageError: if the file is no GGUF file, the folder cannot be written, or packages are missing.
        ModelLoadError: if transformers cannot read this architecture or tokenizer, or the file lacks weights.
    """
    _check(file, folder)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        complete = Path(temporary) / "model"
        with quiet_transformers():
            model = _read_model(file, dtype)
            setattr(model.config, SOURCE_KEY, {"file": file.name, "sha256": _sha256(file)})
            model.save_pretrained(complete)
            del model
            _save_tokenizer(file, complete)
        complete.replace(folder)


def _check(file: Path, folder: Path) -> None:
    if not _starts_as_gguf(file):
        raise UsageError(f"{file} should be a GGUF file, is none or cannot be read; check its name, or fetch it again")
    if folder.exists() or not folder.parent.is_dir():
        raise UsageError(f"{folder} should be a new directory in an existing one; name another")
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"reading GGUF files needs {' and '.join(missing)}, not installed here; install it with pip install "
            "'attribeam[gguf]'"
        )


def _starts_as_gguf(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _read_model(file: Path, dtype: torch.dtype) -> PreTrainedModel:
    """All layers and the language-model head, unpacked."""
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            str(file.parent),
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
            output_loading_info=True,
        )
    except _UNREADABLE as error:
        raise _unreadable(file, error) from error
    model, report = cast(tuple[PreTrainedModel, Mapping[str, set[str]]], loaded)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelLoadError(
            f"{file} should hold all weights of its model, lacks {len(missing)}: {', '.join(missing[:3])}; if it is "
            "one part of several, merge them with llama-gguf-split --merge of llama.cpp"
        )
    return model


def _save_tokenizer(file: Path, folder: Path) -> None:
    try:
        AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(str(folder))
    except _UNREADABLE as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> ModelLoadError:
    return ModelLoadError(
        f"{file} could not be read by transformers {version('transformers')}: {error}; use the directory or hub id of "
        "the model from which the file was made"
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
