"""How evidence mass is distributed over the spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from report.evidence_columns import SUPPORTS, support_codes
from report.support_counts import SupportCounts

BINS = 40


@dataclass(frozen=True, slots=True)
class MassHistogram:
    """Spans by evidence mass in ``BINS`` equal bins over [0, 1]; the last bin includes 1."""

    bins: tuple[SupportCounts, ...]


class MassTally:
    """Counts batch by batch."""

    columns: tuple[str, ...] = ("evidence_mass", "support")

    def __init__(self) -> None:
        self._counts = np.zeros((BINS, len(SUPPORTS)), dtype=np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        mass = batch.column("evidence_mass").to_numpy(zero_copy_only=False)
        bins = np.clip((mass * BINS).astype(np.int64), 0, BINS - 1)
        np.add.at(self._counts, (bins, support_codes(batch)), 1)

    def result(self) -> MassHistogram:
        """The counts of all batches."""
        return MassHistogram(tuple(SupportCounts(*(int(count) for count in row)) for row in self._counts))
