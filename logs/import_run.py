"""``attribeam import`` of logs of any format: one QA log in our own, and dead letters beside it.

The log has the rows that an audit accepts. The options of the command, which files it reads and what it prints stand
here, too.
"""

from __future__ import annotations

import argparse
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

import pyarrow as pa
from tqdm import tqdm

from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, LogStorage, match_files
from attribeam.logs.qa_log import QALog, file_errors_named, reader_errors_named, with_reading_notes
from attribeam.logs.reader import reader_named, reader_names
from attribeam.logs.rows import FaultyRow
from attribeam.logs.traces.formats import LOG_KINDS, LogKind
from attribeam.logs.traces.guess import guess_lines, guessed
from attribeam.logs.traces.paths import PRESETS, TraceOptions
from attribeam.logs.traces.providers import PROVIDERS
from attribeam.logs.traces.trace_log import ExportRows, Seen, passages_table
from attribeam.logs.traces.trace_reader import TableFile, checked, log_schema
from attribeam.logs.traces.values import valid_text
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, dead_letter_row, dead_letter_schema
from attribeam.schemas.errors import LogFormatError, RunError, UsageError
from attribeam.schemas.qa_record import labelled_log_schema, reading_stage
from attribeam.schemas.run_manifest import ReadingNote

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


Outcome = QARecord | FaultyRow
Progress = Callable[[Iterator[Outcome]], Iterable[Outcome]]


@dataclass(slots=True)
class ImportSummary:
    """What happened to the rows that were read; ``reasons`` counts the dead letters by theirs.

    ``seen`` counts spans, None for a format that has none; ``example`` is the message of the first dead letter.
    """

    files: int
    written: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    seen: Seen | None = None
    example: str = ""

    @property
    def dead_letters(self) -> int:
        """Rows that were not written."""
        return self.reasons.total()

    @property
    def read(self) -> int:
        """All rows."""
        return self.written + self.dead_letters


def letters_path(output: Path) -> Path:
    """Where the dead letters of an import go; an audit of the folder passes over the name."""
    return output.with_name(f"_{output.stem}.dead_letters.parquet")


def import_exports(
    kind: LogKind,
    paths: Sequence[str],
    output: Path,
    options: TraceOptions,
    *,
    limit: int | None = None,
    storage: LogStorage | None = None,
    progress: Progress = iter,
) -> ImportSummary:
    """Write the rows of exports of a trace store to ``output``, and the others to ``letters_path(output)``.

    Memory does not grow with the export, apart from some 100 bytes a row. ``limit`` takes the
    first rows.

    Raises:
        UsageError: if a path to question, passages or answer is none, or the table of passages is none.
        DataError: if a file cannot be read or is not in its format; nothing is written.
        RunError: if the log cannot be written, or would have no rows.
    """
    store = storage or ArrowStorage()
    rows = ExportRows(kind, options)
    summary = ImportSummary(len(paths), seen=rows.seen)
    with ExitStack() as stack:
        if options.passages_table is not None:
            rows.texts = stack.enter_context(passages_table(store, options.passages_table))
        placed = rows.read([export_opener(store, path) for path in paths])
        found = (checked(one.row, RowSource(paths[one.file], one.number)) for one in placed)
        schema = import_schema(of_traces=kind.is_of_traces)
        _write(output, schema, progress(islice(_once_each(found), limit)), summary)
    return summary


def import_logs(
    paths: Sequence[str],
    output: Path,
    options: LogOptions,
    *,
    limit: int | None = None,
    storage: LogStorage | None = None,
    progress: Progress = iter,
) -> ImportSummary:
    """As ``import_exports``, for a format that a ``LogReader`` reads row by row.

    Raises:
        UsageError: if there is no such format.
        DataError, RunError: as ``import_exports``.
    """
    store = storage or ArrowStorage()
    summary = ImportSummary(len(paths))
    records = (one for path in paths for one in QALog(path, options, store).outcomes())
    _write(output, import_schema(), progress(islice(_once_each(records), limit)), summary)
    return summary


