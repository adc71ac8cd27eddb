"""Which weights these are: a hub model's commit, or a digest over what is used of a local model's files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from attribution.models.attribution_config import FILE_NAME
from attribution.models.model_directory import ModelDirectory
from attribution.models.model_errors import ModelLoadError
from attribution.models.weight_files import lies_above, needed_files, require_files

_WHOLE = ("*.py", "config.json", "tokenizer*.json", "special_tokens_map.json", FILE_NAME)
_BLOCK = 2**24


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
    for path in sorted({path for pattern in _WHOLE for path in folder.glob(pattern)}):
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    names = needed_files(directory, layer=layer)
    require_files(directory, names)
    for path in (folder / name for name in names):
        try:
            _add_weights(digest, path, layer)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelLoadError(f"{path} should be a safetensors file, is damaged; fetch it again") from error
    return f"sha256:{digest.hexdigest()}"


def _add_weights(digest: _Digest, path: Path, layer: int | None) -> None:
    """Name, dtype, shape and bytes of each tensor that is used, in the order of their names."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name in sorted(header.keys() - {"__metadata__"}):
            if layer is not None and lies_above(name, layer):
                continue
            tensor = header[name]
            start, end = tensor["data_offsets"]
            digest.update(json.dumps([name, tensor["dtype"], tensor["shape"]]).encode())
            for block in _blocks(file, 8 + length + start, end - start):
                digest.update(block)


def _blocks(file: BinaryIO, start: int, size: int) -> Iterator[bytes]:
    file.seek(start)
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        size -= len(block)
        yield block
