"""Rows per second of an audit on a local Flink cluster of two TaskManagers, against the local driver on the same cores.

    python -m lab.benchmarks.cluster_throughput --rows 5000 20000

Start it in the root of a checkout; it needs Java and what ``deploy/flink/get_flink.py`` fetches. Each length is audited
by both, one after the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.flink.cluster import TASK_MANAGERS, FlinkCluster
from deploy.flink.get_flink import get_flink

from lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, write_log
from lab.benchmarks.machine import ProcessRun, machine_description, markdown_table, run_measured, tree_bytes

_SAMPLE_SECONDS = 2.0
_AUDIT_STAGE = "ReadRows"
"""Part of the name of the Flink task that audits; what else runs are start-up and shuffles."""


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """One length, audited by both.

    Attributes:
        local_seconds, cluster_seconds: wall time of the command, with start-up; the cluster itself ran before.
        worker_bytes, task_manager_bytes: the largest memory of one SDK worker, and of a TaskManager with its worker.
        shuffle_share: part of the job's time in which its audit task did not run.
        shuffled_bytes: what the tasks of the job wrote for each other.
    """

    rows: int
    local_seconds: float
    cluster_seconds: float
    worker_bytes: int
    task_manager_bytes: int
    shuffle_share: float
    shuffled_bytes: int

    @property
    def ratio(self) -> float:
        """The cluster's rows per second as a share of the local driver's."""
        return self.local_seconds / self.cluster_seconds


def main() -> int:
    """Measure and print; returns 1 if an audit failed, else 0."""
    args = _parser().parse_args()
    print(machine_description(), flush=True)
    pages = made_up_pages(seed=0)
    runs: list[ClusterRun] = []
    with tempfile.TemporaryDirectory(prefix="attribeam-cluster-") as name:
        folder = Path(name)
        with FlinkCluster(folder / "flink", get_flink(), worker_environment={"OMP_NUM_THREADS": "1"}) as cluster:
            for rows in args.rows:
                log = folder / f"{rows}.parquet"
                write_log(log, benchmark_rows(pages, rows=rows, seed=0, shape=args.shape))
                runs.append(_measure(rows, log, cluster, args.rows_per_chunk))
                print(_line(runs[-1]), file=sys.stderr, flush=True)
    print(_table(runs))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 20_000], help="lengths of the logs")
    parser.add_argument(
        "--shape", type=RowShape, choices=list(RowShape), default=RowShape.WIKIPEDIA, help="of the rows: %(choices)s"
    )
    parser.add_argument("--rows-per-chunk", type=int, default=500, help="of both (default: %(default)s)")
    return parser


def _measure(rows: int, log: Path, cluster: FlinkCluster, rows_per_chunk: int) -> ClusterRun:
    output = log.with_suffix("")
    audit = [sys.executable, "-m", "attribeam", "audit", "--input", str(log), "--rows-per-chunk", str(rows_per_chunk)]
    local = _checked(run_measured([*audit, "--output", f"{output}-local", "--workers", str(TASK_MANAGERS)]))
    with _largest_memory(cluster) as memory:
        on_cluster = _checked(run_measured([*audit, "--output", f"{output}-cluster", *cluster.runner_options()]))
    job = cluster.get(f"jobs/{cluster.jobs()[-1]['jid']}")
    return ClusterRun(
        rows=rows,
        local_seconds=round(local.wall_seconds, 2),
        cluster_seconds=round(on_cluster.wall_seconds, 2),
        worker_bytes=memory.worker,
        task_manager_bytes=memory.task_manager,
        shuffle_share=round(1 - _audit_seconds(job) * 1000 / job["duration"], 4),
        shuffled_bytes=sum(vertex["metrics"]["write-bytes"] for vertex in job["vertices"]),
    )


def _checked(run: ProcessRun) -> ProcessRun:
    if run.exit_code:
        sys.exit(f"an audit ended with exit code {run.exit_code}: {run.standard_error}")
    return run


def _audit_seconds(job: Mapping[str, Any]) -> float:
    """How long the task that audits ran."""
    return max(float(vertex["duration"]) for vertex in job["vertices"] if _AUDIT_STAGE in vertex["name"]) / 1000


@dataclass
class _Memory:
    worker: int = 0
    task_manager: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def sample(self, cluster: FlinkCluster) -> None:
        while not self.ended.wait(_SAMPLE_SECONDS):
            self.worker = max([self.worker, *map(tree_bytes, cluster.sdk_workers())])
            parents = [process.pid for process in cluster.task_managers]
            self.task_manager = max([self.task_manager, *map(tree_bytes, parents)])


@contextmanager
def _largest_memory(cluster: FlinkCluster) -> Iterator[_Memory]:
    """Sample the memory of the cluster's processes during the block."""
    memory = _Memory()
    sampler = threading.Thread(target=memory.sample, args=(cluster,))
    sampler.start()
    try:
        yield memory
    finally:
        memory.ended.set()
        sampler.join()


def _line(run: ClusterRun) -> str:
    return f"{run.rows:,} rows: local {run.local_seconds:.1f} s, cluster {run.cluster_seconds:.1f} s, x {run.ratio:.2f}"


def _table(runs: Sequence[ClusterRun]) -> str:
    header = (
        "rows", "local rows/s", "cluster rows/s", "cluster / local", "MiB per SDK worker",
        "MiB per TaskManager with it", "time outside the audit task", "kB shuffled",
    )  # fmt: skip
    lines = [
        (
            f"{run.rows:,}",
            f"{run.rows / run.local_seconds:.1f}",
            f"{run.rows / run.cluster_seconds:.1f}",
            f"{run.ratio:.2f}",
            f"{run.worker_bytes / 2**20:.0f}",
            f"{run.task_manager_bytes / 2**20:.0f}",
            f"{run.shuffle_share:.0%}",
            f"{run.shuffled_bytes / 1e3:.1f}",
        )
        for run in runs
    ]
    return markdown_table(header, lines, padded=True)


if __name__ == "__main__":
    sys.exit(main())
