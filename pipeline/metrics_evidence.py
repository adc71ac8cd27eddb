"""Sums over all evidence of an audit that its manifest does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from report.audit_directory import AuditDirectory

_COLUMNS = ("span_kind", "support", "evidence_mass", "unmatched_values")


@dataclass(frozen=True, slots=True)
class EvidenceTotals:
    """Sums over evidence records.

    Attributes:
        spans: target spans by (span kind, support).
        evidence_mass: sum of the spans' evidence masses.
        unmatched_spans: spans with at least one unmatched value.
    """

    spans: Mapping[tuple[str, str], int]
    evidence_mass: float
    unmatched_spans: int

    @property
    def span_count(self) -> int:
        """Number of target spans."""
        return sum(self.spans.values())


def sum_evidence(audit: AuditDirectory) -> EvidenceTotals:
    """One pass over four columns of the evidence, in small batches.

    Raises:
        ReportError: if a file cannot be read.
    """
    return _sum(audit.evidence_batches(_COLUMNS))


def _sum(batches: Iterable[pa.RecordBatch]) -> EvidenceTotals:
    spans: Counter[tuple[str, str]] = Counter()
    mass, unmatched = 0.0, 0
    for batch in batches:
        spans.update(zip(batch["span_kind"].to_pylist(), batch["support"].to_pylist(), strict=True))
        mass += pc.sum(batch["evidence_mass"]).as_py() or 0.0
        unmatched += pc.sum(pc.greater(pc.list_value_length(batch["unmatched_values"]), 0)).as_py() or 0
    return EvidenceTotals(dict(sorted(spans.items())), mass, unmatched)
