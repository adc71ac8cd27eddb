"""Makes the table of words: document frequencies of stems in plain text, and word vectors from a wordllama package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from attribeam.attribution.verdict.word_table import save_word_table, stem_frequencies
from attribeam.schemas.errors import DataError

_WORD = re.compile(r"[^\W_]+")
_FEWEST_DOCUMENTS, _FEWEST_OCCURRENCES, _DIMENSIONS = 5, 25, 64
_TOKENIZER, _VECTORS = "tokenizers/l2_supercat_tokenizer_config.json", "weights/l2_supercat_256.safetensors"


def make_word_table(texts: Iterable[str], wordllama: Path, output: Path) -> None:
    """Write the table of the words in ``texts``, one document each, to the directory ``output``.

    A word's vector is the mean of its tokens' vectors in ``wordllama`` (the unpacked package's folder of that name),
    centred and reduced to 64 dimensions by a principal component analysis over all words of the table.

    Raises:
        DataError: if the package's files are not there.
    """
    from tokenizers import Tokenizer  # a dependency of transformers

    for file in (wordllama / _TOKENIZER, wordllama / _VECTORS):
        if not file.is_file():
            raise DataError(f"--wordllama {wordllama} should be the folder of the package wordllama, has no {file}")
    documents: list[list[str]] = []
    occurrences: Counter[str] = Counter()
    for text in texts:
        words = _WORD.findall(text.lower())
        documents.append(list(dict.fromkeys(words)))
        occurrences.update(words)
    frequencies = {one: count for one, count in stem_frequencies(documents).items() if count >= _FEWEST_DOCUMENTS}
    words = sorted(one for one, count in occurrences.items() if count >= _FEWEST_OCCURRENCES and _is_plain(one))
    tokenizer = Tokenizer.from_file(str(wordllama / _TOKENIZER))
    tokens = next(iter(load_file(wordllama / _VECTORS).values())).astype(np.float32)
    vectors = np.stack([tokens[tokenizer.encode(one, add_special_tokens=False).ids].mean(axis=0) for one in words])
    vectors -= vectors.mean(axis=0)
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    reduced = vectors @ directions[:, ::-1][:, :_DIMENSIONS]
    reduced /= np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-6)
    save_word_table(output, documents=len(documents), frequencies=frequencies, words=words, vectors=reduced)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and len(word) > 2
