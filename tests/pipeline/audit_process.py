"""Running ``attribeam audit`` as a process of its own, as users do, and reading what it wrote."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.logs.log_files import PASSAGE

from attribeam.pipeline.command_line import main
from attribeam.schemas.run_manifest import RunManifest

PATIENCE_SECONDS = 300
ROOT = Path(__file__).parents[2]
_PROGRAM = (sys.executable, "-m", "attribeam")
_NOISE_VARIABLES = ("PYTHONWARNINGS", "TRANSFORMERS_VERBOSITY")


@dataclass(frozen=True, slots=True)
class AuditProcess:
    """One audit's command: the same models, input and chunks every time."""

    model: Path
    parser: Path
    log: Path

    def arguments(self, output, *more):
        """The options that audit into ``output``, behind the command's name."""
        given = ["--input", str(self.log), "--output", str(output), "--model", str(self.model)]
        return [
            *("audit", *given, "--parser", str(self.parser)),
            *("--extra-columns", "team", "--rows-per-chunk", "4", *more),
        ]

    def run(self, output, *more, cwd=ROOT):
        command = [*_PROGRAM, *self.arguments(output, *more)]
        return subprocess.run(command, cwd=cwd, env=_environment(), capture_output=True, text=True, check=False)

    def run_here(self, output, *more):
        """Run it with the driver in this process, which saves its start; the exit code."""
        return main(self.arguments(output, *more))

    def start(self, output, *more):
        """Start it; standard output and error are read together."""
        command = [*_PROGRAM, *self.arguments(output, *more)]
        read = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=ROOT, env=_environment(), preexec_fn=_heed_ctrl_c, **read)


def _heed_ctrl_c():
    """Undo what a shell does to programs in the background: there SIGINT is ignored, and would stay so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def has_only_our_lines(stderr):
    """Whether an audit that went well told how far it was, and no library or traceback beside it."""
    lines = stderr.splitlines()
    return bool(lines) and all(line.startswith("audit: ") and " rows " in line for line in lines)


def output_digests(output):
    files = sorted([*output.glob("evidence/*"), *output.glob("dead_letters/*")])
    return {path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read_all(folder):
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def read_manifest(output):
    return RunManifest.from_json((output / "run_manifest.json").read_text())


def finished_chunks(output):
    return len(list((output / "_chunks").glob("*.json")))


def wait_until(process, moment):
    """Wait for something in the output of an audit that runs; a folder that is not there yet is none."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if moment():
                return
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.01)
    raise TimeoutError(f"the audit did not come so far in {PATIENCE_SECONDS} s")


def _environment():
    """Without the variables that keep libraries quiet: an audit does that by itself."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOISE_VARIABLES}
    return {**kept, "HF_HUB_OFFLINE": "1"}


SCHEMA = pa.schema(
    [
        ("record_id", pa.string()), ("question", pa.string()), ("passages", pa.list_(PASSAGE)), ("answer", pa.string()),
        ("team", pa.string()),
    ]
)  # fmt: skip


def log_rows(count, *, first=0):
    """Rows about ferries; no two are alike."""
    return [
        {
            "record_id": f"ferry-{number}",
            "question": f"When does ferry {number} leave?",
            "passages": [
                {"passage_id": "a", "title": "Timetable", "text": f"Ferry {number} leaves the east pier at noon."},
                {"passage_id": "b", "title": None, "text": "The west pier is closed in winter."},
            ],
            "answer": f"Ferry {number} leaves at noon." + " It is on time." * (number % 3),
            "team": "harbour",
        }
        for number in range(first, first + count)
    ]


def write_log(path, rows, *, row_group_size=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=row_group_size)
    return path
