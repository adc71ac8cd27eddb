"""What of a model directory is checked before a library opens it, and the revision of a local model.

Libraries believe a directory. They wait for a pipe, make a list of a billion layers, draw random weights by the
gigabyte for a config that belongs to other weights, or end the whole process. So its files, the sizes it claims and its
tokenizer are checked here. A local model's revision is a digest over what is used of its files. No import takes
seconds, so that a finished audit can tell whether its model is still the same without importing what loads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from attribeam.schemas.errors import DataError
from attribeam.schemas.json_file import check_regular, read_object

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


TOKENIZER = "tokenizer.json"
_CONFIG = "config.json"
_OBJECTS = (_CONFIG, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json")
_LARGEST_TOKENIZER = 2**28

_LIMITS = (
    (re.compile(r"layers?$|^n_layers?$|blocks$|depth$|groups?$"), 1_000),
    (re.compile(r"experts$"), 2**14),
    (re.compile(r"labels$"), 100_000),
    (re.compile(r"theta|base|window|seed|val|clip|_id$"), None),
    (re.compile(""), 2**24),
)
"""The largest whole number of a config by its key; the first pattern that is found in the key counts."""

_POSITIVE = re.compile(
    r"(num_hidden_layers|n_layers?|num_attention_heads|n_heads?|vocab_size|hidden_size|n_embd|max_position_embeddings"
    r"|n_positions)"
)
_QUANTISED_PACKING = 16
"""The most weights that one number of a quantised file can stand for, with room to spare."""


def check_files(folder: Path) -> None:
    """Check that a directory holds regular files, and JSON objects where libraries expect them, of credible sizes.

    Raises:
        DataError: if it does not; the message names the file, what was expected and what was found.
    """
    check_regular(sorted(folder.iterdir()))
    found = {name: read_object(folder / name) for name in _OBJECTS if (folder / name).is_file()}
    for place, key, value in _numbers(found.get(_CONFIG, {})):
        _check_number(folder / _CONFIG, place, key, value)


def _numbers(found: object, path: str = "", key: str = "") -> Iterator[tuple[str, str, int]]:
    """The whole numbers in a JSON object, each with its path and its key, which those of a list do not have."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from _numbers(value, f"{path}.{name}" if path else name, name)
    elif isinstance(found, list):
        for value in found:
            yield from _numbers(value, path)
    elif isinstance(found, int) and not isinstance(found, bool):
        yield path, key, found


def _check_number(file: Path, path: str, key: str, value: int) -> None:
    limit = next(most for pattern, most in _LIMITS if pattern.search(key))
    least = 1 if _POSITIVE.fullmatch(key) else None
    if (limit is not None and value > limit) or (least is not None and value < least):
        expected = f"at most {limit:,}" if least is None else f"from 1 to {limit:,}"
        raise DataError(f"{file}: {path[:99]} should be {expected}, was: {str(value)[:30]}; choose another --model")


def check_weights(files: Sequence[Path], *, needed: int, quantised: bool) -> None:
    """Check the headers of safetensors files against the number of weights that a config asks for.

    What is missing would be drawn at random, however large, before anybody finds that it is missing.

    Raises:
        DataError: if a file is damaged, holds weights that are no real numbers, or all hold less than half of them.
    """
    held = 0
    for file in files:
        try:
            _, header = read_header(file)
            held += sum(_count(name, tensor, quantised=quantised) for name, tensor in header.items())
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file} should be a safetensors file, is damaged ({error}); fetch it again") from error
    if needed > 2 * held * (_QUANTISED_PACKING if quantised else 1):
        raise DataError(
            f"{files[0].parent}: config.json asks for {needed:,} weights, the safetensors files hold {held:,}; are "
            "both of one model? fetch them again"
        )


def _count(name: str, tensor: dict[str, Any], *, quantised: bool) -> int:
    """The numbers in a tensor, which takes at least half a byte for each, however many its shape says."""
    start, end = tensor["data_offsets"]
    if not quantised and name.endswith(".weight") and "F" not in tensor["dtype"]:
        raise ValueError(f"{name[:99]} should have real numbers, has {tensor['dtype']}")
    return min(prod(map(int, tensor["shape"])), 2 * (int(end) - int(start)))


_RUNNING = {"Precompiled", "Replace", "Split", "Regex"}
"""What of a tokenizer's file works like a program: maps, replacements and patterns."""
_TRIAL = """
import resource, sys
from tokenizers import Tokenizer
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]),) * 2)
try:
    tokenizer = Tokenizer.from_file(sys.argv[1])
    tokenizer.encode("Déjà vu: 3.5 million people, " * 200 + "aaaa" * 200 + " " * 200 + "\\u706f\\u5854\\n")
except BaseException as error:
    sys.exit(" ".join(str(error).split())[:300])
"""
_TRIAL_BYTES, _TRIAL_SECONDS = 2**30, 3
"""What the trial of a tokenizer may take; a large file may take more to be read."""


def check_tokenizer(file: Path) -> None:
    """Check a ``tokenizer.json``, and try one with maps, replacements or patterns in a process of its own.

    Such a process may end by a signal, or take too much time or memory, and nothing else ends with it.

    Raises:
        DataError: if the file is no JSON object, or the trial fails.
    """
    status = file.stat()
    _try_tokenizer(file, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=8)
def _try_tokenizer(file: Path, _: tuple[int, int]) -> None:
    parts = [*_parts({**read_object(file, limit=_LARGEST_TOKENIZER), "model": None, "added_tokens": None})]
    for part in parts:
        if part.get("type") == "TemplateProcessing":
            _check_template(file, part)
    if not any(part.get("type") in _RUNNING or not _RUNNING.isdisjoint(part) for part in parts):
        return
    size = file.stat().st_size
    limits = (str(_TRIAL_BYTES + 32 * size), str(_TRIAL_SECONDS + (size >> 22)))
    ended = subprocess.run([sys.executable, "-P", "-c", _TRIAL, file, *limits], capture_output=True, check=False)
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").splitlines()[-1:] if ended.returncode == 1 else []
        why = said[0] if said else "a short one takes too much time or memory, or ends the process"
        raise DataError(f"{file} should be a tokenizer that takes any text, but: {why}; choose another --model")


def _parts(found: object) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        yield found
    for one in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _parts(one)


def _check_template(file: Path, template: dict[str, Any]) -> None:
    """Check that a post-processor knows the special tokens that it adds."""
    named = {
        str(special.get("id"))
        for part in _parts([template.get("single"), template.get("pair")])
        if isinstance(special := part.get("SpecialToken"), dict)
    }
    known = template.get("special_tokens")
    unknown = sorted(named - set(known if isinstance(known, dict) else ()))
    if unknown:
        raise DataError(f"{file}: post_processor adds {unknown[0][:99]!r}, which is none of its special_tokens")
