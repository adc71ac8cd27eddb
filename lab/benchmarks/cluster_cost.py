"""What an audit of many rows costs on a cluster: cores, GPUs, hours and bytes, from the stage costs of measured runs.

    python -m attribeam.lab.benchmarks.cluster_cost --record lab/benchmarks/cluster_runs.json

The model: a row costs the CPU time of its stages, times what the engine adds to it; the stages of a chunk run one after
the other in a worker, and chunks run side by side, because only their list is shuffled. So the time is the start-up,
and the rows' time divided by the workers. Start-up and the engine's factor follow from the two shortest runs; longer
ones are foretold and compared. With GPUs, the stage "attribute" costs ``--gpu-ms`` on a GPU instead, beside the CPU
stages.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribeam.lab.markdown_table import markdown_table

MODEL_STAGE = "attribute"
_SIZES = (10**6, 10**8, 10**9)


@dataclass(frozen=True, slots=True)
class RowCost:
    """What one row costs, and what a run costs besides.

    Attributes:
        cpu_ms, model_ms: CPU time of the stages without the model, and of the model, in the local driver.
        engine_factor: how many times as long a row occupies a worker of the cluster, without start-up.
        start_seconds: from the command to the first row, and from the last to the end.
        read_bytes, written_bytes, shuffled_bytes: of a row in the log, in the output, and between tasks.
    """

    cpu_ms: float
    model_ms: float
    engine_factor: float
    start_seconds: float
    read_bytes: float
    written_bytes: float
    shuffled_bytes: float

    @classmethod
    def measured(cls, shorter: Mapping[str, Any], longer: Mapping[str, Any], *, workers: int) -> RowCost:
        """The costs that two runs of ``cluster_throughput`` show: what does not grow with the rows is start-up.

        Raises:
            ValueError: if the longer run has no more rows than the shorter one.
        """
        more_rows = longer["rows"] - shorter["rows"]
        if more_rows <= 0:
            raise ValueError(f"the runs should have different numbers of rows, both have: {longer['rows']}")
        row_seconds = (longer["cluster_seconds"] - shorter["cluster_seconds"]) / more_rows
        rows, stages = longer["rows"], longer["stage_ms"]
        return cls(
            cpu_ms=sum(stages.values()) - stages[MODEL_STAGE],
            model_ms=stages[MODEL_STAGE],
            engine_factor=row_seconds * 1000 * workers / sum(stages.values()),
            start_seconds=max(0.0, longer["cluster_seconds"] - rows * row_seconds),
            read_bytes=longer["log_bytes"] / rows,
            written_bytes=longer["output_bytes"] / rows,
            shuffled_bytes=longer["shuffled_bytes"] / rows,
        )

    def seconds(self, rows: int, *, workers: int) -> float:
        """How long ``rows`` take on CPU workers of one core each."""
        return self.start_seconds + rows * self.engine_factor * (self.cpu_ms + self.model_ms) / 1000 / workers

    def workers(self, rows: int, *, hours: float) -> int:
        """CPU workers that finish ``rows`` within ``hours``."""
        return _needed(rows * self.engine_factor * (self.cpu_ms + self.model_ms), self._seconds_left(hours))

    def with_gpus(self, rows: int, *, hours: float, gpu_ms: float) -> tuple[int, int]:
        """CPU cores and GPUs that finish ``rows`` within ``hours``; each GPU takes ``gpu_ms`` a row."""
        left = self._seconds_left(hours)
        return _needed(rows * self.engine_factor * self.cpu_ms, left), _needed(rows * gpu_ms, left)

    def _seconds_left(self, hours: float) -> float:
        """Seconds for rows within ``hours``.

        Raises:
            ValueError: if the start-up takes all of them.
        """
        left = 3600 * hours - self.start_seconds
        if left <= 0:
            raise ValueError(f"hours should be more than the start-up of {self.start_seconds:.0f} s, was: {hours}")
        return left


def _needed(milliseconds: float, seconds: float) -> int:
    return max(1, math.ceil(milliseconds / 1000 / seconds))


def main() -> int:
    """Print the model's table and how well it foretells the longer ones of the measured runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, required=True, help="what cluster_throughput has written")
    parser.add_argument("--workers", type=int, default=2, help="workers of the measured cluster (default: 2)")
    parser.add_argument("--hours", type=float, default=8.0, help="time that an audit may take (default: %(default)g)")
    parser.add_argument(
        "--gpu-ms", type=float, default=1.0, help="milliseconds of a GPU per row (default: %(default)g)"
    )
    args = parser.parse_args()
    runs = sorted(json.loads(args.record.read_text())["runs"], key=lambda run: run["rows"])
    if len(runs) < 2:
        parser.error(f"--record should hold runs of two lengths or more, {args.record} holds {len(runs)}")
    cost = RowCost.measured(runs[0], runs[1], workers=args.workers)
    print(_table(cost, hours=args.hours, gpu_ms=args.gpu_ms))
    print(
        f"start-up {cost.start_seconds:.0f} s; a row: {cost.cpu_ms + cost.model_ms:.1f} ms of CPU in stages, "
        f"of it {cost.model_ms:.1f} in the model; on the cluster {cost.engine_factor:.2f} times as long"
    )
    for run in runs[2:]:
        foretold = cost.seconds(run["rows"], workers=args.workers)
        error = foretold / run["cluster_seconds"] - 1
        print(f"{run['rows']:,} rows: foretold {foretold:.0f} s, took {run['cluster_seconds']:.0f} s ({error:+.0%})")
    return 0


def _table(cost: RowCost, *, hours: float, gpu_ms: float) -> str:
    header = ("rows", "cores without GPU", "cores with GPUs", "GPUs", "hours", "GB read", "GB written", "GB shuffled")
    return markdown_table(header, [_cells(cost, rows, hours, gpu_ms) for rows in _SIZES], padded=True)


def _cells(cost: RowCost, rows: int, hours: float, gpu_ms: float) -> Sequence[str]:
    cores, gpus = cost.with_gpus(rows, hours=hours, gpu_ms=gpu_ms)
    moved = (cost.read_bytes, cost.written_bytes, cost.shuffled_bytes)
    sizes = [f"{rows * one / 1e9:,.1f}" for one in moved]
    return (f"{rows:,}", f"{cost.workers(rows, hours=hours):,}", f"{cores:,}", f"{gpus:,}", f"{hours:g}", *sizes)


if __name__ == "__main__":
    sys.exit(main())
