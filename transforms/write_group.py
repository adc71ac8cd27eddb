"""Stage 6: the tables of a group to Parquet files, without the texts that should not be written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import DeadLetter, dead_letter_row
from attribeam.transforms.hide_texts import HideTexts
from attribeam.transforms.row_groups import RowGroup
from attribeam.transforms.stage_metrics import stage

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
