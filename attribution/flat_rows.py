"""Many rows, and what an attention model finds in them, as a few long arrays, which cross a process border cheaply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import RowFault

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class FlatRows:
    """What an attention model reads of rows without windows, all rows one behind the other.

    Attributes:
        sizes: int64 [rows, 3], each row's tokens, prompt tokens and passages.
        token_ids: int32 [tokens of all rows].
        column_passage: int32 [prompt tokens of all rows].
    """

    sizes: npt.NDArray[np.int64]
    token_ids: npt.NDArray[np.int32]
    column_passage: npt.NDArray[np.int32]

    @classmethod
    def of(cls, rows: Sequence[EncodedRow], passage_counts: Sequence[int]) -> FlatRows:
        """Copy what a model reads.

        Raises:
            ValueError: if ``passage_counts`` does not hold one count per row, or a row has windows.
        """
        if any(row.windows for row in rows):
            raise ValueError("flat rows should have no windows, one has; each window is a row of its own")
        sizes = [
            (len(row.token_ids), row.prompt_length, count) for row, count in zip(rows, passage_counts, strict=True)
        ]
        return cls(
            np.array(sizes, dtype=np.int64).reshape(len(sizes), 3),
            _joined([row.token_ids for row in rows], np.int32),
            _joined([row.column_passage for row in rows], np.int32),
        )

    @property
    def passage_counts(self) -> list[int]:
        """Each row's number of passages."""
        counts: list[int] = self.sizes[:, 2].tolist()
        return counts

    def rows(self) -> list[EncodedRow]:
        """The rows as a model takes them; they share these arrays, and know no characters."""
        tokens = _cut(self.token_ids, self.sizes[:, 0])
        passages = _cut(self.column_passage, self.sizes[:, 1])
        none, no_title = np.zeros(0, np.int32), np.zeros(0, np.bool_)
        return [
            EncodedRow(token_ids, len(column_passage), column_passage, no_title, none, none, none, none)
            for token_ids, column_passage in zip(tokens, passages, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class FlatAttributions:
    """One outcome per row: a fault, or its attributions, those of all rows one behind the other.

    Attributes:
        sizes: int64 [rows, 3], each row's responses, k and passages; zeros for a faulty row.
        top_columns: int32 [responses * k of all rows].
        top_scores: float32 [responses * k of all rows].
        passage_mass: float32 [responses * passages of all rows].
        sink_mass: float32 [responses of all rows].
        faults: faults by the row's place.
    """

    sizes: npt.NDArray[np.int64]
    top_columns: npt.NDArray[np.int32]
    top_scores: npt.NDArray[np.float32]
    passage_mass: npt.NDArray[np.float32]
    sink_mass: npt.NDArray[np.float32]
    faults: Mapping[int, RowFault]

    @classmethod
    def of(cls, outcomes: Sequence[TokenAttribution | RowFault]) -> FlatAttributions:
        """Copy the outcomes."""
        found = [one for one in outcomes if isinstance(one, TokenAttribution)]
        sizes = [
            (0, 0, 0) if isinstance(one, RowFault) else (*one.top_columns.shape, one.passage_mass.shape[1])
            for one in outcomes
        ]
        return cls(
            np.array(sizes, dtype=np.int64).reshape(len(sizes), 3),
            _joined([one.top_columns for one in found], np.int32),
            _joined([one.top_scores for one in found], np.float32),
            _joined([one.passage_mass for one in found], np.float32),
            _joined([one.sink_mass for one in found], np.float32),
            {place: one for place, one in enumerate(outcomes) if isinstance(one, RowFault)},
        )

    def outcomes(self) -> list[TokenAttribution | RowFault]:
        """One outcome per row, in order; attributions share these arrays."""
        responses, top_k, passages = self.sizes.T
        pieces = zip(
            self.sizes.tolist(),
            _cut(self.top_columns, responses * top_k),
            _cut(self.top_scores, responses * top_k),
            _cut(self.passage_mass, responses * passages),
            _cut(self.sink_mass, responses),
            strict=True,
        )
        attributions = [
            TokenAttribution(
                columns.reshape(count, kept), scores.reshape(count, kept), masses.reshape(count, passage_count), sinks
            )
            for (count, kept, passage_count), columns, scores, masses, sinks in pieces
        ]
        return [self.faults.get(place, one) for place, one in enumerate(attributions)]


def _joined(arrays: Sequence[npt.NDArray[_Number]], kind: type[_Number]) -> npt.NDArray[_Number]:
    """The elements of all arrays, in order.

    Raises:
        TypeError: if an array is of another type; casting it would change what is computed.
    """
    return np.concatenate([np.zeros(0, kind), *(one.ravel() for one in arrays)], casting="no")


def _cut(array: npt.NDArray[_Number], lengths: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[_Number]]:
    """Consecutive pieces of these lengths."""
    return (array[start:end] for start, end in pairwise(accumulate(lengths.tolist(), initial=0)))
