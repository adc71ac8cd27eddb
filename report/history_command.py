"""What the audits of a folder found, in the order of their answers' times: a table, and a page with all that moved.

Something has moved where a share lies out of its range. Only small files are read and no evidence, so hundreds of
audits are read in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, pairwise
from math import sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import Annotated
from urllib.parse import quote

from markupsafe import Markup
from pydantic import Field
from rich.cells import cell_len

from attribeam.report.audit_directory import RUN_MANIFEST
from attribeam.report.audit_summary import Change, Figure
from attribeam.report.html_page import asset, security_policy, template
from attribeam.report.messages import STANDARD_OUTPUT, as_private_as, check_output, one_line, write_lines
from attribeam.report.overview import SUPPORTS, ShareGroup, SupportCounts, Timeline, timeline
from attribeam.schemas import VERDICTS
from attribeam.schemas.errors import ExitCode, RunError, SchemaVersionError, UsageError
from attribeam.schemas.files import check_apart
from attribeam.schemas.run_manifest import (
    Count,
    FiniteNumber,
    Moment,
    RunManifest,
    RunStatus,
    Share,
    read_json,
    utc_moment,
)

DAMAGED = "damaged"
"""The status of an audit whose manifest cannot be read."""
_MARKER = "_attribeam"
PAGE = "report.html"
_METRICS = "metrics.json"
READ_FILES = (RUN_MANIFEST, _METRICS)
_DATE = re.compile(r"(?<!\d)(20\d\d)(?:[-_]?|/(?:month=)?)([01]\d)(?:[-_]?|/(?:day=)?)([0-3]\d)(?!\d)")
_LATEST = datetime(2999, 12, 31, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What one audit found.

    Attributes:
        name: of its folder, as far as it can be written as text.
        moment: when its answers were given, as ``metrics.json`` tells, else the last date in the paths of its inputs or
            in its own name, else when its last run started; of a damaged audit, when its files were last written.
        note: what is wrong with its files.
        metrics: shares by the names of ``--fail-if``, and their standard ``errors``, as far as they are known.
        groups: claims by support for the values of the generator and of carried columns.
    """

    name: str
    moment: datetime
    status: str
    note: str = ""
    rows: int = 0
    claims: int = 0
    supports: SupportCounts = field(default_factory=SupportCounts)
    metrics: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, tuple[ShareGroup, ...]] = field(default_factory=dict)
    failed_gates: tuple[str, ...] = ()
    configuration: str = ""
    page: bool = False

    @property
    def is_done(self) -> bool:
        """Whether its figures are those of all its rows."""
        return self.status == RunStatus.DONE

    @property
    def when(self) -> str:
        """Day and minute in UTC."""
        return f"{self.moment.astimezone(UTC):%Y-%m-%d %H:%M}"

    def to_json(self) -> str:
        """This entry on one line."""
        fields = asdict(self) | {"moment": self.moment.isoformat()}
        return json.dumps(fields, ensure_ascii=True, allow_nan=False)


def audit_folders(root: Path) -> list[Path]:
    """The audits right below a folder, whole or not, by name; links and hidden folders are passed over.

    Raises ``UsageError`` if it is no folder, or itself an audit; ``RunError`` if it cannot be read.
    """

    def is_audit(folder: Path) -> bool:
        return (folder / _MARKER).is_file() or (folder / RUN_MANIFEST).is_file()

    if not root.is_dir():
        raise UsageError(f"expected a folder that holds audits, there is no folder {str(root)!r}")
    if is_audit(root):
        raise UsageError(f"{str(root)!r} is one audit; name the folder that holds the audits, such as its parent")
    try:
        return sorted(
            path for path in root.iterdir() if not path.is_symlink() and path.name[0] != "." and is_audit(path)
        )
    except OSError as error:
        raise RunError(f"{str(root)!r} cannot be read: {error}") from error


def read_history(root: Path) -> list[AuditEntry]:
    """What ``audit_folders`` found, oldest first; ``UsageError`` if there is none."""
    entries = sorted(map(read_entry, audit_folders(root)), key=lambda entry: (entry.moment, entry.name))
    if not entries:
        raise UsageError(f"expected a folder that holds audits, {str(root)!r} holds none")
    return entries


def read_entry(folder: Path) -> AuditEntry:
    """What an audit found; one whose manifest cannot be read is ``DAMAGED``."""
    name = folder.name.encode("utf-8", "replace").decode()
    try:
        manifest = RunManifest.from_json(_content(folder / RUN_MANIFEST), RUN_MANIFEST)
    except (OSError, ValueError) as error:
        reason = "it has no run_manifest.json" if isinstance(error, FileNotFoundError) else "it cannot be read"
        note = str(error) if isinstance(error, SchemaVersionError) else f"run_manifest.json: {reason}"
        # When it was last written to, as far as its two files tell.
        times = [path.stat().st_mtime for path in (folder / RUN_MANIFEST, folder / _MARKER) if path.is_file()]
        written = datetime.fromtimestamp(max(0, min(max(times, default=0), _LATEST)), UTC)
        return AuditEntry(name, written, DAMAGED, note)
    counts = manifest.counts
    shares = {"dead_letter_share": counts.dead_lettered / counts.rows} if counts.rows else {}
    if counts.claim_count:
        shares |= {f"{support}_share": counts.claims.get(support, 0) / counts.claim_count for support in VERDICTS}
    entry = AuditEntry(
        name=name,
        moment=_last_date(log.path for log in manifest.inputs) or _last_date([name]) or utc_moment(manifest.started_at),
        status=str(manifest.status),
        rows=counts.rows,
        claims=counts.claim_count,
        supports=SupportCounts(*(counts.claims.get(support, 0) for support in VERDICTS)),
        metrics=shares,
        configuration=manifest.configuration,
        page=(folder / PAGE).is_file() and name == folder.name,
    )
    return _with_metrics(entry, folder, manifest) if entry.is_done else entry


