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
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from attribeam.logs.columns import INPUT_FIELDS, ColumnMap, LogOptions
from attribeam.logs.files import ArrowStorage, LogStorage
from attribeam.logs.qa_log import QALog, file_errors_named, reader_errors_named, with_reading_notes
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import BATCH_BYTES, FaultyRow, RawPassage, RawRow, RowValidator
from attribeam.logs.traces.assembly import TraceRow
from attribeam.logs.traces.documents import NO_TEXTS, Texts
from attribeam.logs.traces.formats import LogKind
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.trace_log import ExportRows, Seen, passages_table
from attribeam.logs.traces.values import text_bytes, valid_text
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, dead_letter_row, dead_letter_schema
from attribeam.schemas.dead_letter import reading_stage
from attribeam.schemas.errors import RunError
from attribeam.schemas.qa_record import labelled_log_schema

Outcome = QARecord | FaultyRow

_DESCRIPTIONS = {
    "record_id": "id of the trace or the row",
    "question": "what was asked",
    "passages": "what was retrieved, in the order of the prompt",
    "answer": "what was answered",
    "answered_at": "when the trace ended",
    "generator": "model that gave the answer",
    "session_id": "conversation that the trace belongs to",
}
_MAP = ColumnMap(tuple((field.name, field.name) for field in INPUT_FIELDS if field.name in _DESCRIPTIONS), ())
_NO_LIMIT = 2**62


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

    Memory does not grow with the export, apart from some 100 bytes a row. ``limit`` takes the
    first rows.

    Raises:
        UsageError: if a path to question, passages or answer is none, or the table of passages is none.
        DataError: if a file cannot be read or is not in its format; nothing is written.
        RunError: if the log cannot be written, or would have no rows.
    """
    store = storage or ArrowStorage()
    summary = ImportSummary(len(paths), seen=Seen())
    with ExitStack() as stack:
        table = options.passages_table
        texts: Texts = NO_TEXTS if table is None else stack.enter_context(passages_table(store, table))
        rows = ExportRows(kind, options, texts, summary.seen or Seen())
        placed = rows.read([export_opener(store, path) for path in paths])
        outcomes = (checked(row, RowSource(paths[file], number)) for file, number, row in placed)
        _write(output, islice(_once_each(outcomes), limit), summary)
    return summary


def import_logs(
    paths: Sequence[str],
    output: Path,
    options: LogOptions,
    *,
    limit: int | None = None,
    storage: LogStorage | None = None,
) -> ImportSummary:
    """As ``import_exports``, for a format that a ``LogReader`` reads row by row.

    Raises:
        UsageError: if there is no such format.
        DataError, RunError: as ``import_exports``.
    """
    store = storage or ArrowStorage()
    summary = ImportSummary(len(paths))
    outcomes = (outcome for path in paths for outcome in QALog(path, options, store).outcomes())
    _write(output, islice(_once_each(outcomes), limit), summary)
    return summary


def export_opener(storage: LogStorage, path: str) -> Callable[[], AbstractContextManager[BinaryIO]]:
    """What opens a file, and names it in errors."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with file_errors_named(path), storage.open(path) as file, reader_errors_named(path):
            yield file

    return opened


def checked(row: TraceRow, source: RowSource) -> Outcome:
    """The record that an audit would read, or why it would refuse the row; ``session_id`` is an extra column."""
    passages = [RawPassage(*map(text_bytes, (one.text, one.title, one.passage_id))) for one in row.passages or ()]
    raw = RawRow(
        record_id=text_bytes(row.record_id),
        question=text_bytes(row.question),
        passages=None if row.passages is None else list(passages),
        answer=text_bytes(row.answer),
        target_spans=None,
        answered_at=row.answered_at,
        generator=text_bytes(row.generator),
        extra_columns=(("session_id", valid_text(row.session_id)),),
    )
    validator = RowValidator(_MAP, _NO_LIMIT)
    if row.fault is not None:
        return validator.refusal(raw, source, row.fault)
    return validator.outcome(raw, source, duplicate=False)


def _once_each(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes; a record with the id of an earlier one is faulty. Remembers 16 bytes of each id."""
    digests = set[bytes]()
    for outcome in outcomes:
        if isinstance(outcome, QARecord):
            digest = blake2b(outcome.record_id.encode(), digest_size=16).digest()
            if digest in digests:
                message = "record_id should name each row once, an earlier row has the same id; keep one of the rows"
                fault = RowFault(Reason.DUPLICATE_RECORD_ID, message, column="record_id")
                yield FaultyRow(outcome.source, outcome.record_id, fault, outcome.answer)
                continue
            digests.add(digest)
        yield outcome


def _write(output: Path, outcomes: Iterable[Outcome], summary: ImportSummary) -> None:
    """Write all, and put both files in their places at the end; dead letters only where there are some."""
    letters = letters_path(output)
    try:
        with TemporaryDirectory(prefix=".attribeam-import-", dir=output.parent) as folder:
            log, refused = Path(folder, "log.parquet"), Path(folder, "dead_letters.parquet")
            _write_partial(log, refused, outcomes, summary)
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


def _write_partial(log: Path, letters: Path, outcomes: Iterable[Outcome], summary: ImportSummary) -> None:
    rows, refused = _TableFile(log, import_schema()), _TableFile(letters, dead_letter_schema())
    with rows, refused:
        for outcome in tqdm(outcomes, desc="import", unit="row", disable=None):
            if isinstance(outcome, QARecord):
                rows.add(_log_row(outcome))
                summary.written += 1
            else:
                refused.add(dead_letter_row(_dead_letter(outcome)))
                summary.reasons[str(outcome.fault.reason)] += 1
                summary.example = summary.example or str(valid_text(str(outcome.fault)))
        if summary.seen:
            rows.writer.add_key_value_metadata(with_reading_notes(summary.seen.notes))


class _TableFile:
    """A Parquet file that rows are added to; as many wait in memory as a batch may have. A context manager."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._schema = schema
        self._waiting: list[dict[str, object]] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._waiting:
            self._flush()
        self.writer.close()

    def add(self, row: dict[str, object]) -> None:
        """Add one row."""
        self._waiting.append(row)
        self._size += _text_size(row)
        if len(self._waiting) == BATCH_ROWS or self._size >= BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        self.writer.write_batch(pa.RecordBatch.from_pylist(self._waiting, schema=self._schema))
        self._waiting, self._size = [], 0


def _text_size(value: object) -> int:
    """The length of all texts, at any depth."""
    if isinstance(value, dict):
        return sum(map(_text_size, value.values()))
    if isinstance(value, list):
        return sum(map(_text_size, value))
    return len(value) if isinstance(value, str) else 0


def import_schema() -> pa.Schema:
    """The schema of an imported log."""
    passage = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
    kinds = {"passages": pa.list_(passage), "answered_at": pa.timestamp("us", tz="UTC")}
    fields = [
        pa.field(name, kinds.get(name, pa.string()), metadata={"description": words})
        for name, words in _DESCRIPTIONS.items()
    ]
    return pa.schema([*fields, labelled_log_schema().field("target_spans")])


def _log_row(record: QARecord) -> dict[str, object]:
    spans = record.target_spans
    return {
        "record_id": record.record_id,
        "question": record.question,
        "passages": [{"passage_id": one.passage_id, "title": one.title, "text": one.text} for one in record.passages],
        "answer": record.answer,
        "answered_at": record.answered_at,
        "generator": record.generator,
        "session_id": dict(record.extra_columns).get("session_id"),
        "target_spans": None
        if spans is None
        else [{"char_start": span.char_start, "char_end": span.char_end} for span in spans],
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
