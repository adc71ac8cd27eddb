"""Audited answers: rebuilt from their evidence rows, each with its spans, and with the texts of its log.

A log is read only while it is still what was audited, and its texts come with the masks that the audit made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from attribeam.logs.columns import LogOptions, TableVersion, plain_array
from attribeam.logs.files import ArrowStorage, LogStorage
from attribeam.logs.privacy import (
    LostPatternsError,
    PrivacySettings,
    Redactor,
    SlowPatternError,
    masked_record,
    masking,
    recorded_settings,
)
from attribeam.logs.qa_log import QALog
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import (
    AnswerKind,
    CharRange,
    ClaimKind,
    EvidencePiece,
    QARecord,
    RowSource,
    SpanEvidence,
    Support,
    evidence_schema,
)
from attribeam.schemas.errors import DataError
from attribeam.schemas.evidence_record import span_of_row
from attribeam.schemas.qa_record import RETRIEVALS
from attribeam.schemas.run_manifest import InputFile

NO_MASKS = Redactor(PrivacySettings())
TEXTS_HELP = "read the texts from the logs although the audit was made with --no-texts"


@dataclass(frozen=True)
class LogFile:
    """One input file of the manifest, looked at once, when its problem is first asked for; masked as the audit was."""

    audited: InputFile
    options: LogOptions = field(default_factory=LogOptions)
    storage: LogStorage = field(default_factory=ArrowStorage)
    redactor: Redactor = NO_MASKS

    def records(self, rows: Sequence[int]) -> Iterator[QARecord]:
        """The records of these rows, which ascend, without extra columns; rows that have none are left out."""
        for outcome in self._log.outcomes(rows):
            if isinstance(outcome, QARecord):
                with suppress(SlowPatternError):
                    yield masked_record(outcome, self.redactor)

    def passage_ids(self) -> Iterator[pa.Table]:
        """The ids of rows' passages, batch by batch: ``row`` counts the rows of the batch, ``passage`` is a text."""
        for lists in self._log.passage_ids():
            ids = plain_array(pc.struct_field(pc.list_flatten(lists), "passage_id")).cast(pa.string())
            shown = masking(self.redactor).array("passage_id", ids) if self.redactor.settings.masks else ids
            yield pa.table({"row": pc.list_parent_indices(lists), "passage": shown})

    @cached_property
    def _log(self) -> QALog:
        return QALog(self.audited.path, self.options, self.storage).stamped()

    @cached_property
    def problem(self) -> str | None:
        """Why it is not what was audited, and the way out; None where size and SHA-256 are. Never a text of the log."""
        name = f"log {self.audited.path!r}"
        try:
            if self._log.stamp is None:
                way_out = "bring it back, or start where the audit was started if its path is a relative one"
                return f"{name} is not there any more; {way_out}"
            if self._log.fingerprint() == (self.audited.size_bytes, self.audited.sha256):
                return None
        except DataError as error:
            return str(error)
        return f"{name} has another content than when it was audited; audit it again, or bring it back"


@dataclass(frozen=True, slots=True)
class AuditedLogs:
    """The logs of one audit by path; texts come only from files whose content is still what was audited.

    ``redactor`` makes the masks that the audit made. ``hidden`` says why no text is shown, as where the audit wrote
    none or its masks cannot be made again; ``shows_ids`` is about ids of passages.
    """

    files: Mapping[str, LogFile]
    redactor: Redactor = NO_MASKS
    hidden: str | None = None
    shows_ids: bool = True

    @classmethod
    def of(cls, audit: AuditDirectory, *, texts: bool = False) -> AuditedLogs:
        """The logs that the manifest names; nothing is opened yet. ``texts`` shows them after ``--no-texts``, too."""
        recorded = audit.manifest.options
        redactor, lost = NO_MASKS, ""
        try:
            redactor = Redactor(recorded_settings(recorded.get("privacy")))
        except LostPatternsError as error:
            lost = str(error)
        no_texts = "the audit was made with --no-texts; give --texts to read them from the logs all the same"
        hidden = lost or (no_texts if redactor.settings.no_texts and not texts else None)
        options = _log_options(recorded)
        files = {file.path: LogFile(file, options, audit.storage, redactor) for file in audit.manifest.inputs}
        return cls(files, redactor, hidden, shows_ids=not lost)

    def answers(self, rows: frozenset[RowSource]) -> Iterator[QARecord]:
        """The records of ``rows``, ascending by file and row; rows of logs that are gone or changed are left out."""
        if self.hidden is not None:
            return
        for path in sorted({row.source_file for row in rows}):
            file = self.files.get(path)
            if file is not None and file.problem is None:
                yield from file.records(sorted(row.source_row for row in rows if row.source_file == path))

    def problems(self, rows: frozenset[RowSource]) -> tuple[str, ...]:
        """Why texts of ``rows`` are not shown: one sentence, or one per log that is gone, changed or unknown."""
        if self.hidden is not None:
            return (self.hidden,)
        paths = sorted({row.source_file for row in rows})
        unknown = (f"{path!r} is no input of this audit" for path in paths if path not in self.files)
        known = (self.files[path].problem for path in paths if path in self.files)
        return (*unknown, *filter(None, known))