def _last_date(paths: Iterable[str]) -> datetime | None:
    """The last of the days that paths name, such as ``date=2026-11-19``, ``20261119`` or ``2026/11/19``."""
    days = []
    for digits in chain.from_iterable(map(_DATE.findall, paths)):
        with suppress(ValueError):
            year, month, day = map(int, digits)
            days.append(datetime(year, month, day, tzinfo=UTC))
    return max(days, default=None)


def _with_metrics(entry: AuditEntry, folder: Path, manifest: RunManifest) -> AuditEntry:
    try:
        facts = read_json(_Metrics, _content(folder / _METRICS), extra="ignore")
    except FileNotFoundError:
        return replace(entry, note="it has no metrics.json")
    except (OSError, ValueError):
        return replace(entry, note="metrics.json cannot be read")
    if facts.started_at != manifest.started_at:
        return replace(entry, note="metrics.json is of another run")
    return replace(
        entry,
        moment=entry.moment if facts.answered_at is None else utc_moment(facts.answered_at),
        metrics={**entry.metrics, **{name: risk for name, risk in asdict(facts.metrics).items() if risk is not None}},
        errors=facts.standard_errors,
        groups={column: tuple(map(_share_group, groups)) for column, groups in facts.groups.items()},
        failed_gates=tuple(str(gate) for gate in facts.quality_gates if gate.failed),
    )


@dataclass(frozen=True, slots=True)
class _Gate:
    metric: str
    operator: str
    limit: FiniteNumber
    value: FiniteNumber | None
    failed: bool

    def __str__(self) -> str:
        value = "no value" if self.value is None else f"{self.value:.4g}"
        return f"{self.metric} {self.operator} {self.limit:g}: {value}"


@dataclass(frozen=True, slots=True)
class _Group:
    value: str | None
    supported: Count
    weak: Count
    unsupported: Count


def _share_group(group: _Group) -> ShareGroup:
    return ShareGroup(group.value, SupportCounts(group.supported, group.weak, group.unsupported))


@dataclass(frozen=True, slots=True)
class _Risks:
    mean_answer_risk: Share | None
    answers_at_risk: Share | None


@dataclass(frozen=True, slots=True)
class _Metrics:
    started_at: str
    answered_at: Moment | None
    metrics: _Risks
    standard_errors: Mapping[str, Annotated[FiniteNumber, Field(ge=0)]]
    groups: Mapping[str, tuple[_Group, ...]]
    quality_gates: tuple[_Gate, ...]


