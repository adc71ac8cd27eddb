"""Stage 6: Arrow tables to Parquet files, without the texts that should not be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.transforms.hide_texts import HideTexts
from attribeam.transforms.stage_metrics import stage

_CODEC = "zstd"


@dataclass
class WriteTables(beam.PTransform):
    """Arrow tables of ``schema`` to one Parquet file ``<prefix>.parquet``, in the order of their bundle.

    Beam's own file sink has ten steps, which would take longer than a short chunk. No rows make an empty file.
    """

    prefix: str
    schema: pa.Schema
    privacy: PrivacySettings = field(default_factory=PrivacySettings)

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        return tables | beam.ParDo(WriteOneFile(f"{self.prefix}.parquet", self.schema, self.privacy))


class WriteOneFile(beam.DoFn):
    """Writes the tables of one bundle to a new local file, which gets its name when the bundle has ended.

    All evidence and all dead letters are written here, and nothing is without what ``privacy`` hides.
    """

    def __init__(self, path: str, schema: pa.Schema, privacy: PrivacySettings) -> None:
        self._path = Path(path)
        self._schema = schema
        self._hide = HideTexts(privacy) if privacy.hides else None

    def start_bundle(self) -> None:
        if self._path.exists():
            raise FileExistsError(f"{self._path} should be written by one bundle, is there: is the graph fused?")
        self._unfinished = self._path.with_suffix(".unfinished")
        with stage("write"):
            self._writer = pq.ParquetWriter(
                self._unfinished,
                self._schema,
                compression=_CODEC,
                use_compliant_nested_type=False,
                write_page_checksum=True,
            )

    def process(self, table: pa.Table) -> None:
        with stage("write"):
            self._writer.write_table(table if self._hide is None else self._hide(table))

    def finish_bundle(self) -> None:
        with stage("write"):
            self._writer.close()
            self._unfinished.rename(self._path)
