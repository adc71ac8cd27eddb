"""Submit the graph to a portable job service: ``python -m tests.pipeline.submit_portable_job ENDPOINT FILE ...``."""

from __future__ import annotations

import sys
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner

from attribution.model_options import ModelOptions
from pipeline.graph import build_graph
from tests.pipeline.audit_fixtures import output_in, with_token_budget
from transforms.audit_settings import AuditSettings
from transforms.row_range import RowRange

ROWS_PER_RANGE = 8


def submit(endpoint: str, file: str, model: str, parser: str, folder: Path) -> None:
    """Run the distributed form of the graph, each worker a process; every start of one adds a line to ``workers``."""
    settings = with_token_budget(AuditSettings(model=ModelOptions(model=model), parser=parser), 1)
    rows = pq.read_metadata(file).num_rows
    starts = range(0, rows, ROWS_PER_RANGE)
    ranges = [RowRange(file, start, min(start + ROWS_PER_RANGE, rows)) for start in starts]
    options = PipelineOptions(
        job_endpoint=endpoint,
        environment_type="beam:env:harness_subprocess_python:v1",
        environment_config=f"echo started >> {folder / 'workers'} && exec {sys.executable} -m "
        "apache_beam.runners.worker.sdk_worker_main",
    )
    pipeline = beam.Pipeline(runner=PortableRunner(), options=options)
    build_graph(pipeline, row_ranges=ranges, settings=settings, output=output_in(folder), distributed=True)
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    submit(*sys.argv[1:5], Path(sys.argv[5]))
