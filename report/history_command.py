"""Show what the audits in a folder found over time: a table, and a page with everything that moved."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from rich.cells import cell_len

from attribeam.report.audit_history import (
    BEFORE,
    WATCHED,
    Alert,
    AuditEntry,
    ExpectedRange,
    audit_folders,
    expected_ranges,
    find_alerts,
    read_history,
)
from attribeam.report.audit_summary import Change, Figure
from attribeam.report.html_page import asset, security_policy, template
from attribeam.report.messages import one_line
from attribeam.report.output_file import STANDARD_OUTPUT, as_private_as, check_output, write_lines
from attribeam.report.overview import SUPPORTS, ShareGroup, SupportCounts, Timeline, timeline
from attribeam.schemas.errors import ExitCode, UsageError

_HEADER = ("date (UTC)", "audit", "status", "rows", "claims", "unsup.", "weak", "at risk", "risk", "dead", "gates")
_MOST_ALERTS = 20
_MOST_VALUES = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam history``."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder that holds the audits' output directories")
    parser.add_argument("--output", metavar="FILE", help="write a page there, such as DIR/history.html")
    parser.add_argument("--by", metavar="COLUMN", help="also print unsupported claims by generator or a carried column")
    parser.add_argument("--jsonl", action="store_true", help="print one JSON object an audit instead of the table")
    parser.add_argument(
        "--fail-on-alert", action="store_true", help="exit code 3 if there is an alert about the newest audit"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the table, and write the page if one is asked for.

    Raises:
        UsageError: if the folder holds no audits, or the page cannot be written there.
        RunError: if the folder cannot be read, or the page not written.
    """
    if arguments.output is not None:
        if arguments.output == STANDARD_OUTPUT:
            raise UsageError("--output should be a file for the page; the table goes to standard output")
        check_output(arguments.output)
    entries = read_history(arguments.folder)
    if arguments.by is not None:
        _check_column(entries, arguments.by)
    alerts = find_alerts(entries)
    if arguments.output is not None:
        with as_private_as(audit_folders(arguments.folder)):
            write_lines(arguments.output, [history_page(arguments.folder, entries, Path(arguments.output))])
    lines = (one.to_json() for one in entries) if arguments.jsonl else _lines(entries, alerts, arguments.by)
    write_lines(STANDARD_OUTPUT, (f"{line}\n" for line in lines))
    newest = any(one.entry is entries[-1] and one.kind != "better" for one in alerts)
    return ExitCode.GATE_FAILED if newest and arguments.fail_on_alert else ExitCode.DONE


def _check_column(entries: Sequence[AuditEntry], column: str) -> None:
    if (known := _column_values(entries)) and column not in known:
        raise UsageError(f"--by should be one of {', '.join(known)}, was: {column!r}")
    if not known:
        raise UsageError("--by needs audits that tell claims by generator or a carried column; these tell none")


def _lines(entries: Sequence[AuditEntry], alerts: Sequence[Alert], column: str | None) -> Iterator[str]:
    yield from _aligned([_HEADER, *map(_cells, entries)])
    if column is not None:
        values = [value for value, _ in _column_values(entries)[column]]
        heads = tuple("none" if value is None else value for value in values)
        yield f"\nunsupported claims by {one_line(column)}"
        yield from _aligned([("date (UTC)", "audit", "", *heads), *(_by(one, column, values) for one in entries)])
    if alerts:
        shown = alerts[-_MOST_ALERTS:]
        yield f"\nalerts, the last {len(shown)} of {len(alerts):,}"
        for one in shown:
            yield f"{_when(one.entry)}  {one_line(one.entry.name)}: {one_line(one.text)}"


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    gates = f"{len(entry.failed_gates)} failed" if entry.failed_gates else ""
    return (_when(entry), entry.name, entry.status, *_figure_cells(entry, digits=1), gates)


def _figure_cells(entry: AuditEntry, *, digits: int) -> Iterator[str]:
    """Rows, claims, and the shares that are watched in per cent, empty where there is none."""
    yield from (f"{entry.rows:,}", f"{entry.claims:,}")
    for metric in WATCHED:
        yield f"{entry.metrics[metric]:.{digits}%}" if metric in entry.metrics else ""


