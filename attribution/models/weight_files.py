"""The safetensors files with the weights of layers 1 to L*: found, checked before they are read, and their revision.

What a config asks for and the files lack would be drawn at random by the gigabyte before anybody finds out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from attribeam.attribution.models import CONFIG_FILE, GGUF_FILES, as_load_errors, fetch_weights, refuse_gguf
from attribeam.attribution.models.model_directory import ModelDirectory, runs_own_code
from attribeam.schemas.errors import DataError, ModelLoadError

_SINGLE_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"
_UNSAFE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_HASHED_WHOLE = ("*.py", "config.json", "tokenizer*.json", "special_tokens_map.json", CONFIG_FILE)
_LAYER_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")
_QUANTISED_PACKING = 16
"""The most weights that one number of a quantised file can stand for, with room to spare."""


@contextmanager
def weights_folder(directory: ModelDirectory, *, needed: int, layer: int | None = None) -> Iterator[Path]:
    """A folder with the weights of layers 1 to ``layer`` (None: all layers), as transformers reads them.

    Files that hold only higher layers need not exist, and are not fetched. It is the model's own folder, or a temporary
    one of links with its own index. Raises ``ModelLoadError`` as ``weight_paths``; ``DataError`` if a file is damaged,
    or all hold much less than the ``needed`` number of weights.
    """
    paths = weight_paths(directory, layer=layer)
    quantised = getattr(directory.config, "quantization_config", None) is not None
    _check_weights(paths, needed=needed, quantised=quantised)
    names = {path.name for path in paths}
    if names == {_SINGLE_FILE} or names == set(_index_entries(directory, None).values()):
        yield Path(directory.location)
        return
    with TemporaryDirectory(prefix="attribeam-weights-") as links:
        for path in paths:
            (Path(links) / path.name).symlink_to(path.resolve())
        index = {"metadata": {}, "weight_map": _index_entries(directory, layer)}
        (Path(links) / _INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")
        yield Path(links)


def weight_paths(directory: ModelDirectory, *, layer: int | None = None) -> list[Path]:
    """The files with weights of layers 1 to ``layer``, by name; those of a hub model are fetched if they are missing.

    Raises ``ModelLoadError`` if there are no safetensors weights, the index is damaged, or a file is missing.
    """
    folder, model = Path(directory.location), directory.options.model
    names = [_SINGLE_FILE]
    if not (folder / _SINGLE_FILE).is_file() and (folder / _INDEX_FILE).is_file():
        names = sorted(set(_index_entries(directory, layer).values()))
    if directory.commit is not None:
        fetch_weights(model, directory.commit, names)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        refuse_gguf(model, folder.glob(GGUF_FILES))
    if missing == [_SINGLE_FILE]:
        others = sorted({path.name for pattern in _UNSAFE_PATTERNS for path in folder.glob(pattern)})
        cause = "has no such file; fetch them again"
        if others:
            cause = (
                f"has {', '.join(others[:3])}, which can run code when read; if you trust it, convert it with "
                "from_pretrained and save_pretrained of transformers"
            )
        raise ModelLoadError(
            f"model {model!r} should have its weights in safetensors files ({_SINGLE_FILE}, or {_INDEX_FILE} and its "
            f"files), but {cause}, or choose another --model"
        )
    if missing:
        raise ModelLoadError(
            f"model {model!r} should have all files that {_INDEX_FILE} names for its layers, but lacks {len(missing)} "
            f"of {len(names)}: {', '.join(missing[:3])}; fetch them again"
        )
    return [folder / name for name in names]


def _index_entries(directory: ModelDirectory, layer: int | None) -> dict[str, str]:
    """Of the index of a model in several files, tensor to file, what the weights of layers 1 to ``layer`` are in."""
    try:
        weight_map = json.loads((Path(directory.location) / _INDEX_FILE).read_bytes())["weight_map"]
        if not weight_map:
            raise ValueError("no tensors")
        entries = {str(name): Path(str(file)).name for name, file in weight_map.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelLoadError(
            f"model {directory.options.model!r}: {_INDEX_FILE} should be JSON with a 'weight_map', but is not; "
            "fetch it again"
        ) from error
    if runs_own_code(directory):
        return entries
    return {name: file for name, file in entries.items() if not is_above_layer(name, layer)}


def is_above_layer(name: str, layer: int | None) -> bool:
    """Whether a tensor is of the head or a layer above the 1-based ``layer``: the first number of its name, from 0.

    Where it is None, none is.
    """
    if layer is None:
        return False
    number = _LAYER_NUMBER.search(name)
    return "lm_head." in name if number is None else int(number[1]) >= layer


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        raise DataError(f"{path} should be a safetensors file, is damaged ({error}); fetch it again") from error


def _check_weights(files: list[Path], *, needed: int, quantised: bool) -> None:
    """Check headers: weights are real numbers, and at least half of what the config asks for is there."""
    held = 0
    for path in files:
        with _opened(path) as file:
            for name in file.keys():  # noqa: SIM118 - it is no dictionary
                part = file.get_slice(name)
                if not quantised and name.endswith(".weight") and "F" not in part.get_dtype():
                    raise DataError(
                        f"{path} should be a safetensors file, is damaged ({name[:99]} should have real numbers, has "
                        f"{part.get_dtype()}); fetch it again"
                    )
                held += prod(part.get_shape())
    if needed > 2 * held * (_QUANTISED_PACKING if quantised else 1):
        raise DataError(
            f"{files[0].parent}: config.json asks for {needed:,} weights, the safetensors files hold {held:,}; are "
            "both of one model? fetch them again"
        )


def revision_of(directory: ModelDirectory, *, layer: int | None = None) -> str:
    """The commit of a hub model; of a local one SHA-256 over config, tokenizer, code, defaults and weights.

    Only the weights of layers 1 to ``layer`` count, or all of them if None; no others are read. Raises
    ``ModelLoadError`` if a weights file is missing or damaged.
    """
    if directory.commit is not None:
        return directory.commit
    weights = weight_paths(directory, layer=layer)
    digest = sha256()
    for path in sorted({path for pattern in _HASHED_WHOLE for path in Path(directory.location).glob(pattern)}):
        digest.update(path.name.encode())
        digest.update(sha256(path.read_bytes()).digest())
    with as_load_errors(directory.options.model):
        for path in weights:
            with _opened(path) as file:
                for name in sorted(name for name in file.keys() if not is_above_layer(name, layer)):  # noqa: SIM118
                    part = file.get_slice(name)
                    digest.update(json.dumps([name, part.get_dtype(), part.get_shape()]).encode())
                    digest.update(_bytes_of(file.get_tensor(name)))
    return f"sha256:{digest.hexdigest()}"


def weights_digest(directory: ModelDirectory, *, layer: int) -> str:
    """SHA-256 over the names, shapes and numbers of the weights of layers 1 to ``layer``; raises as ``weight_paths``.

    Unlike a revision it does not depend on how many files there are, on what stands beside the weights, or on whether
    they are stored in float32 or bfloat16: numbers count as bfloat16 has them.
    """
    digest = sha256()
    with as_load_errors(directory.options.model), ExitStack() as opened:
        file_of: dict[str, Any] = {}
        for path in weight_paths(directory, layer=layer):
            file = opened.enter_context(_opened(path))
            file_of |= dict.fromkeys(file.keys(), file)
        for name in sorted(name for name in file_of if not is_above_layer(name, layer)):
            tensor = file_of[name].get_tensor(name)
            tensor = tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
            digest.update(json.dumps([name, *tensor.shape]).encode())
            digest.update(_bytes_of(tensor))
    return f"sha256:{digest.hexdigest()}"


def _bytes_of(tensor: torch.Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy()
