"""Answers through the audit, with the options that a user of ``attribeam audit`` has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tqdm import tqdm

from schemas import QARecord, RowFault, SpanEvidence

if TYPE_CHECKING:
    from attribution.attributor import Attributor

_ANSWERS_AT_ONCE = 32


def audited_records(
    records: Sequence[QARecord], attributor: Attributor
) -> Iterator[tuple[int, tuple[SpanEvidence, ...] | RowFault]]:
    """For each record its index and what the audit says of it, in order; a progress bar where there is a terminal."""
    with tqdm(total=len(records), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(records), _ANSWERS_AT_ONCE):
            some = records[start : start + _ANSWERS_AT_ONCE]
            yield from enumerate(attributor.attribute_many(some), start=start)
            bar.update(len(some))
