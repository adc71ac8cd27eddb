"""Renders the page over several audits: shares over time, what moved, by generator, and every audit in a table.

Drawings are plain SVG, so the page needs no script: places across are in percent, down in pixels.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from attribeam.report import page_data as page_assets
from attribeam.report.audit_history import (
    BEFORE,
    WATCHED,
    Alert,
    AuditEntry,
    ExpectedRange,
    expected_ranges,
    find_alerts,
)
from attribeam.report.audit_summary import Change, Figure
from attribeam.report.support_distribution import SUPPORTS, ShareGroup, SupportCounts, Timeline, timeline

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


def _chart(
    heading: str,
    sub: str,
    values: Sequence[tuple[AuditEntry, float]],
    links: Mapping[str, str],
    *,
    ranges: Mapping[str, ExpectedRange | None] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> TrendChart:
    """A share of some audits; by their names ``links`` to their pages, expected ``ranges``, and ``kinds`` of alerts."""
    ranges, kinds = ranges or {}, kinds or {}
    times = [entry.moment for entry, _ in values]
    highs = (one.high for entry, _ in values if (one := ranges.get(entry.name)) is not None)
    top, step = _scale(max((*(value for _, value in values), *highs), default=0.0))
    marks = []
    for entry, value in values:
        expected = ranges.get(entry.name)
        y_of_range = None if expected is None else (_y(expected.high, top), _y(expected.low, top))
        marks.append(
            Mark(
                x=_x(entry.moment, times),
                y=_y(value, top),
                title=_title(entry, value, expected),
                kind=kinds.get(entry.name, ""),
                top=None if y_of_range is None else y_of_range[0],
                height=0.0 if y_of_range is None else max(round(y_of_range[1] - y_of_range[0], 1), 1.0),
                link=links.get(entry.name),
            )
        )
    lines = tuple((one.x, one.y, other.x, other.y) for one, other in pairwise(marks))
    grid = tuple((_y(number * step, top), _percent(number * step)) for number in range(5))
    band = round(min(60 / max(len(marks), 1), 2.4), 3)
    return TrendChart(heading, sub, tuple(marks), lines, grid, tuple(_dates(times)), band)


def _title(entry: AuditEntry, value: float, expected: ExpectedRange | None) -> str:
    when = f"{entry.moment:%Y-%m-%d %H:%M}"
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


MOST_DRAWN = 366
_MOST_VALUES = 6
_MOST_ALERTS = 100
_HEADER = ("date", "audit", "status", "rows", "claims", *WATCHED.values(), "failed gates")


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a list: when, which audit, where its page is, and what there is to say."""

    at: str
    when: str
    name: str
    link: str | None
    kind: str = ""
    text: str = ""
    status: str = ""
    bad: bool = False
    cells: tuple[str, ...] = ()


def history_page(root: Path, entries: Sequence[AuditEntry], output: Path) -> str:
    """The page of the audits in a folder, oldest first, as it will lie at ``output``: links are relative to there."""
    alerts = find_alerts(entries)
    links = {one.name: _link(root / one.name / "report.html", output) for one in entries if one.page}
    drawn = entries[-MOST_DRAWN:]
    done = [one for one in entries if one.is_done]
    moments = [f"{one.moment.astimezone(UTC):%d %B %Y}".lstrip("0") for one in (entries[0], entries[-1])]
    bins = timeline(_by_hour(entries), narrowest="day")
    style = page_assets.history_style()
    return page_assets.template("history.html.j2").render(
        title=root.resolve().name.encode("utf-8", "replace").decode() or "audits",
        span="Audits of " + " to ".join(dict.fromkeys(moments)),
        counted=", ".join(_counted(entries)),
        figures=tuple(_figures(entries, done[-1])) if done else (),
        last=done[-1].name if done else "",
        notes=tuple(_notes(entries, alerts)),
        alerts_meaning=_meaning(alerts),
        alerts=[_alert_row(one, links) for one in reversed(alerts[-_MOST_ALERTS:])],
        metric_charts=[*_metric_charts(entries, drawn, alerts, links)],
        stack=stack_chart(bins),
        stack_unit="an " + bins.unit if bins.unit == "hour" else "a " + bins.unit,
        columns=[*_column_charts(drawn, links)],
        header=_HEADER,
        rows=[_audit_row(one, links) for one in reversed(entries)],
        height=HEIGHT,
        csp=page_assets.security_policy(styles=[style]),
        style=Markup(style),
    )


def _link(page: Path, output: Path) -> str:
    return quote(os.path.relpath(page.absolute(), output.absolute().parent), errors="surrogateescape")


def _counted(entries: Sequence[AuditEntry]) -> Iterator[str]:
    counts = Counter(one.status for one in entries)
    yield f"{len(entries):,} audit{'s' * (len(entries) != 1)}"
    yield from (f"{count:,} {status}" for status, count in counts.most_common())


