"""Stage 6: Parquet files of evidence and of dead letters."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import WriteToParquet

from schemas import dead_letter_row

_ROW_GROUP_BYTES = 16 * 1024 * 1024


@dataclass
class WriteEvidence(beam.PTransform):
    """Rows of ``schema`` to ``<prefix>-00000-of-0000N.parquet``, zstd, in the order of each bundle; N is the runner's.

    No rows make one file without rows.
    """

    prefix: str
    schema: pa.Schema

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        return rows | WriteToParquet(
            self.prefix,
            self.schema,
            codec="zstd",
            row_group_buffer_size=_ROW_GROUP_BYTES,
            file_name_suffix=".parquet",
        )


@dataclass
class WriteDeadLetters(beam.PTransform):
    """``DeadLetter`` elements to Parquet, as ``WriteEvidence`` does."""

    prefix: str
    schema: pa.Schema

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        return letters | beam.Map(dead_letter_row) | WriteEvidence(self.prefix, self.schema)
