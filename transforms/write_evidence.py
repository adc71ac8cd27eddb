"""Stage 6: Parquet files of evidence and of dead letters."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io import WriteToParquetBatched

from attribeam.schemas import DeadLetter, dead_letter_row
from attribeam.transforms.elements import PackRows
from attribeam.transforms.stage_metrics import stage

_CODEC = "zstd"
_LETTERS_AT_ONCE = 1000


@dataclass
class WriteTables(beam.PTransform):
    """Arrow tables of ``schema`` to Parquet files whose names begin with ``prefix``.

    ``distributed``: to ``<prefix>-00000-of-0000N.parquet``, N is the runner's. Else: to ``<prefix>.parquet``, by one
    bundle in its order, without Beam's file sink, whose ten steps would take longer than the rows of a short chunk.
    No rows make one file without rows.
    """

    prefix: str
    schema: pa.Schema
    distributed: bool

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        if self.distributed:
            return tables | WriteToParquetBatched(self.prefix, self.schema, codec=_CODEC, file_name_suffix=".parquet")
        return tables | beam.ParDo(WriteOneFile(f"{self.prefix}.parquet", self.schema))


class WriteOneFile(beam.DoFn):
    """The tables of one bundle into one new local file, which is there under its name when the bundle has ended."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path = Path(path)
        self._schema = schema

    def start_bundle(self) -> None:
        if self._path.exists():
            raise FileExistsError(f"{self._path} should be written by one bundle, is there: is the graph fused?")
        self._unfinished = self._path.with_suffix(".unfinished")
        with stage("write"):
            self._writer = pq.ParquetWriter(
                self._unfinished, self._schema, compression=_CODEC, use_compliant_nested_type=False
            )

    def process(self, table: pa.Table) -> None:
        with stage("write"):
            self._writer.write_table(table)

    def finish_bundle(self) -> None:
        with stage("write"):
            self._writer.close()
            self._unfinished.rename(self._path)


@dataclass
class WriteDeadLetters(beam.PTransform):
    """``DeadLetter`` elements to Parquet, as ``WriteTables`` does.

    They come from several stages, in an order that changes from process to process. So a local chunk's are gathered
    until it ends, and written in the order of its rows.
    """

    prefix: str
    schema: pa.Schema
    distributed: bool

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        return (
            letters
            | "GatherLetters" >> beam.ParDo(PackRows(_LETTERS_AT_ONCE if self.distributed else sys.maxsize))
            | "MakeTables" >> beam.Map(dead_letter_table, self.schema)
            | "WriteTables" >> WriteTables(self.prefix, self.schema, self.distributed)
        )


def dead_letter_table(letters: Iterable[DeadLetter], schema: pa.Schema) -> pa.Table:
    """Some dead letters as a table of ``schema``, in the order of their rows in the input."""
    ordered = sorted(letters, key=lambda letter: (letter.source.source_file, letter.source.source_row))
    return pa.Table.from_pylist([dead_letter_row(letter) for letter in ordered], schema=schema)
