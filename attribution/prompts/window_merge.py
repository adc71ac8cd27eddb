"""The attributions of a row's windows, put together to those of the whole row.

A passage's columns come from their own window as they are. A column outside the passages lies in several windows and
counts as its largest value there. So a column's value is at least that of each window that has it, and what is among
the k largest of the row is among the k largest of the window that its value comes from: the windows' own top k suffice.

Masses are sums over whole rows. That of a passage is its window's. That outside the passages is the mean over the
windows: the sum of the largest values is not known from the windows' sums. So passages' masses, divided by the number
of windows, and the mass outside are shares of one whole, as they are for a row without windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attribution.token_attribution import EncodedRow, TokenAttribution
from schemas import RowFault

Outcome: TypeAlias = TokenAttribution | RowFault
_Attribute: TypeAlias = Callable[[Sequence[EncodedRow], Sequence[int]], Sequence[Outcome]]


def attribute_with_windows(
    rows: Sequence[EncodedRow], passage_counts: Sequence[int], *, top_k: int, attribute: _Attribute
) -> list[Outcome]:
    """One outcome a row, of rows with and without windows; ``attribute`` gives one for each row without.

    The first fault of a window is its row's fault.

    Raises:
        ValueError: if there is not one passage count a row, or not one outcome a window.
    """
    parts = [[window.row for window in row.windows] or [row] for row in rows]
    pairs = [(one, count) for part, count in zip(parts, passage_counts, strict=True) for one in part]
    outcomes = attribute([one for one, _ in pairs], [count for _, count in pairs])
    found = (outcome for _, outcome in zip(pairs, outcomes, strict=True))
    return [_outcome(row, _take(found, len(part)), top_k) for row, part in zip(rows, parts, strict=True)]


def merge_windows(row: EncodedRow, found: Sequence[TokenAttribution], *, top_k: int) -> TokenAttribution:
    """The attribution of a row from those of its windows, each one the ``top_k`` largest of its own columns."""
    columns = [window.columns[one.top_columns] for window, one in zip(row.windows, found, strict=True)]
    top_columns, top_scores = _largest(
        np.concatenate(columns, axis=1),
        np.concatenate([one.top_scores for one in found], axis=1),
        k=min(top_k, row.prompt_length),
    )
    return TokenAttribution(
        top_columns,
        top_scores,
        passage_mass=np.sum([one.passage_mass for one in found], axis=0),
        sink_mass=np.mean([one.sink_mass for one in found], axis=0),
    )


def _take(found: Iterator[Outcome], count: int) -> list[Outcome]:
    return [next(found) for _ in range(count)]


def _outcome(row: EncodedRow, found: Sequence[Outcome], top_k: int) -> Outcome:
    if not row.windows:
        return found[0]
    attributions = [one for one in found if isinstance(one, TokenAttribution)]
    faults = [one for one in found if isinstance(one, RowFault)]
    return faults[0] if faults else merge_windows(row, attributions, top_k=top_k)


def _largest(
    columns: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], *, k: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """[responses, k] columns and scores, the largest score of each column, ties towards the lower column."""
    columns, scores = _ordered(np.lexsort((columns, -scores)), columns, scores)
    by_column = np.argsort(columns, axis=1, kind="stable")
    ascending = np.take_along_axis(columns, by_column, axis=1)
    repeated = np.zeros(columns.shape, dtype=bool)
    np.put_along_axis(repeated, by_column[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    columns, scores = _ordered(np.argsort(repeated, axis=1, kind="stable"), columns, scores)
    return columns[:, :k], scores[:, :k]


def _ordered(
    order: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(scores, order, axis=1)
