"""The share of unsupported spans by the values of one column."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from report.support_counts import GroupTally, SupportCounts

MAX_VALUES = 50
SHOWN_VALUES = 12
_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """One value of the column; None stands for spans without a value."""

    value: str | None
    counts: SupportCounts


@dataclass(frozen=True, slots=True)
class ShareBy:
    """Groups of one column, those with the most spans, largest unsupported share first.

    ``others`` sums up the groups that are not listed, ``other_values`` is their number. ``too_many_values`` says
    that the column has more than ``MAX_VALUES`` values, and then nothing is listed.
    """

    column: str
    groups: tuple[ShareGroup, ...]
    others: SupportCounts
    other_values: int
    too_many_values: bool


class ShareTally:
    """Counts one column batch by batch."""

    def __init__(self, column: str) -> None:
        self.columns: tuple[str, ...] = (column, "support")
        self._column = column
        self._tally = GroupTally(limit=MAX_VALUES)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        self._tally.add(batch.column(self._column).cast(pa.string()), batch)

    def result(self) -> ShareBy:
        """The groups, at most ``SHOWN_VALUES``."""
        if self._tally.overflowed:
            return ShareBy(self._column, (), SupportCounts(), 0, too_many_values=True)
        by_size = sorted(self._tally.counts.items(), key=lambda item: (-item[1].spans, str(item[0])))
        shown, rest = by_size[:SHOWN_VALUES], by_size[SHOWN_VALUES:]
        groups = [ShareGroup(_label(value), counts) for value, counts in shown]
        groups.sort(key=lambda group: (-group.counts.unsupported_share, -group.counts.spans, group.value or ""))
        others = sum((counts for _, counts in rest), SupportCounts())
        return ShareBy(self._column, tuple(groups), others, len(rest), too_many_values=False)


def can_be_grouped(field: pa.Field) -> bool:
    """True for columns of texts, numbers, booleans and moments; lists, structs and bytes make no groups."""
    kind = field.type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def _label(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
