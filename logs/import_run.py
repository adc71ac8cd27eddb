"""``attribeam import`` of logs of any format: one QA log of the rows that an audit accepts, and dead letters beside it.

The options of the command, which files it reads and what it prints stand here, too.
"""

from __future__ import annotations

import argparse
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
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
from attribeam.logs.traces import valid_text
from attribeam.logs.traces.formats import LOG_KINDS, LogKind
from attribeam.logs.traces.paths import PRESETS, PROVIDERS, PathSet, TraceOptions, guess_lines, guessed
from attribeam.logs.traces.trace_log import ExportRows, Seen, TableFile, checked, log_schema, passages_table
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, dead_letter_row, dead_letter_schema
from attribeam.schemas.errors import LogFormatError, RunError, UsageError
from attribeam.schemas.files import check_apart, writing
from attribeam.schemas.qa_record import labelled_log_schema, reading_stage
from attribeam.schemas.run_manifest import ReadingNote

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


Outcome = QARecord | FaultyRow


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
) -> ImportSummary:
    """Write the rows of exports of a trace store to ``output``, and the others to ``letters_path(output)``.

    Memory does not grow with the export, apart from some 100 bytes a row. ``limit`` takes the first rows.

    Raises:
        UsageError: if a path to question, passages or answer is none, or the table of passages is none.
        DataError: if a file cannot be read or is not in its format; nothing is written.
        RunError: if the log cannot be written, or all rows are dead letters.
    """
    store = storage or ArrowStorage()
    rows = ExportRows(kind, options)
    summary = ImportSummary(len(paths), seen=rows.seen)
    with ExitStack() as stack:
        if options.passages_table is not None:
            rows.texts = stack.enter_context(passages_table(store, options.passages_table))
        placed = rows.read([partial(opened_export, store, path) for path in paths])
        outcomes = (checked(item.row, RowSource(paths[item.file], item.number)) for item in placed)
        _write(output, log_schema(of_traces=kind.is_of_traces), islice(_once_each(outcomes), limit), summary)
    return summary


@contextmanager
def opened_export(storage: LogStorage, path: str) -> Iterator[BinaryIO]:
    """An export; errors of the file and of its reader name its path."""
    with file_errors_named(path), storage.open(path) as file, reader_errors_named(path):
        yield file


