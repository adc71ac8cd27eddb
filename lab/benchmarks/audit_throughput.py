"""Rows per second and peak memory of ``attribeam audit`` on generated QA logs of growing length.

python -m lab.benchmarks.audit_throughput --rows 1000 10000 100000 --workers 2 \\
    --text pages.jsonl --shape wikipedia
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from lab.benchmarks.generated_rows import (
    PageWords,
    RowShape,
    benchmark_rows,
    made_up_pages,
    read_pages,
    write_log,
)
from lab.benchmarks.machine import ProcessRun, machine_description, markdown_table, run_measured

_HEADER = (
    "rows", "seconds", "rows/s", "CPU s", "CPU ms/row", "peak MiB", "spans", "spans/s", "dead letters", "output MB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measurement:
    """One audit: its time and memory, and what it wrote."""

    rows: int
    run: ProcessRun
    spans: int
    dead_letters: int
    output_bytes: int

    @property
    def rows_per_second(self) -> float:
        """Rows per second of wall time, including start-up."""
        return self.rows / self.run.wall_seconds

    def cells(self) -> tuple[str, ...]:
        """The audit's line in the table."""
        return (
            f"{self.rows:,}",
            f"{self.run.wall_seconds:.1f}",
            f"{self.rows_per_second:.1f}",
            f"{self.run.cpu_seconds:.1f}",
            f"{1000 * self.run.cpu_seconds / self.rows:.1f}",
            f"{self.run.peak_bytes / 2**20:.0f}",
            f"{self.spans:,}",
            f"{self.spans / self.run.wall_seconds:.0f}",
            f"{self.dead_letters:,}",
            f"{self.output_bytes / 1e6:.1f}",
        )


def main() -> int:
    """Measure and print; returns 1 if an audit failed, else 0."""
    args = _parser().parse_args()
    print(machine_description())
    text = args.text.name if args.text else "made up"
    print(f"{args.shape} rows; workers {args.workers}; text: {text}; seed {args.seed}", flush=True)
    pages = read_pages(args.text) if args.text else made_up_pages(seed=args.seed)
    measurements = []
    for rows in args.rows:
        measurement = _measure(rows, pages, args)
        if measurement.run.exit_code:
            print(measurement.run.standard_error, file=sys.stderr)
            print(f"the audit of {rows} rows ended with exit code {measurement.run.exit_code}", file=sys.stderr)
            return 1
        print(f"{rows:,} rows: {measurement.rows_per_second:.1f} rows/s", file=sys.stderr, flush=True)
        measurements.append(measurement)
    print(markdown_table(_HEADER, [measurement.cells() for measurement in measurements], padded=True))
    print("\n".join(_ratios(measurements)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000], help="lengths of the logs")
    parser.add_argument("--workers", type=int, default=2, help="workers of attribeam audit (default: 2)")
    parser.add_argument(
        "--text", type=Path, help='pages to take text from: JSONL of {"title", "paras"} (default: made-up words)'
    )
    parser.add_argument(
        "--shape",
        type=RowShape,
        choices=list(RowShape),
        default=RowShape.WIKIPEDIA,
        help="shape of the rows (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of text and rows (default: 0)")
    parser.add_argument("--keep", type=Path, help="directory to keep logs and audits in (default: a temporary one)")
    parser.add_argument(
        "--audit-options",
        nargs=argparse.REMAINDER,
        default=[],
        help="all following arguments are passed to attribeam audit",
    )
    return parser


def _measure(rows: int, pages: Sequence[PageWords], args: argparse.Namespace) -> Measurement:
    with _folder(args.keep, prefix=f"attribeam-{rows}-") as folder:
        log, output = folder / "qa_logs.parquet", folder / "audit"
        write_log(log, benchmark_rows(pages, rows=rows, seed=args.seed, shape=args.shape))
        command = [sys.executable, "-m", "attribeam", "audit", "--input", str(log), "--output", str(output)]
        run = run_measured([*command, "--workers", str(args.workers), *args.audit_options])
        files = [path for path in output.rglob("*") if path.is_file()]
        return Measurement(
            rows=rows,
            run=run,
            spans=_rows_of(files, "evidence"),
            dead_letters=_rows_of(files, "dead_letters"),
            output_bytes=sum(path.stat().st_size for path in files),
        )


@contextmanager
def _folder(kept_in: Path | None, *, prefix: str) -> Iterator[Path]:
    """A new folder in the one to keep, or a temporary one, which is removed even if the audit fails."""
    if kept_in is not None:
        kept_in.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix=prefix, dir=kept_in))
        return
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        yield Path(name)


def _rows_of(files: Sequence[Path], folder: str) -> int:
    return sum(pq.read_metadata(path).num_rows for path in files if path.suffix == ".parquet" and folder in path.parts)


def _ratios(measurements: Sequence[Measurement]) -> list[str]:
    """The longest log compared with the one before; speed must not fall, and memory not grow by more than a fifth."""
    if len(measurements) < 2:
        return []
    shorter, longer = measurements[-2:]
    speed = longer.rows_per_second / shorter.rows_per_second
    memory = longer.run.peak_bytes / shorter.run.peak_bytes
    return [f"{longer.rows:,} compared with {shorter.rows:,} rows: rows/s x {speed:.2f}, peak memory x {memory:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
