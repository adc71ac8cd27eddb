"""The unit of work: a group of rows goes through all stages as one element of a Beam pipeline, and into two files.

In an audit, a group is a chunk. So it is read, audited and committed wherever a runner puts it, whatever it fuses,
retries or doubles, and its rows never meet those of another group: the files are the same, however many workers there
are. A stage is a function from a group to a group. Its rows are made when they are asked for, so that a worker holds
the rows of some blocks only, unless a runner moves the group between two stages.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.privacy import PrivacySettings, Redactor, ValueChange, masking, record_secrets, without_secrets
from attribeam.logs.rows import FaultyRow
from attribeam.schemas import (
    DeadLetter,
    QARecord,
    RowFault,
    Stage,
    dead_letter_row,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.run_manifest import PassageEnd, StageSeconds
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas

EVIDENCE_FILE, DEAD_LETTER_FILE = "evidence.parquet", "dead_letters.parquet"
_STAGES = ("read", "encode", "parse", "attribute", "evidence", "write")
_NEVER_MASKED = frozenset(
    {"source_file", "span_kind", "support", "claim_kind", "answer_kind", "how", "stage", "reason", "column"}
)
"""Columns with this program's own words, or with paths and names of columns that the user gave."""
_KEPT_WITHOUT_TEXTS = frozenset({"record_id", "generator", "top_passage_id", "passage_id", "message"})
"""Columns without text of question, passages or answer: ``--no-texts`` keeps them, and masks apply."""
_T = TypeVar("_T")
_stage_totals: dict[str, list[float]] = {}
_totals_lock = Lock()


@contextmanager
def timed_stage(name: str, cpu_seconds: Callable[[], float] = time.process_time) -> Iterator[None]:
    """Add the wall and CPU time of the block to a stage; by default, CPU time is that of all threads of the process."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    try:
        yield
    finally:
        add_stage_seconds(name, time.perf_counter() - wall, cpu_seconds() - cpu)


def add_stage_seconds(name: str, wall: float, cpu: float) -> None:
    """Add time that was spent elsewhere, such as in a model's own process, to a stage."""
    with _totals_lock:
        total = _stage_totals.setdefault(name, [0.0, 0.0])
        total[0] += wall
        total[1] += cpu


def take_stage_seconds() -> tuple[StageSeconds, ...]:
    """The stages' seconds since the last call, in the order of the graph; idle stages are left out."""
    with _totals_lock:
        taken = {name: _stage_totals[name] for name in _STAGES if name in _stage_totals}
        _stage_totals.clear()
    return tuple(StageSeconds(name, round(wall, 4), round(cpu, 4)) for name, (wall, cpu) in taken.items())


@dataclass
class RowCounts:
    """What no table tells of a group's audited rows.

    Attributes:
        tokens: of prompts and responses.
        rows_in_windows: rows that were longer than the model's context.
        rows_unread: rows that were too long for the verdict's own model, a decoder or a verifier.
        rows_asked: rows that it was asked about.
        passage_sample: of their passages.
        notes: what was noted when they were read, and of how many rows.
    """

    tokens: int = 0
    rows_in_windows: int = 0
    rows_unread: int = 0
    rows_asked: int = 0
    passage_sample: tuple[PassageEnd, ...] = ()
    notes: Counter[str] = field(default_factory=Counter)


def _ignore_progress(_: int) -> None:
    """The default of ``RowGroup.on_rows``."""


@dataclass
class RowGroup:
    """The rows of one chunk between two stages.

    Attributes:
        chunk: what the group is of; stages only pass it on.
        rows: what the last stage makes, in the order of the input: ranges, records, rows or tables. They can be asked
            for once, and only then are the dead letters and the counts complete.
        dead_letters: those of all stages so far.
        counts: of the audited rows.
        started: seconds since 1970 when the group was taken up.
        on_rows: is told how many more rows are finished.
    """

    chunk: Any
    rows: Iterable[Any]
    dead_letters: list[DeadLetter] = field(default_factory=list)
    counts: RowCounts = field(default_factory=RowCounts)
    started: float = 0.0
    on_rows: Callable[[int], None] = _ignore_progress

    def with_rows(self, rows: Iterable[Any]) -> RowGroup:
        """The same group with other rows: what a stage returns."""
        return replace(self, rows=rows)

    def refuse(self, letter: DeadLetter) -> None:
        """Add a dead letter."""
        self.dead_letters.append(letter)
        self.on_rows(1)

    def __getstate__(self) -> dict[str, Any]:
        self.rows = tuple(self.rows)
        return self.__dict__


