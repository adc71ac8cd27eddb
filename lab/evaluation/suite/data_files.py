"""The data sets that a directory of the known layout contains, and those that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from attribeam.schemas.errors import DataError


class Section(StrEnum):
    """The part of the suite that a data set belongs to."""

    PASSAGES = "passages"
    CITATIONS = "citations"
    SUPPORT = "support"
    CHINESE = "Chinese"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data set; ``loader_name`` is its name in ``datasets.loaders``, and ``name`` its name in the tables."""

    section: Section
    loader_name: str
    name: str
    path: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read: the path itself, or the data files in the directory."""
        return tuple(sorted(self.path.glob("*.jsonl*"))) if self.path.is_dir() else (self.path,)


@dataclass(frozen=True, slots=True)
class FoundData:
    """The data sets of a directory in the order of the tables, and the places of the layout that are empty."""

    files: tuple[DataFile, ...]
    missing: tuple[str, ...]

    def of_section(self, section: Section) -> tuple[DataFile, ...]:
        """The data sets of one section."""
        return tuple(file for file in self.files if file.section is section)


@dataclass(frozen=True, slots=True)
class _Place:
    section: Section
    folder: str
    loader_name: str
    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return " or ".join(f"{self.folder}/{pattern}" for pattern in self.patterns)


_ROWS = ("*.jsonl", "*.jsonl.xz")
_LAYOUT = (
    _Place(Section.PASSAGES, "quotesum", "quotesum", _ROWS),
    _Place(Section.PASSAGES, "veri_gran", "veri-gran", _ROWS),
    _Place(Section.PASSAGES, "lfqa", "lfqa", _ROWS),
    _Place(Section.PASSAGES, "log", "log", ("*.parquet",)),
    _Place(Section.CITATIONS, "alce", "alce", ("*.json", "*.json.xz")),
    _Place(Section.SUPPORT, "ragtruth", "ragtruth", ("response.jsonl", "response.jsonl.xz")),
    _Place(Section.CHINESE, "chinese", "quotesum", ("quotesum*.jsonl", "quotesum*.jsonl.xz")),
    _Place(Section.CHINESE, "chinese", "veri-gran", ("veri_gran*.jsonl", "veri_gran*.jsonl.xz")),
    _Place(Section.CHINESE, "chinese", "log", ("*.parquet",)),
)


def find_data(root: Path) -> FoundData:
    """The data sets below ``root``; their content is not read.

    Raises:
        DataError: if it is not a directory, or contains no data set.
    """
    if not root.is_dir():
        raise DataError(f"--data of a suite should be a directory, was: {root}")
    found = {place: tuple(_files(place, root)) for place in _LAYOUT}
    files = tuple(file for of_place in found.values() for file in of_place)
    missing = tuple(str(place) for place, of_place in found.items() if not of_place)
    if not files:
        raise DataError(f"--data {root} should contain one of {', '.join(missing)}; contains none")
    return FoundData(files, missing)


def _files(place: _Place, root: Path) -> Iterator[DataFile]:
    folder = root / place.folder
    for path in sorted(path for pattern in place.patterns for path in folder.glob(pattern)):
        stem = path.name.partition(".")[0]
        if place.section is Section.SUPPORT:
            yield DataFile(place.section, place.loader_name, place.folder, folder)
        else:
            yield DataFile(place.section, place.loader_name, f"{place.folder} {stem}", path)
