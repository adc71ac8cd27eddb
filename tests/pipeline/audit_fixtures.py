"""What the tests of the graph share: tiny models, a small log with faulty rows, and a local run of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult
from tests.attribution.tiny_models import save_tiny_model
from tests.logs.log_files import BROKEN_TEXT, log_row
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.options import ModelOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.graph import GraphOutput, build_graph
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.transforms.audit_settings import AuditSettings


def save_tiny_audit(folder: Path) -> AuditSettings:
    """Settings of an audit with a tiny model and a tiny parser, which are written to ``folder``."""
    model = save_tiny_model(folder / "model")
    parser = save_tiny_parser(folder / "parser")
    return AuditSettings(model=ModelOptions(model=str(model), token_budget=512), parser=str(parser))


def with_token_budget(settings: AuditSettings, token_budget: int) -> AuditSettings:
    """The same audit in smaller or larger batches."""
    return replace(settings, model=settings.model.replaced(token_budget=token_budget))


def mixed_rows(count: int) -> list[dict[str, object]]:
    """Rows of different lengths; every tenth and some others are faulty, each kind at a stage of its own."""
    rows = [log_row(number, question="Who lit it? " * (1 + number % 4)) for number in range(count)]
    for number in range(0, count, 10):
        rows[number]["answer"] = None
    if count > 8:
        rows[3]["question"] = BROKEN_TEXT
        rows[8]["passages"] = [{"text": "tower " * 900}]
    return rows


def output_in(folder: Path, *, extra_fields: Sequence[pa.Field] = ()) -> GraphOutput:
    """Files with the prefixes "evidence" and "dead_letters" in a folder."""
    return GraphOutput(
        evidence_prefix=str(folder / "evidence"),
        dead_letter_prefix=str(folder / "dead_letters"),
        schemas=OutputSchemas(
            evidence_schema(extra_fields=extra_fields, metadata={"attribeam.model": "tiny"}),
            dead_letter_schema({"attribeam.model": "tiny"}),
        ),
    )


def run_locally(
    file: str, settings: AuditSettings, output: GraphOutput, *, rows: tuple[int, int] | None = None
) -> PipelineResult:
    """Run the graph in memory over some rows of a file, all by default."""
    row_start, row_end = rows or (0, pq.read_metadata(file).num_rows)
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    ranges = [RowRange(file, row_start, row_end)]
    build_graph(pipeline, row_ranges=ranges, settings=settings, output=output)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def counters(result: PipelineResult) -> dict[str, int]:
    """The counters of the namespace "attribeam", summed over the steps."""
    sums: dict[str, int] = {}
    for one in result.metrics().query()["counters"]:
        if one.key.metric.namespace == "attribeam":
            sums[one.key.metric.name] = sums.get(one.key.metric.name, 0) + one.result
    return sums