def _by(entry: AuditEntry, column: str, values: Sequence[str | None]) -> tuple[str, ...]:
    groups = (_group_of(entry, column, value) for value in values)
    shares = ("" if one is None else f"{one.counts.unsupported_share:.1%}" for one in groups)
    return (_when(entry), entry.name, "", *shares)


def _when(entry: AuditEntry) -> str:
    return f"{entry.moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side: the first three begin, the others end together."""
    harmless = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*harmless, strict=True)]
    for row in harmless:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        begun = [cell + gap for cell, gap in zip(row[:3], gaps, strict=False)]
        ended = [gap + cell for cell, gap in zip(row[3:], gaps[3:], strict=True)]
        yield "  ".join([*begun, *ended]).rstrip()


def _column_values(entries: Sequence[AuditEntry]) -> dict[str, list[tuple[str | None, int]]]:
    """The values with the most claims, and how many, for the generator and each carried column."""
    counts: dict[str, Counter[str | None]] = {}
    for entry in entries:
        for column, groups in entry.groups.items():
            counts.setdefault(column, Counter()).update({one.value: one.counts.spans for one in groups})
    return {column: values.most_common(_MOST_VALUES) for column, values in counts.items()}


def _group_of(entry: AuditEntry, column: str, value: str | None) -> ShareGroup | None:
    """The claims of one value; None if the audit has none of it."""
    found = (one for one in entry.groups.get(column, ()) if one.value == value and one.counts.spans)
    return next(found, None)


# The page's drawings are plain SVG, so it needs no script: places across are in percent, down in pixels.

HEIGHT = 170
MOST_DRAWN = 366
_TOP = 10
_MOST_LABELS = 4
_INSET = 1.5
_MOST_LISTED = 100
_STEPS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25)
"""Between the lines of a scale."""

_Chart = Mapping[str, object]
"""What the template draws: ``grid`` is (y, label), ``dates`` are (x, anchor, label)."""


def history_page(root: Path, entries: Sequence[AuditEntry], output: Path) -> str:
    """The page of the audits in a folder, oldest first, as it will lie at ``output``: links are relative to there."""
    alerts = find_alerts(entries)
    links = {one.name: _link(root / one.name / "report.html", output) for one in entries if one.page}
    drawn = entries[-MOST_DRAWN:]
    done = [one for one in entries if one.is_done]
    moments = [f"{one.moment.astimezone(UTC):%d %B %Y}".lstrip("0") for one in (entries[0], entries[-1])]
    bins = timeline(_by_hour(entries), narrowest="day")
    style = asset("assets/1_base.css", "assets/2_overview.css", "assets/history.css")
    return template("history.html.j2").render(
        title=root.resolve().name.encode("utf-8", "replace").decode() or "audits",
        span="Audits of " + " to ".join(dict.fromkeys(moments)),
        counted=", ".join(_counted(entries)),
        figures=tuple(_figures(entries, done[-1])) if done else (),
        last=done[-1].name if done else "",
        notes=tuple(_notes(entries, alerts)),
        nights_before=BEFORE,
        alerts=[
            {**_row(one.entry, links), "kind": one.kind, "text": one.text} for one in reversed(alerts[-_MOST_LISTED:])
        ],
        metric_charts=[*_metric_charts(entries, drawn, alerts, links)],
        stack=_stack_chart(bins),
        stack_unit=f"a {bins.unit}",
        columns=[*_column_charts(drawn, links)],
        header=("date", "audit", "status", "rows", "claims", *WATCHED.values(), "failed gates"),
        rows=[_audit_row(one, links) for one in reversed(entries)],
        height=HEIGHT,
        csp=security_policy(styles=[style]),
        style=Markup(style),
    )


def _link(page: Path, output: Path) -> str:
    return quote(os.path.relpath(page.absolute(), output.absolute().parent), errors="surrogateescape")


