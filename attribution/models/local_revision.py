"""The revision of a local model: a digest over what is used of its files.

Imports the standard library only, so that a finished audit can tell whether its model is still the same without
importing what loads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG_FILE = "attribution_config.json"
_FIRST_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")
_HASHED_WHOLE = ("*.py", "config.json", "tokenizer*.json", "special_tokens_map.json", CONFIG_FILE)
_BLOCK_BYTES = 2**24
_LARGEST_HEADER = 100_000_000


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def local_revision(folder: Path, names: Sequence[str], *, layer: int | None) -> str:
    """SHA-256 over config, tokenizer, code, defaults, and the weights of layers 1 to ``layer`` in the files ``names``.

    Raises:
        OSError: if a file is missing.
        ValueError: if a weights file is damaged.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _HASHED_WHOLE for path in folder.glob(pattern)}):
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for path in (folder / name for name in names):
        try:
            _hash_weights(digest, path, layer)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path} should be a safetensors file, is damaged; fetch it again") from error
    return f"sha256:{digest.hexdigest()}"


def weight_names(folder: Path, *, layer: int | None) -> list[str]:
    """The names of the files that hold weights of layers 1 to ``layer``, sorted, whether they are there or not.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: if the index is damaged.
    """
    if (folder / SINGLE_FILE).is_file() or not (folder / INDEX_FILE).is_file():
        return [SINGLE_FILE]
    entries = read_weight_map(folder)
    return sorted(set((entries if layer is None else entries_up_to_layer(entries, layer)).values()))


def read_weight_map(folder: Path) -> dict[str, str]:
    """The index of a model in several files: tensor to file.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: if it is damaged.
    """
    weight_map = _json((folder / INDEX_FILE).read_bytes())["weight_map"]
    if not weight_map:
        raise ValueError("no tensors")
    return {str(name): Path(str(file)).name for name, file in weight_map.items()}


def read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the numbers of a safetensors file begin, in bytes, and what it says of each tensor.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it has no such header.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_LARGEST_HEADER, os.fstat(file.fileno()).st_size - 8):
            raise ValueError(f"its header of {length:,} bytes is larger than the file, or than {_LARGEST_HEADER:,}")
        header = _json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    return 8 + length, {name: one for name, one in header.items() if name != "__metadata__"}


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deep") from error


def entries_up_to_layer(weight_map: Mapping[str, str], layer: int) -> dict[str, str]:
    """The entries of an index, tensor to file, without the language-model head and the layers above ``layer``.

    The first number in a tensor's name is that of its layer, from 0.
    """
    return {name: file for name, file in weight_map.items() if not is_above_layer(name, layer)}


def is_above_layer(name: str, layer: int) -> bool:
    """Whether a tensor belongs to a layer above the 1-based ``layer``, or to the language-model head."""
    number = _FIRST_NUMBER.search(name)
    return "lm_head." in name if number is None else int(number[1]) >= layer


def _hash_weights(digest: _Digest, path: Path, layer: int | None) -> None:
    """Name, dtype, shape and bytes of each tensor that is used, in the order of their names."""
    first, header = read_header(path)
    with path.open("rb") as file:
        for name in sorted(header):
            if layer is not None and is_above_layer(name, layer):
                continue
            tensor = header[name]
            start, end = tensor["data_offsets"]
            digest.update(json.dumps([name, tensor["dtype"], tensor["shape"]]).encode())
            for block in _read_blocks(file, first + start, end - start):
                digest.update(block)


def _read_blocks(file: BinaryIO, start: int, size: int) -> Iterator[bytes]:
    file.seek(start)
    while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
        size -= len(block)
        yield block
