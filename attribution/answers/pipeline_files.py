"""Where the files of a spaCy pipeline are, and the digest that tells two pipelines apart.

Imports no spaCy, so that a finished audit can tell whether its parser is still the same without loading it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attribeam.schemas.errors import DataError
from attribeam.schemas.json_file import check_regular, read_object, read_regular

BUNDLED_PARSER = Path(__file__).parents[1] / "bundled" / "parser"
_META = "meta.json"
_CONFIG = "config.cfg"
_LARGEST_NUMBER = 2**24
_NUMBERS = re.compile(r"^\s*(\w+)\s*=\s*(\d{8,})\s*$", re.MULTILINE)


def pipeline_folder(parser: str) -> Path:
    """The folder with the files of "bundled", of a pipeline's directory, or of an installed pipeline by its name.

    The directory may also be that of a package, such as ``en_core_web_sm``, whose files lie one folder deeper.

    Raises:
        FileNotFoundError: if there is no such pipeline.
    """
    folder = BUNDLED_PARSER if parser == "bundled" else Path(parser)
    for place in (folder, package_folder(parser)):
        if place is not None and (place / _META).is_file():
            return _data_folder(place)
    raise FileNotFoundError(
        f"parser should be 'bundled', an installed spaCy pipeline or a directory with a {_META}, was: "
        f"{parser!r}" + (f", and {BUNDLED_PARSER} has none" if parser == "bundled" else "")
    )


def check_pipeline(folder: Path) -> None:
    """Check that a pipeline's folder holds regular files, and its config no number that no network has as a size.

    Raises:
        DataError: if not; the message names the file.
    """
    check_regular(sorted(folder.rglob("*")))
    config = folder / _CONFIG
    for name, digits in _NUMBERS.findall(read_regular(config).decode(errors="replace")) if config.is_file() else ():
        if len(digits) > len(str(_LARGEST_NUMBER)) or int(digits) > _LARGEST_NUMBER:
            raise DataError(f"{config}: {name} should be at most {_LARGEST_NUMBER:,}, was: {digits[:30]}")


def package_folder(name: str) -> Path | None:
    """The folder of an installed package; None if there is none, or if it is no name of a package. Runs no code."""
    if not name.isidentifier():
        return None
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def pipeline_meta(folder: Path) -> Mapping[str, Any]:
    """What a pipeline's meta.json says.

    Raises:
        DataError: if it cannot be read.
    """
    return read_object(folder / _META)


def _data_folder(folder: Path) -> Path:
    """The folder itself, or where it is that of a package, the one in it that spaCy keeps the pipeline in."""
    if (folder / _CONFIG).is_file():
        return folder
    try:
        meta = pipeline_meta(folder)
        inner = folder / "{lang}_{name}-{version}".format_map(meta)
    except (ValueError, KeyError, TypeError):
        return folder
    return inner if (inner / _META).is_file() else folder


def pipeline_identity(folder: Path | None, meta: Mapping[str, object]) -> str:
    """Name, version and digest of the files of a spaCy pipeline, without its documents (``*.md``).

    ``meta`` is what its meta.json says.
    """
    digest = hashlib.sha256()
    if folder is not None:
        for file in sorted(one for one in folder.rglob("*") if one.is_file() and one.suffix != ".md"):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{meta['lang']}_{meta['name']}@{meta['version']}+sha256:{digest.hexdigest()[:16]}"
