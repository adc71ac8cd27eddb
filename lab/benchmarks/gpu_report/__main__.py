"""Everything that is to be measured on a GPU in one call: tests, exactness, speed, memory, idle share, profile, sizes.

python -m attribeam.lab.benchmarks.gpu_report --output DIR
python -m attribeam.lab.benchmarks.gpu_report --output DIR --model Qwen/Qwen2-7B-Instruct --minutes 20
python -m attribeam.lab.benchmarks.gpu_report --output DIR --device cpu --minutes 10

Every part runs in a process of its own with its share of the time; what did not fit is said. DIR gets report.md and
report.json, anew whenever a part has ended, steps.jsonl with every step as it ended, parts.log, and
measured_models.json, which model_sizes --add adds to what attribeam models suggest reads. After a kill, or if time was
up, the same command goes on where the last one stopped: it keeps what was done or left out, and tries the rest again.
On another machine, with other versions or another commit it refuses to: choose another DIR.

Without --model the models are random ones of Qwen2's shapes, made in memory; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import signal
import subprocess
import sys
import time

from attribeam.lab.benchmarks.gpu_report.part import PARTS
from attribeam.lab.benchmarks.gpu_report.report_run import ReportRun
from attribeam.schemas.errors import AttribeamError, RunError, UsageError


def main() -> int:
    """Measure and write the report; returns 1 if a step failed, crashed or did not fit, 2 for bad usage."""
    began = time.monotonic()
    args = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = _machine(args.device, args.model, args.minutes)
        command = shlex.join(["python", "-m", "attribeam.lab.benchmarks.gpu_report", *sys.argv[1:]])
        parts = [part for part in PARTS if part.name in args.parts]
        run = ReportRun(args.output, parts, args.minutes - (time.monotonic() - began) / 60, command)
        return run.run(args.device, args.model, machine=found["machine"], at_start=found["at_start"])
    except AttribeamError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)


def _machine(device: str, model: str | None, minutes: float) -> dict[str, dict[str, str]]:
    """What the device and the versions are, asked in another process: this one never touches the GPU.

    Raises:
        UsageError: if there is no such device or no such model.
        RunError: if it does not answer within ``minutes``.
    """
    named = ["--model", model] if model else []
    command = [sys.executable, "-m", "attribeam.lab.benchmarks.gpu_machine", "--device", device, *named]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60 * minutes, check=False)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{device} should answer within {minutes:g} minutes, does not; is it in use?") from error
    if asked.returncode:
        reason = asked.stderr.strip().rpartition("\n")[2]
        raise UsageError(reason or f"asking for {device} ended with exit code {asked.returncode}")
    found: dict[str, dict[str, str]] = json.loads(asked.stdout.splitlines()[-1])
    return found


def _minutes(text: str) -> float:
    """A number above 0."""
    minutes = float(text)
    if not 0 < minutes < math.inf:
        raise ValueError
    return minutes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, metavar="DIR", help="directory of the report")
    parser.add_argument("--model", metavar="NAME", help="a hub id or a directory instead of random models")
    parser.add_argument("--minutes", type=_minutes, default=8.0, help="time for all parts (default: %(default)s)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu (default: %(default)s)")
    names = [part.name for part in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, help="only these parts (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