def _log_options(recorded: Mapping[str, object]) -> LogOptions:
    """How the audit read its logs; a manifest that says less had the defaults."""
    default = LogOptions()
    columns, longest = recorded.get("columns"), recorded.get("max_text_chars")
    return LogOptions(
        columns=tuple((str(name), str(column)) for name, column in columns) if isinstance(columns, list) else (),
        max_text_chars=longest if isinstance(longest, int) else default.max_text_chars,
        format=str(recorded.get("log_format", default.format)),
        tables=tuple(TableVersion(**table) for table in recorded.get("tables", ())),  # type: ignore[attr-defined]
    )


_OWN = frozenset({*evidence_schema().names, RETRIEVALS})
"""What is no extra column to readers; places of retrievals are for ``attribeam send``."""
_NO_PYTHON_VALUE = (ValueError, KeyError, OverflowError)
EvidenceRow = Mapping[str, Any]
"""One row as ``evidence_rows`` gives it: the fields of ``attribeam.schemas.evidence_schema``, then extra columns."""


@dataclass(frozen=True, slots=True)
class AuditedAnswer:
    """One audited row of a log; ``spans`` ascend by index, ``extra_columns`` are those of the evidence."""

    record_id: str
    source: RowSource
    answered_at: datetime | None
    generator: str | None
    spans: tuple[SpanEvidence, ...]
    extra_columns: tuple[tuple[str, object], ...] = ()

    @property
    def kind(self) -> AnswerKind:
        """What the answer is as a whole."""
        return self.spans[0].answer_kind

    @property
    def moment(self) -> str | None:
        """When it was given, as a text."""
        return None if self.answered_at is None else self.answered_at.strftime("%Y-%m-%d %H:%M:%S UTC")

    @property
    def not_judged(self) -> tuple[ClaimKind, ...]:
        """Why some of its spans cannot be judged: each reason once, the most frequent first."""
        reasons = Counter(span.claim_kind for span in self.spans if span.support is Support.NOT_JUDGED)
        return tuple(reason for reason, _ in reasons.most_common())


def audited_answers(evidence: pa.Table) -> Iterator[AuditedAnswer]:
    """The answers of an evidence table whose rows ascend by file, row and span."""
    for (file, row), rows in groupby(evidence_rows(evidence), key=lambda row: (row["source_file"], row["source_row"])):
        yield answer_of_rows(RowSource(file, row), list(rows))


