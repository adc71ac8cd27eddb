"""Audits a table in memory as a run audits a log: the evidence of its rows as a table, and dead letters beside it.

Of the method's rooms, this file alone imports ``logs``: a table of rows is a log without a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from tqdm import tqdm

from attribeam.attribution.rows import Refusal, SpanOutcome
from attribeam.logs.columns import LogOptions, checked_columns, parse_column_mapping
from attribeam.logs.qa_log import ArrowStream, Dataset, TableLog, in_python
from attribeam.logs.rows import FaultyRow
from attribeam.schemas import DeadLetter, QARecord, dead_letter_row, dead_letter_schema, evidence_schema
from attribeam.schemas.errors import UsageError
from attribeam.schemas.evidence_record import evidence_table
from attribeam.schemas.qa_record import reading_stage

ColumnNames: TypeAlias = Mapping[str, str] | str
"""Fields of the QA record and the columns that hold them, as a mapping or as ``--columns`` takes them."""

ArrowTable: TypeAlias = ArrowStream | pa.RecordBatch | Dataset
"""What gives its rows as Arrow data."""

_ROWS_AT_ONCE = 256
"""As many rows as an audit's blocks have at most: what is kept of them besides the result is bounded."""


class TableEvidence(NamedTuple):
    """What an audit of a table found: ``evidence``, one row per span, in the order of the table, by
    ``evidence_schema``.

    Every row of the table that could not be audited has one in ``dead_letters``, by ``dead_letter_schema``.
    """

    evidence: pa.Table
    dead_letters: pa.Table


@dataclass(frozen=True, slots=True)
class TableAudit:
    """How tables are audited: ``outcomes`` gives one per record, in order.

    ``provenance`` is what the evidence depends on besides its input, for the tables' metadata; ``has_mass`` says
    whether the method gives every span an evidence mass.
    """

    outcomes: Callable[[Sequence[QARecord]], list[SpanOutcome]]
    provenance: Mapping[str, str]
    has_mass: bool

    def of(self, log: TableLog, *, progress: bool) -> TableEvidence:
        """The whole table's evidence; ``batches`` says what is raised."""
        parts = [*self.batches(log, progress=progress)]
        evidence, letters = self._schemas(log)
        return TableEvidence(
            evidence=pa.concat_tables([evidence.empty_table(), *(part.evidence for part in parts)]),
            dead_letters=pa.concat_tables([letters.empty_table(), *(part.dead_letters for part in parts)]),
        )

    def batches(self, log: TableLog, *, progress: bool) -> Iterator[TableEvidence]:
        """The evidence of up to 256 rows at a time; the table is checked before the first are audited.

        Raises:
            UsageError: if the data are no table, or an extra column has the name of a field of the evidence.
            LogFormatError: if a column is missing, is there twice or has another type than expected.
        """
        evidence, letters = self._schemas(log)
        rows = log.outcomes()
        with tqdm(total=log.row_count, desc="attribute", unit="row", disable=not progress) as bar:
            while some := list(islice(rows, _ROWS_AT_ONCE)):
                yield self._audited(some, evidence, letters)
                bar.update(len(some))

    def _schemas(self, log: TableLog) -> tuple[pa.Schema, pa.Schema]:
        metadata = {f"attribeam.{name}": value for name, value in sorted(self.provenance.items())}
        fields = log.columns.extra_fields
        try:
            evidence = evidence_schema(extra_fields=fields, metadata=metadata, has_mass=self.has_mass)
        except ValueError as error:
            raise UsageError(in_python(str(error))) from error
        return evidence, dead_letter_schema(metadata)

    def _audited(self, rows: Sequence[QARecord | FaultyRow], evidence: pa.Schema, letters: pa.Schema) -> TableEvidence:
        audits = iter(self.outcomes([row for row in rows if isinstance(row, QARecord)]))
        audited, refused = [], []
        for row in rows:
            outcome = next(audits) if isinstance(row, QARecord) else Refusal(reading_stage(row.fault.reason), row.fault)
            if isinstance(row, QARecord) and not isinstance(outcome, Refusal):
                audited.append((row, outcome))
            elif isinstance(outcome, Refusal):
                fault = outcome.fault
                letter = DeadLetter(
                    record_id=row.record_id,
                    source=row.source,
                    stage=outcome.stage,
                    reason=fault.reason,
                    message=str(fault),
                    column=fault.column,
                )
                refused.append(dead_letter_row(letter))
        return TableEvidence(evidence_table(audited, evidence), pa.Table.from_pylist(refused, schema=letters))


def table_log(
    data: object, *, columns: ColumnNames | None, extra_columns: Iterable[str], name: str, max_text_chars: int
) -> TableLog:
    """A table with the options of a log; ``extra_columns`` may be a list or a text as ``--extra-columns`` takes it.

    Raises:
        UsageError: if ``columns`` names an unknown field.
    """
    try:
        pairs = parse_column_mapping(columns) if isinstance(columns, str) else checked_columns((columns or {}).items())
    except UsageError as error:
        raise UsageError(in_python(str(error))) from error
    if isinstance(extra_columns, str):
        extra_columns = [column.strip() for column in extra_columns.split(",")]
    return TableLog(data, name, LogOptions(pairs, tuple(extra_columns), max_text_chars))
