"""Remove old audits from the folder that holds them; without --delete, only say which.

What they found stays in removed_audits.jsonl, for attribeam history.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from attribeam.attribution.option_types import positive_integer
from attribeam.pipeline.outcome.retention import (
    AgedAudit,
    Retention,
    aged_audits,
    finish_removals,
    remove_audit,
    size_of,
    why_kept,
)
from attribeam.report.terminal_text import one_line
from attribeam.schemas.errors import RunError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam prune``."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder that holds the audits' output directories")
    parser.add_argument(
        "--keep", type=positive_integer, metavar="N",
        help="keep the newest N finished audits, and all that are younger than the oldest of them",
    )  # fmt: skip
    parser.add_argument(
        "--keep-days", type=positive_integer, metavar="N",
        help="keep the audits of the last N days; with --keep, those too",
    )  # fmt: skip
    parser.add_argument("--delete", action="store_true", help="remove them; without it, nothing is changed")


def run(arguments: argparse.Namespace) -> None:
    """Remove the audits that are not kept, or say which these are.

    Raises:
        UsageError: if nothing says what to keep, or the folder holds no audits.
        RunError: if an audit could not be removed; others were.
    """
    if arguments.keep is None and arguments.keep_days is None:
        raise UsageError("--keep N or --keep-days N is needed: which audits to keep")
    retention = Retention(audits=arguments.keep, days=arguments.keep_days)
    aged, total = aged_audits(arguments.folder, retention, datetime.now(UTC))
    if arguments.delete:
        finish_removals(arguments.folder)
    removed, failed = 0, []
    for one in aged:
        try:
            size = size_of(one.folder)
            reason = remove_audit(arguments.folder, one) if arguments.delete else why_kept(one)
        except OSError as error:
            failed.append(one)
            print(f"attribeam prune: {one_line(str(error))}", file=sys.stderr)
            continue
        removed += reason is None
        print(_line(one, size, reason, deleted=arguments.delete))
    print(_summary(removed, len(aged) - removed - len(failed), total, deleted=arguments.delete))
    if failed:
        raise RunError(f"{len(failed)} audits could not be removed, see above")


def _line(one: AgedAudit, size: int, reason: str | None, *, deleted: bool) -> str:
    done = ("removed" if deleted else "would remove") if reason is None else "keep"
    when = f"{one.entry.started_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    why = "" if reason is None else f": {one_line(reason)}"
    return f"{done:<12}  {when}  {one_line(one.entry.name)}  ({one.entry.status}, {size / 1e6:,.1f} MB){why}"


def _summary(removed: int, held: int, total: int, *, deleted: bool) -> str:
    kept = f", {held} could not be" if held else ""
    if deleted:
        return f"{removed} of {total} audits were removed{kept}"
    hint = "; --delete does it" if removed else ""
    return f"{removed} of {total} audits would be removed{kept}{hint}"
