"""Evidence rows in batches, as a tally of the report reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from attribeam.schemas import evidence_schema

SPAN: Mapping[str, object] = {
    "source_file": "log.parquet",
    "source_row": 0,
    "span_kind": "facts",
    "evidence_mass": 0.5,
    "support": "supported",
    "unmatched_values": [],
    "evidence": [],
    "passage_scores": [],
    "answer_kind": "answer",
}


def span_batches(rows: Sequence[Mapping[str, object]], *, size: int = 3) -> Iterator[pa.RecordBatch]:
    """The rows, ``size`` per batch; a field that a row leaves out is that of ``SPAN``, or null."""
    whole = pa.Table.from_pylist([{**SPAN, **row} for row in rows], schema=evidence_schema(extra_fields=_extra(rows)))
    yield from whole.to_batches(max_chunksize=size)


def _extra(rows: Sequence[Mapping[str, object]]) -> list[pa.Field]:
    known = set(evidence_schema().names)
    names = {name for row in rows for name in row if name not in known}
    return [pa.field(name, pa.string()) for name in sorted(names)]
