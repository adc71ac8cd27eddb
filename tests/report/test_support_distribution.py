"""Support over time, by the values of a column and by evidence mass, against counting span by span."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.report.made_audit import span_batches

from attribeam.report.support_distribution import (
    MASS_BINS,
    MAX_TIME_BINS,
    MAX_VALUES,
    SHOWN_VALUES,
    MassTally,
    ShareBy,
    ShareTally,
    SupportCounts,
    Timeline,
    TimelineTally,
)

SUPPORTS = ("supported", "weak", "unsupported")
START = datetime(2026, 3, 14, 15, 9, tzinfo=UTC)


def timeline_of(rows: Sequence[dict[str, object]]) -> Timeline:
    tally = TimelineTally()
    for batch in span_batches(rows):
        tally.add(batch)
    return tally.result()


def shares_of(rows: Sequence[dict[str, object]], column: str) -> ShareBy:
    tally = ShareTally(column)
    for batch in span_batches(rows):
        tally.add(batch)
    return tally.result()


def counted(supports: Sequence[str]) -> SupportCounts:
    return SupportCounts(*(supports.count(support) for support in SUPPORTS))


def floor(moment: datetime, unit: str) -> datetime:
    """The start of the hour, day, week, month or year that holds the moment."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    return {
        "hour": hour,
        "day": day,
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "year": day.replace(month=1, day=1),
    }[unit]


def bin_count(first: datetime, last: datetime, unit: str) -> int:
    """Units from the one that holds ``first`` to the one that holds ``last``, both included, one by one."""
    count, start, end = 1, floor(first, unit), floor(last, unit)
    while start < end:
        start = floor(start + timedelta(days=31) if unit == "month" else start + STEPS[unit], unit)
        count += 1
    return count


STEPS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1), "year": timedelta(days=366)}


def naive_unit(moments: Sequence[datetime]) -> str:
    fitting = (
        unit
        for unit in ("hour", "day", "week", "month")
        if bin_count(min(moments), max(moments), unit) <= MAX_TIME_BINS
    )
    return next(fitting, "year")


@pytest.mark.parametrize("days", [0.5, 2.5, 2.7, 40, 61, 63, 300, 440, 1800, 1900, 9000])
@pytest.mark.parametrize("seed", range(3))
def test_the_timeline_counts_every_span_in_the_narrowest_unit_that_fits(days: float, seed: int) -> None:
    chance = random.Random(seed)
    moments = [START + timedelta(days=days) * chance.random() for _ in range(40)]
    rows = [{"answered_at": moment, "support": chance.choice(SUPPORTS)} for moment in moments]
    found = timeline_of(rows)
    unit = naive_unit(moments)
    starts = sorted({floor(moment, unit) for moment in moments})
    assert (found.unit, found.undated) == (unit, 0)
    assert [one.start for one in found.bins] == [start.isoformat() for start in starts]
    for one, start in zip(found.bins, starts, strict=True):
        assert one.counts == counted([row["support"] for row in rows if floor(row["answered_at"], unit) == start])


@pytest.mark.parametrize(
    ("unit", "last", "next_unit"),
    [
        ("hour", START + timedelta(hours=MAX_TIME_BINS - 1), "day"),
        ("day", START + timedelta(days=MAX_TIME_BINS - 1), "week"),
        ("week", START + timedelta(weeks=MAX_TIME_BINS - 1), "month"),
        ("month", datetime(2031, 4, 30, tzinfo=UTC), "year"),
    ],
)
def test_one_bin_too_many_takes_the_next_wider_unit(unit: str, last: datetime, next_unit: str) -> None:
    assert bin_count(START, last, unit) == MAX_TIME_BINS
    later = last + STEPS.get(unit, timedelta(days=31))
    assert timeline_of([{"answered_at": START}, {"answered_at": last}]).unit == unit
    assert timeline_of([{"answered_at": START}, {"answered_at": later}]).unit == next_unit


@pytest.mark.parametrize("value_count", [1, SHOWN_VALUES, SHOWN_VALUES + 1, MAX_VALUES])
def test_shares_list_the_values_with_most_spans_by_their_unsupported_share(value_count: int) -> None:
    chance = random.Random(value_count)
    values = [*(f"team {number:02d}" for number in range(value_count - 1)), None]
    spans = [(value, chance.choice(SUPPORTS)) for value in values for _ in range(chance.randrange(1, 9))]
    chance.shuffle(spans)
    found = shares_of([{"team": value, "support": support} for value, support in spans], "team")
    by_value = {value: counted([support for one, support in spans if one == value]) for value in values}
    listed = {group.value: group.counts for group in found.groups}
    assert listed == {value: by_value[value] for value in listed}
    left_out = [counts for value, counts in by_value.items() if value not in listed]
    assert len(listed) == min(SHOWN_VALUES, value_count)
    assert found.other_values == len(left_out)
    assert found.others == sum(left_out, SupportCounts())
    assert not left_out or max(one.spans for one in left_out) <= min(one.spans for one in listed.values())
    shares = [group.counts.unsupported / group.counts.spans for group in found.groups]
    assert shares == sorted(shares, reverse=True)
    assert not found.too_many_values


@pytest.mark.parametrize(
    ("kind", "grouped"),
    [
        (pa.string(), True),
        (pa.bool_(), True),
        (pa.int8(), True),
        (pa.float64(), True),
        (pa.timestamp("s"), True),
        (pa.binary(), False),
        (pa.list_(pa.string()), False),
        (pa.struct([("a", pa.string())]), False),
    ],
)
def test_columns_of_plain_values_make_groups(kind: pa.DataType, grouped: bool) -> None:
    assert ShareTally.can_group(pa.field("team", kind)) is grouped


def test_each_mass_falls_into_the_bin_that_holds_it() -> None:
    chance = random.Random(7)
    masses = [0.0, 1.0, *(chance.randrange(65) / 64 for _ in range(200))]  # 64ths of MASS_BINS are exact
    rows = [{"evidence_mass": mass, "support": chance.choice(SUPPORTS)} for mass in masses]
    tally = MassTally()
    for batch in span_batches(rows, size=50):
        tally.add(batch)
    wanted = Counter((min(int(row["evidence_mass"] * MASS_BINS), MASS_BINS - 1), row["support"]) for row in rows)
    found = tally.result().bins
    assert len(found) == MASS_BINS
    for number, counts in enumerate(found):
        assert counts == SupportCounts(*(wanted[number, support] for support in SUPPORTS))


def test_scores_are_binned_like_masses() -> None:
    tally = MassTally("support_score")
    for batch in span_batches([{"support_score": score} for score in (0.5, 0.5, None, 1.0)], size=2):
        tally.add(batch)
    bins = tally.result().bins
    assert {number: one.spans for number, one in enumerate(bins) if one.spans} == {MASS_BINS // 2: 2, MASS_BINS - 1: 1}


@pytest.mark.parametrize(("masses", "counted_spans"), [([0.5, None, 1.0], 2), ([None, None], 0)])
def test_spans_without_a_mass_are_in_no_bin(masses: list[float | None], counted_spans: int) -> None:
    tally = MassTally()
    for batch in span_batches([{"evidence_mass": mass} for mass in masses], size=1):
        tally.add(batch)
    bins = tally.result().bins
    assert sum(one.spans for one in bins) == counted_spans
    assert len(bins) == (MASS_BINS if counted_spans else 0)