def _counted(entries: Sequence[AuditEntry]) -> Iterator[str]:
    yield f"{len(entries):,} audit{'s' * (len(entries) != 1)}"
    yield from (f"{count:,} {status}" for status, count in Counter(one.status for one in entries).most_common())


def _figures(entries: Sequence[AuditEntry], last: AuditEntry) -> Iterator[Figure]:
    yield Figure("rows", "Rows", f"{last.rows:,}", f"{last.claims:,} claims")
    for metric, words in WATCHED.items():
        if (value := last.metrics.get(metric)) is None:
            continue
        expected = expected_ranges(entries[: entries.index(last) + 1], metric)[-1]
        change, note = None, "nothing to hold it against"
        if expected is not None:
            note, change = f"{expected.low:.1%} to {expected.high:.1%} expected", _change(value, expected)
        yield Figure(metric.removesuffix("_share"), words.capitalize(), f"{value:.1%}", note, change)


def _change(value: float, expected: ExpectedRange) -> Change:
    if expected.holds(value):
        return Change("as expected", "neutral")
    return Change("more than expected", "worse") if value > expected.high else Change("less than expected", "better")


def _notes(entries: Sequence[AuditEntry], alerts: Sequence[Alert]) -> Iterator[str]:
    if len(entries) > MOST_DRAWN:
        yield f"The drawings show the last {MOST_DRAWN} of {len(entries):,} audits; the bars and the table have all."
    if len(alerts) > _MOST_LISTED:
        yield f"The last {_MOST_LISTED} of {len(alerts):,} alerts are listed."
    lacking = sum(one.is_done and not one.errors for one in entries)
    if lacking:
        yield (
            f"{lacking:,} audits have no standard errors, so they are judged by how far the nights before lie from "
            "each other alone; the same attribeam audit command, run again, adds them."
        )


def _row(entry: AuditEntry, links: Mapping[str, str]) -> dict[str, object]:
    """When, which audit, and where its page is: the start of a line of a list."""
    at = entry.moment.astimezone(UTC).isoformat(timespec="seconds")
    return {"at": at, "when": _when(entry), "name": entry.name, "link": links.get(entry.name)}


def _audit_row(entry: AuditEntry, links: Mapping[str, str]) -> dict[str, object]:
    cells = (*_figure_cells(entry, digits=2), "; ".join(entry.failed_gates))
    return {**_row(entry, links), "status": entry.status, "bad": not entry.is_done, "cells": cells}


def _metric_charts(
    entries: Sequence[AuditEntry], drawn: Sequence[AuditEntry], alerts: Sequence[Alert], links: Mapping[str, str]
) -> Iterator[_Chart]:
    for metric, words in WATCHED.items():
        values = [(one, one.metrics[metric]) for one in drawn if one.is_done and metric in one.metrics]
        if values:
            ranges = dict(zip((one.name for one in entries), expected_ranges(entries, metric), strict=True))
            kinds = {one.entry.name: one.kind for one in alerts if one.metric == metric}
            sub = "a point an audit, and the range where it was expected"
            yield _trend(words.capitalize(), sub, values, links, ranges, kinds)


def _column_charts(entries: Sequence[AuditEntry], links: Mapping[str, str]) -> Iterator[tuple[str, list[_Chart]]]:
    """For each column, the values with the most claims."""
    for column, values in _column_values(entries).items():
        charts = []
        for value, claims in values:
            groups = [(one, _group_of(one, column, value)) for one in entries]
            shares = [(one, group.counts.unsupported_share) for one, group in groups if group is not None]
            charts.append(_trend(value or "none", f"{claims:,} claims in all", shares, links))
        yield column, charts


