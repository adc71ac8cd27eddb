"""Which safetensors files hold the weights of layers 1 to L*, a folder with only those, and their revision.

A hub model's weights are known by its commit, those of a local model by a digest over what is used of its files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Protocol

from attribeam.attribution.models.attribution_config import FILE_NAME
from attribeam.attribution.models.hub_files import fetch_weights
from attribeam.attribution.models.model_directory import ModelDirectory, runs_own_code
from attribeam.schemas.errors import ModelLoadError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_UNSAFE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.gguf")
_FIRST_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")


@contextmanager
def weights_folder(directory: ModelDirectory, *, layer: int | None = None) -> Iterator[Path]:
    """A folder with the weights of layers 1 to ``layer``, of all where None, as transformers reads them.

    Files that hold layers above only need not exist, and are not fetched from the hub. It is the model's own folder,
    or one of links with an index of its own, which goes when the context is left.

    Raises:
        ModelLoadError: if there are no safetensors weights, a file that is needed is missing, or it cannot be fetched.
    """
    folder = Path(directory.location)
    files = needed_files(directory, layer=layer)
    require_files(directory, files)
    if files == [SINGLE_FILE] or set(files) == set(_weight_map(directory).values()):
        yield folder
        return
    with TemporaryDirectory(prefix="attribeam-weights-") as links:
        _link_files(folder, Path(links), _needed_entries(directory, layer))
        yield Path(links)


def needed_files(directory: ModelDirectory, *, layer: int | None = None) -> list[str]:
    """The names of the files that hold weights of layers 1 to ``layer``, sorted, whether they are there or not.

    Raises:
        ModelLoadError: if the index is damaged.
    """
    folder = Path(directory.location)
    if (folder / SINGLE_FILE).is_file() or not (folder / INDEX_FILE).is_file():
        return [SINGLE_FILE]
    return sorted(set(_needed_entries(directory, layer).values()))


def _needed_entries(directory: ModelDirectory, layer: int | None) -> dict[str, str]:
    weight_map = _weight_map(directory)
    return weight_map if layer is None or runs_own_code(directory) else entries_up_to_layer(weight_map, layer)


def entries_up_to_layer(weight_map: Mapping[str, str], layer: int) -> dict[str, str]:
    """The entries of an index, tensor to file, without the language-model head and the layers above ``layer``.

    The first number in a tensor's name is that of its layer, from 0.
    """
    return {name: file for name, file in weight_map.items() if not is_above_layer(name, layer)}


def is_above_layer(name: str, layer: int) -> bool:
    """Whether a tensor belongs to a layer above the 1-based ``layer``, or to the language-model head."""
    number = _FIRST_NUMBER.search(name)
    return "lm_head." in name if number is None else int(number[1]) >= layer


def _weight_map(directory: ModelDirectory) -> dict[str, str]:
    index = Path(directory.location) / INDEX_FILE
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelLoadError(
            f"model {directory.options.model!r}: {INDEX_FILE} should be JSON with a 'weight_map', is not; "
            "fetch it again"
        ) from error
    return {str(name): Path(str(file)).name for name, file in weight_map.items()}


def require_files(directory: ModelDirectory, names: list[str]) -> None:
    """Fetch what a hub model lacks; everything must be there then.

    Raises:
        ModelLoadError: if it is not.
    """
    folder = Path(directory.location)
    if directory.commit is not None:
        fetch_weights(directory.options.model, directory.commit, names)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing == [SINGLE_FILE]:
        raise ModelLoadError(f"model {directory.options.model!r} {_without_safetensors(folder)}")
    if missing:
        raise ModelLoadError(
            f"model {directory.options.model!r} should have all files that {INDEX_FILE} names for its layers, lacks "
            f"{len(missing)} of {len(names)}: {', '.join(missing[:3])}; fetch them again"
        )


def _without_safetensors(folder: Path) -> str:
    others = sorted({path.name for pattern in _UNSAFE_PATTERNS for path in folder.glob(pattern)})
    found = f"has {', '.join(others[:3])}, which can run code when read" if others else "has no such file"
    return (
        f"should have its weights in safetensors files ({SINGLE_FILE}, or {INDEX_FILE} and its files), {found}; "
        "convert it where "
        "you trust it, with from_pretrained and save_pretrained of transformers, or choose another --model"
    )


def _link_files(folder: Path, links: Path, needed: Mapping[str, str]) -> None:
    for file in sorted(set(needed.values())):
        (links / file).symlink_to((folder / file).resolve())
    index = {"metadata": {}, "weight_map": dict(needed)}
    (links / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")


_HASHED_WHOLE = ("*.py", "config.json", "tokenizer*.json", "special_tokens_map.json", FILE_NAME)
_BLOCK_BYTES = 2**24


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def revision_of(directory: ModelDirectory, *, layer: int | None = None) -> str:
    """The commit of a hub model; of a local one a SHA-256 over config, tokenizer, code, defaults and weights.

    The weights are those of layers 1 to ``layer``, of all where None: no others are read for it.

    Raises:
        ModelLoadError: if a weights file is missing or damaged.
    """
    if directory.commit is not None:
        return directory.commit
    folder = Path(directory.location)
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _HASHED_WHOLE for path in folder.glob(pattern)}):
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    names = needed_files(directory, layer=layer)
    require_files(directory, names)
    for path in (folder / name for name in names):
        try:
            _hash_weights(digest, path, layer)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelLoadError(f"{path} should be a safetensors file, is damaged; fetch it again") from error
    return f"sha256:{digest.hexdigest()}"


def _hash_weights(digest: _Digest, path: Path, layer: int | None) -> None:
    """Name, dtype, shape and bytes of each tensor that is used, in the order of their names."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name in sorted(header.keys() - {"__metadata__"}):
            if layer is not None and is_above_layer(name, layer):
                continue
            tensor = header[name]
            start, end = tensor["data_offsets"]
            digest.update(json.dumps([name, tensor["dtype"], tensor["shape"]]).encode())
            for block in _read_blocks(file, 8 + length + start, end - start):
                digest.update(block)


def _read_blocks(file: BinaryIO, start: int, size: int) -> Iterator[bytes]:
    file.seek(start)
    while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
        size -= len(block)
        yield block