def _content(path: Path) -> bytes:
    """The bytes of a file; what is none, such as a pipe, is as good as missing."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return path.read_bytes()


# A range is the mean of up to fourteen finished audits before, and as much to both sides that 99.73% of shares that did
# not change lie within it: three standard errors, if only chance moves a share from night to night, or Student's factor
# times the spread of the nights before, if that is more.

WATCHED = {
    "unsupported_share": "unsupported claims",
    "weak_share": "weak claims",
    "answers_at_risk": "answers at risk",
    "mean_answer_risk": "mean answer risk",
    "dead_letter_share": "dead letters",
}
"""Shares that are watched, with their names in words; of each, less is better."""
BEFORE = 14
_LIMIT = 3.0
_STUDENT = (6.62, 5.51, 4.90, 4.53, 4.28, 4.09, 3.96, 3.85, 3.76, 3.69)
"""The same limit for a spread that 5, 6, ... and 14 nights tell: quantiles of Student's distribution."""
_FEWEST_NIGHTS = 5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """Where a share should lie by the ``audits`` audits before; ``changed`` if these had another configuration."""

    low: float
    high: float
    audits: int
    changed: bool = False

    def holds(self, share: float) -> bool:
        """Whether a share is in the range."""
        return self.low <= share <= self.high


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to look at; ``kind`` is "worse", "better", "gate" or "broken"."""

    entry: AuditEntry
    kind: str
    text: str
    metric: str = ""


def expected_ranges(entries: Sequence[AuditEntry], metric: str) -> list[ExpectedRange | None]:
    """Where ``metric`` of each audit should lie by those before it, oldest first; None where nobody can tell.

    An audit outside its range says nothing about later ones, unless the next is outside too: then these two begin a
    new level. Audits of the same configuration are compared where there are some. Without standard errors, five audits
    are needed.
    """
    ranges: list[ExpectedRange | None] = []
    calm: list[AuditEntry] = []
    outside: list[AuditEntry] = []
    for entry in entries:
        has_share = entry.is_done and metric in entry.metrics
        expected = _expected_range(calm, entry, metric) if has_share else None
        ranges.append(expected)
        if has_share and (expected is None or expected.holds(entry.metrics[metric])):
            calm, outside = [*calm, entry], []
        elif has_share:
            calm, outside = ([*outside, entry], []) if outside else (calm, [entry])
    return ranges


def _expected_range(before: Sequence[AuditEntry], entry: AuditEntry, metric: str) -> ExpectedRange | None:
    same = [night for night in before if night.configuration == entry.configuration]
    reference = (same or before)[-BEFORE:]
    values = [night.metrics[metric] for night in reference]
    count, own_error = len(reference), entry.errors.get(metric)
    errors = [night.errors[metric] for night in reference if metric in night.errors]
    reaches = []
    if reference and own_error is not None and len(errors) == count:
        reaches.append(_LIMIT * sqrt(own_error**2 + sum(error**2 for error in errors) / count**2))
    if count >= _FEWEST_NIGHTS:
        reaches.append(_STUDENT[count - _FEWEST_NIGHTS] * sqrt(variance(values) * (1 + 1 / count)))
    if not reaches:
        return None
    middle, reach = fmean(values), max(reaches) + _ROUNDING
    return ExpectedRange(max(middle - reach, 0.0), min(middle + reach, 1.0), count, changed=not same)


def find_alerts(entries: Sequence[AuditEntry]) -> list[Alert]:
    """All alerts of a history, oldest first."""
    of_each = zip(*(expected_ranges(entries, metric) for metric in WATCHED), strict=True)
    own = (dict(zip(WATCHED, ranges, strict=True)) for ranges in of_each)
    return [alert for entry, ranges in zip(entries, own, strict=True) for alert in _alerts_of(entry, ranges)]


def _alerts_of(entry: AuditEntry, ranges: Mapping[str, ExpectedRange | None]) -> Iterator[Alert]:
    if not entry.is_done:
        damaged, unfinished = f"is damaged: {entry.note}", f"is not complete, its status is {entry.status}"
        yield Alert(entry, "broken", damaged if entry.status == DAMAGED else unfinished)
        return
    if entry.note:
        yield Alert(entry, "broken", entry.note)
    yield from (Alert(entry, "gate", f"failed the gate {gate}") for gate in entry.failed_gates)
    for metric, expected in ranges.items():
        value = entry.metrics.get(metric)
        if expected is not None and value is not None and not expected.holds(value):
            by = f"{expected.audits} audits before" if expected.audits > 1 else "audit before"
            changed = ", which had other options, models or versions" * expected.changed
            range_text = f"{expected.low:.2%} to {expected.high:.2%} was expected by the {by}{changed}"
            kind = "worse" if value > expected.high else "better"
            yield Alert(entry, kind, f"{WATCHED[metric]} {value:.2%}, where {range_text}", metric)


# The command prints a table, and writes a page if one is asked for.

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
    hours: defaultdict[datetime, SupportCounts] = defaultdict(SupportCounts)
    for entry in done:
        if entry.supports.spans:
            hours[entry.moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)] += entry.supports
    bins = timeline(hours, narrowest="day")
    style = asset("assets/1_base.css", "assets/2_overview.css", "assets/history.css")
    return template("history.html.j2").render(
        title=root.resolve().name.encode("utf-8", "replace").decode() or "audits",
        span="Audits of " + " to ".join(dict.fromkeys(moments)),
        counted=", ".join(counted),
        figures=[*_figures(entries, done[-1])] if done else (),
        last=done[-1].name if done else "",
        notes=[*_notes(entries, alerts)],
        nights_before=BEFORE,
        alerts=[_row(one.entry, links, kind=one.kind, text=one.text) for one in reversed(alerts[-_MOST_LISTED:])],
        metric_charts=[*_metric_charts(entries, drawn, alerts, links)],
        stack=_stack_chart(bins),
        stack_unit=f"a {bins.unit}",
        columns=[*_column_charts(drawn, links)],
        header=("date", "audit", "status", "rows", "claims", *WATCHED.values(), "failed gates"),
        rows=[
            _row(entry, links, cells=(*_figure_cells(entry, digits=2), "; ".join(entry.failed_gates)))
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
            if value > expected.high:
                change = Change("more than expected", "worse")
            elif value < expected.low:
                change = Change("less than expected", "better")
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


def _row(entry: AuditEntry, links: Mapping[str, str], **more: object) -> dict[str, object]:
    """When, which audit, where its page is, and its status: the start of a line of a list, which has ``more``."""
    at = entry.moment.astimezone(UTC).isoformat(timespec="seconds")
    status = {"status": entry.status, "bad": not entry.is_done}
    return {"at": at, "when": entry.when, "name": entry.name, "link": links.get(entry.name), **status, **more}


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
