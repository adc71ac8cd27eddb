"""Answers of an audit that people marked on its page, as judged answers; their texts come from the audited logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.mark_file import Mark, marks_by_answer, read_marks
from attribeam.schemas import QARecord, RowSource
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset, SkippedRow, UnsupportedRange


def load_marks(path: Path, audit: AuditDirectory) -> JudgedDataset:
    """The answers of ``audit`` that the marks in ``path`` speak of.

    Marked claims are the ranges that people looked at; a mark on the whole answer says whether all of it is supported.
    Answers that the audit or its logs do not have any more are skipped (``not_in_audit``, ``text_gone``).

    Raises:
        DataError: if the marks cannot be read, or a claim ends beyond its answer.
        RunError: if a file of the audit cannot be read.
    """
    marks = read_marks([path]).marks
    by_answer = marks_by_answer(marks, _audited(audit, sorted({mark.record_id for mark in marks})))
    records = {one.source: one for one in AuditedLogs.of(audit).answers(frozenset(by_answer))}
    answers = tuple(_judged(records[one], found, path) for one, found in by_answer.items() if one in records)
    kept = {mark for found in by_answer.values() for mark in found}
    unknown = {(mark.record_id, mark.source) for mark in marks if mark not in kept}
    gone = tuple(SkippedRow(one.source_row, "text_gone", one.source_file) for one in by_answer if one not in records)
    return JudgedDataset(answers, (*gone, *(SkippedRow(-1, "not_in_audit") for _ in unknown)))


def _audited(audit: AuditDirectory, record_ids: Sequence[str]) -> set[tuple[str, RowSource]]:
    """The ids of the audit's answers with one of ``record_ids``, each with its row."""
    where = ds.field("record_id").isin(pa.array(record_ids, pa.string()))
    return {
        (row["record_id"], RowSource(row["source_file"], row["source_row"]))
        for batch in audit.evidence_batches(["record_id", "source_file", "source_row"], where=where)
        for row in batch.to_pylist()
    }


def _judged(record: QARecord, marks: Sequence[Mark], path: Path) -> JudgedAnswer:
    length = len(record.answer)
    claims = [(one.chars, one.supported) for one in marks if one.chars is not None]
    if any(chars.char_end > length for chars, _ in claims):
        raise DataError(
            f"marks file {path}: a claim of {record.record_id!r} ends beyond its answer's {length} characters; the "
            "marks are of another version of the log"
        )
    whole = next((one.supported for one in marks if one.chars is None), None)
    judged = tuple(sorted(chars for chars, _ in claims)) or None
    unsupported = tuple(UnsupportedRange(chars) for chars, supported in sorted(claims) if not supported)
    return JudgedAnswer(
        replace(record, target_spans=judged, extra_columns=()),
        unsupported if claims else None,
        judged,
        group=record.generator,
        answer_supported=whole,
    )
