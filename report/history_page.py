"""Renders the page over several audits: shares over time, what moved, by generator, and every audit in a table.

The page needs no script, so it holds none.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from attribeam.report import page_assets
from attribeam.report.audit_history import AuditEntry
from attribeam.report.audit_summary import Change, Figure
from attribeam.report.history_alerts import BEFORE, WATCHED, Alert, expected_ranges, find_alerts
from attribeam.report.history_chart import HEIGHT, Trend, TrendChart, metric_chart, plain_chart, stack_chart
from attribeam.report.support_distribution import ShareGroup, SupportCounts, timeline

MOST_DRAWN = 366
_MOST_VALUES = 6
_MOST_ALERTS = 100
_HEADER = ("started", "audit", "status", "rows", "claims", *WATCHED.values(), "failed gates")


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
    moments = [f"{one.started_at.astimezone(UTC):%d %B %Y}".lstrip("0") for one in (entries[0], entries[-1])]
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
    moment = entry.started_at.astimezone(UTC)
    return moment.isoformat(timespec="seconds"), f"{moment:%Y-%m-%d %H:%M}"


def _metric_charts(
    entries: Sequence[AuditEntry], drawn: Sequence[AuditEntry], alerts: Sequence[Alert], links: Mapping[str, str]
) -> Iterator[TrendChart]:
    for metric, words in WATCHED.items():
        values = [(one, one.metrics[metric]) for one in drawn if one.is_done and metric in one.metrics]
        if values:
            trend = Trend(words.capitalize(), "a point an audit, and the range where it was expected", values)
            yield metric_chart(trend, metric, entries, alerts, links)


def _by_hour(entries: Sequence[AuditEntry]) -> dict[datetime, SupportCounts]:
    hours: dict[datetime, SupportCounts] = {}
    for one in entries:
        if one.is_done and one.supports.spans:
            hour = one.started_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            hours[hour] = hours.get(hour, SupportCounts()) + one.supports
    return hours


def _column_charts(entries: Sequence[AuditEntry], links: Mapping[str, str]) -> Iterator[tuple[str, list[TrendChart]]]:
    """For each column, the values with the most claims."""
    for column, values in column_values(entries).items():
        trends = [
            Trend("none" if value is None else value, f"{claims:,} claims in all", _values(entries, column, value))
            for value, claims in values
        ]
        yield column, [plain_chart(trend, links) for trend in trends]


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
