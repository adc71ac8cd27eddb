"""Show what the audits in a folder found over time: a table, and a page with everything that moved."""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from rich.cells import cell_len

from attribeam.report.audit_history import (
    BEFORE,
    PAGE,
    READ_FILES,
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
from attribeam.report.messages import STANDARD_OUTPUT, as_private_as, check_output, one_line, write_lines
from attribeam.report.overview import SUPPORTS, SupportCounts, Timeline, timeline
from attribeam.schemas.errors import ExitCode, UsageError
from attribeam.schemas.files import check_apart

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

    Raises ``UsageError`` if the folder holds no audits, or the page cannot be written there; ``RunError`` if the folder
    cannot be read, or the page not written.
    """
    if arguments.output is not None:
        if arguments.output == STANDARD_OUTPUT:
            raise UsageError("--output should be a file for the page; the table goes to standard output")
        check_output(arguments.output)
        check_apart(arguments.output, (path / name for path in audit_folders(arguments.folder) for name in READ_FILES))
    entries = read_history(arguments.folder)
    if arguments.by is not None and arguments.by not in (known := _column_values(entries)):
        if known:
            raise UsageError(f"--by should be one of {', '.join(known)}, was: {arguments.by!r}")
        raise UsageError("--by needs audits that tell claims by generator or a carried column; these tell none")
    alerts = find_alerts(entries)
    if arguments.output is not None:
        with as_private_as(audit_folders(arguments.folder)):
            write_lines(arguments.output, [history_page(arguments.folder, entries, Path(arguments.output))])
    lines = (entry.to_json() for entry in entries) if arguments.jsonl else _lines(entries, alerts, arguments.by)
    write_lines(STANDARD_OUTPUT, (f"{line}\n" for line in lines))
    newest = any(alert.entry is entries[-1] and alert.kind != "better" for alert in alerts)
    return ExitCode.GATE_FAILED if newest and arguments.fail_on_alert else ExitCode.DONE


def _lines(entries: Sequence[AuditEntry], alerts: Sequence[Alert], column: str | None) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [_HEADER]
    for entry in entries:
        gates = f"{len(entry.failed_gates)} failed" if entry.failed_gates else ""
        rows.append((entry.when, entry.name, entry.status, *_figure_cells(entry, digits=1), gates))
    yield from _aligned(rows)
    if column is not None:
        values = [value for value, _ in _column_values(entries)[column]]
        rows = [("date (UTC)", "audit", "", *("none" if value is None else value for value in values))]
        for entry in entries:
            shares = (_unsupported_share(entry, column, value) for value in values)
            rows.append((entry.when, entry.name, "", *("" if share is None else f"{share:.1%}" for share in shares)))
        yield f"\nunsupported claims by {one_line(column)}"
        yield from _aligned(rows)
    if alerts:
        shown = alerts[-_MOST_ALERTS:]
        yield f"\nalerts, the last {len(shown)} of {len(alerts):,}"
        yield from (f"{alert.entry.when}  {one_line(alert.entry.name)}: {one_line(alert.text)}" for alert in shown)


def _figure_cells(entry: AuditEntry, *, digits: int) -> Iterator[str]:
    """Rows, claims, and the shares that are watched in per cent, empty where there is none."""
    yield from (f"{entry.rows:,}", f"{entry.claims:,}")
    for metric in WATCHED:
        yield f"{entry.metrics[metric]:.{digits}%}" if metric in entry.metrics else ""


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side: the first three begin, the others end together."""
    harmless = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*harmless, strict=True)]
    for row in harmless:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = zip(row, gaps, strict=True)
        yield "  ".join(cell + gap if index < 3 else gap + cell for index, (cell, gap) in enumerate(cells)).rstrip()


def _column_values(entries: Sequence[AuditEntry]) -> dict[str, list[tuple[str | None, int]]]:
    """The values with the most claims, and how many, for the generator and each carried column."""
    counts: defaultdict[str, Counter[str | None]] = defaultdict(Counter)
    for entry in entries:
        for column, groups in entry.groups.items():
            counts[column].update({group.value: group.counts.spans for group in groups})
    return {column: values.most_common(_MOST_VALUES) for column, values in counts.items()}


def _unsupported_share(entry: AuditEntry, column: str, value: str | None) -> float | None:
    """That of the claims of one value; None if the audit has none of it."""
    groups = (group.counts for group in entry.groups.get(column, ()) if group.value == value and group.counts.spans)
    return next((counts.unsupported_share for counts in groups), None)


