"""The whole audit as one Beam graph: each chunk goes through all stages as one element, on whatever runner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import apache_beam as beam
import pyarrow as pa

from attribeam.logs.files import LogStorage
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.transforms.audit_answers import through_stages
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.read_rows import read_rows
from attribeam.transforms.row_groups import RowGroup


def build_graph(
    pipeline: beam.Pipeline,
    chunks: Sequence[Chunk],
    *,
    settings: AuditSettings,
    storage: LogStorage,
    evidence: pa.Schema,
    take_up: Callable[[Chunk], bool],
    commit: Callable[[RowGroup], None],
) -> None:
    """Add the audit of ``chunks`` to ``pipeline``; ``commit`` gets the tables of each.

    The list is shuffled, less than 1 kB a chunk and no rows, and ``take_up`` says whether a chunk is to be audited.
    Each is committed as soon as it is finished, because nothing waits for others.
    """
    read = (
        pipeline
        | "ListChunks" >> beam.Create([RowGroup(chunk, [chunk.rows]) for chunk in chunks], reshuffle=False)
        | "SpreadChunks" >> beam.Reshuffle()
        | "TakeUp" >> beam.Filter(_taken_up, take_up)
        | "ReadRows" >> beam.Map(_started, settings, storage).with_output_types(RowGroup)
    )
    through_stages(read, settings, evidence) | "Commit" >> beam.Map(commit)


def _taken_up(group: RowGroup, take_up: Callable[[Chunk], bool]) -> bool:
    return take_up(group.chunk)


def _started(group: RowGroup, settings: AuditSettings, storage: LogStorage) -> RowGroup:
    return read_rows(replace(group, started=time.time()), settings, storage)
