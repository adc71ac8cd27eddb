"""The whole audit as one graph: locally row by row, on a distributed runner group by group, with the same stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.engines.commit_groups import CommitGroups, TakeUpGroups
from attribeam.pipeline.engines.group_store import GroupStore
from attribeam.transforms.attribute_rows import pack_for_model
from attribeam.transforms.audit_records import AuditRecords
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.dead_letters import DEAD_LETTERS, WriteDeadLetters
from attribeam.transforms.prepare_rows import Encode, ParseRows, pack_for_parser
from attribeam.transforms.read_qa_logs import ReadQALogs, ReadRows
from attribeam.transforms.row_groups import (
    AttributeGroups,
    MakeGroupEvidence,
    RowGroup,
    each_group,
    register_group_coder,
)
from attribeam.transforms.write_evidence import WriteTables


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """Where the local graph writes, see ``WriteTables``."""

    evidence_prefix: str
    dead_letter_prefix: str
    schemas: OutputSchemas


def build_graph(
    pipeline: beam.Pipeline,
    *,
    row_ranges: Sequence[RowRange],
    settings: AuditSettings,
    output: GraphOutput,
    fatal_rows: Mapping[int, str] | None = None,
) -> None:
    """Add the audit of ``row_ranges`` to ``pipeline``; all stages run fused, so evidence keeps the order of the rows.

    ``fatal_rows`` belong to the only range, see ``ReadQALogs``.
    """
    ranges = pipeline | "ListRanges" >> beam.Create(row_ranges, reshuffle=False)
    read = ranges | "ReadRows" >> ReadQALogs(settings, fatal_rows)
    made = read.records | "AuditRecords" >> AuditRecords(settings, output.schemas.evidence)
    letters = (read[DEAD_LETTERS], made.dead_letters)
    schemas = output.schemas
    made.evidence | "WriteEvidence" >> WriteTables(output.evidence_prefix, schemas.evidence, schemas.privacy)
    (
        letters
        | "GatherDeadLetters" >> beam.Flatten()
        | "WriteDeadLetters" >> WriteDeadLetters(output.dead_letter_prefix, schemas.dead_letters, schemas.privacy)
    )


def build_group_graph(
    pipeline: beam.Pipeline,
    *,
    chunks: Sequence[Chunk],
    settings: AuditSettings,
    store: GroupStore,
    schemas: OutputSchemas,
) -> None:
    """Add the audit of ``chunks`` to ``pipeline``, each as one element that ends with its commit.

    Only the list of chunks is shuffled. Each is committed as soon as it is finished, because nothing waits for others.
    """
    register_group_coder()
    groups = [RowGroup(chunk, (chunk.rows,)) for chunk in chunks]
    (
        pipeline
        | "ListChunks" >> beam.Create(groups, reshuffle=False).with_output_types(RowGroup)
        | "SpreadChunks" >> beam.Reshuffle()
        | "TakeUp" >> beam.ParDo(TakeUpGroups(store, settings, schemas)).with_output_types(RowGroup)
        | "ReadRows" >> each_group(ReadRows(settings, {}, BeamStorage()))
        | "EncodeRows" >> each_group(Encode(settings))
        | "ParseAnswers" >> each_group(pack_for_parser(), ParseRows(settings))
        | "PackRows" >> each_group(pack_for_model())
        | "OnModelWorkers" >> _AttributeAndCommit(settings, store, schemas)
    )


@dataclass
class _AttributeAndCommit(beam.PTransform):
    """The model, and the stages behind it: a group is committed on the machine that attributed it."""

    settings: AuditSettings
    store: GroupStore
    schemas: OutputSchemas

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, groups: beam.PCollection) -> beam.PCollection:
        make = beam.ParDo(MakeGroupEvidence(self.settings, self.schemas.evidence)).with_output_types(RowGroup)
        return (
            groups
            | "AttributeRows" >> AttributeGroups(self.settings)
            | "MakeEvidence" >> make
            | "Commit" >> beam.ParDo(CommitGroups(self.store, self.settings, self.schemas))
        )
