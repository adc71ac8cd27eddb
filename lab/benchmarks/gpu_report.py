"""The benchmarks on a GPU in one call: tests, latency, memory, idle share and stages, on one page.

python -m lab.benchmarks.gpu_report --output DIR
python -m lab.benchmarks.gpu_report --output DIR --model Qwen/Qwen2-7B-Instruct --minutes 20
python -m lab.benchmarks.gpu_report --output DIR --device cpu --parts memory

Commands run one after the other. DIR/report.md is written anew whenever one has ended, with what it printed. A command
that is still running when time is up is stopped, and the page says so.

Without --model the models are random ones of Qwen2's shapes; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lab.benchmarks.machine import machine_description

PAGE = "report.md"
_ROOT = Path(__file__).resolve().parents[2]
_MODULE = "lab.benchmarks."


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured on a device; on a CPU, sizes that only show that everything works."""

    shapes: tuple[str, ...]
    precision: str
    latency_rows: int
    tokens: tuple[int, ...]
    audit_rows: int
    workers: tuple[int, ...]
    forms: tuple[str, ...]


def sizes_for(device: str) -> Sizes:
    """The sizes for "cpu", or for a GPU."""
    if device == "cpu":
        return Sizes(("tiny",), "float32", 1, (1024,), 8, (1,), ("none",))
    cores = len(os.sched_getaffinity(0))
    workers = tuple(dict.fromkeys(max(1, cores // part) for part in (1, 2, 4)))
    forms = ("none", "nf4") if find_spec("bitsandbytes") else ("none",)
    return Sizes(("qwen2-7b", "qwen2-0.5b"), "bfloat16", 64, (1024, 4096, 16_384, 32_768), 3000, workers, forms)


@dataclass(frozen=True, slots=True)
class Target:
    """The device, and the model by name; None stands for random models of the sizes' shapes."""

    device: str
    model: str | None
    sizes: Sizes

    @property
    def models(self) -> list[list[str]]:
        """The options that name each model, the smallest last."""
        return [["--model", self.model]] if self.model else [["--shape", shape] for shape in self.sizes.shapes]

    @property
    def on_device(self) -> list[str]:
        """The options that name the device and the precision."""
        return ["--device", self.device, "--dtype", self.sizes.precision]


def _benchmark(name: str, *options: str) -> list[str]:
    return ["-m", _MODULE + name, *options]


def _tests(_: Target) -> list[list[str]]:
    return [["-m", "pytest", "-q", "-rfEs", "-n0", "-p", "no:cacheprovider", "-m", "gpu", "tests"]]


def _latency(target: Target) -> list[list[str]]:
    methods = ("attn_union", "two_stage", "two_stage_headless")
    rows = str(target.sizes.latency_rows)
    return [
        _benchmark(
            "attribution_latency", *model, *target.on_device, "--quantization", form, "--rows", rows,
            "--methods", *methods,
        )
        for form in target.sizes.forms
        for model in target.models
    ]  # fmt: skip


def _memory(target: Target) -> list[list[str]]:
    tokens = map(str, target.sizes.tokens)
    lengths = ["--tokens", *tokens]
    return [
        _benchmark("attribution_memory", *model, *target.on_device, "--quantization", form, *lengths)
        for form in target.sizes.forms
        for model in target.models
    ]


def _audit(target: Target) -> list[list[str]]:
    """With the smallest model, which is the hardest to feed."""
    rows, workers = str(target.sizes.audit_rows), map(str, target.sizes.workers)
    sizes = ["--rows", rows, "--rows-per-chunk", "100", "--workers", *workers]
    return [_benchmark("model_workers", *target.models[-1], *target.on_device, *sizes)]


def _stages(target: Target) -> list[list[str]]:
    rows = str(min(512, target.sizes.audit_rows))
    model = ["--model", target.model] if target.model else []
    options = ["--device", target.device, "--rows", rows, "--shape", "quotesum"]
    return [_benchmark("attribution_profile", *model, *options)]


@dataclass(frozen=True, slots=True)
class Part:
    """A chapter of the page: its title with the goal, and its commands, which are arguments of Python."""

    title: str
    commands: Callable[[Target], list[list[str]]]


PARTS = {
    "tests": Part("Tests marked gpu (all pass)", _tests),
    "latency": Part("Latency (60 % of the peak, 5 times the two stages; NF4 at most 1.5 times slower)", _latency),
    "memory": Part("Memory (linear in the tokens)", _memory),
    "audit": Part("Idle share in whole audits (at most 5 %)", _audit),
    "stages": Part("Stages of one audit process", _stages),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one command ended; ``status`` is "done", or says what went wrong."""

    part: str
    command: Sequence[str]
    status: str
    seconds: float
    printed: str


def main() -> int:
    """Measure and write the page; returns 1 if a command failed or did not fit into the time, else 0."""
    args = _parser().parse_args()
    ends = time.monotonic() + 60 * args.minutes
    target = Target(args.device, args.model, sizes_for(args.device))
    args.output.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for name in args.parts:
        for command in PARTS[name].commands(target):
            outcomes.append(_run(name, command, seconds=ends - time.monotonic()))
            print(f"{name}: {outcomes[-1].status}, {outcomes[-1].seconds:.0f} s", file=sys.stderr, flush=True)
            (args.output / PAGE).write_text(page(target, outcomes), encoding="utf-8")
    return int(any(outcome.status != "done" for outcome in outcomes))


def _run(part: str, command: Sequence[str], *, seconds: float) -> Outcome:
    """Run a command for at most ``seconds``; what it started is stopped with it."""
    if seconds <= 0:
        return Outcome(part, command, "not run, time was up", 0.0, "")
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=seconds)
        status = "done" if process.returncode == 0 else f"FAILED with exit code {process.returncode}"
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        status = "stopped, time was up"
    return Outcome(part, command, status, time.monotonic() - began, printed)


def page(target: Target, outcomes: Sequence[Outcome]) -> str:
    """The report so far in Markdown."""
    lines = [f"# GPU report: {_device(target.device)}", "", machine_description()]
    if target.device == "cpu":
        lines += ["", "**Measured on a CPU, with small sizes: this says nothing about a GPU.**"]
    for part in dict.fromkeys(outcome.part for outcome in outcomes):
        lines += ["", f"## {PARTS[part].title}"]
        for outcome in outcomes:
            if outcome.part == part:
                lines += ["", f"`python {shlex.join(outcome.command)}`: {outcome.status}, {outcome.seconds:.0f} s"]
                lines += ["", "```", outcome.printed.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _device(device: str) -> str:
    """The name, memory and driver of the GPUs, as nvidia-smi tells them."""
    if device == "cpu":
        return device
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"{device}, nvidia-smi does not tell which"
    return "; ".join(told.stdout.split("\n")).strip("; ")


def _minutes(text: str) -> float:
    """A number above 0."""
    minutes = float(text)
    if not 0 < minutes < math.inf:
        raise ValueError
    return minutes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="directory of the report")
    parser.add_argument("--model", metavar="NAME", help="a hub id or a directory instead of random models")
    parser.add_argument("--minutes", type=_minutes, default=20.0, help="time for all parts (default: %(default)s)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu (default: %(default)s)")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS], help="only these (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
