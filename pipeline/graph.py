"""The whole audit as one Beam graph: each chunk goes through all stages as one element, on whatever runner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
import pyarrow as pa

from attribeam.logs.files import LogStorage
from attribeam.logs.rows import RowRange
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.make_evidence import audit_rows
from attribeam.transforms.prepare_rows import encode_rows, parse_answers
from attribeam.transforms.read_rows import read_rows
from attribeam.transforms.row_groups import RowGroup


def build_graph(
    pipeline: beam.Pipeline,
    *,
    chunks: Sequence[tuple[Any, RowRange]],
    settings: AuditSettings,
    storage: LogStorage,
    evidence: pa.Schema,
    commit: Callable[[RowGroup], None],
    fatal_rows: Mapping[int, str] | None = None,
    take_up: Callable[[Any], bool] | None = None,
) -> None:
    """Add the audit of ``chunks``, each with its rows, to ``pipeline``; ``commit`` gets the tables of each.

    A distributed run takes chunks up: the list is shuffled, less than 1 kB a chunk and no rows, and ``take_up`` says
    whether a chunk is to be audited. Each is committed as soon as it is finished, because nothing waits for others.

    ``fatal_rows`` belong to the only chunk, see ``read_rows``.
    """
    listed = pipeline | "ListChunks" >> beam.Create(
        [RowGroup(chunk, [rows]) for chunk, rows in chunks], reshuffle=False
    )
    if take_up is not None:
        listed = listed | "SpreadChunks" >> beam.Reshuffle() | "TakeUp" >> beam.Filter(_taken_up, take_up)
    (
        listed
        | "ReadRows" >> beam.Map(_started, settings, storage, fatal_rows).with_output_types(RowGroup)
        | "EncodeRows" >> beam.Map(encode_rows, settings).with_output_types(RowGroup)
        | "ParseAnswers" >> beam.Map(parse_answers, settings).with_output_types(RowGroup)
        | "AuditRows" >> beam.Map(audit_rows, settings, evidence).with_output_types(RowGroup)
        | "Commit" >> beam.Map(commit)
    )


def _taken_up(group: RowGroup, take_up: Callable[[Any], bool]) -> bool:
    return take_up(group.chunk)


def _started(
    group: RowGroup, settings: AuditSettings, storage: LogStorage, fatal_rows: Mapping[int, str] | None
) -> RowGroup:
    return read_rows(replace(group, started=time.time()), settings, storage, fatal_rows)
