"""Writing logs of any format as one QA log in our own: the rows that an audit accepts, and dead letters beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pyarrow as pa

from attribeam.logs.columns import LogOptions
from attribeam.logs.files import ArrowStorage, LogStorage
from attribeam.logs.qa_log import QALog, file_errors_named, reader_errors_named, with_reading_notes
from attribeam.logs.rows import FaultyRow
from attribeam.logs.traces.formats import LogKind
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.trace_log import ExportRows, Seen, passages_table
from attribeam.logs.traces.trace_reader import TableFile, checked, log_schema
from attribeam.logs.traces.values import valid_text
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, dead_letter_row, dead_letter_schema
from attribeam.schemas.dead_letter import reading_stage
from attribeam.schemas.errors import RunError
from attribeam.schemas.qa_record import labelled_log_schema

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
