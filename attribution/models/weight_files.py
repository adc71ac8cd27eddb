"""Which safetensors files hold the weights of layers 1 to L*, and a folder that holds only those."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from attribution.models.hub_files import fetch_weights
from attribution.models.model_directory import ModelDirectory, runs_own_code
from attribution.models.model_errors import ModelLoadError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.gguf")
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
    if files == [SINGLE] or set(files) == set(_weight_map(directory).values()):
        yield folder
        return
    with TemporaryDirectory(prefix="attribeam-weights-") as links:
        _link(folder, Path(links), _needed_weights(directory, layer))
        yield Path(links)


def needed_files(directory: ModelDirectory, *, layer: int | None = None) -> list[str]:
    """The names of the files that hold weights of layers 1 to ``layer``, sorted, whether they are there or not.

    Raises:
        ModelLoadError: if the index is damaged.
    """
    folder = Path(directory.location)
    if (folder / SINGLE).is_file() or not (folder / INDEX).is_file():
        return [SINGLE]
    return sorted(set(_needed_weights(directory, layer).values()))


def _needed_weights(directory: ModelDirectory, layer: int | None) -> dict[str, str]:
    weight_map = _weight_map(directory)
    return weight_map if layer is None or runs_own_code(directory) else needed_weights(weight_map, layer)


def needed_weights(weight_map: Mapping[str, str], layer: int) -> dict[str, str]:
    """The entries of an index, tensor to file, without the language-model head and the layers above ``layer``.

    The first number in a tensor's name is that of its layer, from 0.
    """
    return {name: file for name, file in weight_map.items() if not lies_above(name, layer)}


def lies_above(name: str, layer: int) -> bool:
    """Whether a tensor belongs to a layer above the 1-based ``layer``, or to the language-model head."""
    number = _FIRST_NUMBER.search(name)
    return "lm_head." in name if number is None else int(number[1]) >= layer


def _weight_map(directory: ModelDirectory) -> dict[str, str]:
    index = Path(directory.location) / INDEX
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelLoadError(
            f"model {directory.options.model!r}: {INDEX} should be JSON with a 'weight_map', is not; fetch it again"
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
    if missing == [SINGLE]:
        raise ModelLoadError(f"model {directory.options.model!r} {_without_safetensors(folder)}")
    if missing:
        raise ModelLoadError(
            f"model {directory.options.model!r} should have all files that {INDEX} names for its layers, lacks "
            f"{len(missing)} of {len(names)}: {', '.join(missing[:3])}; fetch them again"
        )


def _without_safetensors(folder: Path) -> str:
    others = sorted({path.name for pattern in _UNSAFE for path in folder.glob(pattern)})
    found = f"has {', '.join(others[:3])}, which can run code when read" if others else "has no such file"
    return (
        f"should have its weights in safetensors files ({SINGLE}, or {INDEX} and its files), {found}; convert it where "
        "you trust it, with from_pretrained and save_pretrained of transformers, or choose another --model"
    )


def _link(folder: Path, links: Path, needed: Mapping[str, str]) -> None:
    for file in sorted(set(needed.values())):
        (links / file).symlink_to((folder / file).resolve())
    index = {"metadata": {}, "weight_map": dict(needed)}
    (links / INDEX).write_text(json.dumps(index), encoding="utf-8")
