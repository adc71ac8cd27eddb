"""One run of ``attribeam import`` on logs: which files, what is printed."""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, cast

from tqdm import tqdm

from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, LogStorage, match_files
from attribeam.logs.import_log import ImportSummary, Outcome, export_opener, import_exports, import_logs, letters_path
from attribeam.logs.reader import reader_named, reader_names
from attribeam.logs.traces.arguments import given_trace_options, trace_options
from attribeam.logs.traces.formats import LOG_KINDS, LogKind
from attribeam.logs.traces.guess import guess_lines, guessed
from attribeam.logs.traces.providers import PROVIDERS
from attribeam.schemas.errors import LogFormatError, UsageError
from attribeam.schemas.run_manifest import ReadingNote

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 1 << 16


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
    """Import a log, or guess its paths; yields what is to be printed.

    Raises:
        UsageError: if the request makes no sense, nothing matches ``--data``, or a file is of another format.
        DataError, RunError: as ``import_exports``.
    """
    _check_options(arguments)
    kind = LOG_KINDS.get(arguments.source)
    suffix = reader_named(arguments.source).suffix if kind is None else kind.suffix
    if not arguments.guess:
        check_output(arguments.output, overwrite=arguments.overwrite)
        check_output(letters_path(arguments.output), overwrite=arguments.overwrite)
    with tqdm(desc="read", total=0, unit="B", unit_scale=True, disable=None) as bar:
        storage = _WatchedStorage(bar)
        paths, notes = match_files(arguments.data, suffix, storage, option="--data")
        if not arguments.guess:
            check_apart(arguments.output, paths)
        lines = [*notes, *_imported(arguments, kind, paths, storage)]
    yield from lines


def _imported(
    arguments: argparse.Namespace, kind: LogKind | None, paths: Sequence[str], storage: LogStorage
) -> Iterator[str]:
    name, output, limit = arguments.source, arguments.output, arguments.limit
    try:
        if kind is None:
            options = LogOptions(parse_column_mapping(arguments.columns or ""), format=name)
            summary = import_logs(paths, output, options, limit=limit, storage=storage, progress=_progress)
        elif arguments.guess:
            found = guessed(kind, trace_options(arguments), [export_opener(storage, path) for path in paths])
            command = f"attribeam import {name} --data {' '.join(arguments.data)} --output {output or 'logs.parquet'}"
            yield from guess_lines(found, command)
            return
        else:
            given = trace_options(arguments)
            summary = import_exports(kind, paths, output, given, limit=limit, storage=storage, progress=_progress)
    except LogFormatError as error:
        raise UsageError(f"--data: {error}") from error
    yield from summary_lines(summary, output)


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


@dataclass(frozen=True)
class _WatchedStorage(ArrowStorage):
    """Files with a bar that grows with the bytes that are read of them, whatever they unpack to."""

    bar: tqdm[NoReturn]

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """See ``LogStorage.open``."""
        with super().open(path) as file:
            watched = _WatchedFile(file, self.bar)
            yield cast(BinaryIO, io.BufferedReader(watched, _BUFFER_BYTES))
            self.bar.update(watched.unread)


class _WatchedFile(io.RawIOBase):
    """A file that moves a bar when it is read, by its size at most. It does not close the file.

    It ends where it ended when it was opened: to follow one that grows might never end.
    """

    def __init__(self, file: BinaryIO, bar: tqdm[NoReturn]) -> None:
        self._file = file
        self._bar = bar
        self._size = self.unread = file.seek(0, io.SEEK_END)
        file.seek(0)
        bar.total = (bar.total or 0) + self.unread

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """As the file."""
        return self._file.fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As the file."""
        return self._file.seek(offset, whence)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As the file's ``read``."""
        content = self._file.read(max(0, min(len(memoryview(buffer)), self._size - self._file.tell())))
        memoryview(buffer)[: len(content)] = content
        self._bar.update(min(len(content), self.unread))
        self.unread -= min(len(content), self.unread)
        return len(content)


def _progress(rows: Iterator[Outcome]) -> Iterator[Outcome]:
    yield from tqdm(rows, desc="import", unit="row", disable=None)