def export_opener(storage: LogStorage, path: str) -> Callable[[], AbstractContextManager[BinaryIO]]:
    """What opens an export; errors of the file and of its reader name its path."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with file_errors_named(path), storage.open(path) as file, reader_errors_named(path):
            yield file

    return opened


def _once_each(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes; a record with the id of an earlier one is faulty. Remembers 16 bytes of each id."""
    digests = set[bytes]()
    for one in outcomes:
        if isinstance(one, QARecord):
            digest = blake2b(one.record_id.encode(), digest_size=16).digest()
            if digest in digests:
                message = "record_id should name each row once, an earlier row has the same id; keep one of the rows"
                fault = RowFault(Reason.DUPLICATE_RECORD_ID, message, column="record_id")
                yield FaultyRow(one.source, one.record_id, fault, one.answer)
                continue
            digests.add(digest)
        yield one


def _write(output: Path, schema: pa.Schema, outcomes: Iterable[Outcome], summary: ImportSummary) -> None:
    """Write all, and put both files in their places at the end; dead letters only where there are some."""
    letters = letters_path(output)
    try:
        with TemporaryDirectory(prefix=".attribeam-import-", dir=output.parent) as folder:
            log, refused = Path(folder, "log.parquet"), Path(folder, "dead_letters.parquet")
            with TableFile(log, schema) as rows, TableFile(refused, dead_letter_schema()) as faulty:
                _write_rows(rows, faulty, outcomes, summary)
            if summary.dead_letters:
                refused.replace(letters)
            elif summary.written:
                letters.unlink(missing_ok=True)
            if not summary.written:
                raise RunError(f"logs should have rows that can be imported, have none: {_why_none(summary, letters)}")
            log.replace(output)
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error


def _why_none(summary: ImportSummary, letters: Path) -> str:
    if not summary.dead_letters and summary.seen and summary.seen.skipped:
        return f"none of {summary.seen.skipped} records is a span; check the format's name"
    if not summary.dead_letters:
        return "the files are empty"
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(summary.reasons.items()))
    return f"{counts}; {letters} says why, the first of them: {summary.example}"


def _write_rows(rows: TableFile, refused: TableFile, outcomes: Iterable[Outcome], summary: ImportSummary) -> None:
    for one in outcomes:
        if isinstance(one, QARecord):
            rows.add(_log_row(one))
            summary.written += 1
        else:
            refused.add(dead_letter_row(_dead_letter(one)))
            summary.reasons[str(one.fault.reason)] += 1
            summary.example = summary.example or str(valid_text(str(one.fault)))
    if summary.seen:
        rows.describe(with_reading_notes(summary.seen.notes))


def import_schema(*, of_traces: bool = False) -> pa.Schema:
    """The schema of an imported log: that of rows of traces, and ``target_spans``, which some logs have."""
    spans = labelled_log_schema().field("target_spans")
    return log_schema(of_traces=of_traces).append(spans)


def _log_row(record: QARecord) -> dict[str, object]:
    spans = record.target_spans
    return {
        "record_id": record.record_id,
        "question": record.question,
        "passages": [{"passage_id": one.passage_id, "title": one.title, "text": one.text} for one in record.passages],
        "answer": record.answer,
        "answered_at": record.answered_at,
        "generator": record.generator,
        **dict(record.extra_columns),
        "target_spans": None
        if spans is None
        else [{"char_start": a.char_start, "char_end": a.char_end} for a in spans],
    }


def _dead_letter(row: FaultyRow) -> DeadLetter:
    reason = row.fault.reason
    return DeadLetter(
        row.record_id,
        row.source,
        reading_stage(reason),
        reason,
        str(valid_text(str(row.fault))),
        column=row.fault.column,
    )


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
