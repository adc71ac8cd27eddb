"""Chosen columns of all evidence records in large batches; what is not chosen is never decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from report.audit_directory import AuditDirectory
from report.failures import ReportError
from schemas import Support

_BATCH_ROWS = 65_536
SUPPORTS = tuple(support.value for support in Support)


def evidence_columns(audit: AuditDirectory, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of up to 65,536 spans in the order of the files; memory does not grow with the audit.

    A column is the name of a field, or ``field.member`` for one member of a list of structs.

    Raises:
        ReportError: if a file cannot be read.
    """
    for path in audit.evidence_files:
        try:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                leaves = [leaf for name in columns for leaf in _leaves(file.schema, name)]
                yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=leaves, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise ReportError(f"{Path(path)} cannot be read: {error}") from error


def support_codes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Each span's support as its place in ``SUPPORTS``, shape (spans,)."""
    codes = pc.index_in(batch.column("support"), value_set=pa.array(SUPPORTS))
    found: npt.NDArray[np.int64] = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _leaves(schema: pq.ParquetSchema, name: str) -> Iterator[str]:
    field, _, member = name.partition(".")
    for index in range(len(schema)):
        path = schema.column(index).path
        inside = path.startswith(f"{field}.") and (not member or path.endswith(f".{member}"))
        if path == field or inside:
            yield path
