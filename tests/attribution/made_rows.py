"""Encoded rows and attributions whose every number a test chooses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, RowFault, RowSource

Ranges = Sequence[tuple[int, int]]


def record(passages: Sequence[str], answer: str, *, question: str = "Who kept the lamp?") -> QARecord:
    """A row of passages without titles."""
    return QARecord("r", question, tuple(map(Passage, passages)), answer, RowSource("log.parquet", 0))


def made_row(
    passages: Sequence[int], *, responses: Ranges | int, columns: Ranges | None = None, titles: Sequence[int] = ()
) -> EncodedRow:
    """A row whose prompt columns lie in these passages, -1 for none.

    Ranges are half-open, of code points: of the columns in their texts and of response tokens in the answer. Where they
    are left out, or a number stands for the responses, each token has the code point of its own place.
    """
    size = len(passages)
    if isinstance(responses, int):
        responses = [(place, place + 1) for place in range(responses)]
    if columns is None:
        columns = [(place, place + 1) for place in range(size)]
    (starts, ends), (first, last) = (np.array(some, np.int32).reshape(-1, 2).T for some in (columns, responses))
    in_title = np.isin(np.arange(size), list(titles))
    ids = np.zeros(size + len(responses), np.int32)
    return EncodedRow(ids, size, np.array(passages, np.int32), in_title, starts, ends, first, last)


def full_similarity(tokens: TokenAttribution | RowFault) -> np.ndarray:
    """S put together again from a top-k that kept every column: float32 [responses, prompt_length]."""
    assert isinstance(tokens, TokenAttribution)
    similarity = np.zeros(tokens.top_scores.shape, dtype=np.float32)
    np.put_along_axis(similarity, tokens.top_columns.astype(np.int64), tokens.top_scores, axis=1)
    return similarity


def made_attribution(top: Sequence[Sequence[tuple[int, float]]], passages: int = 1) -> TokenAttribution:
    """Of response tokens with these (column, similarity) pairs; no mass is known."""
    columns, scores = (np.array([[pair[part] for pair in row] for row in top]).reshape(len(top), -1) for part in (0, 1))
    nothing = np.zeros((len(top), passages), np.float32)
    return TokenAttribution(columns.astype(np.int32), scores.astype(np.float32), nothing, nothing[:, 0])
