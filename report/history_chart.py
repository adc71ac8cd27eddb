"""Drawings of a history of audits as plain SVG, which needs no script: places across are in percent, down in pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from attribeam.report.audit_history import AuditEntry
from attribeam.report.history_alerts import Alert, ExpectedRange, expected_ranges
from attribeam.report.support_distribution import SUPPORTS, SupportCounts, Timeline

HEIGHT = 170
_TOP = 10
_MOST_LABELS = 4
_INSET = 1.5


@dataclass(frozen=True, slots=True)
class Mark:
    """One audit in a drawing: its place, the range that was expected (top and height), and what to say about it."""

    x: float
    y: float
    title: str
    kind: str = ""
    top: float | None = None
    height: float = 0.0
    link: str | None = None


@dataclass(frozen=True, slots=True)
class TrendChart:
    """A share over time: ``lines`` (x, y, x, y) connect marks, ``grid`` is (y, label), ``dates`` (x, anchor, label)."""

    heading: str
    sub: str
    marks: tuple[Mark, ...]
    lines: tuple[tuple[float, float, float, float], ...]
    grid: tuple[tuple[float, str], ...]
    dates: tuple[tuple[float, str, str], ...]
    band: float


@dataclass(frozen=True, slots=True)
class StackChart:
    """Shares by support over time: ``bars`` are (support, x, width, y, height, title)."""

    bars: tuple[tuple[str, float, float, float, float, str], ...]
    grid: tuple[tuple[float, str], ...]
    dates: tuple[tuple[float, str, str], ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """What a trend shows: audits with a value, and how a person calls it."""

    heading: str
    sub: str
    values: Sequence[tuple[AuditEntry, float]]


def metric_chart(
    trend: Trend, metric: str, entries: Sequence[AuditEntry], alerts: Sequence[Alert], links: Mapping[str, str]
) -> TrendChart:
    """A metric with the ranges that were expected; ``links`` are those of the audits' pages, by name."""
    kinds = {(one.entry.name, one.entry.started_at): one.kind for one in alerts if one.metric == metric}
    ranges = dict(zip(map(_key, entries), expected_ranges(entries, metric), strict=True))
    return _chart(trend, [ranges[_key(entry)] for entry, _ in trend.values], kinds, links)


def _key(entry: AuditEntry) -> tuple[str, datetime]:
    return entry.name, entry.started_at


def plain_chart(trend: Trend, links: Mapping[str, str]) -> TrendChart:
    """Values without expected ranges."""
    return _chart(trend, [None] * len(trend.values), {}, links)


def _chart(
    trend: Trend,
    ranges: Sequence[ExpectedRange | None],
    kinds: Mapping[tuple[str, datetime], str],
    links: Mapping[str, str],
) -> TrendChart:
    times = [entry.started_at for entry, _ in trend.values]
    tops = [value for _, value in trend.values] + [one.high for one in ranges if one is not None]
    top, step = _scale(max(tops, default=0.0))
    marks = []
    for (entry, value), expected in zip(trend.values, ranges, strict=True):
        y_of_range = None if expected is None else (_y(expected.high, top), _y(expected.low, top))
        marks.append(
            Mark(
                x=_x(entry.started_at, times),
                y=_y(value, top),
                title=_title(entry, value, expected),
                kind=kinds.get(_key(entry), ""),
                top=None if y_of_range is None else y_of_range[0],
                height=0.0 if y_of_range is None else max(round(y_of_range[1] - y_of_range[0], 1), 1.0),
                link=links.get(entry.name),
            )
        )
    lines = tuple((one.x, one.y, other.x, other.y) for one, other in pairwise(marks))
    grid = tuple((_y(number * step, top), _percent(number * step)) for number in range(5))
    band = round(min(60 / max(len(marks), 1), 2.4), 3)
    return TrendChart(trend.heading, trend.sub, tuple(marks), lines, grid, tuple(_dates(times)), band)


def _title(entry: AuditEntry, value: float, expected: ExpectedRange | None) -> str:
    when = f"{entry.started_at:%Y-%m-%d %H:%M}"
    by = "" if expected is None else f", expected {expected.low:.2%} to {expected.high:.2%}"
    return f"{entry.name}, {when}: {value:.2%}{by}"


def _scale(largest: float) -> tuple[float, float]:
    """The top of a scale of four steps that holds ``largest``, and a step."""
    for step in (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1, 0.15, 0.2):
        if largest <= 4 * step:
            return 4 * step, step
    return 1.0, 0.25


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _y(share: float, top: float) -> float:
    return round(_TOP + (1 - share / top) * (HEIGHT - _TOP), 1)


def _x(moment: datetime, times: Sequence[datetime]) -> float:
    width = (times[-1] - times[0]).total_seconds()
    part = (moment - times[0]).total_seconds() / width if width else 0.5
    return round(_INSET + part * (100 - 2 * _INSET), 3)


def _dates(times: Sequence[datetime]) -> Iterator[tuple[float, str, str]]:
    """Up to four dates, those of the first and the last audit among them."""
    if not times:
        return
    if times[0] == times[-1]:
        yield 50.0, "middle", f"{times[0]:%d %b %Y}"
        return
    for number in range(_MOST_LABELS):
        part = number / (_MOST_LABELS - 1)
        moment = times[0] + (times[-1] - times[0]) * part
        anchor = "start" if number == 0 else "end" if number == _MOST_LABELS - 1 else "middle"
        yield round(_INSET + part * (100 - 2 * _INSET), 3), anchor, f"{moment:%d %b %Y}"


def stack_chart(timeline: Timeline) -> StackChart:
    """Each bin's shares by support, on a scale of 100%, the unsupported ones at the bottom."""
    starts = [datetime.fromisoformat(one.start) for one in timeline.bins]
    gap = min((later - one for one, later in pairwise(starts)), default=None)
    total = None if gap is None else (starts[-1] + gap - starts[0])
    bars: list[tuple[str, float, float, float, float, str]] = []
    for start, one in zip(starts, timeline.bins, strict=True):
        if gap is None or total is None:
            x, width = 25.0, 50.0
        else:
            x, width = 100 * ((start - starts[0]) / total), 100 * (gap / total)
        label = f"{'week of ' * (timeline.unit == 'week')}{start:%Y-%m-%d}"
        bars.extend(_bar_parts(one.counts, round(x + width * 0.08, 3), round(width * 0.84, 3), label))
    grid = tuple((_y(share, 1.0), _percent(share)) for share in (0, 0.25, 0.5, 0.75, 1.0))
    return StackChart(tuple(bars), grid, tuple(_dates(starts)))


def _bar_parts(
    counts: SupportCounts, x: float, width: float, label: str
) -> Iterator[tuple[str, float, float, float, float, str]]:
    below = 0.0
    for support in reversed(SUPPORTS):
        number = int(getattr(counts, support))
        share = number / counts.spans if counts.spans else 0.0
        height = round(share * (HEIGHT - _TOP), 1)
        if height:
            title = f"{label}: {number:,} {support}, {share:.1%}"
            yield support, x, width, round(HEIGHT - below - height, 1), height, title
        below += height
