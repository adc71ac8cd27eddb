"""Ranks answers by risk, and gathers those that a person should read first, with some dead letters.

A span's risk starts at 0 if it is supported, at 1/2 if weak and at 1 if unsupported. It is multiplied by the share of
its attention that does not lie on evidence (1 - evidence_mass), grows by 1/2 if it has unmatched values, and is at
most 1. An answer's risk is two thirds of its spans' largest risk plus one third of their mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, EvidenceRow, answer_of_rows
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.support_distribution import support_codes
from attribeam.schemas import QARecord, RowSource

UNMATCHED_RISK = 0.5
WORST_SHARE = 2 / 3
_SUPPORT_RISK = np.array([0.0, 0.5, 1.0])
_ANSWER_KEYS = ["file", "row"]


@dataclass(frozen=True, slots=True)
class AnswerRisk:
    """One audited answer and its risk, 0 to 1."""

    source: RowSource
    risk: float


@dataclass(frozen=True, slots=True)
class AnswerRanking:
    """The riskiest answers, largest risk first, ties in the order of the input.

    ``answer_count`` is the number of all answers; ``supported_count`` of them have supported spans only.
    """

    riskiest: tuple[AnswerRisk, ...]
    answer_count: int
    supported_count: int


class RiskTally:
    """Adds up risks batch after batch; it needs about 40 bytes of memory per answer."""

    columns: tuple[str, ...] = ("source_file", "source_row", "evidence_mass", "support", "unmatched_values")

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        risk = span_risks(batch)
        table = pa.table({"file": self._file_numbers(batch), "row": batch.column("source_row"), "risk": risk})
        parts = table.group_by(_ANSWER_KEYS).aggregate([("risk", "max"), ("risk", "sum"), ("risk", "count")])
        self._parts.append(parts)

    def ranking(self, size: int) -> AnswerRanking:
        """The ``size`` riskiest answers."""
        if not self._parts:
            return AnswerRanking((), 0, 0)
        answers = _answer_risks(pa.concat_tables(self._parts))
        order = [("risk", "descending"), ("file", "ascending"), ("row", "ascending")]
        first = answers.take(pc.select_k_unstable(answers, k=size, sort_keys=order)).sort_by(order)
        names = list(self._files)
        riskiest = tuple(
            AnswerRisk(RowSource(names[one["file"]], one["row"]), one["risk"]) for one in first.to_pylist()
        )
        supported = pc.sum(pc.equal(answers["risk"], 0.0)).as_py()
        return AnswerRanking(riskiest, answers.num_rows, supported)

    def _file_numbers(self, batch: pa.RecordBatch) -> pa.Array:
        """Each span's file as a number, in the order in which files were first seen."""
        encoded = batch.column("source_file").dictionary_encode()
        numbers = [self._files.setdefault(name, len(self._files)) for name in encoded.dictionary.to_pylist()]
        return pa.array(numbers, pa.int32()).take(encoded.indices)


