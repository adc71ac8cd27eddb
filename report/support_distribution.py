"""Counts spans by support: over time, by the values of a column, by evidence mass and by support score.

Each tally adds batch after batch in bounded memory and gives its result at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribeam.schemas import VERDICTS

SUPPORTS = tuple(support.value for support in VERDICTS)


def support_codes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Each span's support as its place in ``SUPPORTS``, shape (spans,)."""
    codes = pc.index_in(batch.column("support"), value_set=pa.array(SUPPORTS))
    found: npt.NDArray[np.int64] = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


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


class GroupTally:
    """Counts spans by support for each value.

    Beyond ``limit`` values it stops counting and sets ``overflowed``, so memory stays bounded.
    """

    def __init__(self, *, limit: int) -> None:
        self.counts: dict[object, SupportCounts] = {}
        self.overflowed = False
        self._limit = limit

    def add(self, values: pa.Array, batch: pa.RecordBatch) -> None:
        """Add one batch; ``values`` has one value per span."""
        if self.overflowed:
            return
        table = pa.table({"value": values, "support": batch.column("support")})
        groups = table.group_by(["value", "support"]).aggregate([([], "count_all")])
        if groups.num_rows > self._limit * len(SUPPORTS):
            self.overflowed = True
            return
        for group in groups.to_pylist():
            value = group["value"]
            one = SupportCounts(**{group["support"]: group["count_all"]})
            self.counts[value] = self.counts.get(value, SupportCounts()) + one
        self.overflowed = len(self.counts) > self._limit


