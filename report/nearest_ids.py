"""Record ids that look like one that is not there; bounded work however large the audit is."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from report.audit_directory import AuditDirectory

_COMPARED = 20_000


def nearest_ids(audit: AuditDirectory, wanted: str, *, count: int = 5) -> list[str]:
    """Up to ``count`` ids of the audit that resemble ``wanted``, the most similar first; else the first ids there are.

    One slip leaves either the first or the second half as it was, so that only ids that share a half are compared,
    20,000 of them at most.
    """
    alike = list(islice(_unique(_sharing_a_half(audit, wanted)), _COMPARED))
    found = get_close_matches(wanted, alike, n=count, cutoff=0.5)
    return found or list(islice(_unique(_ids(audit)), count))


def _ids(audit: AuditDirectory) -> Iterator[pa.Array]:
    for batch in audit.dead_letter_batches(["record_id"]):
        yield batch.column("record_id")
    for batch in audit.evidence_batches(["record_id"]):
        yield batch.column("record_id")


def _sharing_a_half(audit: AuditDirectory, wanted: str) -> Iterator[pa.Array]:
    half = (len(wanted) + 1) // 2
    for ids in _ids(audit):
        alike = pc.or_(pc.starts_with(ids, wanted[:half]), pc.ends_with(ids, wanted[half:]))
        yield ids.filter(alike)


def _unique(arrays: Iterator[pa.Array]) -> Iterator[str]:
    seen: set[str] = set()
    for ids in arrays:
        for name in pc.unique(ids.drop_null()).to_pylist():
            if name not in seen:
                seen.add(name)
                yield name
