"""Running ``attribeam audit`` as a process of its own, as users do, and reading what it wrote."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class AuditProcess:
    """One audit's command: the same models, input and chunks every time."""

    model: Path
    parser: Path
    log: Path

    def arguments(self, output: Path, *more: str) -> list[str]:
        """The command that audits into ``output``."""
        given = ["--input", str(self.log), "--output", str(output), "--model", str(self.model)]
        return [
            *(sys.executable, "-m", "pipeline", "audit", *given, "--parser", str(self.parser)),
            *("--extra-columns", "team", "--rows-per-chunk", "4", *more),
        ]

    def run(self, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.arguments(output, *more), cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False
        )

    def start(self, output: Path, *more: str) -> subprocess.Popen[str]:
        """Start it; standard output and error are read together."""
        return subprocess.Popen(
            self.arguments(output, *more),
            cwd=ROOT,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def output_digests(output: Path) -> dict[str, str]:
    """SHA-256 of every evidence and dead-letter file."""
    files: Sequence[Path] = sorted([*output.glob("evidence/*"), *output.glob("dead_letters/*")])
    return {path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read_all(folder: Path) -> pa.Table:
    """All records of a folder, in the order of its files."""
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