# The page's drawings are plain SVG, so it needs no script: x is in percent, y in pixels.

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
    folder = output.absolute().parent
    pages = {entry.name: (root / entry.name / PAGE).absolute() for entry in entries if entry.page}
    links = {name: quote(os.path.relpath(page, folder), errors="surrogateescape") for name, page in pages.items()}
    drawn = entries[-MOST_DRAWN:]
    done = [entry for entry in entries if entry.is_done]
    moments = [f"{entry.moment.astimezone(UTC):%d %B %Y}".lstrip("0") for entry in (entries[0], entries[-1])]
    statuses = Counter(entry.status for entry in entries).most_common()
    counted = [f"{len(entries):,} audit{'s' * (len(entries) != 1)}", *(f"{count:,} {word}" for word, count in statuses)]
    bins = timeline(_by_hour(entries), narrowest="day")
    style = asset("assets/1_base.css", "assets/2_overview.css", "assets/history.css")
    return template("history.html.j2").render(
        title=root.resolve().name.encode("utf-8", "replace").decode() or "audits",
        span="Audits of " + " to ".join(dict.fromkeys(moments)),
        counted=", ".join(counted),
        figures=tuple(_figures(entries, done[-1])) if done else (),
        last=done[-1].name if done else "",
        notes=tuple(_notes(entries, alerts)),
        nights_before=BEFORE,
        alerts=[
            {**_row(row.entry, links), "kind": row.kind, "text": row.text} for row in reversed(alerts[-_MOST_LISTED:])
        ],
        metric_charts=[*_metric_charts(entries, drawn, alerts, links)],
        stack=_stack_chart(bins),
        stack_unit=f"a {bins.unit}",
        columns=[*_column_charts(drawn, links)],
        header=("date", "audit", "status", "rows", "claims", *WATCHED.values(), "failed gates"),
        rows=[
            {**_row(entry, links), "cells": (*_figure_cells(entry, digits=2), "; ".join(entry.failed_gates))}
            for entry in reversed(entries)
        ],
        height=HEIGHT,
        csp=security_policy(styles=[style]),
        style=Markup(style),
    )


def _figures(entries: Sequence[AuditEntry], last: AuditEntry) -> Iterator[Figure]:
    yield Figure("rows", "Rows", f"{last.rows:,}", f"{last.claims:,} claims")
    for metric, words in WATCHED.items():
        if (value := last.metrics.get(metric)) is None:
            continue
        expected = expected_ranges(entries[: entries.index(last) + 1], metric)[-1]
        change, note = None, "nothing to hold it against"
        if expected is not None:
            note, change = f"{expected.low:.1%} to {expected.high:.1%} expected", Change("as expected", "neutral")
            if not expected.holds(value):
                more = value > expected.high
                change = Change("more than expected", "worse") if more else Change("less than expected", "better")
        yield Figure(metric.removesuffix("_share"), words.capitalize(), f"{value:.1%}", note, change)


def _notes(entries: Sequence[AuditEntry], alerts: Sequence[Alert]) -> Iterator[str]:
    if len(entries) > MOST_DRAWN:
        yield f"The drawings show the last {MOST_DRAWN} of {len(entries):,} audits; the bars and the table have all."
    if len(alerts) > _MOST_LISTED:
        yield f"The last {_MOST_LISTED} of {len(alerts):,} alerts are listed."
    if lacking := sum(entry.is_done and not entry.errors for entry in entries):
        yield (
            f"{lacking:,} audits have no standard errors, so they are judged by how far the nights before lie from "
            "each other alone; the same attribeam audit command, run again, adds them."
        )


def _row(entry: AuditEntry, links: Mapping[str, str]) -> dict[str, object]:
    """When, which audit, where its page is, and its status: the start of a line of a list."""
    at = entry.moment.astimezone(UTC).isoformat(timespec="seconds")
    status = {"status": entry.status, "bad": not entry.is_done}
    return {"at": at, "when": entry.when, "name": entry.name, "link": links.get(entry.name), **status}


def _metric_charts(
    entries: Sequence[AuditEntry], drawn: Sequence[AuditEntry], alerts: Sequence[Alert], links: Mapping[str, str]
) -> Iterator[_Chart]:
    for metric, words in WATCHED.items():
        values = [(entry, entry.metrics[metric]) for entry in drawn if entry.is_done and metric in entry.metrics]
        if values:
            ranges = dict(zip((entry.name for entry in entries), expected_ranges(entries, metric), strict=True))
            kinds = {alert.entry.name: alert.kind for alert in alerts if alert.metric == metric}
            sub = "a point an audit, and the range where it was expected"
            yield _trend(words.capitalize(), sub, values, links, ranges, kinds)


def _column_charts(entries: Sequence[AuditEntry], links: Mapping[str, str]) -> Iterator[tuple[str, list[_Chart]]]:
    for column, values in _column_values(entries).items():
        charts = []
        for value, claims in values:
            shares = [(entry, _unsupported_share(entry, column, value)) for entry in entries]
            known = [(entry, share) for entry, share in shares if share is not None]
            charts.append(_trend(value or "none", f"{claims:,} claims in all", known, links, {}, {}))
        yield column, charts


