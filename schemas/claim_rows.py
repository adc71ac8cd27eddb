"""Which rows of an evidence batch count: a claim counts once, however many of its spans have rows of their own."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.schemas.evidence_record import VERDICTS, Support

COUNTED_COLUMNS = ("span_index", "claim_index")
"""What ``counted_rows`` needs of a batch."""

CLAIM_COLUMNS = (*COUNTED_COLUMNS, "support")
"""What ``claim_rows`` needs of a batch."""

CLAIM_SUPPORTS = (*VERDICTS, Support.NOT_CALIBRATED)
"""What ``support`` says of claims; the others say that there is none, or none that can be judged."""

_SUPPORTS = pa.array([support.value for support in CLAIM_SUPPORTS])
_VERDICTS = pa.array([support.value for support in VERDICTS])


def counted_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that stand for themselves: without those that take their verdict from the row of their claim."""
    return _kept(batch, _counted(batch))


def claim_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The counted rows that are claims."""
    return _kept(batch, claim_mask(batch))


def judged_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The counted rows that are claims with a verdict."""
    return _kept(batch, pc.and_(_counted(batch), pc.is_in(batch.column("support"), value_set=_VERDICTS)))


def claim_mask(batch: pa.RecordBatch) -> pa.BooleanArray:
    """True for each row that ``SpanEvidence.is_claim``."""
    return pc.and_(_counted(batch), pc.is_in(batch.column("support"), value_set=_SUPPORTS))


def _counted(batch: pa.RecordBatch) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(batch.column("claim_index"), batch.column("span_index")), True)


def _kept(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows where ``mask`` is true; no copy where it is true everywhere."""
    return batch if pc.all(mask).as_py() else batch.filter(mask)
