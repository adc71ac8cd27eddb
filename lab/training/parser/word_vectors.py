"""Static word vectors learned from pages of running text by counting neighbours: PPMI and a truncated SVD.

The contexts of a word are the frequent words one and two places to its left and right. Each place is counted
separately, so that words with the same role in a sentence get similar vectors. Words are lower-cased.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy
from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.vectors import Vectors  # type: ignore[import-not-found]

from attribeam.lab.page_file import read_page_file
from attribeam.schemas.new_file import new_file

Floats = NDArray[numpy.float32]
Places = NDArray[numpy.int64]

WORD = re.compile(
    r"n't\b|'(?:s|re|ve|ll|d|m)\b|[^\W\d_]+(?=n't\b)|[^\W\d_]+(?:\.[^\W\d_]\.)*|\d+(?:[.,:]\d+)*|[^\w\s]+|\S"
)
SHIFTS = (-2, -1, 1, 2)
CONTEXTS = 2000
SMOOTHING = 0.75
OVERSAMPLING = 20
POWER_ITERATIONS = 3
EDGE = -1


@dataclass(frozen=True)
class WordVectors:
    """Lower-cased words, most frequent first, with one row of ``values`` each, whose length is sqrt(columns)."""

    words: list[str]
    values: Floats

    def as_spacy(self, strings: StringStore) -> Vectors:
        """The vectors as spaCy looks them up, by ``Token.lower_``."""
        return Vectors(strings=strings, data=self.values, keys=self.words, attr="LOWER", name="neighbours")

    def save(self, path: Path) -> None:
        """Write one ``.npz`` file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as stream:
            numpy.savez(stream, words=numpy.array(self.words), values=self.values)


def load_vectors(path: Path) -> WordVectors:
    """Read the vectors that ``WordVectors.save`` wrote."""
    with numpy.load(path) as arrays:
        return WordVectors(words=arrays["words"].tolist(), values=arrays["values"])


def read_paragraphs(paths: Iterable[Path]) -> Iterator[str]:
    """The paragraphs of all pages in all files (see ``read_page_file``)."""
    for path in paths:
        for page in read_page_file(path):
            yield from page.paragraphs


def learn_vectors(paragraphs: Iterable[str], *, words: int, columns: int, seed: int) -> WordVectors:
    """Vectors of the ``words`` most frequent words; this needs about 16 bytes x ``words`` x 8,000 of memory.

    Raises:
        ValueError: if the text has fewer different words than ``columns``.
    """
    forms, ranks = _ranked(paragraphs)
    size = min(words, len(forms))
    if size < columns:
        raise ValueError(f"expected at least {columns} different words in the pages, found {size}")
    ppmi = _positive_information(_count_neighbours(ranks, words=size, contexts=min(CONTEXTS, size)))
    values = _reduced(ppmi, columns=columns, rng=numpy.random.default_rng(seed))
    return WordVectors(words=forms[:size], values=values)


def _ranked(paragraphs: Iterable[str]) -> tuple[list[str], Places]:
    """The words by decreasing frequency, and the text as ranks, with ``EDGE`` at the borders of paragraphs."""
    ids: dict[str, int] = {}
    edge = numpy.full(max(SHIFTS), EDGE, dtype=numpy.int64)
    pieces = [edge]
    for paragraph in paragraphs:
        found = WORD.findall(paragraph.lower().replace("’", "'"))
        pieces.append(numpy.fromiter((ids.setdefault(word, len(ids)) for word in found), numpy.int64, len(found)))
        pieces.append(edge)
    text = numpy.concatenate(pieces)
    order = numpy.argsort(-numpy.bincount(text[text != EDGE], minlength=len(ids)), kind="stable")
    rank = numpy.empty(len(ids) + 1, dtype=numpy.int64)
    rank[order], rank[EDGE] = numpy.arange(len(ids)), EDGE
    forms = list(ids)
    return [forms[place] for place in order], rank[text]


def _count_neighbours(ranks: Places, *, words: int, contexts: int) -> Floats:
    """float32 [``words``, shifts x (``contexts`` + 2)]: counts of each context, of a border, and of all rarer words."""
    columns = contexts + 2
    tables = []
    for shift in SHIFTS:
        word, context = (ranks[-shift:], ranks[:shift]) if shift < 0 else (ranks[:-shift], ranks[shift:])
        counted = (word != EDGE) & (word < words)
        column = numpy.where(context < contexts, context, contexts + 1)
        column[context == EDGE] = contexts
        cells = numpy.bincount(word[counted] * columns + column[counted], minlength=words * columns)
        tables.append(cells.reshape(words, columns).astype(numpy.float32))
    return numpy.concatenate(tables, axis=1)


def _positive_information(counts: Floats) -> Floats:
    """max(0, log p(context | word) / p(context)), with frequent contexts damped (Levy et al. 2015)."""
    shares = counts.sum(axis=0) ** SMOOTHING
    expected = counts.sum(axis=1, keepdims=True) * (shares / shares.sum())
    with numpy.errstate(divide="ignore", invalid="ignore"):
        information = numpy.log(counts / expected)
    positive: Floats = numpy.nan_to_num(numpy.maximum(information, 0), nan=0.0).astype(numpy.float32)
    return positive


def _reduced(matrix: Floats, *, columns: int, rng: numpy.random.Generator) -> Floats:
    """Left singular vectors times square roots of singular values, by random projection, with rows of equal length."""
    rank = min(columns + OVERSAMPLING, *matrix.shape)
    basis = matrix @ rng.standard_normal((matrix.shape[1], rank), dtype=numpy.float32)
    for _ in range(POWER_ITERATIONS):
        basis = matrix @ (matrix.T @ numpy.linalg.qr(basis)[0])
    basis = numpy.linalg.qr(basis)[0]
    left, values, _ = numpy.linalg.svd(basis.T @ matrix, full_matrices=False)
    rows = (basis @ left)[:, :columns] * numpy.sqrt(values[:columns])
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Floats = (rows / numpy.maximum(lengths, 1e-9) * numpy.sqrt(columns)).astype(numpy.float32)
    return scaled