def pack_rows(
    rows: Iterable[_T], *, max_rows: int, weigh: Callable[[_T], int], max_weight: int
) -> Iterator[tuple[_T, ...]]:
    """The rows in tuples of at most ``max_rows``; one is also closed when its weight reaches ``max_weight``."""
    pack: list[_T] = []
    weight = 0
    for row in rows:
        pack.append(row)
        weight += weigh(row)
        if len(pack) >= max_rows or weight >= max_weight:
            yield tuple(pack)
            pack, weight = [], 0
    if pack:
        yield tuple(pack)


def dead_letter_of_faulty_row(row: FaultyRow, stage: Stage, settings: AuditSettings) -> DeadLetter:
    """The dead letter of a row, with its answer if the settings ask for it."""
    answer, fault = row.answer if settings.dead_letter_text else None, row.fault
    return DeadLetter(row.record_id, row.source, stage, fault.reason, str(fault), fault.column, answer)


def dead_letter(record: QARecord, fault: RowFault, stage: Stage, settings: AuditSettings) -> DeadLetter:
    """The dead letter of a valid record that failed at a stage.

    What the record holds of e-mail addresses and numbers is masked in it; the rest is, when it is written.
    """
    secrets = record_secrets(record, Redactor(settings.privacy))
    record_id, message, answer = (without_secrets(t, secrets) for t in (record.record_id, str(fault), record.answer))
    shown = RowFault(fault.reason, message, column=fault.column)
    return dead_letter_of_faulty_row(FaultyRow(record.source, record_id, shown, answer), stage, settings)


def dead_letter_table(letters: Iterable[DeadLetter], schema: pa.Schema) -> pa.Table:
    """Dead letters of all stages as a table of ``schema``, in the order of their rows in the input."""
    ordered = sorted(letters, key=lambda letter: (letter.source.source_file, letter.source.source_row))
    return pa.Table.from_pylist([dead_letter_row(letter) for letter in ordered], schema=schema)


def hide_texts(table: pa.Table, privacy: PrivacySettings) -> pa.Table:
    """A table of evidence or dead letters as it may be written.

    Extra columns are masked and never emptied, since the user named them. A column of texts that are left out is null
    where it may be, since an empty text would say that there is none.
    """
    if not privacy.hides:
        return table
    declared, redactor = _declared_columns(table.schema), Redactor(privacy)
    without_texts = _NEVER_MASKED | _KEPT_WITHOUT_TEXTS

    def masked_text(name: str, text: str) -> str:
        if name in _NEVER_MASKED:
            return text
        return "" if privacy.no_texts and name not in without_texts else redactor.mask(text)

    def masked_column(field: pa.Field) -> pa.Array:
        is_left_out = privacy.no_texts and field.name in declared - without_texts
        if is_left_out and field.nullable and pa.types.is_string(field.type):
            return pa.nulls(table.num_rows, field.type)
        change = ValueChange(masked_text) if field.name in declared else masking(redactor)
        return change.array(field.name, table.column(field.name).combine_chunks())

    return pa.Table.from_arrays([masked_column(field) for field in table.schema], schema=table.schema)


def unmasked_columns(schema: pa.Schema) -> frozenset[str]:
    """The columns that are never masked: this program's own words, and paths and names that the user gave."""
    return _declared_columns(schema) & _NEVER_MASKED


def _declared_columns(schema: pa.Schema) -> frozenset[str]:
    """The fields that this program declares, without those of ``--extra-columns``, whatever they are called."""
    declared = evidence_schema() if "span_index" in schema.names else dead_letter_schema()
    return frozenset(declared.names)


def write_group(group: RowGroup, folder: Path, schemas: OutputSchemas) -> None:
    """Write the evidence tables of a group, then its dead letters, as two files of a folder.

    All evidence and all dead letters are written here, and nothing is without what the privacy of ``schemas`` hides.
    """
    write_tables(folder / EVIDENCE_FILE, group.rows, schemas.evidence, schemas.privacy)
    letters = [dead_letter_table(group.dead_letters, schemas.dead_letters)] if group.dead_letters else []
    write_tables(folder / DEAD_LETTER_FILE, letters, schemas.dead_letters, schemas.privacy)


def write_tables(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, privacy: PrivacySettings) -> None:
    """Write the tables to a file, which has its name once it is whole; no tables make a file without rows."""
    unfinished = path.with_suffix(".unfinished")
    with pq.ParquetWriter(
        unfinished, schema, compression="zstd", use_compliant_nested_type=False, write_page_checksum=True
    ) as writer:
        for table in tables:
            with timed_stage("write"):
                writer.write_table(hide_texts(table, privacy))
    unfinished.rename(path)
