"""Which rows of an evidence batch count: a claim counts once, however many of its spans have rows of their own."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.schemas.evidence_record import Support

COUNTED_COLUMNS = ("span_index", "claim_index")
"""What ``counted_rows`` needs of a batch."""

CLAIM_COLUMNS = (*COUNTED_COLUMNS, "support")
"""What ``claim_rows`` needs of a batch."""

CLAIM_SUPPORTS = (Support.SUPPORTED, Support.WEAK, Support.UNSUPPORTED, Support.NOT_CALIBRATED)
"""What ``support`` says of claims; the others say that there is none, or none that can be judged."""

_SUPPORTS = pa.array([support.value for support in CLAIM_SUPPORTS])


def counted_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that stand for themselves: without those that take their verdict from the row of their claim."""
    own = pc.equal(batch.column("claim_index"), batch.column("span_index"))
    return batch.filter(pc.fill_null(own, True))


def claim_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The counted rows that are claims."""
    counted = counted_rows(batch)
    return counted.filter(pc.is_in(counted.column("support"), value_set=_SUPPORTS))
