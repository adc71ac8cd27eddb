"""Show what the audits in a folder found over time: a table, and a page with everything that moved."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC
from pathlib import Path

from rich.cells import cell_len

from attribeam.report.audit_history import WATCHED, Alert, AuditEntry, audit_folders, find_alerts, read_history
from attribeam.report.history_page import column_values, group_of, history_page
from attribeam.report.messages import one_line
from attribeam.report.output_file import STANDARD_OUTPUT, check_output, write_lines
from attribeam.report.privacy import as_private_as
from attribeam.schemas.errors import ExitCode, UsageError

_HEADER = ("date (UTC)", "audit", "status", "rows", "claims", "unsup.", "weak", "at risk", "risk", "dead", "gates")
_MOST_ALERTS = 20


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
    if (known := column_values(entries)) and column not in known:
        raise UsageError(f"--by should be one of {', '.join(known)}, was: {column!r}")
    if not known:
        raise UsageError("--by needs audits that tell claims by generator or a carried column; these tell none")


def _lines(entries: Sequence[AuditEntry], alerts: Sequence[Alert], column: str | None) -> Iterator[str]:
    yield from _aligned([_HEADER, *(_cells(one) for one in entries)])
    if column is not None:
        values = [value for value, _ in column_values(entries)[column]]
        heads = tuple("none" if value is None else value for value in values)
        yield f"\nunsupported claims by {one_line(column)}"
        yield from _aligned([("date (UTC)", "audit", "", *heads), *(_by(one, column, values) for one in entries)])
    if alerts:
        shown = alerts[-_MOST_ALERTS:]
        yield f"\nalerts, the last {len(shown)} of {len(alerts):,}"
        for one in shown:
            yield f"{_when(one.entry)}  {one_line(one.entry.name)}: {one_line(one.text)}"


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    shares = (entry.metrics.get(metric) for metric in WATCHED)
    told = ("" if share is None else f"{share:.1%}" for share in shares)
    gates = f"{len(entry.failed_gates)} failed" if entry.failed_gates else ""
    return (_when(entry), entry.name, entry.status, f"{entry.rows:,}", f"{entry.claims:,}", *told, gates)


def _by(entry: AuditEntry, column: str, values: Sequence[str | None]) -> tuple[str, ...]:
    groups = (group_of(entry, column, value) for value in values)
    shares = ("" if one is None else f"{one.counts.unsupported_share:.1%}" for one in groups)
    return (_when(entry), entry.name, "", *shares)


def _when(entry: AuditEntry) -> str:
    return f"{entry.moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side: the first three begin, the others end together."""
    harmless = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*harmless, strict=True)]
    for row in harmless:
        padded = [
            cell + " " * (width - cell_len(cell)) if place < 3 else " " * (width - cell_len(cell)) + cell
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()