def evidence_rows(evidence: pa.Table | pa.RecordBatch) -> list[EvidenceRow]:
    """The rows as Python values, and Arrow's text of a value that Python lacks.

    Such are moments beyond the year 9999, unknown time zones, and nanoseconds where there is no pandas.
    """

    def value_or_text(column: pa.Array, index: int) -> Any:
        try:
            return column[index].as_py()
        except _NO_PYTHON_VALUE:
            return " ".join(column.slice(index, 1).to_string().split()).removeprefix("[ ").removesuffix(" ]")

    def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
        try:
            return list(column.to_pylist())
        except _NO_PYTHON_VALUE:
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            return [value_or_text(chunk, index) for chunk in chunks for index in range(len(chunk))]

    names = evidence.schema.names
    rows = zip(*(values(evidence.column(name)) for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def answer_of_rows(source: RowSource, rows: Sequence[EvidenceRow]) -> AuditedAnswer:
    """The answer that ``rows`` describe: at least one row, ascending by span."""
    first = rows[0]
    return AuditedAnswer(
        record_id=first["record_id"],
        source=source,
        answered_at=first["answered_at"],
        generator=first["generator"],
        spans=tuple(map(span_of_row, rows)),
        extra_columns=tuple((name, value) for name, value in first.items() if name not in _OWN),
    )


def with_texts(answer: AuditedAnswer, record: QARecord | None = None) -> AuditedAnswer:
    """The answer with a text for every span and piece: its own, that of ``record``, or where it stands.

    A span's text is empty only where the audit wrote none. Values that no passage has can be counted, not read.
    """
    if all(span.text for span in answer.spans):
        return answer
    return replace(answer, spans=tuple(_with_texts(span, record) for span in answer.spans))


def without_texts(answer: AuditedAnswer) -> AuditedAnswer:
    """The answer as if its audit had written no texts: with the places of its spans and pieces."""
    hidden = (
        replace(span, expected=None, unmatched_values=("",) * len(span.unmatched_values)) for span in answer.spans
    )
    return replace(answer, spans=tuple(_with_texts(span, None) for span in hidden))


def _with_texts(span: SpanEvidence, record: QARecord | None) -> SpanEvidence:
    def words(chars: CharRange, piece: EvidencePiece | None = None) -> str:
        if record is None:
            return f"characters {chars.char_start} to {chars.char_end}"
        if piece is None:
            return chars.of(record.answer)
        passage = record.passages[piece.passage_index]
        return chars.of((passage.title or "") if piece.in_title else passage.text)

    return replace(
        span,
        text=words(span.chars),
        evidence=tuple(replace(piece, text=words(piece.chars, piece)) for piece in span.evidence),
        unmatched_values=tuple(value or "(not written)" for value in span.unmatched_values),
    )


DEAD_LETTERS_PER_REASON = 50


@dataclass(frozen=True, slots=True)
class EmbeddedAnswer:
    """One answer; ``risk`` is None where it cannot be judged, ``texts`` where they cannot be read or are too long."""

    answer: AuditedAnswer
    risk: float | None
    texts: QARecord | None

    @property
    def extra_columns(self) -> tuple[tuple[str, str], ...]:
        """(column, value as text) of the extra columns that have a value; a long text is cut."""
        columns = self.answer.extra_columns
        return tuple((name, str(value)[:200]) for name, value in columns if value is not None)


def embedded_answers(
    audit: AuditDirectory, logs: AuditedLogs, risks: Mapping[RowSource, float | None]
) -> Iterator[EmbeddedAnswer]:
    """The answers that have ``risks``, in that order; texts of over 400,000 characters in all are left out."""
    rows: dict[RowSource, list[EvidenceRow]] = {source: [] for source in risks}
    files = pa.array(sorted({source.source_file for source in risks}), pa.string())
    numbers = pa.array(sorted({source.source_row for source in risks}), pa.int64())
    where = ds.field("source_row").isin(numbers) & ds.field("source_file").isin(files)
    for batch in audit.evidence_batches(where=where) if risks else ():
        for row in evidence_rows(batch):
            if (source := RowSource(row["source_file"], row["source_row"])) in rows:
                rows[source].append(row)
    texts = {}
    for record in logs.answers(frozenset(risks)):
        parts = (part for passage in record.passages for part in (passage.text, passage.title or ""))
        if sum(map(len, (record.question, record.answer, *parts))) <= 400_000:
            texts[record.source] = record
    for source, risk in risks.items():
        answer = answer_of_rows(source, sorted(rows[source], key=lambda row: int(row["span_index"])))
        yield EmbeddedAnswer(with_texts(answer, texts.get(source)), risk, texts.get(source))


def embedded_dead_letters(audit: AuditDirectory) -> list[dict[str, object]]:
    """The first ``DEAD_LETTERS_PER_REASON`` dead letters of each reason, in the order of the input; answers are cut."""
    taken: Counter[str] = Counter()
    letters: list[dict[str, object]] = []
    for batch in audit.dead_letter_batches():
        for row in batch.to_pylist():
            if taken[row["reason"]] < DEAD_LETTERS_PER_REASON:
                taken[row["reason"]] += 1
                if len(row["answer"] or "") > 20_000:
                    row["answer"] = f"{row['answer'][:20_000]}…"
                letters.append(row)
    return letters
