"""How many spans of a group are supported, weak or unsupported."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from report.evidence_columns import SUPPORTS


@dataclass(frozen=True, slots=True)
class SupportCounts:
    """Numbers of spans by support."""

    supported: int = 0
    weak: int = 0
    unsupported: int = 0

    @property
    def spans(self) -> int:
        """All spans of the group."""
        return self.supported + self.weak + self.unsupported

    @property
    def unsupported_share(self) -> float:
        """Share of unsupported spans, 0 where there is no span."""
        return self.unsupported / self.spans if self.spans else 0.0

    def __add__(self, other: SupportCounts) -> SupportCounts:
        return SupportCounts(
            self.supported + other.supported, self.weak + other.weak, self.unsupported + other.unsupported
        )


def counts_of_support(support: str, spans: int) -> SupportCounts:
    """Counts with ``spans`` of one support and none of the others."""
    return SupportCounts(**{support: spans})


class GroupTally:
    """Counts spans by support for each value of a group; values are added batch by batch.

    Above ``limit`` values it counts no further and ``overflowed`` is set, so that memory stays bounded.
    """

    def __init__(self, *, limit: int) -> None:
        self.counts: dict[object, SupportCounts] = {}
        self.overflowed = False
        self._limit = limit

    def add(self, values: pa.Array, batch: pa.RecordBatch) -> None:
        """Add one batch; ``values`` has one value a span."""
        if self.overflowed:
            return
        table = pa.table({"value": values, "support": batch.column("support")})
        groups = table.group_by(["value", "support"]).aggregate([([], "count_all")])
        if groups.num_rows > self._limit * len(SUPPORTS):
            self.overflowed = True
            return
        for group in groups.to_pylist():
            value = group["value"]
            one = counts_of_support(group["support"], group["count_all"])
            self.counts[value] = self.counts.get(value, SupportCounts()) + one
        self.overflowed = len(self.counts) > self._limit