def _once_each(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes; a record with the id of an earlier one is faulty. Remembers 16 bytes of each id."""
    digests = set[bytes]()
    for outcome in outcomes:
        if isinstance(outcome, QARecord):
            digest = blake2b(outcome.record_id.encode(), digest_size=16).digest()
            if digest in digests:
                message = "record_id should name each row once, an earlier row has the same id; keep one of the rows; "
                message += (
                    "where each has one passage of an answer, put these in one list (array_agg in SQL); where ids "
                )
                message += "begin anew in each file, import each file into a log of its own"
                fault = RowFault(Reason.DUPLICATE_RECORD_ID, message, column="record_id")
                outcome = FaultyRow(outcome.source, outcome.record_id, fault, outcome.answer)
            digests.add(digest)
        yield outcome


def _write(output: Path, schema: pa.Schema, outcomes: Iterable[Outcome], summary: ImportSummary) -> None:
    """Write all, and put both files in their places at the end; dead letters only where there are some."""
    letters = letters_path(output)
    schema = schema.append(labelled_log_schema().field("target_spans"))  # which some logs have
    with writing(output), TemporaryDirectory(prefix=".attribeam-import-", dir=output.parent) as folder:
        log, refused = Path(folder, "log.parquet"), Path(folder, "dead_letters.parquet")
        with TableFile(log, schema) as rows, TableFile(refused, dead_letter_schema()) as faulty:
            for outcome in tqdm(outcomes, desc="import", unit="row", disable=None):
                if isinstance(outcome, QARecord):
                    rows.add(_log_row(outcome))
                    summary.written += 1
                    continue
                fault, message = outcome.fault, str(valid_text(str(outcome.fault)))
                stage, column = reading_stage(fault.reason), fault.column
                letter = DeadLetter(outcome.record_id, outcome.source, stage, fault.reason, message, column=column)
                faulty.add(dead_letter_row(letter))
                summary.reasons[str(fault.reason)] += 1
                summary.example = summary.example or message
            if summary.seen:
                rows.describe(with_reading_notes(summary.seen.notes))
        why_none = ""  # empty files, as of a quiet day, make an empty log
        if summary.dead_letters:
            refused.replace(letters)
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(summary.reasons.items()))
            why_none = f"{counts}; {letters} says why, the first of them: {summary.example}"
        elif summary.seen and summary.seen.skipped and not summary.written:
            why_none = f"none of {summary.seen.skipped} records is a span; check the format's name"
        else:
            letters.unlink(missing_ok=True)
        if why_none and not summary.written:
            raise RunError(f"logs should have rows that can be imported, have none: {why_none}")
        log.replace(output)


def _log_row(record: QARecord) -> dict[str, object]:
    spans = record.target_spans
    return {
        **{name: getattr(record, name) for name in ("record_id", "question", "answer", "answered_at", "generator")},
        "passages": [*map(asdict, record.passages)],
        **dict(record.extra_columns),
        "target_spans": None if spans is None else [*map(asdict, spans)],
    }


_BUFFER_BYTES = 1 << 16
_EVERY_MESSAGE = 2**31
_PATHS = tuple(f"{name}_path" for name in PathSet._fields)
_EXAMPLES = ("input.question", "observations[?type=='RETRIEVER'].output[]", "output.answer")
_OPTIONS = ("history", "retrievals", "tool_outputs", "passages_table")


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options; what is not given is None."""
    add = parser.add_argument_group("logs of trace stores").add_argument
    for name, example in zip(PathSet._fields, _EXAMPLES, strict=True):
        add(f"--{name}-path", metavar="JMESPATH", help=f"path to the {name}, such as {example}")
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
    """Raise ``UsageError``, with the way out, for a file that cannot be written to, or that is there."""
    if output is None:
        raise UsageError("--output is needed: the log to write, such as logs.parquet")
    if output.is_dir() or not output.parent.is_dir():
        raise UsageError(f"--output should be a file in an existing directory, was: {output}")
    if os.path.lexists(output) and not overwrite:
        raise UsageError(f"{output} exists already; name another --output, or replace it with --overwrite")


def import_foreign_log(arguments: argparse.Namespace) -> Iterator[str]:
    """Import a log, or guess its paths; yields what is to be printed.

    Raises ``UsageError`` if the request makes no sense, nothing matches ``--data``, or a file is of another format;
    other errors as ``import_exports``.
    """
    source, kind = arguments.source, LOG_KINDS.get(arguments.source)
    given = given_trace_options(arguments)
    if kind is None and given:
        raise UsageError(f"{given[0]} says nothing to {source}, which is read row by row; leave it out")
    if kind is not None and arguments.preset in PROVIDERS and source != "responses":
        way_out = "use it with attribeam import responses"
        raise UsageError(f"--preset {arguments.preset} says nothing to {source}; {way_out}")
    if kind is not None and arguments.columns is not None:
        raise UsageError(
            f"--columns says nothing to {source}; name where a field stands with --question-path, --passages-path and "
            "--answer-path"
        )
    suffix = reader_named(source).suffix if kind is None else kind.suffix
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
            records = (outcome for path in paths for outcome in QALog(path, options, storage).outcomes())
            summary = ImportSummary(len(paths))
            _write(output, log_schema(of_traces=False), islice(_once_each(records), limit), summary)
        elif arguments.guess:
            export = ExportRows(kind, trace_options(arguments))
            guess = guessed(export, [partial(opened_export, storage, path) for path in paths])
            command = f"attribeam import {name} --data {' '.join(arguments.data)} --output {output or 'logs.parquet'}"
            yield from guess_lines(guess, command)
            return
        else:
            summary = import_exports(kind, paths, output, trace_options(arguments), limit=limit, storage=storage)
    except LogFormatError as error:
        raise UsageError(f"--data: {error}") from error
    yield from summary_lines(summary, output)


def summary_lines(summary: ImportSummary, output: Path) -> Iterator[str]:
    """The counts, and the dead letters by reason."""
    files = f"{summary.files} file{'' if summary.files == 1 else 's'}"
    spans = "" if not summary.seen or not summary.seen.spans else f" ({summary.seen.spans} spans)"
    line = f"{summary.read} rows read of {files}{spans}, {summary.written} written to {output}"
    if summary.dead_letters:
        line += (
            f", {summary.dead_letters} dead letter{'' if summary.dead_letters == 1 else 's'} in {letters_path(output)}"
        )
    yield line
    yield from (f"dead letters, {reason}: {count}" for reason, count in sorted(summary.reasons.items()))
    if summary.seen:
        if summary.seen.skipped:
            yield f"passed over, since they are no spans: {summary.seen.skipped} records"
        yield from (f"note: {ReadingNote(note, rows)}" for note, rows in summary.seen.notes.items() if rows)


@dataclass(frozen=True)
class _WatchedStorage(ArrowStorage):
    """Files with a bar that grows with the bytes that are read of them, whatever they unpack to."""

    bar: tqdm[NoReturn]

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
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
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: WriteableBuffer) -> int:
        content = self._file.read(max(0, min(len(memoryview(buffer)), self._size - self._file.tell())))
        memoryview(buffer)[: len(content)] = content
        self._bar.update(min(len(content), self.unread))
        self.unread -= min(len(content), self.unread)
        return len(content)
