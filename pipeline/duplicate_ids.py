"""Rows whose record_id stands earlier in the same file, found with eight bytes a row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.input_files import open_input
from transforms.column_types import is_text, plain_array

_BATCH_ROWS = 16_384


def find_duplicate_rows(path: str, *, id_column: str) -> npt.NDArray[np.int64]:
    """0-based rows, ascending, whose id stands in an earlier row of the file; nulls are no duplicates.

    A first pass keeps a 64-bit hash a row; only ids whose hash comes up more than once are compared, in a second.
    """
    hashes = np.concatenate([_hashes(ids) for ids in _id_batches(path, id_column)] or [np.empty(0, np.int64)])
    values, counts = np.unique(hashes, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return np.empty(0, np.int64)
    return np.array(list(_repetitions(path, id_column, repeated)), np.int64)


def _repetitions(path: str, id_column: str, repeated: npt.NDArray[np.int64]) -> Iterator[int]:
    seen: set[object] = set()
    row_start = 0
    for ids in _id_batches(path, id_column):
        for row in np.flatnonzero(np.isin(_hashes(ids), repeated)).tolist():
            value = ids[row]
            if value is None:
                continue
            if value in seen:
                yield row_start + row
            seen.add(value)
        row_start += len(ids)


def _id_batches(path: str, id_column: str) -> Iterator[list[object]]:
    """The ids in small batches; text as bytes, because it may be no UTF-8."""
    with open_input(path) as file, pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=[id_column]):
            yield _plain(batch.column(0)).to_pylist()


def _plain(ids: pa.Array) -> pa.Array:
    plain = plain_array(ids)
    return plain.cast(pa.large_binary()) if is_text(plain.type) else plain


def _hashes(ids: list[object]) -> npt.NDArray[np.int64]:
    return np.fromiter((hash(value) for value in ids), np.int64, len(ids))
