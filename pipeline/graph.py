"""The whole audit as one graph, the same for every runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.configuration import OutputSchemas
from attribeam.transforms.attribute_rows import AttributeRows, PackForModel
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.dead_letters import DEAD_LETTERS, WriteDeadLetters
from attribeam.transforms.make_evidence import MakeEvidence
from attribeam.transforms.prepare_rows import EncodeRows, ParseAnswers
from attribeam.transforms.read_qa_logs import ReadQALogs
from attribeam.transforms.write_evidence import WriteTables


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """Where the graph writes, see ``WriteTables``."""

    evidence_prefix: str
    dead_letter_prefix: str
    schemas: OutputSchemas


def build_graph(
    pipeline: beam.Pipeline,
    *,
    row_ranges: Sequence[RowRange],
    settings: AuditSettings,
    output: GraphOutput,
    distributed: bool,
    fatal_rows: Mapping[int, str] | None = None,
) -> None:
    """Add the audit of ``row_ranges`` to ``pipeline``.

    Locally all stages run fused, so evidence keeps the order of the rows. ``distributed`` adds shuffles after the
    ranges and before the model, and shards the files. ``fatal_rows`` belong to the only range, see ``ReadQALogs``.
    """
    spread = _Spread(distributed)
    ranges = pipeline | "ListRanges" >> beam.Create(row_ranges, reshuffle=False) | "SpreadRanges" >> spread
    storage = BeamStorage() if distributed else ArrowStorage()
    read = ranges | "ReadRows" >> ReadQALogs(settings, fatal_rows or {}, storage)
    encoded = read.records | "EncodeRows" >> EncodeRows(settings)
    parsed = encoded.rows | "ParseAnswers" >> ParseAnswers(settings)
    blocks = parsed.parsed | "PackRows" >> PackForModel(settings) | "SpreadBlocks" >> spread
    attributed = blocks | "AttributeRows" >> AttributeRows(settings)
    evidence = beam.ParDo(MakeEvidence(settings, output.schemas.evidence))
    made = attributed | "MakeEvidence" >> evidence.with_outputs(DEAD_LETTERS, main="evidence")
    letters = [stage[DEAD_LETTERS] for stage in (read, encoded, parsed, made)]
    made.evidence | "WriteEvidence" >> WriteTables(output.evidence_prefix, output.schemas.evidence, distributed)
    (
        letters
        | "GatherDeadLetters" >> beam.Flatten()
        | "WriteDeadLetters" >> WriteDeadLetters(output.dead_letter_prefix, output.schemas.dead_letters, distributed)
    )


class _Spread(beam.PTransform):
    """Spreads elements over all workers; does nothing in a local run, which must stay fused."""

    def __init__(self, distributed: bool) -> None:
        super().__init__()
        self._distributed = distributed

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements | beam.Reshuffle() if self._distributed else elements