def span_risks(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """The risk of each span, shape (spans,); a span of a method without evidence mass counts as one of mass 0."""
    mass = pc.fill_null(batch.column("evidence_mass"), 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    unmatched = pc.list_value_length(batch.column("unmatched_values")).to_numpy(zero_copy_only=False) > 0
    risk: npt.NDArray[np.float64] = _SUPPORT_RISK[support_codes(batch)] * (1 - mass) + UNMATCHED_RISK * unmatched
    return np.clip(risk, 0.0, 1.0)


def _answer_risks(parts: pa.Table) -> pa.Table:
    """One row per answer, even if its spans came in several batches."""
    sums = parts.group_by(_ANSWER_KEYS).aggregate([("risk_max", "max"), ("risk_sum", "sum"), ("risk_count", "sum")])
    mean = pc.divide(sums["risk_sum_sum"], sums["risk_count_sum"].cast(pa.float64()))
    worst = pc.multiply(sums["risk_max_max"], WORST_SHARE)
    risk = pc.add(worst, pc.multiply(mean, 1 - WORST_SHARE))
    return pa.table({"file": sums["file"], "row": sums["row"], "risk": risk})


_MAX_TEXT_CHARS = 400_000
_MAX_VALUE_CHARS = 200


@dataclass(frozen=True, slots=True)
class EmbeddedAnswer:
    """One answer of the worklist.

    Attributes:
        texts: question, passages and answer; None if the log is missing or changed, or if they are too long.
    """

    answer: AuditedAnswer
    risk: float
    texts: QARecord | None

    @property
    def extra_columns(self) -> tuple[tuple[str, str], ...]:
        """(column, value as text) of the extra columns that have a value; a long text is cut."""
        columns = self.answer.extra_columns
        return tuple((name, str(value)[:_MAX_VALUE_CHARS]) for name, value in columns if value is not None)


def embedded_answers(
    audit: AuditDirectory, logs: AuditedLogs, riskiest: Sequence[AnswerRisk]
) -> Iterator[EmbeddedAnswer]:
    """The answers of ``riskiest``, in that order.

    Texts of a row are left out if they have more than 400,000 characters in all.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    sources = frozenset(one.source for one in riskiest)
    spans = _spans_by_answer(audit, sources)
    texts = {one.source: one for one in logs.answers(sources) if _text_length(one) <= _MAX_TEXT_CHARS}
    for one in riskiest:
        rows = sorted(spans[one.source], key=lambda row: int(row["span_index"]))
        yield EmbeddedAnswer(answer_of_rows(one.source, rows), one.risk, texts.get(one.source))


def _spans_by_answer(audit: AuditDirectory, sources: frozenset[RowSource]) -> dict[RowSource, list[EvidenceRow]]:
    spans: dict[RowSource, list[EvidenceRow]] = {}
    if not sources:
        return spans
    files = pa.array(sorted({one.source_file for one in sources}))
    rows = pa.array(sorted({one.source_row for one in sources}), pa.int64())
    where = ds.field("source_row").isin(rows) & ds.field("source_file").isin(files)
    for batch in audit.evidence_batches(where=where):
        for row in batch.to_pylist():
            source = RowSource(row["source_file"], row["source_row"])
            if source in sources:
                spans.setdefault(source, []).append(row)
    return spans


def _text_length(answer: QARecord) -> int:
    passages = sum(len(one.text) + len(one.title or "") for one in answer.passages)
    return passages + len(answer.question) + len(answer.answer)


DEAD_LETTERS_PER_REASON = 50
_MAX_ANSWER_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class EmbeddedDeadLetter:
    """One dead letter of the worklist; the fields are those of ``attribeam.schemas.dead_letter_schema``."""

    record_id: str | None
    source_file: str
    source_row: int
    stage: str
    reason: str
    column: str | None
    message: str
    answer: str | None


def embedded_dead_letters(audit: AuditDirectory) -> tuple[EmbeddedDeadLetter, ...]:
    """The first ``DEAD_LETTERS_PER_REASON`` dead letters of each reason, in the order of the input.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    taken: Counter[str] = Counter()
    letters = []
    for batch in audit.dead_letter_batches():
        for row in batch.to_pylist():
            if taken[row["reason"]] < DEAD_LETTERS_PER_REASON:
                taken[row["reason"]] += 1
                letters.append(_dead_letter(row))
    return tuple(letters)


def _dead_letter(row: dict[str, object]) -> EmbeddedDeadLetter:
    letter = EmbeddedDeadLetter(**row)  # type: ignore[arg-type]
    if letter.answer is None or len(letter.answer) <= _MAX_ANSWER_CHARS:
        return letter
    cut = f"{letter.answer[:_MAX_ANSWER_CHARS]}…"
    return EmbeddedDeadLetter(**{**row, "answer": cut})  # type: ignore[arg-type]
