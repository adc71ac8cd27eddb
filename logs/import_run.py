"""One run of ``attribeam import`` on logs: which files, what is printed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, match_files
from attribeam.logs.import_log import ImportSummary, import_exports, import_logs, letters_path
from attribeam.logs.reader import reader_named, reader_names
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import given_trace_options, trace_options
from attribeam.logs.traces.providers import PROVIDERS
from attribeam.schemas.errors import LogFormatError, UsageError
from attribeam.schemas.run_manifest import ReadingNote


def log_formats() -> list[str]:
    """Formats of logs that can be imported: those of trace stores, then those that other packages bring."""
    return [*LOG_KINDS, *(name for name in reader_names() if name not in LOG_KINDS)]


def check_output(output: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written to, or that is there.

    Raises:
        UsageError: with the way out.
    """
    if output is None:
        raise UsageError("--output is needed: the log to write, such as logs.parquet")
    if output.is_dir() or not output.parent.is_dir():
        raise UsageError(f"--output should be a file in an existing directory, was: {output}")
    if os.path.lexists(output) and not overwrite:
        raise UsageError(f"{output} exists already; name another --output, or replace it with --overwrite")


def check_apart(output: Path, paths: Sequence[str]) -> None:
    """Refuse to write to one of the files to read: it would be replaced by what was made of it.

    Raises:
        UsageError: with the way out.
    """
    if output.exists() and any(Path(path).exists() and output.samefile(path) for path in paths):
        raise UsageError(f"{output} is one of the files to read; write the log elsewhere")


def import_foreign_log(arguments: argparse.Namespace) -> Iterator[str]:
    """Import a log; yields what is to be printed.

    Raises:
        UsageError: if the request makes no sense, nothing matches ``--data``, or a file is of another format.
        DataError, RunError: as ``import_exports``.
    """
    _check_options(arguments)
    name, output, limit = arguments.source, arguments.output, arguments.limit
    kind = LOG_KINDS.get(name)
    suffix = reader_named(name).suffix if kind is None else kind.suffix
    check_output(output, overwrite=arguments.overwrite)
    check_output(letters_path(output), overwrite=arguments.overwrite)
    storage = ArrowStorage()
    paths, notes = match_files(arguments.data, suffix, storage, option="--data")
    check_apart(output, paths)
    try:
        if kind is None:
            options = LogOptions(parse_column_mapping(arguments.columns or ""), format=name)
            summary = import_logs(paths, output, options, limit=limit, storage=storage)
        else:
            summary = import_exports(kind, paths, output, trace_options(arguments), limit=limit, storage=storage)
    except LogFormatError as error:
        raise UsageError(f"--data: {error}") from error
    yield from (*notes, *summary_lines(summary, output))


def summary_lines(summary: ImportSummary, output: Path) -> Iterator[str]:
    """The counts, and the dead letters by reason."""
    files = f"{summary.files} file{'' if summary.files == 1 else 's'}"
    spans = "" if not summary.seen or not summary.seen.spans else f" ({summary.seen.spans} spans)"
    line = f"{summary.read} rows read of {files}{spans}, {summary.written} written to {output}"
    if summary.dead_letters:
        line += f", {summary.dead_letters} dead letters in {letters_path(output)}"
    yield line
    yield from (f"dead letters, {reason}: {count}" for reason, count in sorted(summary.reasons.items()))
    if summary.seen:
        if summary.seen.skipped:
            yield f"passed over, since they are no spans: {summary.seen.skipped} records"
        yield from (f"note: {ReadingNote(note, rows)}" for note, rows in summary.seen.notes.items() if rows)


def _check_options(arguments: argparse.Namespace) -> None:
    is_trace = arguments.source in LOG_KINDS
    given = given_trace_options(arguments)
    if given and not is_trace:
        raise UsageError(f"{given[0]} says nothing to {arguments.source}, which is read row by row; leave it out")
    if is_trace and arguments.preset in PROVIDERS and arguments.source != "responses":
        raise UsageError(
            f"--preset {arguments.preset} says nothing to {arguments.source}; use it with attribeam import responses"
        )
    if is_trace and arguments.columns is not None:
        raise UsageError(
            f"--columns says nothing to {arguments.source}; name where a field stands with --question-path, "
            "--passages-path and --answer-path"
        )
