"""Support over the time at which answers were given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from report.support_counts import GroupTally, SupportCounts

MAX_BINS = 62
_HOUR_LIMIT = 300_000
_MIN = datetime.min.replace(tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True, slots=True)
class TimeBin:
    """Counts of one hour, day, week, month or year; ``start`` is ISO 8601 in UTC."""

    start: str
    counts: SupportCounts


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bins with spans in ascending order, at most ``MAX_BINS`` wide units; ``unit`` names their width.

    ``undated`` counts spans without a time. There are no bins where no span has one.
    """

    unit: str
    bins: tuple[TimeBin, ...]
    undated: int


class TimelineTally:
    """Counts by hour while it reads, and chooses the width of the bins at the end."""

    columns: tuple[str, ...] = ("answered_at", "support")

    def __init__(self) -> None:
        self._hours = GroupTally(limit=_HOUR_LIMIT)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        moments = batch.column("answered_at").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        self._hours.add(pc.floor(pc.divide(moments.cast(pa.float64()), float(_HOUR_MICROSECONDS))), batch)

    def result(self) -> Timeline:
        """The timeline in the narrowest unit that gives at most ``MAX_BINS`` bins from first to last."""
        hours = {_hour_start(key): counts for key, counts in self._hours.counts.items() if isinstance(key, float)}
        undated = sum(counts.spans for key, counts in self._hours.counts.items() if not isinstance(key, float))
        unit, starts = next(
            (unit, starts) for unit, starts in _binned(hours).items() if unit == "year" or _spread(unit, starts)
        )
        bins = tuple(TimeBin(start.isoformat(), counts) for start, counts in sorted(starts.items()))
        return Timeline(unit, bins, undated)


def _hour_start(hours: float) -> datetime:
    return _EPOCH + timedelta(hours=hours)


def _binned(hours: Mapping[datetime, SupportCounts]) -> dict[str, dict[datetime, SupportCounts]]:
    """Counts by start of bin, for every unit, narrowest first."""
    binned: dict[str, dict[datetime, SupportCounts]] = {}
    for unit, start_of in _STARTS.items():
        bins = binned.setdefault(unit, {})
        for hour, counts in hours.items():
            start = start_of(hour)
            bins[start] = bins.get(start, SupportCounts()) + counts
    return binned


def _spread(unit: str, starts: Mapping[datetime, SupportCounts]) -> bool:
    """True where the bins from the first to the last, empty ones included, are few enough."""
    if not starts:
        return True
    return (max(starts) - min(starts)) / _WIDTHS[unit] < MAX_BINS


_WIDTHS = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
}
_STARTS: dict[str, Callable[[datetime], datetime]] = {
    "hour": lambda moment: moment,
    "day": lambda moment: moment.replace(hour=0),
    "week": lambda moment: moment.replace(hour=0) - timedelta(days=min(moment.weekday(), (moment - _MIN).days)),
    "month": lambda moment: moment.replace(day=1, hour=0),
    "year": lambda moment: moment.replace(month=1, day=1, hour=0),
}
