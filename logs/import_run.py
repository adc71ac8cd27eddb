"""One run of ``attribeam import`` on logs: its options, which files, what is printed."""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from tqdm import tqdm

from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, LogStorage, match_files
from attribeam.logs.import_log import ImportSummary, Outcome, export_opener, import_exports, import_logs, letters_path
from attribeam.logs.reader import reader_named, reader_names
from attribeam.logs.traces.formats import LOG_KINDS, LogKind
from attribeam.logs.traces.guess import guess_lines, guessed
from attribeam.logs.traces.paths import PRESETS, TraceOptions
from attribeam.logs.traces.providers import PROVIDERS
from attribeam.schemas.errors import LogFormatError, UsageError
from attribeam.schemas.run_manifest import ReadingNote

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 1 << 16
_EVERY_MESSAGE = 2**31
_PATHS = ("question_path", "passages_path", "answer_path")
_OPTIONS = ("history", "retrievals", "tool_outputs", "passages_table")


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options; what is not given is None."""
    add = parser.add_argument_group("logs of trace stores").add_argument
    for name in ("question", "passages", "answer"):
        add(f"--{name}-path", metavar="JMESPATH", help=f"path to the {name}, such as {_EXAMPLES[name]}")
    add("--preset", choices=[*PRESETS, *PROVIDERS], help="paths under one name; see docs/importing_logs.md")
    add(
        "--history",
        type=_message_count,
        metavar="N",
        help='put the last N messages of a conversation, or "all", before its last question (default: 0)',
    )
    add("--retrievals", choices=["all", "first", "last"], help="which retrievals of a trace count (default: all)")
    add("--tool-outputs", action="store_true", default=None, help="take what tools returned as passages, too")
    add("--passages-table", metavar="FILE", help="table of passage_id and text, for traces that have only ids")
    add("--guess", action="store_true", default=None, help="look at the first records, print what is where, and stop")


_EXAMPLES = {
    "question": "input.question",
    "passages": "observations[?type=='RETRIEVER'].output[]",
    "answer": "output.answer",
}


def trace_options(arguments: argparse.Namespace) -> TraceOptions:
    """The options; a path that is given goes before that of the preset."""
    preset = PRESETS.get(arguments.preset, (None, None, None))
    given: dict[str, Any] = {name: value for name in _OPTIONS if (value := getattr(arguments, name)) is not None}
    given |= {name: getattr(arguments, name) or path for name, path in zip(_PATHS, preset, strict=True)}
    return TraceOptions(**given, preset=arguments.preset if arguments.preset in PROVIDERS else None)


def given_trace_options(arguments: argparse.Namespace) -> list[str]:
    """The flags that were given, for a format that has no use for them."""
    names = (*_PATHS, "preset", *_OPTIONS, "guess")
    return [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) is not None]


def _message_count(text: str) -> int:
    if text == "all":
        return _EVERY_MESSAGE
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'should be a number of messages or "all", was: {text!r}')
    return int(text)


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