MAX_TIME_BINS = 62
_MAX_HOURS = 300_000
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_FIRST_MICROSECONDS = (_FIRST_MOMENT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
_HOUR_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True, slots=True)
class TimeBin:
    """Counts of one hour, day, week, month or year; ``start`` is ISO 8601 in UTC."""

    start: str
    counts: SupportCounts


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bins that hold spans, in ascending order; ``unit`` is their width.

    ``undated`` counts spans without a time; if no span has one, there are no bins.
    """

    unit: str
    bins: tuple[TimeBin, ...]
    undated: int


class TimelineTally:
    """Counts by hour, and chooses the width of the bins at the end."""

    columns: tuple[str, ...] = ("answered_at", "support")

    def __init__(self) -> None:
        self._hours = GroupTally(limit=_MAX_HOURS)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        moments = batch.column("answered_at").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        since_first = pc.subtract(moments, _FIRST_MICROSECONDS)  # never negative, so that division rounds down
        self._hours.add(pc.divide(since_first, _HOUR_MICROSECONDS), batch)

    def result(self) -> Timeline:
        """The timeline in the narrowest unit that needs at most ``MAX_TIME_BINS`` bins, else in years."""
        hours = {_hour_start(key): counts for key, counts in self._hours.counts.items() if isinstance(key, int)}
        undated = sum(counts.spans for key, counts in self._hours.counts.items() if not isinstance(key, int))
        return timeline(hours, undated=undated)


def timeline(counts: Mapping[datetime, SupportCounts], *, undated: int = 0, narrowest: str = "hour") -> Timeline:
    """Counts of moments in UTC, in bins of the narrowest unit that needs at most ``MAX_TIME_BINS``, else of years."""
    unit, starts = next(
        (unit, starts)
        for unit, starts in _bins_by_unit(counts, narrowest).items()
        if unit == "year" or _has_few_bins(unit, starts)
    )
    bins = tuple(TimeBin(start.isoformat(), one) for start, one in sorted(starts.items()))
    return Timeline(unit, bins, undated)


def _hour_start(hours: int) -> datetime:
    return _FIRST_MOMENT + timedelta(hours=hours)


def _bins_by_unit(hours: Mapping[datetime, SupportCounts], narrowest: str) -> dict[str, dict[datetime, SupportCounts]]:
    """Counts by start of bin, for every unit from the narrowest on."""
    binned: dict[str, dict[datetime, SupportCounts]] = {}
    units = list(_BIN_STARTS)
    for unit in units[units.index(narrowest) :]:
        start_of = _BIN_STARTS[unit]
        bins = binned.setdefault(unit, {})
        for hour, counts in hours.items():
            start = start_of(hour)
            bins[start] = bins.get(start, SupportCounts()) + counts
    return binned


def _has_few_bins(unit: str, starts: Mapping[datetime, SupportCounts]) -> bool:
    """True if there are at most ``MAX_TIME_BINS`` bins from the first to the last, empty ones included."""
    if not starts:
        return True
    return (max(starts) - min(starts)) / _BIN_WIDTHS[unit] < MAX_TIME_BINS


_BIN_WIDTHS = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
}
_BIN_STARTS: dict[str, Callable[[datetime], datetime]] = {
    "hour": lambda moment: moment,
    "day": lambda moment: moment.replace(hour=0),
    "week": lambda moment: (
        moment.replace(hour=0) - timedelta(days=min(moment.weekday(), (moment - _FIRST_MOMENT).days))
    ),
    "month": lambda moment: moment.replace(day=1, hour=0),
    "year": lambda moment: moment.replace(month=1, day=1, hour=0),
}


MAX_VALUES = 50
SHOWN_VALUES = 12
_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """One value of the column, None for spans without one."""

    value: str | None
    counts: SupportCounts


@dataclass(frozen=True, slots=True)
class ShareBy:
    """The groups of one column that have the most spans, largest unsupported share first.

    ``others`` sums up the ``other_values`` groups that are not listed. A column of more than ``MAX_VALUES`` values
    has ``too_many_values``, and no group is listed.
    """

    column: str
    groups: tuple[ShareGroup, ...]
    others: SupportCounts
    other_values: int
    too_many_values: bool


class ShareTally:
    """Counts spans by support for each value of a column."""

    def __init__(self, column: str) -> None:
        self.columns: tuple[str, ...] = (column, "support")
        self._column = column
        self._tally = GroupTally(limit=MAX_VALUES)

    @staticmethod
    def can_group(field: pa.Field) -> bool:
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

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        self._tally.add(batch.column(self._column).cast(pa.string()), batch)

    def result(self) -> ShareBy:
        """The groups, at most ``SHOWN_VALUES``."""
        if self._tally.overflowed:
            return ShareBy(self._column, (), SupportCounts(), 0, too_many_values=True)
        by_size = sorted(self._tally.counts.items(), key=lambda item: (-item[1].spans, str(item[0])))
        shown, rest = by_size[:SHOWN_VALUES], by_size[SHOWN_VALUES:]
        groups = [ShareGroup(_value_label(value), counts) for value, counts in shown]
        groups.sort(key=lambda group: (-group.counts.unsupported_share, -group.counts.spans, group.value or ""))
        others = sum((counts for _, counts in rest), SupportCounts())
        return ShareBy(self._column, tuple(groups), others, len(rest), too_many_values=False)


def _value_label(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


MASS_BINS = 40


@dataclass(frozen=True, slots=True)
class MassHistogram:
    """Spans by evidence mass, or another share, in ``MASS_BINS`` equal bins over [0, 1]; the last bin includes 1.

    No bins where no span has one.
    """

    bins: tuple[SupportCounts, ...]


class MassTally:
    """Counts spans by support in each bin of evidence mass, or of another column of shares."""

    def __init__(self, column: str = "evidence_mass") -> None:
        self.columns: tuple[str, ...] = (column, "support")
        self._column = column
        self._counts = np.zeros((MASS_BINS, len(SUPPORTS)), dtype=np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        batch = batch.filter(pc.is_valid(batch.column(self._column)))
        mass = batch.column(self._column).to_numpy(zero_copy_only=False)
        bins = np.clip((mass * MASS_BINS).astype(np.int64), 0, MASS_BINS - 1)
        np.add.at(self._counts, (bins, support_codes(batch)), 1)

    def result(self) -> MassHistogram:
        """The counts of all batches."""
        if not self._counts.any():
            return MassHistogram(())
        return MassHistogram(tuple(SupportCounts(*(int(count) for count in row)) for row in self._counts))