def _trend(
    heading: str,
    sub: str,
    values: Sequence[tuple[AuditEntry, float]],
    links: Mapping[str, str],
    ranges: Mapping[str, ExpectedRange | None],
    kinds: Mapping[str, str],
) -> _Chart:
    """A share of some audits; by their names ``links`` to their pages, expected ``ranges``, and ``kinds`` of alerts."""
    times = [entry.moment for entry, _ in values]
    width = (times[-1] - times[0]).total_seconds() if times else 0.0
    highs = (band.high for entry, _ in values if (band := ranges.get(entry.name)) is not None)
    largest = max((*(value for _, value in values), *highs), default=0.0)
    step = next((step for step in _STEPS if largest <= 4 * step), _STEPS[-1])
    marks = []
    for entry, value in values:
        x = _across((entry.moment - times[0]).total_seconds() / width if width else 0.5)
        title = f"{entry.name}, {entry.moment:%Y-%m-%d %H:%M}: {value:.2%}"
        box: dict[str, float | None] = {"top": None, "height": 0.0}
        if (expected := ranges.get(entry.name)) is not None:
            title += f", expected {expected.low:.2%} to {expected.high:.2%}"
            high, low = _y(expected.high, 4 * step), _y(expected.low, 4 * step)
            box = {"top": high, "height": max(round(low - high, 1), 1.0)}
        mark = {"x": x, "y": _y(value, 4 * step), "title": title, **box}
        marks.append({**mark, "kind": kinds.get(entry.name, ""), "link": links.get(entry.name)})
    return {
        "heading": heading,
        "sub": sub,
        "marks": marks,
        "lines": [(left["x"], left["y"], right["x"], right["y"]) for left, right in pairwise(marks)],
        "grid": _grid(step),
        "dates": [*_dates(times)],
        "band": round(min(60 / max(len(marks), 1), 2.4), 3),
    }


def _grid(step: float) -> list[tuple[float, str]]:
    return [(_y(number * step, 4 * step), f"{100 * number * step:.4g}%") for number in range(5)]


def _y(share: float, top: float) -> float:
    return round(_TOP + (1 - share / top) * (HEIGHT - _TOP), 1)


def _across(part: float) -> float:
    return round(_INSET + part * (100 - 2 * _INSET), 3)


def _dates(times: Sequence[datetime]) -> Iterator[tuple[float, str, str]]:
    """Up to four dates, those of the first and the last audit among them."""
    if times and times[0] == times[-1]:
        yield 50.0, "middle", f"{times[0]:%d %b %Y}"
    elif times:
        for number, anchor in enumerate(("start", *["middle"] * (_MOST_LABELS - 2), "end")):
            part = number / (_MOST_LABELS - 1)
            yield _across(part), anchor, f"{times[0] + (times[-1] - times[0]) * part:%d %b %Y}"


def _by_hour(entries: Sequence[AuditEntry]) -> dict[datetime, SupportCounts]:
    hours: defaultdict[datetime, SupportCounts] = defaultdict(SupportCounts)
    for entry in entries:
        if entry.is_done and entry.supports.spans:
            hours[entry.moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)] += entry.supports
    return hours


def _stack_chart(bins: Timeline) -> _Chart:
    """Each bin's shares by support, on a scale of 100%, the unsupported ones at the bottom.

    ``bars`` are (support, x, width, y, height, title).
    """
    starts = [datetime.fromisoformat(time_bin.start) for time_bin in bins.bins]
    gap = min((later - earlier for earlier, later in pairwise(starts)), default=None)
    bars: list[tuple[str, float, float, float, float, str]] = []
    for start, time_bin in zip(starts, bins.bins, strict=True):
        x, width = 25.0, 50.0
        if gap is not None:
            total = starts[-1] + gap - starts[0]
            x, width = 100 * ((start - starts[0]) / total), 100 * (gap / total)
        label = f"{'week of ' * (bins.unit == 'week')}{start:%Y-%m-%d}"
        below = 0.0
        for support in reversed(SUPPORTS):
            number = int(getattr(time_bin.counts, support))
            share = number / time_bin.counts.spans if time_bin.counts.spans else 0.0
            height = round(share * (HEIGHT - _TOP), 1)
            title = f"{label}: {number:,} {support}, {share:.1%}"
            bar = (round(x + width * 0.08, 3), round(width * 0.84, 3), round(HEIGHT - below - height, 1), height, title)
            below += height
            if height:
                bars.append((support, *bar))
    return {"bars": bars, "grid": _grid(0.25), "dates": [*_dates(starts)]}