def _trend(
    heading: str,
    sub: str,
    values: Sequence[tuple[AuditEntry, float]],
    links: Mapping[str, str],
    ranges: Mapping[str, ExpectedRange | None] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> _Chart:
    """A share of some audits; by their names ``links`` to their pages, expected ``ranges``, and ``kinds`` of alerts."""
    ranges, kinds = ranges or {}, kinds or {}
    times = [entry.moment for entry, _ in values]
    highs = (one.high for entry, _ in values if (one := ranges.get(entry.name)) is not None)
    largest = max((*(value for _, value in values), *highs), default=0.0)
    step = next((step for step in _STEPS if largest <= 4 * step), _STEPS[-1])
    points = [(_x(entry.moment, times), _y(value, 4 * step)) for entry, value in values]
    marks = [
        {
            "x": x,
            "y": y,
            "title": _title(entry, value, ranges.get(entry.name)),
            "kind": kinds.get(entry.name, ""),
            "link": links.get(entry.name),
            **_range_box(ranges.get(entry.name), 4 * step),
        }
        for (x, y), (entry, value) in zip(points, values, strict=True)
    ]
    return {
        "heading": heading,
        "sub": sub,
        "marks": marks,
        "lines": [(*one, *other) for one, other in pairwise(points)],
        "grid": _grid(step),
        "dates": [*_dates(times)],
        "band": round(min(60 / max(len(marks), 1), 2.4), 3),
    }


def _range_box(expected: ExpectedRange | None, top: float) -> dict[str, float | None]:
    """Top and height of the box that shows where a share was expected."""
    if expected is None:
        return {"top": None, "height": 0.0}
    high, low = _y(expected.high, top), _y(expected.low, top)
    return {"top": high, "height": max(round(low - high, 1), 1.0)}


def _title(entry: AuditEntry, value: float, expected: ExpectedRange | None) -> str:
    by = "" if expected is None else f", expected {expected.low:.2%} to {expected.high:.2%}"
    return f"{entry.name}, {entry.moment:%Y-%m-%d %H:%M}: {value:.2%}{by}"


def _grid(step: float) -> list[tuple[float, str]]:
    """The five lines of a scale."""
    return [(_y(number * step, 4 * step), f"{100 * number * step:.4g}%") for number in range(5)]


def _y(share: float, top: float) -> float:
    return round(_TOP + (1 - share / top) * (HEIGHT - _TOP), 1)


def _x(moment: datetime, times: Sequence[datetime]) -> float:
    width = (times[-1] - times[0]).total_seconds()
    return _across((moment - times[0]).total_seconds() / width if width else 0.5)


def _across(part: float) -> float:
    return round(_INSET + part * (100 - 2 * _INSET), 3)


def _dates(times: Sequence[datetime]) -> Iterator[tuple[float, str, str]]:
    """Up to four dates, those of the first and the last audit among them."""
    if not times:
        return
    if times[0] == times[-1]:
        yield 50.0, "middle", f"{times[0]:%d %b %Y}"
        return
    for number, anchor in enumerate(("start", *["middle"] * (_MOST_LABELS - 2), "end")):
        part = number / (_MOST_LABELS - 1)
        yield _across(part), anchor, f"{times[0] + (times[-1] - times[0]) * part:%d %b %Y}"


def _by_hour(entries: Sequence[AuditEntry]) -> dict[datetime, SupportCounts]:
    hours: dict[datetime, SupportCounts] = {}
    for one in entries:
        if one.is_done and one.supports.spans:
            hour = one.moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            hours[hour] = hours.get(hour, SupportCounts()) + one.supports
    return hours


def _stack_chart(bins: Timeline) -> _Chart:
    """Each bin's shares by support, on a scale of 100%, the unsupported ones at the bottom.

    ``bars`` are (support, x, width, y, height, title).
    """
    starts = [datetime.fromisoformat(one.start) for one in bins.bins]
    gap = min((later - one for one, later in pairwise(starts)), default=None)
    bars: list[tuple[str, float, float, float, float, str]] = []
    for start, one in zip(starts, bins.bins, strict=True):
        x, width = 25.0, 50.0
        if gap is not None:
            total = starts[-1] + gap - starts[0]
            x, width = 100 * ((start - starts[0]) / total), 100 * (gap / total)
        label = f"{'week of ' * (bins.unit == 'week')}{start:%Y-%m-%d}"
        bars.extend(_bar_parts(one.counts, round(x + width * 0.08, 3), round(width * 0.84, 3), label))
    return {"bars": bars, "grid": _grid(0.25), "dates": [*_dates(starts)]}


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
