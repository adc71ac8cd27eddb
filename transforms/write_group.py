"""Stage 6: the tables of a group to Parquet files, without the texts that should not be written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.privacy import PrivacySettings, Redactor, ValueChange, masking
from attribeam.schemas import DeadLetter, dead_letter_row, dead_letter_schema, evidence_schema
from attribeam.transforms.row_groups import RowGroup, stage

OUR_WORDS = frozenset(
    {"source_file", "span_kind", "support", "claim_kind", "answer_kind", "how", "stage", "reason", "column"}
)
"""Fields with words of ours, or with paths and names of columns, which the user gave: never changed."""

NAMES = frozenset({"record_id", "generator", "top_passage_id", "passage_id", "message"})
"""Fields that name something and hold no text of question, passages or answer: masked, and kept by ``--no-texts``."""


@dataclass(frozen=True, slots=True)
class HideTexts:
    """Tables of evidence or dead letters in, the same tables as they may be written out."""

    privacy: PrivacySettings

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with the same schema; extra columns are masked and never emptied, since the user named them."""
        own = _own_names(table.schema)
        redactor = Redactor(self.privacy)
        of_ours, of_theirs = ValueChange(self._own_text), masking(redactor)
        arrays = [
            pa.nulls(table.num_rows, field.type)
            if field.name in own and self._is_left_out(field)
            else (of_ours if field.name in own else of_theirs).array(
                field.name, table.column(field.name).combine_chunks()
            )
            for field in table.schema
        ]
        return pa.Table.from_arrays(arrays, schema=table.schema)

    def _is_left_out(self, field: pa.Field) -> bool:
        """Whether a column of texts is null: where it may be, since an empty text would say that there is none."""
        return field.nullable and pa.types.is_string(field.type) and self._is_empty(field.name)

    def _is_empty(self, name: str) -> bool:
        return self.privacy.no_texts and name not in OUR_WORDS | NAMES

    def _own_text(self, name: str, text: str) -> str:
        if name in OUR_WORDS:
            return text
        if self._is_empty(name):
            return ""
        return Redactor(self.privacy).mask(text)


def given_names(schema: pa.Schema) -> frozenset[str]:
    """The columns of a table that nothing is masked in: those of our own words, and of what the user gave."""
    return _own_names(schema) & OUR_WORDS


def _own_names(schema: pa.Schema) -> frozenset[str]:
    """The fields that this program declares, without those of ``--extra-columns``, whatever they are called."""
    declared = evidence_schema() if "span_index" in schema.names else dead_letter_schema()
    return frozenset(declared.names)


EVIDENCE_FILE, DEAD_LETTER_FILE = "evidence.parquet", "dead_letters.parquet"


def write_group(
    group: RowGroup, folder: Path, evidence: pa.Schema, dead_letters: pa.Schema, privacy: PrivacySettings
) -> None:
    """Write the evidence tables of a group, then its dead letters, as two files of a folder.

    All evidence and all dead letters are written here, and nothing is without what ``privacy`` hides.
    """
    write_tables(folder / EVIDENCE_FILE, group.rows, evidence, privacy)
    letters = [dead_letter_table(group.letters, dead_letters)] if group.letters else []
    write_tables(folder / DEAD_LETTER_FILE, letters, dead_letters, privacy)


def write_tables(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, privacy: PrivacySettings) -> None:
    """Write the tables to a file, which has its name once it is whole; no tables make a file without rows."""
    hide = HideTexts(privacy) if privacy.hides else None
    unfinished = path.with_suffix(".unfinished")
    with pq.ParquetWriter(
        unfinished, schema, compression="zstd", use_compliant_nested_type=False, write_page_checksum=True
    ) as writer:
        for table in tables:
            with stage("write"):
                writer.write_table(table if hide is None else hide(table))
    unfinished.rename(path)


def dead_letter_table(letters: Iterable[DeadLetter], schema: pa.Schema) -> pa.Table:
    """Dead letters of all stages as a table of ``schema``, in the order of their rows in the input."""
    ordered = sorted(letters, key=lambda letter: (letter.source.source_file, letter.source.source_row))
    return pa.Table.from_pylist([dead_letter_row(letter) for letter in ordered], schema=schema)
