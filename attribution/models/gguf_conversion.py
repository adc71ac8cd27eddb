"""Converts a GGUF file, as llama.cpp runs it, to a model directory: config, fast tokenizer, safetensors weights.

transformers unpacks the quantised blocks. That takes tens of seconds even for a small model, and needs all layers in
memory, so it is done once and not by every process of every audit. The directory is read like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedModel, PreTrainedTokenizerBase

from attribeam.attribution.models.model_errors import quiet_transformers
from attribeam.schemas.errors import ModelLoadError, RunError, UsageError
from attribeam.schemas.file_digest import file_sha256

SOURCE_KEY = "converted_from"
"""The key of config.json that holds name and SHA-256 of the file."""

_MAGIC = b"GGUF"
_PACKAGES = ("gguf", "accelerate")
_MOST_LAYERS = 1024


def convert_gguf(file: Path, folder: Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Write the model of ``file`` to the new ``folder``, which appears only when it is complete.

    ``float32`` keeps every unpacked number as it is. The file's name and digest stand in config.json.

    Raises:
        UsageError: if the file is no GGUF file, the folder is there already, or packages are missing.
        ModelLoadError: if transformers cannot read this architecture or tokenizer, or the file lacks weights.
        RunError: if the folder cannot be written.
    """
    check_paths(file, folder)
    with _new_folder(folder) as complete, quiet_transformers():
        model = _read_model(file, dtype)
        setattr(model.config, SOURCE_KEY, {"file": file.name, "sha256": file_sha256(file)})
        tokenizer = _read_tokenizer(file)
        with _writing(folder):
            model.save_pretrained(complete)
            tokenizer.save_pretrained(str(complete))


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside ``folder`` that takes its place once the block has ended well; else nothing is left of it."""
    with _writing(folder):
        temporary = TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-")
    with temporary:
        complete = Path(temporary.name) / "model"
        yield complete
        with _writing(folder):
            _allow_reading(complete)
            complete.replace(folder)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{folder} could not be written: {error}; make room there, or name a folder that you may write to"
        ) from error


def _allow_reading(folder: Path) -> None:
    """Give all files the mode of a new file; safetensors writes such that only the owner can read."""
    usual = folder / "config.json"
    for file in folder.iterdir():
        file.chmod(usual.stat().st_mode)


def check_paths(file: Path, folder: Path) -> None:
    """Whether the conversion can begin.

    Raises:
        UsageError: if the file is no GGUF file, the folder is there already, or packages are missing.
    """
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
    with _reading(file):
        _check_layers(file)
        loaded = AutoModelForCausalLM.from_pretrained(
            str(file.parent),
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
            output_loading_info=True,
        )
    model, report = cast(tuple[PreTrainedModel, Mapping[str, set[str]]], loaded)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelLoadError(
            f"{file} should hold all weights of its model, lacks {len(missing)}: {', '.join(missing[:3])}; if it is "
            "one part of several, merge them with llama-gguf-split --merge of llama.cpp"
        )
    return model


def _read_tokenizer(file: Path) -> PreTrainedTokenizerBase:
    with _reading(file):
        return cast(PreTrainedTokenizerBase, AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name))


def _check_layers(file: Path) -> None:
    """Refuse a number that no model has: transformers would make layers until memory ends."""
    reader = import_module("gguf").GGUFReader(file)
    for name, field in reader.fields.items():
        if name.endswith(".block_count") and (layers := int(field.parts[field.data[0]][0])) > _MOST_LAYERS:
            raise ValueError(f"it should have at most {_MOST_LAYERS} layers, has {layers}")


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Whatever transformers, gguf and tokenizers raise for a damaged file, or a model that they do not know."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise ModelLoadError(
            f"{file} could not be read by transformers {version('transformers')}: {' '.join(str(error).split())}; "
            "fetch it again if it is damaged, or use the directory or hub id of the model from which the file was made"
        ) from error
