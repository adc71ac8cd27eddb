"""What is known of English words beforehand: how rare they are, and a vector for each of the more frequent ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attribeam.attribution.verdict.word_forms import carries_content, stem
from attribeam.schemas.errors import DataError
from attribeam.schemas.json_file import Form, read_form, read_regular

_STEMS, _VECTORS = WORD_FILES = "word_table.json", "word_vectors.safetensors"
_EVERY_WORD_COUNTS = 0.5
_MOST_DOCUMENTS = 10**12


class TableForm(Form):
    """Words and stems in a file: those with vectors in the order of the vectors, stems by their document frequency."""

    documents: Annotated[int, Field(ge=1, le=_MOST_DOCUMENTS)]
    words: str
    frequencies: dict[Annotated[str, Field(pattern="^[0-9]{1,13}$")], str]

    @model_validator(mode="after")
    def _check(self) -> Self:
        most = max(map(int, self.frequencies), default=0)
        if most > self.documents:
            raise ValueError(f"frequencies should be at most {self.documents}, the number of documents, has {most}")
        return self


class WordTable:
    """Document frequencies of stems, and unit vectors of words.

    Attributes:
        vectors: float32, (words, dimensions), rows of length 1.
    """

    def __init__(
        self, *, documents: int, frequencies: Mapping[str, int], words: Sequence[str], vectors: npt.NDArray[np.float32]
    ) -> None:
        self.vectors = vectors
        self._documents = documents
        self._rarities = {one: self._rarity_of(count) for one, count in frequencies.items()}
        self._rarest = self._rarity_of(1)
        self._weights = {one: rarity + _EVERY_WORD_COUNTS for one, rarity in self._rarities.items()}
        self._rows = {word: row for row, word in enumerate(words) if carries_content(word)}

    def rarity(self, word_stem: str) -> float:
        """The inverse document frequency of a stem: ln((documents + 1) / (documents with it + 1))."""
        return self._rarities.get(word_stem, self._rarest)

    def weight(self, word_stem: str) -> float:
        """What a stem counts in a share of words: its rarity plus one half."""
        return self._weights.get(word_stem, self._rarest + _EVERY_WORD_COUNTS)

    def _rarity_of(self, documents: int) -> float:
        return math.log((self._documents + 1) / (documents + 1))

    def rows(self, words: Iterable[str]) -> npt.NDArray[np.int64]:
        """int64 [words]: the row of each word in lower case, -1 if it has no vector or carries no content."""
        return np.array([*map(self._rows.get, words, repeat(-1))], dtype=np.int64)

    @classmethod
    def from_directory(cls, directory: Path) -> WordTable:
        """Read a table that ``save`` wrote.

        Raises:
            DataError: if a file is missing, or does not hold what it should.
        """
        form = read_form(directory / _STEMS, TableForm)
        words = form.words.split()
        scaled = _read_vectors(directory / _VECTORS, len(words))
        return cls(
            documents=form.documents,
            frequencies={one: int(count) for count, stems in form.frequencies.items() for one in stems.split()},
            words=words,
            vectors=scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-6),
        )


def _read_vectors(file: Path, count: int) -> npt.NDArray[np.float32]:
    """A row of small whole numbers for each of the ``count`` words."""
    try:
        found = load(read_regular(file))["vectors"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} should be a safetensors file with the tensor 'vectors': {error}") from error
    if found.dtype != np.int8 or found.ndim != 2 or len(found) != count:
        raise DataError(
            f"{file} should have int8 vectors of {count} words, has {found.dtype} of the shape {found.shape}; copy it "
            f"again, together with {_STEMS}"
        )
    return found.astype(np.float32)


def save_word_table(
    directory: Path,
    *,
    documents: int,
    frequencies: Mapping[str, int],
    words: Sequence[str],
    vectors: npt.NDArray[np.float32],
) -> None:
    """Write a table: stems grouped by document frequency as JSON, vectors as 8-bit numbers."""
    by_count: dict[str, list[str]] = {}
    for one, count in sorted(frequencies.items()):
        by_count.setdefault(str(count), []).append(one)
    grouped = {count: " ".join(stems) for count, stems in sorted(by_count.items(), key=lambda item: int(item[0]))}
    table = {"documents": documents, "words": " ".join(words), "frequencies": grouped}
    (directory / _STEMS).write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    scale = 127 / np.abs(vectors).max()
    (directory / _VECTORS).write_bytes(save({"vectors": np.round(vectors * scale).astype(np.int8)}))


@lru_cache(maxsize=4)
def word_table(directory: Path) -> WordTable:
    """The table of a directory, read once."""
    return WordTable.from_directory(directory)


def stem_frequencies(documents: Sequence[Sequence[str]]) -> dict[str, int]:
    """In how many documents each stem occurs; a document is a sequence of words."""
    counts: dict[str, int] = {}
    for words in documents:
        for one in {stem(word) for word in words}:
            counts[one] = counts.get(one, 0) + 1
    return counts
