"""How well worker processes keep a model worker busy: rows per second, and the share of time that the model waits.

Here the model is a stand-in that sleeps for a set time per token, so no GPU is needed, and all CPU time is that of the
workers. The log is short and ``--rows-per-chunk`` the default, so ends of chunks count. ``FedAudit`` measures the same
with any model and device.

python -m attribeam.lab.benchmarks.model_workers --rows 1000 --workers 1 2 4 --microseconds-per-token 1 30
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from attribeam.lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, read_pages, write_log
from attribeam.lab.benchmarks.machine import machine_description, run_measured
from attribeam.lab.benchmarks.sleeping_model import save_sleeping_model
from attribeam.lab.markdown_table import markdown_table
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import RunManifest

_USE = re.compile(r"model workers waited for rows ([\d.]+)% of the time; blocks of rows took up at most ([\d.,]+) MB")
HEADER = (
    "model ms/row", "workers", "rows/s", "CPU ms/row", "CPU ms/row / workers", "model waits", "blocks MB", "peak MiB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measurement:
    """One audit with a model worker.

    Attributes:
        model_ms: milliseconds that the model took per row.
        cpu_ms: milliseconds of processor time that all other stages took per row.
        waiting_percent: share of the time that the model waited, from its first block to its last.
        block_megabytes: the most that blocks of rows took up at a time.
    """

    workers: int
    model_ms: float
    cpu_ms: float
    rows_per_second: float
    waiting_percent: float
    block_megabytes: float
    peak_bytes: int

    def cells(self) -> tuple[str, ...]:
        """The audit's line in the table."""
        return (
            f"{self.model_ms:.1f}",
            str(self.workers),
            f"{self.rows_per_second:.1f}",
            f"{self.cpu_ms:.1f}",
            f"{self.cpu_ms / self.workers:.1f}",
            f"{self.waiting_percent:.1f} %",
            f"{self.block_megabytes:.1f}",
            f"{self.peak_bytes / 2**20:.0f}",
        )


def main() -> int:
    """Measure and print; returns 1 if an audit failed, else 0."""
    args = _parser().parse_args()
    print(machine_description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="attribeam-model-workers-") as folder:
        measurements = _measure_all(Path(folder), args)
    print(markdown_table(HEADER, [one.cells() for one in measurements], padded=True))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000, help="rows of the log (default: 1000)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="numbers of workers")
    parser.add_argument(
        "--microseconds-per-token", type=float, nargs="+", default=[1.0, 30.0], help="how long the stand-ins sleep"
    )
    parser.add_argument("--text", type=Path, help="pages to take text from, as for audit_throughput")
    parser.add_argument("--model-workers", type=int, default=1, help="model workers (default: 1)")
    parser.add_argument("--rows-per-chunk", type=int, default=500, help="as in attribeam audit (default: 500)")
    return parser


def _measure_all(folder: Path, args: argparse.Namespace) -> list[Measurement]:
    log = folder / "qa_logs.parquet"
    pages = read_pages(args.text) if args.text else made_up_pages(seed=0)
    write_log(log, benchmark_rows(pages, rows=args.rows, seed=0, shape=RowShape.QUOTESUM))
    models = [
        save_sleeping_model(folder / f"model-{place}", seconds_per_token=microseconds / 1e6)
        for place, microseconds in enumerate(args.microseconds_per_token)
    ]
    found: list[Measurement] = []
    for model, workers in product(models, args.workers):
        audit = FedAudit(
            log, str(model), workers, args.model_workers, args.rows_per_chunk, more=("--trust-remote-code",)
        )
        found.append(audit.measure(folder / "audit"))
        print(" ".join(found[-1].cells()), file=sys.stderr, flush=True)
    return found


@dataclass(frozen=True, slots=True)
class FedAudit:
    """An audit to measure: ``workers`` processes that feed the model workers.

    Attributes:
        model: as ``--model`` names it.
        device: where the model workers run, as ``--device`` names it.
        more: further options of ``attribeam audit``.
    """

    log: Path
    model: str
    workers: int
    model_workers: int = 1
    rows_per_chunk: int = 500
    device: str = "cpu"
    more: Sequence[str] = ()

    def measure(self, output: Path) -> Measurement:
        """Run the audit into ``output``, which is removed, also before: a killed audit would go on, half measured.

        Raises:
            RunError: if it failed.
        """
        shutil.rmtree(output, ignore_errors=True)
        options = {
            "--input": self.log,
            "--output": output,
            "--model": self.model,
            "--device": self.device,
            "--workers": self.workers,
            "--model-workers": self.model_workers,
            "--rows-per-chunk": self.rows_per_chunk,
        }
        given = [str(part) for pair in options.items() for part in pair]
        run = run_measured([sys.executable, "-m", "attribeam", "audit", *given, *self.more, "--no-report"])
        told = _USE.search(run.standard_error)
        if run.exit_code or told is None:
            raise RunError(f"the audit ended with exit code {run.exit_code}: {run.standard_error}")
        manifest = RunManifest.from_json((output / "run_manifest.json").read_text(encoding="utf-8"))
        shutil.rmtree(output)
        return _measurement(self.workers, manifest, run.peak_bytes, float(told[1]), float(told[2].replace(",", "")))


def _measurement(
    workers: int, manifest: RunManifest, peak: int, waiting_percent: float, megabytes: float
) -> Measurement:
    rows = manifest.counts.rows
    wall = sum(one.wall_seconds for one in manifest.stages if one.stage == "attribute")
    cpu = sum(one.cpu_seconds for one in manifest.stages if one.stage != "attribute")
    return Measurement(
        workers=workers,
        model_ms=1000 * wall / rows,
        cpu_ms=1000 * cpu / rows,
        rows_per_second=manifest.rows_per_second,
        waiting_percent=waiting_percent,
        block_megabytes=megabytes,
        peak_bytes=peak,
    )


if __name__ == "__main__":
    sys.exit(main())