def _figures(entries: Sequence[AuditEntry], last: AuditEntry) -> Iterator[Figure]:
    place = entries.index(last)
    yield Figure("rows", "Rows", f"{last.rows:,}", f"{last.claims:,} claims")
    for metric, words in WATCHED.items():
        if (value := last.metrics.get(metric)) is None:
            continue
        expected = expected_ranges(entries[: place + 1], metric)[-1]
        change = None
        note = "nothing to hold it against"
        if expected is not None:
            note = f"{expected.low:.1%} to {expected.high:.1%} expected"
            change = Change("as expected", "neutral") if expected.holds(value) else _moved(value > expected.high)
        yield Figure(metric.removesuffix("_share"), words.capitalize(), f"{value:.1%}", note, change)


def _moved(up: bool) -> Change:
    return Change("more than expected", "worse") if up else Change("less than expected", "better")


def _notes(entries: Sequence[AuditEntry], alerts: Sequence[Alert]) -> Iterator[str]:
    if len(entries) > MOST_DRAWN:
        yield f"The drawings show the last {MOST_DRAWN} of {len(entries):,} audits; the bars and the table have all."
    if len(alerts) > _MOST_ALERTS:
        yield f"The last {_MOST_ALERTS} of {len(alerts):,} alerts are listed."
    lacking = sum(one.is_done and not one.errors for one in entries)
    if lacking:
        yield (
            f"{lacking:,} audits have no standard errors, so they are judged by how far the nights before lie from "
            "each other alone; the same attribeam audit command, run again, adds them."
        )


def _meaning(alerts: Sequence[Alert]) -> str:
    found = "None." if not alerts else "Newest first."
    return (
        f"{found} A share is an alert if it leaves the range that up to {BEFORE} finished audits before it let one "
        "expect: what 99.73% of unchanged shares would keep to, by chance or by how far these nights lie from each "
        "other, whichever is more. Failed gates, and audits that are damaged or not complete, are alerts too."
    )


def _alert_row(alert: Alert, links: Mapping[str, str]) -> _Row:
    entry = alert.entry
    at, when = _when(entry)
    return _Row(at, when, entry.name, links.get(entry.name), kind=alert.kind, text=alert.text)


def _audit_row(entry: AuditEntry, links: Mapping[str, str]) -> _Row:
    at, when = _when(entry)
    shares = (entry.metrics.get(metric) for metric in WATCHED)
    cells = (f"{entry.rows:,}", f"{entry.claims:,}", *("" if one is None else f"{one:.2%}" for one in shares))
    gates = "; ".join(entry.failed_gates)
    return _Row(
        at, when, entry.name, links.get(entry.name), status=entry.status, bad=not entry.is_done, cells=(*cells, gates)
    )


def _when(entry: AuditEntry) -> tuple[str, str]:
    moment = entry.moment.astimezone(UTC)
    return moment.isoformat(timespec="seconds"), f"{moment:%Y-%m-%d %H:%M}"


def _metric_charts(
    entries: Sequence[AuditEntry], drawn: Sequence[AuditEntry], alerts: Sequence[Alert], links: Mapping[str, str]
) -> Iterator[TrendChart]:
    for metric, words in WATCHED.items():
        values = [(one, one.metrics[metric]) for one in drawn if one.is_done and metric in one.metrics]
        if values:
            ranges = dict(zip((one.name for one in entries), expected_ranges(entries, metric), strict=True))
            kinds = {one.entry.name: one.kind for one in alerts if one.metric == metric}
            sub = "a point an audit, and the range where it was expected"
            yield _chart(words.capitalize(), sub, values, links, ranges=ranges, kinds=kinds)


def _by_hour(entries: Sequence[AuditEntry]) -> dict[datetime, SupportCounts]:
    hours: dict[datetime, SupportCounts] = {}
    for one in entries:
        if one.is_done and one.supports.spans:
            hour = one.moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            hours[hour] = hours.get(hour, SupportCounts()) + one.supports
    return hours


def _column_charts(entries: Sequence[AuditEntry], links: Mapping[str, str]) -> Iterator[tuple[str, list[TrendChart]]]:
    """For each column, the values with the most claims."""
    for column, values in column_values(entries).items():
        yield (
            column,
            [
                _chart(value or "none", f"{claims:,} claims in all", _values(entries, column, value), links)
                for value, claims in values
            ],
        )


def column_values(entries: Sequence[AuditEntry]) -> dict[str, list[tuple[str | None, int]]]:
    """The values with the most claims, and how many, for the generator and each carried column."""
    counts: dict[str, Counter[str | None]] = {}
    for entry in entries:
        for column, groups in entry.groups.items():
            counts.setdefault(column, Counter()).update({one.value: one.counts.spans for one in groups})
    return {column: values.most_common(_MOST_VALUES) for column, values in counts.items()}


def group_of(entry: AuditEntry, column: str, value: str | None) -> ShareGroup | None:
    """The claims of one value; None if the audit has none of it."""
    found = (one for one in entry.groups.get(column, ()) if one.value == value and one.counts.spans)
    return next(found, None)


def _values(entries: Sequence[AuditEntry], column: str, value: str | None) -> list[tuple[AuditEntry, float]]:
    found = ((one, group_of(one, column, value)) for one in entries)
    return [(one, group.counts.unsupported_share) for one, group in found if group is not None]
