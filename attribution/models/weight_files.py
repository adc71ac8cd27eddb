"""Selects the safetensors files with the weights of layers 1 to L*, and identifies their revision.

A hub model's weights are identified by its commit, a local model's by a digest over the used parts of its files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from attribeam.attribution.models.model_directory import (
    GGUF_SUFFIX,
    ModelDirectory,
    runs_own_code,
    to_be_converted,
)
from attribeam.attribution.models.model_files import (
    INDEX_FILE,
    SINGLE_FILE,
    check_weights,
    entries_up_to_layer,
    is_above_layer,
    local_revision,
    read_weight_map,
    weight_names,
)
from attribeam.schemas.errors import ModelLoadError

_UNSAFE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


@contextmanager
def weights_folder(directory: ModelDirectory, *, needed: int, layer: int | None = None) -> Iterator[Path]:
    """A folder with the weights of layers 1 to ``layer`` (None: all layers), as transformers reads them.

    Files that hold only higher layers need not exist, and are not fetched from the hub. The folder is the model's own,
    or a temporary folder of links with its own index, which is removed on exit.

    Raises:
        ModelLoadError: if there are no safetensors weights, or a needed file is missing or cannot be fetched.
        DataError: if a file is damaged, or all hold much less than the ``needed`` number of weights.
    """
    folder = Path(directory.location)
    files = needed_files(directory, layer=layer)
    require_files(directory, files)
    quantised = getattr(directory.config, "quantization_config", None) is not None
    check_weights([folder / name for name in files], needed=needed, quantised=quantised)
    if files == [SINGLE_FILE] or set(files) == set(_weight_map(directory).values()):
        yield folder
        return
    with TemporaryDirectory(prefix="attribeam-weights-") as links:
        _link_files(folder, Path(links), _needed_entries(directory, layer))
        yield Path(links)


def needed_files(directory: ModelDirectory, *, layer: int | None = None) -> list[str]:
    """The sorted names of the files with weights of layers 1 to ``layer``, whether they exist or not.

    Raises:
        ModelLoadError: if the index is damaged.
    """
    with _as_damaged_index(directory):
        return weight_names(Path(directory.location), layer=None if runs_own_code(directory) else layer)


def _needed_entries(directory: ModelDirectory, layer: int | None) -> dict[str, str]:
    weight_map = _weight_map(directory)
    return weight_map if layer is None or runs_own_code(directory) else entries_up_to_layer(weight_map, layer)


def _weight_map(directory: ModelDirectory) -> dict[str, str]:
    with _as_damaged_index(directory):
        return read_weight_map(Path(directory.location))


@contextmanager
def _as_damaged_index(directory: ModelDirectory) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelLoadError(
            f"model {directory.options.model!r}: {INDEX_FILE} should be JSON with a 'weight_map', but is not; "
            "fetch it again"
        ) from error


def require_files(directory: ModelDirectory, names: list[str]) -> None:
    """Fetch missing files of a hub model, then check that all files exist.

    Raises:
        ModelLoadError: if one is missing.
    """
    folder = Path(directory.location)
    if directory.commit is not None:
        from attribeam.attribution.models.hub_files import fetch_weights

        fetch_weights(directory.options.model, directory.commit, names)
    missing = [name for name in names if not (folder / name).is_file()]
    packed = sorted(folder.glob(f"*{GGUF_SUFFIX}"))
    if missing and packed:
        raise to_be_converted(directory.options.model, packed[0])
    if missing == [SINGLE_FILE]:
        raise ModelLoadError(f"model {directory.options.model!r} {_without_safetensors(folder)}")
    if missing:
        raise ModelLoadError(
            f"model {directory.options.model!r} should have all files that {INDEX_FILE} names for its layers, but "
            f"lacks {len(missing)} of {len(names)}: {', '.join(missing[:3])}; fetch them again"
        )


def _without_safetensors(folder: Path) -> str:
    others = sorted({path.name for pattern in _UNSAFE_PATTERNS for path in folder.glob(pattern)})
    found = "has no such file; fetch them again"
    if others:
        found = (
            f"has {', '.join(others[:3])}, which can run code when read; if you trust it, convert it with "
            "from_pretrained and save_pretrained of transformers"
        )
    return (
        f"should have its weights in safetensors files ({SINGLE_FILE}, or {INDEX_FILE} and its files), but {found}, "
        "or choose another --model"
    )


def _link_files(folder: Path, links: Path, needed: Mapping[str, str]) -> None:
    for file in sorted(set(needed.values())):
        (links / file).symlink_to((folder / file).resolve())
    index = {"metadata": {}, "weight_map": dict(needed)}
    (links / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")


def revision_of(directory: ModelDirectory, *, layer: int | None = None) -> str:
    """The commit of a hub model, the ``local_revision`` of a local one.

    Only the weights of layers 1 to ``layer`` count, or all of them if None; no others are read.

    Raises:
        ModelLoadError: if a weights file is missing or damaged.
    """
    if directory.commit is not None:
        return directory.commit
    names = needed_files(directory, layer=layer)
    require_files(directory, names)
    try:
        return local_revision(Path(directory.location), names, layer=layer)
    except ValueError as error:
        raise ModelLoadError(str(error)) from error


def weights_digest(directory: ModelDirectory, *, layer: int) -> str:
    """SHA-256 over the names, shapes and numbers of the weights of layers 1 to ``layer``, of a hub or a local model.

    Unlike a revision it does not depend on how many files there are, on what stands beside the weights, or on whether
    they are stored in float32 or bfloat16: numbers count as bfloat16 has them.

    Raises:
        ModelLoadError: if a weights file is missing or damaged.
    """
    names = needed_files(directory, layer=layer)
    require_files(directory, names)
    digest = sha256()
    with ExitStack() as opened:
        places: dict[str, Any] = {}
        for path in (Path(directory.location) / name for name in names):
            try:
                file = opened.enter_context(safe_open(path, "pt"))
            except SafetensorError as error:
                raise ModelLoadError(f"{path} should be a safetensors file, is damaged; fetch it again") from error
            places |= dict.fromkeys(file.keys(), file)
        for name in sorted(name for name in places if not is_above_layer(name, layer)):
            tensor = places[name].get_tensor(name)
            tensor = tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
            digest.update(json.dumps([name, *tensor.shape]).encode())
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return f"sha256:{digest.hexdigest()}"
